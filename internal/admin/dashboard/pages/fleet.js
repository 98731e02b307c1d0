// The page "fleet": what this node shares with the other nodes. The navigation has it only where there is a fleet.
import { get } from '../api.js';
import { badge, exact, h, ms, panel, put } from '../dom.js';

export default function fleet() {
  const note = h('div', { class: 'banner bad', role: 'status' }), state = h('div'), records = h('div');
  let timer, gone = false;

  const facts = (list) => h('dl', { class: 'facts' }, list.map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v))));

  async function load() {
    clearTimeout(timer);
    try {
      const f = await get('/api/v1/fleet');
      if (gone) return;
      put(note, f.error || '');
      put(state, facts([['Fleet', f.name || '–'], ['This node', f.node || '–'], ['NATS server', f.server || '–'],
        ['State', badge(f.current ? 'shared' : f.connected ? 'connected' : 'not connected')], ['Lag', ms(f.lag * 1000)]]));
      put(records, facts([['Networks', exact(f.bans)], ['Drained servers', exact(f.drained)], ['Changes that wait', exact(f.waiting)], ['Without room', exact(f.beyond)],
        ['Received', exact(f.received)], ['Sent', exact(f.sent)], ['Not valid', exact(f.invalid)], ['Conflicts', exact(f.conflicts)]]));
    } catch (err) {
      if (!gone) put(note, err.message);
    }
    if (!gone) timer = setTimeout(load, 2000);
  }

  load();
  return {
    element: [h('h1', {}, 'Fleet'), note, panel('Connection', state), panel('Bans and drains', records)],
    leave() {
      gone = true;
      clearTimeout(timer);
    },
  };
}
