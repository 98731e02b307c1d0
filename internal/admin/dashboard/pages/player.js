// The page of one player: both legs side by side, messages by kind, drops, and what an operator can do.
import { get, post, request } from '../api.js';
import { Chart, History } from '../chart.js';
import { ago, badge, banFields, button, bytes, count, dialog, exact, field, h, ms, panel, put, rate, span, table } from '../dom.js';

const maxCapture = 256 << 20; // bytes that a page keeps in memory

export default function player(app, id) {
  const history = new History();
  const note = h('div', { class: 'banner', role: 'status' });
  const facts = h('dl', { class: 'facts' });
  const kinds = h('div'), limits = h('div'), drops = h('div');
  const path = '/api/v1/sessions/' + encodeURIComponent(id);
  let session = null, before = null, round = 0, capture = null;

  const c = (title, key, format) => new Chart(history, title, [[key, title.split(', ')[1]]], format);
  const charts = [
    c('Round trip, player', 'rttC', ms), c('Round trip, server', 'rttS', ms), c('Lost, to player', 'lostC', rate), c('Lost, to server', 'lostS', rate),
    c('Resent, to player', 'resentC', rate), c('Resent, to server', 'resentS', rate), c('Queued, to player', 'queuedC', bytes), c('Queued, to server', 'queuedS', bytes),
  ];
  const pairs = [0, 2, 4, 6].map((i) => h('div', { class: 'pair' }, charts[i].element, charts[i + 1].element));

  const say = (text, kind = '') => {
    note.className = 'banner ' + kind;
    put(note, text);
  };
  const kick = () => dialog(`Kick player ${id}`, [field('Text for the player (where the protocol can carry it)', { name: 'text', maxlength: 200 })], 'Kick',
    async ({ text }) => {
      await post(path + '/kick', { text });
      say('The player was kicked.', 'good');
    });
  const ban = () => dialog('Ban', banFields(session ? session.client.address.replace(/:\d+$/, '').replace(/^\[|\]$/g, '') : ''), 'Ban',
    async (v) => {
      await post('/api/v1/bans', { ...v, seconds: Number(v.seconds) });
      say(`${v.prefix} is banned.`, 'good');
    });
  async function transfer() {
    const { upstreams } = await get('/api/v1/upstreams');
    const servers = upstreams.flatMap((u) => u.servers.map((s) => ({ ...s, upstream: u.name })))
      .filter((s) => session && s.address !== session.server.address);
    dialog(`Move player ${id}`, [h('label', {}, 'To', h('select', { name: 'server' }, h('option', { value: '' }, 'any other server'),
      servers.map((s) => h('option', { value: s.address }, `${s.upstream} ${s.address} (${s.state}, ${s.sessions} sessions)`))))], 'Move', async ({ server }) => {
      await post(path + '/transfer', server ? { server } : {});
      say('The player is being moved.', 'good');
    }, 'main');
  }

  const captureButton = button('Start capture', () => (capture ? capture.abort() : record()));
  async function record() {
    capture = new AbortController();
    captureButton.textContent = 'Stop and save capture';
    const parts = [];
    let size = 0;
    try {
      const reader = (await request('/api/v1/capture?session=' + encodeURIComponent(id), { signal: capture.signal })).body.getReader();
      for (let r; !(r = await reader.read()).done && size < maxCapture;) {
        parts.push(r.value);
        size += r.value.length;
        captureButton.textContent = `Stop and save capture (${bytes(size)})`;
      }
    } catch (err) {
      if (!capture.signal.aborted) say('The capture ended: ' + err.message, 'bad');
    }
    capture.abort();
    capture = null;
    captureButton.textContent = 'Start capture';
    if (!size) return;
    const link = h('a', { href: URL.createObjectURL(new Blob(parts)), download: `tidegate-${id}.pcapng` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    say(`Saved ${bytes(size)}.`, 'good');
  }

  const fact = (name, value) => h('div', {}, h('dt', {}, name), h('dd', {}, value));
  function show(w) {
    const s = w.session;
    const t = Date.now() / 1000;
    const per = (side, key) => (before ? Math.max(0, (s[side][key] - before[side][key]) / Math.max(s.age_seconds - before.age_seconds, 0.1)) : null);
    history.add(t, { rttC: s.client.rtt_ms || null, rttS: s.server.rtt_ms || null, lostC: per('client', 'lost'), lostS: per('server', 'lost'),
      resentC: per('client', 'resent'), resentS: per('server', 'resent'), queuedC: s.client.queued_bytes, queuedS: s.server.queued_bytes });
    before = s;
    session = s;
    put(facts, fact('State', badge(s.state)), fact('Player', h('span', { class: 'mono' }, s.client.address)), fact('Server', h('span', { class: 'mono' }, s.server.address || '–')),
      fact('Protocols', s.client.protocol + (s.mode === 'relay' ? ', relayed' : ' → ' + s.server.protocol)), fact('Listener, route', `${s.listener}, ${s.route}`),
      fact('Connected for', span(s.age_seconds)), fact('From player', `${exact(s.client.messages)} messages, ${bytes(s.client.bytes)}`),
      fact('From server', `${exact(s.server.messages)} messages, ${bytes(s.server.bytes)}`));
    for (const one of charts) one.draw();
    if (round++ % 2) return;
    put(kinds, table('Messages since this page was opened', [{ name: 'From' }, { name: 'ID' }, { name: 'Mode' }, { name: 'Messages', num: true }, { name: 'Bytes', num: true }],
      w.messages.map((m) => [m.from === 'client' ? 'player' : m.from, m.id === -1 ? 'none' : m.id === -2 ? 'others' : String(m.id), m.mode, exact(m.messages), bytes(m.bytes)]),
      s.mode === 'relay' ? 'the datagrams of a relayed session are not read' : 'none yet'));
    put(limits, table('Exhausted limits', [{ name: 'Limit' }, { name: 'Verdict' }], w.limits.map((l) => [l.limit, l.verdict]), 'no limit is exhausted'));
    put(drops, table('Drops of this address', [{ name: 'Reason' }, { name: 'Times', num: true }, { name: 'Last' }, { name: 'Cause', wrap: true }],
      w.drops.slice().reverse().map((d) => [d.reason, count(d.times), ago(d.at), d.cause || '–']), 'nothing was dropped'));
  }

  return {
    element: [
      h('div', { class: 'head' }, h('h1', {}, 'Player ', h('span', { class: 'mono' }, id)), h('a', { href: '#/players' }, 'all players'),
        h('div', { class: 'row push' }, captureButton, button('Move', transfer), button('Ban', ban, 'danger'), button('Kick', kick, 'danger'))),
      note, h('section', { class: 'panel', 'aria-label': 'Facts' }, facts), ...pairs,
      h('div', { class: 'grid' }, panel('Messages by ID and mode', kinds), panel('Limits', limits), panel('Dropped, and why', drops)),
    ],
    event(name, data) {
      if (name === 'session') show(data);
      else if (name === 'ended' && note.dataset.ended !== '1') {
        note.dataset.ended = '1';
        say(session ? 'The session has ended.' : data.error, 'bad');
      }
    },
    leave() {
      if (capture) capture.abort();
      for (const one of charts) one.forget();
    },
  };
}
