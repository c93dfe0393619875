// One plugin: its rights, the component that waits and its differences, and what may be done.
import { Facts, useLoad } from '../lib/list.js';
import { Badge, Block, Empty, Fault, Field, html, Message, Text, useState, visible } from '../lib/ui.js';
import { Action, Check } from './action.js';
import { Rows, when } from './lists.js';
import { componentLines, grantSentences, grantsFor, requestWords } from './grants.js';
import { Diff } from './diff_view.js';
import { lines } from './server_form.js';

export function Plugin({ name }) {
  const path = `/api/plugins/${encodeURIComponent(name)}`;
  const { data, error, isBusy, reload } = useLoad(path);
  return html`<p><a href="#">All plugins</a></p><h2><${Text} value=${name} /></h2><${Fault} error=${error} />
    <div aria-busy=${isBusy}>${data && html`<${Detail} ...${{ plugin: data, path, reload }} />`}</div>`;
}

function Detail({ plugin, path, reload }) {
  const { accepted, offered } = plugin;
  const isWaiting = offered && offered.digest !== accepted?.digest;
  return html`${plugin.state?.reason && html`<p><${Message} value=${plugin.state.reason} /></p>`}
    <div class="actions">${plugin.disabled
      ? html`<${Action} label="Enable" confirm="Enable" title=${`Enable ${plugin.name}`} request=${{ method: 'PUT', path, body: { disabled: false } }} done=${reload} happens="It is loaded on all gateways, with the rights that it has." />`
      : html`<${Action} isDanger label="Disable" confirm="Disable" title=${`Disable ${plugin.name}`} request=${{ method: 'PUT', path, body: { disabled: true } }} done=${reload} happens="It is unloaded on all gateways. Calls that run fail. Its rights and entries stay." />`}
      <${Action} isFinal needs="admin" label="Remove" confirm="Remove" title=${`Remove ${plugin.name}`} request=${{ method: 'DELETE', path }} done=${() => { location.hash = ''; }}
        happens="It is unloaded on all gateways, and its rights are deleted. The entries in its stores stay; a later plugin with this name that is granted them may read them." /></div>
    ${isWaiting && html`<section class="notice"><h3>A component waits for a decision</h3><${Component} component=${offered} />
      <${Changes} ...${{ accepted, offered }} /><${Accept} ...${{ plugin, path, reload }} /></section>`}
    <section><h3>Rights</h3><${Grants} plugin=${plugin} /></section>
    ${accepted && html`<section><h3>Component in use</h3><${Component} component=${accepted} /></section>`}
    <${Versions} ...${{ plugin, reload }} />`;
}

function Grants({ plugin }) {
  const sentences = grantSentences(plugin.grants);
  return html`${sentences.length > 0 ? html`<p>The plugin, in calls of tools that declare it:</p><ul>${sentences.map((sentence) => html`<li><${Text} value=${sentence} /></li>`)}</ul>` : html`<p>Nothing is granted: it computes with the arguments alone.</p>`}
    ${plugin.profile && html`<p>Ceiling: the profile <${Text} value=${String(plugin.profile)} />.</p>`}
    ${plugin.limits && html`<p>Limits of a call: <${Text} value=${JSON.stringify(plugin.limits)} /></p>`}`;
}

function Component({ component }) {
  if (component.problem) return html`<p role="alert"><${Text} value=${component.problem} /></p>`;
  const requests = (component.requests ?? []).map(requestWords);
  return html`<${Facts} rows=${[
      ['Says it is', html`<${Text} value=${`${component.id} ${component.version ?? ''}`} />`],
      ['Description', component.description && html`<${Text} value=${component.description} />`],
      ['Digest', html`<code>${component.digest}</code>`],
      ['Size', component.bytes && `${component.bytes} bytes`],
      ['Limits', component.limits?.length > 0 && html`<${Text} value=${component.limits.join(', ')} />`],
    ]} />
    ${component.obstacles?.length > 0 && html`<p>It would not be loaded now:</p><ul>${component.obstacles.map((text) => html`<li><${Message} value=${text} /></li>`)}</ul>`}
    ${component.notes?.length > 0 && html`<ul>${component.notes.map((text) => html`<li><${Message} value=${text} /></li>`)}</ul>`}
    ${requests.length > 0 ? html`<h4>It requests</h4><ul>${requests.map((request) => html`<li><strong><${Text} value=${request.name} /></strong>: <${Text} value=${request.sentence} /> <${Badge} level=${request.isOptional ? 'off' : 'wait'}>${request.isOptional ? 'optional' : 'required'}<//><br />
      Its author says: <q><${Text} value=${request.reason} /></q></li>`)}</ul>` : html`<p>It requests no rights.</p>`}
    <details><summary>Tools (${component.tool_count})</summary>${(component.tools ?? []).map((tool) => html`<h4><${Text} value=${tool.name} /></h4>
      <p>Effects: <${Text} value=${(tool.effects ?? []).join(', ') || 'none'} /></p><${Block} value=${tool.description} />`)}</details>`;
}

