// Live charts with uPlot. Each chart has a legend with the newest values, and a text alternative.
import { h, put } from './dom.js';

const span = 3600; // seconds that a chart shows
const shortest = 60; // a young chart begins with that
const charts = new Set();
const steps = [1, 2, 5].map((n) => Array.from({ length: 18 }, (_, i) => n * 10 ** (i - 3))).flat().sort((a, b) => a - b); // between labels

// History keeps the samples of the last hour, by name.
export class History {
  constructor() {
    this.times = [];
    this.series = new Map();
  }

  add(time, values) {
    this.times.push(time);
    for (const [name, v] of Object.entries(values)) {
      if (!this.series.has(name)) this.series.set(name, new Array(this.times.length - 1).fill(null));
      this.series.get(name).push(v);
    }
    for (const all of this.series.values()) if (all.length < this.times.length) all.push(null);
    while (this.times[0] < time - span) {
      this.times.shift();
      for (const all of this.series.values()) all.shift();
    }
  }

  // load begins with the figures that the proxy has kept. Values that no page has seen come every few seconds.
  load(past) {
    this.times = past.times;
    this.series = new Map(past.series.map((s) => [s.name, s.values]));
  }

  of(name) {
    return this.series.get(name) || new Array(this.times.length).fill(null);
  }
}

const color = (i) => getComputedStyle(document.documentElement).getPropertyValue('--c' + (i + 1)).trim();

// Chart shows series of a History. names are pairs of the series and its label; a function lists them anew each time.
export class Chart {
  constructor(history, title, names, format) {
    Object.assign(this, { history, title, names, format });
    this.plot = h('div', { class: 'plot', role: 'img', 'aria-label': title });
    this.legend = h('ul', { class: 'legend' });
    this.now = h('span');
    this.element = h('section', { class: 'panel chart' }, h('h2', {}, title, this.now), this.plot, this.legend);
    this.sizes = new ResizeObserver(() => this.resize());
    this.sizes.observe(this.plot);
    charts.add(this);
  }

  pairs() {
    return (typeof this.names === 'function' ? this.names() : this.names).slice(0, 6);
  }

  draw() {
    if (!this.plot.clientWidth) return;
    const pairs = this.pairs();
    const names = pairs.map(([name]) => name).join(' ');
    if (!this.u || names !== this.drawn) {
      if (this.u) this.u.destroy();
      this.drawn = names;
      this.u = this.make(pairs);
    }
    const now = this.history.times.at(-1) || Date.now() / 1000;
    this.u.setData([this.history.times, ...pairs.map(([name]) => this.history.of(name))], false);
    this.u.batch(() => {
      const first = this.history.times[0] || now;
      this.u.setScale('x', { min: Math.max(now - span, Math.min(first, now - shortest)), max: now });
      let most = 0;
      for (const [name] of pairs) for (const v of this.history.of(name)) if (v > most) most = v;
      this.u.setScale('y', { min: 0, max: most * 1.1 || 1 });
    });
    const last = pairs.map(([name, label]) => [label, this.history.of(name).at(-1)]);
    put(this.legend, last.map(([label, v], i) => h('li', {}, h('i', { class: 'k' + (i + 1) }), label + ' ',
      h('strong', {}, v === null || v === undefined ? '–' : this.format(v)))));
    this.plot.setAttribute('aria-label', this.title + ' over the last hour, now: ' +
      (last.map(([label, v]) => `${label} ${v === null || v === undefined ? 'unknown' : this.format(v)}`).join(', ') || 'nothing'));
  }

  make(pairs) {
    const style = getComputedStyle(document.documentElement);
    const soft = style.getPropertyValue('--soft').trim(), line = style.getPropertyValue('--line').trim();
    const px = parseFloat(style.fontSize) * 0.72;
    const axis = { stroke: soft, font: `${px}px system-ui`, grid: { stroke: line, width: 1 }, ticks: { stroke: line, size: 4 } };
    return new uPlot({
      width: this.plot.clientWidth, height: this.plot.clientHeight, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false } },
      padding: [8, 8, 0, 0], scales: { x: { time: true, auto: false }, y: { auto: false } },
      series: [{}, ...pairs.map(([, label], i) => ({ label, stroke: color(i), width: 2, points: { show: false }, fill: pairs.length === 1 ? color(i) + '22' : undefined }))],
      axes: [
        { ...axis, size: px * 2.2, space: px * 6.5, values: (_, all) => all.map((t) => new Date(t * 1000).toTimeString().slice(0, t % 60 ? 8 : 5)) },
        { ...axis, size: px * 5.2, space: px * 2.6, incrs: steps.filter((n) => this.format(n) !== this.format(n * 1.5)), values: (_, all) => all.map((v) => this.format(v)) },
      ],
    }, [[], ...pairs.map(() => [])], this.plot);
  }

  resize() {
    const size = getComputedStyle(document.documentElement).fontSize;
    if (this.u && this.size === size && this.plot.clientWidth) {
      this.u.setSize({ width: this.plot.clientWidth, height: this.plot.clientHeight });
      return;
    }
    this.size = size;
    this.drawn = null; // with labels of the new size
    this.draw();
  }

  forget() {
    this.sizes.disconnect();
    if (this.u) this.u.destroy();
    charts.delete(this);
  }
}

// repaint draws all charts in the colours of the theme.
export function repaint() {
  for (const c of charts) {
    c.drawn = null;
    c.draw();
  }
}
