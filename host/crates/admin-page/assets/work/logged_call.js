// One call of the log.
import { Empty, Fault, html, Text, useEffect, useRef } from '../lib/ui.js';
import { Facts, Time } from '../lib/list.js';
import { pathOf, span, useLoad } from '../lib/load.js';
import { count } from '../lib/text.js';
import { Json } from './arguments.js';
import { codeWords, decisionWords, guardWords, originWords, outcomeOf, refusalText, State } from './words.js';

const CONTENTS = {
  hidden: 'You do not see the contents of calls: that needs the right sees_payloads.',
  none: 'The contents were not kept: records.call_log.contents is off, or the call has none.',
  erased: 'The contents have been erased.',
};

/** A call by its identifier. */
export function LoggedCall({ id }) {
  const { data, error, isBusy, reload } = useLoad(`/api/mcp-logs/${encodeURIComponent(id)}`);
  const heading = useRef();
  useEffect(() => {
    if (data) heading.current?.focus();
  }, [data?.id]);
  return html`<p class="back"><a href="#">Close the call</a></p><div aria-busy=${isBusy}><${Fault} error=${error} retry=${reload} />${data && html`<${Call} ...${{ call: data, heading }} />`}</div>`;
}

function Call({ call, heading }) {
  const reason = refusalText(call);
  return html`<h2 ref=${heading} tabindex="-1"><span class="name"><${Text} value=${call.tool_name} /></span> <${State} name=${outcomeOf(call)} /></h2>
    <${Facts} rows=${[
      ['Error', call.error_details && html`<${Text} value=${codeWords(call.error_details.code)} /> <span class="hint code"><${Text} value=${call.error_details.code} /></span>`],
      ['Reason', reason && html`<${Text} value=${reason} />`],
      ['Time', html`<${Time} at=${call.timestamp} />`],
      ['Took', call.latency !== null && span(call.latency)],
      ['Key', html`<${Text} value=${call.virtual_key_name ?? 'no key'} />`],
      ['User', call.user && html`<${Text} value=${call.user.subject} />`],
      ['Server', call.server_label && html`<a href=${`/admin/servers#server=${encodeURIComponent(call.server_label)}`}><${Text} value=${call.server_label} /></a>`],
      ['Origin', originWords(call.origin)],
      ['Admitted by', decisionWords(call.decision) && html`<${Text} value=${decisionWords(call.decision)} />`],
      ['Guards', call.guards && html`<${Text} value=${guardWords(call.guards)} />`],
      ['Made after reading', call.sources?.length > 0 && html`untrusted content from <${Text} value=${call.sources.join(', ')} />`],
      ['Approved by', call.decided_by && html`<${Text} value=${call.decided_by} />`],
      ['Rules', html`<a href=${pathOf('/admin/why', { key: call.virtual_key_name, tool: call.tool_name })}>why the tool is visible or hidden</a>`],
      ['Run', call.run_id && html`<a href=${`/admin/runs#${encodeURIComponent(call.run_id)}`}><${Text} value=${call.run_id} /></a>`],
      ['Made by', call.parent_request_id && html`<a href=${`#${encodeURIComponent(call.parent_request_id)}`}>another call</a>`],
      ['Its calls', html`<a href=${pathOf('/admin/calls', { parent_request_ids: call.id })}>calls that it made</a>`],
      ['Fuel', call.fuel !== null && call.fuel !== undefined && count(call.fuel)],
      ['Memory', call.memory_bytes !== null && call.memory_bytes !== undefined && `${count(call.memory_bytes)} bytes`],
      ['Cost', call.cost !== null && call.cost !== undefined && `$ ${call.cost}`],
      ['Call', html`<span class="code"><${Text} value=${call.id} /></span>`],
    ]} />
    ${CONTENTS[call.contents] && html`<${Empty}>${CONTENTS[call.contents]}<//>`}
    ${call.arguments && html`<h3>Arguments</h3><${Json} text=${call.arguments} label="Arguments" />`}
    ${call.result && !reason && html`<h3>Result</h3><${Json} text=${call.result} label="Result" />`}`;
}
