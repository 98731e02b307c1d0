// The page "admission": why an address may come or not, the sources that were refused last, and bans.
import { every, get, post } from '../api.js';
import { ago, badge, banFields, button, count, dialog, exact, h, left, panel, put, table } from '../dom.js';

export default function admission() {
  const answer = h('div', { role: 'status' });
  const refused = h('div'), bans = h('div'), note = h('div', { class: 'banner', role: 'status' });

  const address = h('input', { name: 'address', required: true, autocomplete: 'off', placeholder: '203.0.113.7', size: 24 });
  const form = h('form', { class: 'row', onsubmit: (e) => {
    e.preventDefault();
    why(address.value.trim());
  } }, h('label', {}, 'Is this address let in?', address), h('button', { type: 'submit', class: 'main' }, 'Ask'));

  async function why(of) {
    address.value = of;
    try {
      const w = await get('/api/v1/why?address=' + encodeURIComponent(of));
      const facts = [w.country && `country ${w.country}`, w.network && `network AS${w.network} ${w.holder || ''}`, w.sessions.length && `${w.sessions.length} sessions`].filter(Boolean).join(', ');
      put(answer, h('p', {}, h('strong', {}, w.address), ' ', badge(w.decision), ' ', w.because), facts && h('p', { class: 'soft' }, facts),
        w.limits.length > 0 && h('p', {}, 'Exhausted: ' + w.limits.map((l) => `${l.limit} (${l.verdict})`).join(', ')),
        w.drops.length > 0 && dropTable(`Drops of ${w.address}`, w.drops.slice().reverse()));
    } catch (err) {
      put(answer, h('p', { class: 'banner bad' }, err.message));
    }
  }

  const dropTable = (title, drops) => table(title, [{ name: 'Reason' }, { name: 'Times', num: true }, { name: 'Last' }, { name: 'Listener' }, { name: 'Cause', wrap: true }],
    drops.map((d) => [d.reason, count(d.times), ago(d.at), d.listener, d.cause || '–']));

  const ban = (prefix = '') => dialog('Ban', banFields(prefix), 'Ban', async (v) => {
    await post('/api/v1/bans', { ...v, seconds: Number(v.seconds) });
    note.className = 'banner good';
    put(note, `${v.prefix} is banned.`);
    poll.again();
  });
  const unban = (prefix) => dialog(`End the ban of ${prefix}`, [h('p', {}, 'The network may join again at once.')], 'End the ban', async () => {
    await post('/api/v1/bans/remove', { prefix });
    note.className = 'banner good';
    put(note, `The ban of ${prefix} is over.`);
    poll.again();
  });

  const search = h('input', { type: 'search', 'aria-label': 'Search bans', placeholder: 'network, reason or author', oninput: () => poll.again() });
  const poll = every(3000, async (wanted) => {
    try {
      const [r, b] = await Promise.all([get('/api/v1/refused'), get('/api/v1/bans?' + new URLSearchParams({ search: search.value.trim(), limit: 200 }))]);
      if (!wanted()) return;
      keep(refused, table('Refused sources', [{ name: 'Source' }, { name: 'Drops', num: true }, { name: 'Reasons', wrap: true }, { name: 'Last' }, { name: 'Actions' }],
        r.sources.map((s) => [h('span', { class: 'mono' }, s.address), exact(s.times), [...new Set(s.drops.map((d) => d.reason))].join(', '), ago(s.drops[0].at),
          h('div', { class: 'row' }, button('Why', () => why(s.address), 'small'), button('Ban', () => ban(s.address), 'small danger'))]), 'nothing was refused'));
      keep(bans, h('p', { class: 'soft' }, b.total > b.bans.length ? `${exact(b.bans.length)} of ${exact(b.total)} bans` : ''),
        table('Bans', [{ name: 'Network' }, { name: 'Left' }, { name: 'By' }, { name: 'Reason', wrap: true }, { name: 'Since' }, { name: 'Actions' }],
          b.bans.map((one) => [h('span', { class: 'mono' }, one.prefix), left(one.until), one.author, one.reason || '–', ago(one.since), button('End', () => unban(one.prefix), 'small')]), 'no ban'));
    } catch (err) {
      if (wanted()) put(refused, h('p', { class: 'banner bad' }, err.message));
    }
  });

  // keep replaces the children of a box, and keeps the focus on the button with the same place.
  function keep(box, ...children) {
    const at = [...box.querySelectorAll('button')].indexOf(document.activeElement);
    put(box, children);
    if (at >= 0) box.querySelectorAll('button')[at]?.focus({ preventScroll: true });
  }

  return {
    element: [h('h1', {}, 'Admission'), note, panel('Why', form, answer), panel('Refused sources, the most drops first', refused),
      h('section', { class: 'panel' }, h('div', { class: 'head' }, h('h2', {}, 'Bans'), search, h('div', { class: 'push' }, button('Ban a network', () => ban(), 'danger'))), bans)],
    leave: poll.stop,
  };
}
