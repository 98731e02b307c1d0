// The page "configuration": what is in force, and what the last reload changed.
import { get, post } from '../api.js';
import { ago, badge, button, dialog, exact, h, panel, put, table } from '../dom.js';

export default function config() {
  const state = h('div'), changes = h('div'), text = h('pre', { tabindex: '0', 'aria-label': 'Configuration in force' });
  const note = h('div', { class: 'banner', role: 'status' });

  async function load() {
    try {
      const [c, r] = await Promise.all([get('/api/v1/config'), get('/api/v1/reload')]);
      text.textContent = c.toml;
      put(state, h('dl', { class: 'facts' },
        [['Last reload', r.last ? ago(r.last) : 'none since the start'], ['Result', r.error ? badge('failed') : badge('in force')], ['Reloads', `${exact(r.succeeded)} good, ${exact(r.failed)} failed`],
          ['Needs a restart', r.restart ? r.restart.join(', ') : 'nothing']].map(([k, v]) => h('div', {}, h('dt', {}, k), h('dd', {}, v)))),
      r.error && h('p', { class: 'banner bad' }, r.error));
      put(changes, table('Keys that the last reload changed', [{ name: 'Key' }, { name: 'Before', wrap: true }, { name: 'Now', wrap: true }],
        (r.changed || []).map((k) => [k.key, h('code', {}, k.old || '–'), h('code', {}, k.new || '–')]), 'no reload has changed a key'));
    } catch (err) {
      note.className = 'banner bad';
      put(note, err.message);
    }
  }

  const reload = () => dialog('Reload the configuration', [h('p', {}, 'The file is read again. If it has a fault, the present configuration stays in force.')], 'Reload', async () => {
    try {
      await post('/api/v1/reload');
      note.className = 'banner good';
      put(note, 'The configuration was reloaded.');
    } finally {
      load();
    }
  }, 'main');

  load();
  return {
    element: [h('div', { class: 'head' }, h('h1', {}, 'Configuration'), h('div', { class: 'push' }, button('Reload', reload))), note,
      panel('Reloads', state), panel('Changed by the last reload', changes), panel('In force, with every default', text)],
  };
}