function Changes({ accepted, offered }) {
  if (!accepted) return null;
  return html`<h4>Changes</h4>${offered.changes?.length > 0 ? html`<ul>${offered.changes.map((change) => html`<li><${Text} value=${typeof change === 'string' ? change : JSON.stringify(change)} /></li>`)}</ul>` : html`<p>No difference in rights and tools; the program itself may differ.</p>`}
    <${Diff} before=${componentLines(accepted)} after=${componentLines(offered)} />`;
}

/** Accepts what was shown: its digest is sent. A wider right needs consent by its name. */
function Accept({ plugin, path, reload }) {
  const { offered, accepted } = plugin;
  const required = (offered.requests ?? []).filter((request) => !request.optional);
  const preset = plugin.grants && Object.keys(plugin.grants).length > 0 ? plugin.grants : grantsFor(required);
  const [grants, setGrants] = useState(JSON.stringify(preset, null, 2));
  const [wider, setWider] = useState('');
  const [isOther, setOther] = useState(false);
  const request = () => {
    const read = parsed(grants);
    const body = { digest: offered.digest, grants: read.value, ...(lines(wider).length > 0 && { regrant: lines(wider) }), ...(isOther && { change_id: true }) };
    return { method: 'POST', path: `${path}/accept`, body, faults: read.faults };
  };
  return html`<${Action} isPrimary needs="admin" label="Accept" confirm="Accept this component" title=${`Accept ${plugin.name}`} request=${request} done=${reload}
    happens=${`The component ${offered.digest.slice(0, 19)}… is loaded on all gateways with these rights${accepted ? ', in place of the one in use' : ''}. Every call of its tools needs an approval, until you change that.`}>
    <${Field} as="textarea" rows="8" label="Grants" hint="As JSON, in the form of the configuration. Replace words in capitals; leave out what you do not grant" value=${grants} set=${setGrants} />
    <details><summary>If consent is required</summary>
      <${Field} as="textarea" rows="2" label="Requests that may be wider than before" hint="One a line, such as http.api" value=${wider} set=${setWider} />
      <${Check} label="This is another plugin than before, and may read the stores of the earlier one" value=${isOther} set=${setOther} /></details><//>`;
}

function parsed(text) {
  try {
    return { value: JSON.parse(text), faults: [] };
  } catch (error) {
    return { faults: [`Grants are not JSON: ${error.message}`] };
  }
}

/** The latest changes of this plugin, which can be taken back while their component is kept. */
function Versions({ plugin, reload }) {
  const { data, reload: again } = useLoad('/api/changes?limit=100');
  const own = (data?.changes ?? []).filter((change) => change.kind === 'client' && change.name === plugin.name);
  if (own.length === 0) return null;
  const done = () => {
    again();
    reload();
  };
  const rows = own.map((change, at) => [
    when(change.at ?? change.created_at ?? change.timestamp),
    html`<${Text} value=${visible(change.action)} />`,
    html`<${Text} value=${String(change.actor ?? change.by ?? '')} />`,
    at === 0 && html`<${Action} isDanger needs="admin" label="Revert" confirm="Revert" title=${`Revert the latest change of ${plugin.name}`} request=${{ method: 'POST', path: `/api/changes/${change.id}/revert` }} done=${done}
      happens="The plugin is again what it was before this change, with its component and rights. This is refused if the component is not kept any more." />`,
  ]);
  return html`<section><h3>Latest changes</h3>${rows.length > 0 ? html`<${Rows} label="Changes" columns=${['Time', 'Change', 'By', 'Action']} rows=${rows} />` : html`<${Empty}>No change is recorded.<//>`}</section>`;
}
