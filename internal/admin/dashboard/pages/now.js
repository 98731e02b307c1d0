// The page "now": the whole proxy as live charts.
import { Chart } from '../chart.js';
import { every, get } from '../api.js';
import { ago, bytes, bytesRate, count, exact, h, ms, panel, put, rate, table } from '../dom.js';

export default function now(app) {
  const floods = h('div', { class: 'banner bad', role: 'status' });
  const drain = h('div', { class: 'banner', role: 'status' });
  const tile = (name) => {
    const value = h('dd', {}, '–');
    return { value, element: h('div', { class: 'panel tile' }, h('dt', {}, name), value) };
  };
  const tiles = { sessions: tile('Sessions'), half: tile('Joining'), joins: tile('Joins'), messages: tile('Messages'),
    traffic: tile('Traffic to players'), drops: tile('Drops'), turn: tile('Turn, p99') };
  const named = (prefix) => () => [...app.history.series.keys()].filter((k) => k.startsWith(prefix))
    .map((k) => [k, k.slice(prefix.length), app.history.of(k).reduce((a, b) => a + b, 0)]).filter(([, , sum]) => sum > 0)
    .sort((a, b) => b[2] - a[2]);
  const stages = named('stage ');
  const c = (title, names, format) => new Chart(app.history, title, names, format);
  const charts = [
    c('Sessions', [['sessions', 'established'], ['half', 'joining']], exact),
    c('Joins', [['joins', 'joined'], ['failed', 'failed'], ['ended', 'ended']], rate),
    c('Messages', [['up', 'from players'], ['down', 'from servers']], rate),
    c('Datagrams, players', [['cin', 'in'], ['cout', 'out']], rate),
    c('Datagrams, servers', [['sin', 'in'], ['sout', 'out']], rate),
    c('Bytes', [['cinB', 'players in'], ['coutB', 'players out'], ['sinB', 'servers in'], ['soutB', 'servers out']], bytesRate),
    c('Round trip', [['rttC', 'players, median'], ['rttC90', 'players, p90'], ['rttS', 'servers, median'], ['rttS90', 'servers, p90']], ms),
    c('Lost and resent', [['lostC', 'players lost'], ['resentC', 'players resent'], ['lostS', 'servers lost'], ['resentS', 'servers resent']], rate),
    c('Queued', [['queuedC', 'to players'], ['queuedS', 'to servers']], bytes),
    c('Drops by reason', named('drop '), rate),
    c('Processing time of a turn', [['turn50', 'median'], ['turn99', 'p99']], ms),
    c('Kernel filters', named('kernel '), rate),
    c('NetherNet joins by stage', stages, rate),
  ];
  const listeners = h('div'), events = h('div'), limits = h('div');
  const poll = every(5000, async (wanted) => {
    const [e, l] = await Promise.all([get('/api/v1/events'), get('/api/v1/limits')]).catch(() => [null]); // the next round tries again
    if (!e || !wanted()) return;
    put(events, table('Time line', [{ name: 'Time' }, { name: 'Kind' }, { name: 'Event', wrap: true }], e.events.reverse().slice(0, 50)
      .map((one) => [new Date(one.at).toTimeString().slice(0, 8), one.bad ? h('span', { class: 'badge bad' }, one.kind) : one.kind, one.text]), 'no event'));
    put(limits, table('Limits', [{ name: 'Limit' }, { name: 'Use', num: true }, { name: 'Observed', num: true }, { name: 'Enforced', num: true }, { name: 'Last breach' }],
      [...l.bounds.map((b) => [b.key, `${exact(b.used)} of ${exact(b.bound)}`, '–', '–', '–']),
        ...l.limits.map((one) => [`${one.of} per ${one.per}`, '–', exact(one.observed), exact(one.enforced), ago(one.last)])], 'no limit'));
  });
  let round = 0;
  return {
    element: [
      h('h1', {}, 'Now'), floods, drain,
      h('dl', { class: 'tiles' }, Object.values(tiles).map((t) => t.element)),
      h('div', { class: 'grid' }, charts.map((one) => one.element)),
      panel('Time line', events), panel('Limits and their breaches', limits), panel('Listeners', listeners),
    ],
    live(f) {
      const drops = f.drops.reduce((sum, d) => sum + d.rate, 0);
      put(tiles.sessions.value, exact(f.sessions));
      put(tiles.half.value, exact(f.half_open));
      put(tiles.joins.value, count(f.joins), h('small', {}, ' /s'));
      put(tiles.messages.value, count(f.from_clients.count + f.from_servers.count), h('small', {}, ' /s'));
      put(tiles.traffic.value, bytes(f.client_out.bytes), h('small', {}, ' /s'));
      put(tiles.drops.value, count(drops), h('small', {}, ' /s'));
      put(tiles.turn.value, ms(f.turn_p99_ms));
      const flood = f.floods.map((one) => `Flood at ${one.listener}: ${rate(one.rate)} dropped (${one.drops.map((d) => d.name).join(', ')}).`).join(' ');
      const told = flood.replace(/[\d.,]+[KM]?\/s/g, ''); // a screen reader hears a new flood, not each new figure
      if (told !== floods.dataset.told) {
        floods.dataset.told = told;
        put(floods, flood);
      }
      const draining = f.draining ? 'The proxy is draining: it admits no new sessions.' : '';
      if (drain.textContent !== draining) drain.textContent = draining;
      charts.at(-1).element.hidden = stages().length === 0; // most games have no such joins
      for (const one of charts) one.draw();
      if (round++ % 5 === 0) {
        put(listeners, table('Sessions by listener', [{ name: 'Listener' }, { name: 'Protocol' }, { name: 'Sessions', num: true }, { name: 'Joining', num: true }],
          f.listeners.map((l) => [l.listener, l.protocol, exact(l.sessions), exact(l.half_open)]), 'no listener has had a session'));
      }
    },
    leave() {
      poll.stop();
      for (const one of charts) one.forget();
    },
  };
}
