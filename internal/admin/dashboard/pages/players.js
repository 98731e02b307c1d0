// The page "players": a table that the proxy sorts, searches and pages.
import { every, get } from '../api.js';
import { badge, bytes, count, exact, h, ms, put, button, span, table } from '../dom.js';

const size = 50;
const columns = [
  { name: 'ID' }, { name: 'Player', sort: 'client' }, { name: 'Server', sort: 'server' }, { name: 'Listener' }, { name: 'Protocol' }, { name: 'State' },
  { name: 'Age', sort: 'age', num: true }, { name: 'Player RTT', sort: 'client_rtt', num: true }, { name: 'Server RTT', sort: 'server_rtt', num: true },
  { name: 'Lost', sort: 'lost', num: true }, { name: 'Resent', sort: 'resent', num: true }, { name: 'Queued', sort: 'queued', num: true },
  { name: 'Messages', sort: 'messages', num: true },
];
const kept = { search: '', sort: 'age', order: 'descending', offset: 0 }; // while the tab lives

export default function players() {
  const list = h('div', { class: 'panel', id: 'players' });
  const found = h('span', { class: 'soft', role: 'status' });
  const input = h('input', { type: 'search', value: kept.search, placeholder: 'ID, address, listener, route or protocol',
    oninput: () => {
      clearTimeout(typing);
      typing = setTimeout(() => change({ search: input.value.trim(), offset: 0 }), 250);
    } });
  let typing;

  function change(to) {
    Object.assign(kept, to);
    poll.again();
  }

  function head(c) {
    if (!c.sort) return { ...c };
    const now = kept.sort === c.sort;
    const order = now && kept.order === 'descending' ? 'ascending' : 'descending';
    return { ...c, sorted: now ? kept.order : 'none', head: button(c.name, () => change({ sort: c.sort, order, offset: 0 })) };
  }

  const poll = every(2000, async (wanted) => {
    try {
      const page = await get('/api/v1/top?' + new URLSearchParams({ ...kept, limit: size }));
      if (wanted()) render(page);
    } catch (err) {
      if (wanted()) put(list, h('p', { class: 'banner bad' }, err.message));
    }
  });

  function render(page) {
    const focused = list.contains(document.activeElement) ? document.activeElement.textContent : null;
    const rows = page.sessions.map((s) => [
      h('a', { href: '#/player/' + s.id, class: 'mono' }, s.id), s.client.address, s.server.address || '–', s.listener, s.client.protocol, badge(s.state),
      span(s.age_seconds), ms(s.client.rtt_ms), ms(s.server.rtt_ms), count(s.client.lost + s.server.lost), count(s.client.resent + s.server.resent),
      bytes(s.client.queued_bytes + s.server.queued_bytes), count(s.client.messages + s.server.messages),
    ]);
    const last = Math.min(kept.offset + size, page.total);
    const text = page.total ? `${exact(kept.offset + 1)}–${exact(last)} of ${exact(page.total)}` : 'no session';
    if (found.textContent !== text) found.textContent = text;
    const previous = button('Previous', () => change({ offset: Math.max(0, kept.offset - size) }));
    const next = button('Next', () => change({ offset: kept.offset + size }));
    previous.disabled = kept.offset === 0;
    next.disabled = last >= page.total;
    put(list, table('Players', columns.map(head), rows, 'no session'), page.total > size && h('div', { class: 'row' }, previous, next));
    if (focused) [...list.querySelectorAll('a, button')].find((e) => e.textContent === focused)?.focus({ preventScroll: true });
  }

  return {
    element: [h('div', { class: 'head' }, h('h1', {}, 'Players'), found, h('label', { class: 'push' }, h('span', { class: 'hidden' }, 'Search players'), input)), list],
    leave() {
      poll.stop();
      clearTimeout(typing);
    },
  };
}
