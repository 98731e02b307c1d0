// The page "fleet": the nodes, their sessions, and what they share. The navigation has it only where there is a fleet.
import { every, get } from '../api.js';
import { ago, badge, bytes, count, exact, facts, h, left, ms, panel, put, table } from '../dom.js';

const most = 50; // rows of a table
const names = 8; // nodes that a cell names
const silence = 4; // seconds; a node reports every two seconds

// of says how many rows a table leaves out.
const of = (shown, total, what) => h('p', { class: 'soft' }, total > shown ? `${exact(shown)} of ${exact(total)} ${what}` : '');

export default function fleet() {
  const note = h('div', { class: 'banner bad', role: 'status' });
  const state = h('div'), nodes = h('div'), protocols = h('div'), servers = h('div'), bans = h('div');
  const records = h('div'), players = h('div'), limits = h('div'), messages = h('div');

  const server = h('input', { type: 'search', 'aria-label': 'Search servers', placeholder: 'upstream or address', oninput: () => poll.again() });
  const which = h('select', { 'aria-label': 'Servers to show', onchange: () => poll.again() },
    h('option', { value: 'false' }, 'all servers'), h('option', { value: 'true' }, 'servers with differing health'));
  const ban = h('input', { type: 'search', 'aria-label': 'Search bans', placeholder: 'network, reason, author or node', oninput: () => poll.again() });

  function showState(f) {
    put(state, facts([['Fleet', f.name || '–'], ['This node', f.node || '–'], ['NATS server', f.server || '–'],
      ['State', stateOf(f)], ['Lag', ms(f.lag * 1000)], ['Other nodes', exact(f.nodes)]]));
    put(records, facts([['Networks', exact(f.bans)], ['Drained servers', exact(f.drained)], ['Changes that wait', exact(f.waiting)], ['Without room', exact(f.beyond)],
      ['Received', exact(f.received)], ['Sent', exact(f.sent)], ['Not valid', exact(f.invalid)], ['Conflicts', exact(f.conflicts)]]));
    const p = f.players, l = f.limits, r = f.reports, m = f.messages;
    put(players, !p.on ? h('p', { class: 'soft' }, 'fleet.follow is off: players whose path leads to another node join again.')
      : facts([['Players of others', exact(p.known)], ['Strays passed on', count(p.passed)], ['Strays taken', count(p.taken)], ['Answers', count(p.answers)],
        ['Late', count(p.late)], ['Too many', count(p.too_many)], ['Sessions moved away', exact(p.left)], ['Sessions moved here', exact(p.came)],
        ['Not valid', count(p.invalid)], ['Without room', count(p.no_room + p.beyond)]]));
    put(limits, !l.on ? h('p', { class: 'soft' }, 'fleet.limits is off: limits hold at each node alone.')
      : facts([['Reports received', count(l.received)], ['Reports sent', count(l.sent)], ['Amounts charged', count(l.charged)], ['Amounts told', count(l.told)],
        ['Not valid', count(l.invalid)], ['Without room', count(l.no_room)]]));
    put(messages, facts([['Received', count(m.in)], ['Sent', count(m.out)], ['Bytes received', bytes(m.bytes_in)], ['Bytes sent', bytes(m.bytes_out)],
      ['Counts received', count(r.received)], ['Counts sent', count(r.sent)], ['Counts not valid', count(r.invalid)], ['Counts without room', count(r.no_room + r.beyond)]]));
  }
  const stateOf = (f) => badge(f.current ? 'shared' : f.connected ? 'connected' : 'not connected');

  function showNodes(f, all) {
    put(nodes, of(most, all.length, 'nodes'), table('Nodes', [{ name: 'Node' }, { name: 'State' }, { name: 'Last report', num: true }, { name: 'Sessions', num: true }, { name: 'Protocols', wrap: true }],
      all.slice(0, most).map((n) => [n.node === f.node ? n.node + ' (this node)' : n.node,
        n.node === f.node ? stateOf(f) : badge(n.age < silence ? 'reporting' : 'silent'), n.age.toFixed(1) + ' s', exact(n.sessions),
        n.protocols.map((p) => `${p.protocol} ${exact(p.established + p.half_open)}`).join(', ') || '–']), 'no node has reported yet'));
    const sums = new Map();
    for (const p of all.flatMap((n) => n.protocols)) {
      const sum = sums.get(p.protocol) || [0, 0, 0];
      sums.set(p.protocol, [sum[0] + p.established, sum[1] + p.half_open, sum[2] + 1]);
    }
    const rows = [...sums].sort(([a, x], [b, y]) => y[0] - x[0] || a.localeCompare(b));
    put(protocols, of(most, rows.length, 'protocols'), table('Sessions by protocol', [{ name: 'Protocol' }, { name: 'Established', num: true }, { name: 'Half-open', num: true }, { name: 'Nodes', num: true }],
      rows.slice(0, most).map(([name, sum]) => [name, ...sum.map(exact)]), 'no session'));
  }

  // health has a badge for each state, with the names of the nodes.
  function health(s) {
    const by = s.nodes.reduce((all, n) => all.set(n.state, [...(all.get(n.state) || []), n]), new Map());
    if (!by.size) return '–';
    return h('div', { class: 'row' }, [...by].map(([state, at]) => h('span', {}, badge(state), ' ', at.slice(0, names).map((n) => n.node).join(', '),
      at.length > names && ` and ${exact(at.length - names)} more`)));
  }

  function showServers(list) {
    put(servers, h('p', { class: list.differing ? 'banner' : 'soft' }, list.differing
      ? `Nodes differ about the health of ${exact(list.differing)} of ${exact(list.total)} servers.` : `Nodes agree about the health of all ${exact(list.total)} servers.`),
    of(list.servers.length, which.value === 'true' ? list.differing : list.total, 'servers'),
    table('Servers', [{ name: 'Server' }, { name: 'Upstream' }, { name: 'Sessions', num: true }, { name: 'Health', wrap: true }, { name: 'Drained' }],
      list.servers.map((s) => [h('span', { class: 'mono' }, s.address), s.upstream, exact(s.sessions), health(s),
        s.drained_by ? `at ${s.drained_by}, ${ago(s.drained_since)}` : '–']), 'no server'));
  }

  function showBans(list) {
    put(bans, of(list.bans.length, list.total, 'bans'), table('Bans', [{ name: 'Network' }, { name: 'Node' }, { name: 'Left' }, { name: 'By' }, { name: 'Reason', wrap: true }, { name: 'Since' }],
      list.bans.map((b) => [h('span', { class: 'mono' }, b.prefix), b.node, left(b.until), b.author, b.reason || '–', ago(b.since)]), 'no ban'));
  }

  const page = h('div', { class: 'grid one', hidden: true },
    panel('Connection', state), panel('Nodes', nodes), panel('Sessions by protocol', protocols),
    h('section', { class: 'panel' }, h('div', { class: 'head' }, h('h2', {}, 'Servers'), server, which), servers),
    h('section', { class: 'panel' }, h('div', { class: 'head' }, h('h2', {}, 'Shared bans'), ban), bans),
    panel('Bans and drains', records), panel('Players at other nodes', players), panel('Limits', limits), panel('Messages', messages));

  const listed = (path, search, more) => get(path + '?' + new URLSearchParams({ search: search.value.trim(), limit: most, ...more }));
  const poll = every(2000, async (wanted) => {
    try {
      const f = await get('/api/v1/fleet');
      const [n, s, b] = f.on ? await Promise.all([get('/api/v1/fleet/sessions'),
        listed('/api/v1/fleet/servers', server, { differ: which.value }), listed('/api/v1/fleet/bans', ban)]) : [];
      if (!wanted()) return;
      page.hidden = !f.on;
      note.className = f.on ? 'banner bad' : 'banner';
      put(note, f.on ? f.error || '' : 'This proxy has no fleet: its configuration has neither fleet.servers nor fleet.peers.');
      if (!f.on) return;
      showState(f);
      showNodes(f, n.nodes);
      showServers(s);
      showBans(b);
    } catch (err) {
      if (wanted()) put(note, err.message);
    }
  });

  return { element: [h('h1', {}, 'Fleet'), note, page], leave: poll.stop };
}
