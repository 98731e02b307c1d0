// Elements, formats and dialogs that the pages share. Text is set as text only: no value becomes markup.

// h makes an element. Properties that begin with "on" are listeners; others are attributes. false and null are left out.
export function h(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith('on')) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? '' : value);
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

// put replaces the children of an element. A table that comes again keeps its place of scrolling and the focus.
export function put(e, ...children) {
  const kept = new Map([...e.querySelectorAll('.scroll')].map((t) => [t.getAttribute('aria-label'), [t.scrollLeft, t === document.activeElement]]));
  e.replaceChildren(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  for (const t of kept.size ? e.querySelectorAll('.scroll') : []) {
    const [left, focused] = kept.get(t.getAttribute('aria-label')) || [0, false];
    if (left) t.scrollLeft = left;
    if (focused) t.focus({ preventScroll: true });
  }
}

const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });

// count formats a number, with three digits or so.
export function count(n) {
  if (n === null || n === undefined) return '–';
  if (Math.abs(n) >= 10000) return short.format(n);
  if (Number.isInteger(n) || Math.abs(n) >= 100) return whole.format(n);
  return n.toFixed(n < 10 ? 1 : 0);
}
export const exact = (n) => whole.format(n);

// bytes formats a size.
export function bytes(n) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return (i === 0 || n >= 100 ? whole.format(n) : n.toFixed(1)) + ' ' + units[i];
}
export const bytesRate = (n) => bytes(n) + '/s';
export const rate = (n) => count(n) + '/s';

// ms formats milliseconds. Zero means unknown.
export function ms(n) {
  if (!n) return '–';
  if (n < 1) return (n * 1000).toFixed(0) + ' µs';
  return (n < 10 ? n.toFixed(1) : whole.format(n)) + ' ms';
}

// span formats seconds.
export function span(s) {
  if (s < 60) return Math.floor(s) + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min';
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor((s % 3600) / 60) + ' min';
  return Math.floor(s / 86400) + ' d';
}
export const ago = (t) => (t ? span(Math.max(0, (Date.now() - Date.parse(t)) / 1000)) + ' ago' : '–');
export const left = (t) => (t ? span(Math.max(0, (Date.parse(t) - Date.now()) / 1000)) : 'forever');

const badges = { up: 'good', established: 'good', shared: 'good', down: 'bad', allow: 'good', reporting: 'good', silent: 'warn', drop: 'bad', resting: 'warn', failing: 'bad', refusing: 'warn', draining: 'warn', held: 'warn', depends: 'warn', connected: 'warn', 'not connected': 'bad' };
export const badge = (state) => h('span', { class: 'badge ' + (badges[state] || '') }, state);

// table makes a table. A column is {name, num, wrap}. A cell is text or an element. The first cell is the row's header.
export function table(caption, columns, rows, empty = 'none') {
  const cell = (c, j) => h(j === 0 ? 'th' : 'td',
    { scope: j === 0 && 'row', 'data-name': columns[j].name, class: [columns[j].num && 'num', columns[j].wrap && 'wrap'].filter(Boolean).join(' ') || null }, c);
  const head = columns.map((c) => h('th', { scope: 'col', class: c.num && 'num', 'aria-sort': c.sorted }, c.head || c.name));
  const body = rows.length ? rows.map((r) => h('tr', {}, r.map(cell)))
    : [h('tr', {}, h('td', { colspan: columns.length, class: 'soft' }, empty))];
  return h('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', { class: 'hidden' }, caption), h('thead', {}, h('tr', {}, head)), h('tbody', {}, body)));
}

// facts makes a list of names and values.
export const facts = (list) => h('dl', { class: 'facts' }, list.map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v))));

// panel makes a titled box.
export const panel = (title, ...children) => h('section', { class: 'panel' }, h('h2', {}, title), ...children);

// button makes a button.
export const button = (text, onclick, kind = '') => h('button', { type: 'button', class: kind, onclick }, text);

// field makes a labelled input.
export const field = (name, props) => h('label', {}, name, h('input', props));

// dialog asks the operator and calls act with the form's values. An error stays in the dialog.
export function dialog(title, fields, label, act, kind = 'danger') {
  const note = h('p', { class: 'banner bad', role: 'alert' });
  const box = h('dialog', { 'aria-label': title });
  const form = h('form', { method: 'dialog', onsubmit: async (e) => {
    e.preventDefault();
    try {
      await act(Object.fromEntries(new FormData(form)));
      box.close();
    } catch (err) {
      put(note, err.message);
    }
  } }, h('h2', {}, title), fields, note,
  h('div', { class: 'row' }, button('Cancel', () => box.close()), h('button', { type: 'submit', class: kind }, label)));
  box.append(form);
  box.addEventListener('close', () => box.remove());
  document.body.append(box);
  box.showModal();
}

// banFields are the inputs of a ban.
export const banFields = (address) => [
  field('Network or address', { name: 'prefix', required: true, value: address, autocomplete: 'off' }),
  h('label', {}, 'For', h('select', { name: 'seconds' },
    [['1 hour', 3600], ['24 hours', 86400], ['7 days', 604800], ['30 days', 2592000], ['ever', 0]].map(([t, v]) => h('option', { value: v }, t)))),
  field('Reason', { name: 'reason', maxlength: 200 }),
  field('Your name', { name: 'author', maxlength: 100, placeholder: 'operator' }),
];
