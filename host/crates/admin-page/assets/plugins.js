// Plugins: their rights in plain words, versions, upload, acceptance and removal.
import { useLoad } from './lib/list.js';
import { start, useOperator } from './lib/session.js';
import { Badge, Empty, Fault, html, lazy, Text } from './lib/ui.js';
import { Rows, useFragment } from './parts/lists.js';

// Loaded when they are wanted: the list is there sooner.
const Upload = lazy(() => import('./parts/upload.js'), 'Upload');
const Plugin = lazy(() => import('./parts/plugin_detail.js'), 'Plugin');

const PHASES = { loaded: 'good', ready: 'good', connected: 'good', loading: 'wait', failed: 'bad' };

function Plugins() {
  const { name, value } = useFragment();
  if (name === 'upload') return html`<${Upload} />`;
  return name === 'plugin' ? html`<${Plugin} key=${value} name=${value} />` : html`<${List} />`;
}

function List() {
  const { data, error, isBusy } = useLoad('/api/plugins?limit=1000');
  const operator = useOperator();
  const rows = (data?.plugins ?? []).map((plugin) => [
    html`<a href=${`#plugin=${encodeURIComponent(plugin.name)}`}><${Text} value=${plugin.name} /></a>`,
    html`<${PluginState} plugin=${plugin} />`,
    plugin.offered && plugin.offered !== plugin.accepted ? html`<${Badge} level="wait">a component waits<//>` : '',
    plugin.source === 'file' ? 'configuration file' : 'uploaded',
  ]);
  return html`${operator?.role === 'admin' && html`<div class="toolbar"><a class="button primary" href="#upload">Upload a plugin</a></div>`}<${Fault} error=${error} />
    <section aria-busy=${isBusy}>${rows.length > 0
      ? html`<${Rows} label="Plugins" plain=${4} columns=${['Name', 'State', 'To decide', 'Comes from']} rows=${rows} />`
      : data && html`<${Empty}>There is no plugin yet. Upload a component (.wasm): nothing is granted to it, and none of its tools can be called, before you accept it.<//>`}</section>`;
}

function PluginState({ plugin }) {
  if (plugin.disabled) return html`<${Badge} level="off">disabled<//>`;
  if (!plugin.state) return html`<${Badge} level="off">${plugin.accepted || plugin.component ? 'not loaded here' : 'not accepted'}<//>`;
  return html`<${Badge} level=${PHASES[plugin.state.phase] ?? 'warn'}>${plugin.state.phase}<//>`;
}

start(Plugins);
