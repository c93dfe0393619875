// One call of the log.
import { Empty, Fault, html, Text, useEffect, useRef } from '../lib/ui.js';
import { Facts, Time } from '../lib/list.js';
import { pathOf, span, useLoad } from '../lib/load.js';
import { count } from '../lib/text.js';
import { Json } from './arguments.js';
import { originWords, State } from './words.js';

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
  return html`<h2 ref=${heading} tabindex="-1"><${Text} value=${call.tool_name} /> <${State} name=${call.outcome} /></h2>
    <${Facts} rows=${[
      ['Error', call.error_details && html`<${Text} value=${call.error_details.code} />`],
      ['Time', html`<${Time} at=${call.timestamp} />`],
      ['Took', call.latency !== null && span(call.latency)],
      ['Key', html`<${Text} value=${call.virtual_key_name ?? 'no key'} />`],
      ['User', call.user && html`<${Text} value=${call.user.subject} />`],
      ['Server', call.server_label && html`<a href=${`/admin/servers#server=${encodeURIComponent(call.server_label)}`}><${Text} value=${call.server_label} /></a>`],
      ['Origin', originWords(call.origin)],
      ['Admitted by', call.decision && html`<${Text} value=${call.decision} />`],
      ['Run', call.run_id && html`<a href=${`/admin/runs#${encodeURIComponent(call.run_id)}`}><${Text} value=${call.run_id} /></a>`],
      ['Made by', call.parent_request_id && html`<a href=${`#${encodeURIComponent(call.parent_request_id)}`}>another call</a>`],
      ['Its calls', html`<a href=${pathOf('/admin/calls', { parent_request_ids: call.id })}>calls that it made</a>`],
      ['Fuel', call.fuel !== null && call.fuel !== undefined && count(call.fuel)],
      ['Cost', call.cost !== null && call.cost !== undefined && `$ ${call.cost}`],
      ['Call', html`<span class="code"><${Text} value=${call.id} /></span>`],
    ]} />
    ${CONTENTS[call.contents] && html`<${Empty}>${CONTENTS[call.contents]}<//>`}
    ${call.arguments && html`<h3>Arguments</h3><${Json} text=${call.arguments} label="Arguments" />`}
    ${call.result && html`<h3>Result</h3><${Json} text=${call.result} label="Result" />`}`;
}
