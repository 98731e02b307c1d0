// The dashboard: one page at a time, by the part of the address after #. All pages share one stream of live figures.
import { Live, exchange, get, setToken, whenDenied } from './api.js';
import { History, repaint } from './chart.js';
import { button, field, h, put } from './dom.js';
import admission from './pages/admission.js';
import config from './pages/config.js';
import fleet from './pages/fleet.js';
import now from './pages/now.js';
import player from './pages/player.js';
import players from './pages/players.js';
import servers from './pages/servers.js';

const pages = { now, players, player, servers, admission, config, fleet };
const titles = { now: 'Now', players: 'Players', servers: 'Servers', admission: 'Admission', config: 'Configuration', fleet: 'Fleet' };
const main = document.getElementById('main');
let drawn = 0; // events
const app = { history: new History(), live: null, last: null };
let page = null;

// show opens the page of the address.
function show() {
  const [name, argument] = location.hash.replace(/^#\/?/, '').split('/');
  const known = pages[name] ? name : 'now';
  if (page && page.leave) page.leave();
  for (const a of document.querySelectorAll('nav a')) {
    const here = a.hash === '#/' + (known === 'player' ? 'players' : known);
    if (here) {
      a.setAttribute('aria-current', 'page');
      a.scrollIntoView({ block: 'nearest' }); // a phone shows a part of the links
    } else a.removeAttribute('aria-current');
  }
  page = pages[known](app, decodeURIComponent(argument || ''));
  document.title = (titles[known] || 'Player ' + argument) + ' · Tidegate';
  put(main, page.element);
  app.live.watch(known === 'player' ? decodeURIComponent(argument || '') : '');
  if (app.last && page.live) page.live(app.last);
}

// remember adds the figures of an event to the history.
function remember(f) {
  const values = { sessions: f.sessions, half: f.half_open, queuedC: f.client.queued_bytes, queuedS: f.server.queued_bytes };
  if (f.over_seconds > 0) {
    Object.assign(values, {
      joins: f.joins, failed: f.joins_failed, ended: f.ended, up: f.from_clients.count, down: f.from_servers.count,
      cin: f.client_in.count, cout: f.client_out.count, sin: f.server_in.count, sout: f.server_out.count,
      cinB: f.client_in.bytes, coutB: f.client_out.bytes, sinB: f.server_in.bytes, soutB: f.server_out.bytes,
      turn50: f.turn_median_ms, turn99: f.turn_p99_ms, resentC: f.client.resent, resentS: f.server.resent,
      lostC: f.client.lost, lostS: f.server.lost, socket: f.socket_drops,
      rttC: f.client.rtt_median_ms || null, rttC90: f.client.rtt_p90_ms || null,
      rttS: f.server.rtt_median_ms || null, rttS90: f.server.rtt_p90_ms || null,
    });
    for (const d of f.drops) values['drop ' + d.name] = d.rate;
    for (const k of f.kernel) values['kernel ' + k.name] = k.rate;
    for (const s of f.join_stages) values['stage ' + s.name] = s.rate;
  }
  app.history.add(Date.parse(f.at) / 1000, values);
}

function onEvent(name, data) {
  if (name === 'live') {
    app.last = data;
    remember(data);
    if (page && page.live) page.live(data);
    document.documentElement.dataset.events = ++drawn; // tests wait for it
  } else if (page && page.event) {
    page.event(name, data);
  }
}

const state = document.getElementById('state');
function onState(text) {
  if (state.textContent === text) return; // a screen reader hears changes only
  state.textContent = text;
  state.className = 'state ' + (text === 'live' ? 'on' : text === 'reconnecting' ? 'off' : '');
}

// themes: the system's, or one that the operator chose.
const system = matchMedia('(prefers-color-scheme: dark)');
const themeButton = document.getElementById('theme');
function applyTheme() {
  const chosen = localStorage.getItem('tidegate-theme') || 'system';
  const dark = chosen === 'dark' || (chosen === 'system' && system.matches);
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  themeButton.textContent = 'Theme: ' + chosen;
  repaint();
}
themeButton.addEventListener('click', () => {
  const order = ['system', 'light', 'dark'];
  const chosen = localStorage.getItem('tidegate-theme') || 'system';
  localStorage.setItem('tidegate-theme', order[(order.indexOf(chosen) + 1) % order.length]);
  applyTheme();
});
system.addEventListener('change', applyTheme);

// login asks for the token.
let asking = false;
function login(why) {
  if (asking) return;
  asking = true;
  onState('signed out');
  const form = h('form', { onsubmit: (e) => {
    e.preventDefault();
    setToken(new FormData(form).get('token'));
    asking = false;
    start();
  } }, field('Token', { name: 'token', type: 'password', required: true, autocomplete: 'off' }),
  h('button', { type: 'submit', class: 'main' }, 'Sign in'));
  put(main, h('section', { class: 'panel login' }, h('h1', {}, 'Sign in'),
    h('p', { class: 'soft' }, why), form));
  form.querySelector('input').focus();
}

async function start() {
  try {
    const v = await get('/api/v1/version');
    document.getElementById('version').textContent = `Tidegate ${v.version} · ${v.system} · ${v.go} · since ${new Date(v.started).toLocaleString(undefined, { hour12: false })}`;
    const { on } = await get('/api/v1/fleet');
    const links = Object.entries(titles).filter(([name]) => name !== 'fleet' || on);
    app.history.load(await get('/api/v1/history'));
    put(document.getElementById('nav'), links.map(([name, title]) => h('a', { href: '#/' + name }, title)));
    show();
  } catch (err) {
    if (err.status !== 401) put(main, h('p', { class: 'banner bad' }, err.message + ' ', button('Try again', start)));
  }
}

document.querySelector('.skip').addEventListener('click', (e) => {
  e.preventDefault();
  main.focus();
});
applyTheme();
whenDenied(login);
app.live = new Live(onEvent, onState);
window.addEventListener('hashchange', () => {
  if (!asking) show();
  main.focus();
});
const once = /^#key=(\w+)$/.exec(location.hash);
if (once) {
  history.replaceState(null, '', location.pathname + '#/now');
  await exchange(once[1]);
}
start();
