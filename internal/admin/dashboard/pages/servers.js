// The page "servers": health and load of each game server, with drains and moves.
import { every, get, post } from '../api.js';
import { ago, badge, button, dialog, exact, h, ms, panel, put, rate, table } from '../dom.js';

const columns = [{ name: 'Server' }, { name: 'State' }, { name: 'Sessions', num: true }, { name: 'Weight', num: true }, { name: 'Check', num: true },
  { name: 'Server RTT', num: true }, { name: 'Player RTT', num: true }, { name: 'Joins', num: true }, { name: 'Refused', num: true }, { name: 'Lost', num: true },
  { name: 'Since' }, { name: 'Actions' }];

export default function servers(app) {
  const all = h('div', { class: 'grid one' });
  const note = h('div', { class: 'banner', role: 'status' });

  const say = (text, kind) => {
    note.className = 'banner ' + kind;
    put(note, text);
  };
  async function act(path, server, done) {
    try {
      const answer = await post(path, { server });
      say(done(answer), 'good');
    } catch (err) {
      say(err.message, 'bad');
    }
    poll.again();
  }

  function actions(u, s) {
    const path = '/api/v1/upstreams/' + encodeURIComponent(u.name);
    const drained = s.state === 'draining';
    return h('div', { class: 'row' },
      button(drained ? 'Undrain' : 'Drain', () => act(path + (drained ? '/undrain' : '/drain'), s.address,
        () => (drained ? `${s.address} takes new players.` : `${s.address} takes no new players.`)), 'small'),
      button('Move players', () => dialog(`Move the players of ${s.address}`, [h('p', {}, `${exact(s.sessions)} sessions go to other servers of ${u.name}.`)], 'Move',
        async () => act(path + '/transfer', s.address, (a) => `${exact(a.sessions)} sessions are being moved.`), 'main'), 'small'));
  }

  const poll = every(2000, async (wanted) => {
    try {
      const { upstreams } = await get('/api/v1/upstreams');
      if (!wanted()) return;
      const focused = all.contains(document.activeElement) ? [...all.querySelectorAll('button')].indexOf(document.activeElement) : -1;
      put(all, upstreams.map((u) => panel(u.name, table(`Servers of ${u.name}`, columns, u.servers.map((s) => {
        const f = (app.last ? app.last.servers : []).find((one) => one.server === s.address && one.upstream === u.name.split(':')[0]) || {};
        return [h('span', { class: 'mono' }, s.address), h('span', {}, badge(s.state), (s.cause ? ' ' + s.cause : '') + (s.turned_away ? `, ${exact(s.turned_away)} turned away` : '')),
          exact(s.sessions) + (s.max_sessions ? ' of ' + exact(s.max_sessions) : ''), String(s.weight), ms(s.rtt_ms), ms(f.server_rtt_median_ms), ms(f.player_rtt_median_ms),
          f.joins === undefined ? '–' : rate(f.joins), f.refused === undefined ? '–' : rate(f.refused), f.lost === undefined ? '–' : rate(f.lost),
          s.since ? ago(s.since) : 'the start', actions(u, s)];
      }), 'no server'))));
      if (focused >= 0) all.querySelectorAll('button')[focused]?.focus({ preventScroll: true });
    } catch (err) {
      if (wanted()) say(err.message, 'bad');
    }
  });

  return {
    element: [h('h1', {}, 'Servers'), note, all],
    leave: poll.stop,
  };
}
