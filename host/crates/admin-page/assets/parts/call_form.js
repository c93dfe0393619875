// The form of one tool, its call, and the result.
import { send } from '../lib/api.js';
import { Badge, Block, Fault, Field, html, Text, useEffect, useMemo, useRef, useState, visible } from '../lib/ui.js';
import { answerOf } from './answer.js';
import { Curl } from './curl_view.js';
import { formOf, initialOf, written } from './schema.js';
import { SchemaField } from './schema_field.js';

export function Call({ tool, definition, keyName }) {
  const form = useMemo(() => formOf(definition?.parameters), [definition]);
  const [value, set] = useState(() => initialOf(form));
  const [raw, setRaw] = useState();
  const [state, setState] = useState({});
  const result = useRef();
  const wanted = raw === undefined ? written(form, value) : written({ kind: 'json', isRequired: true }, raw);
  const body = { ...(keyName !== '' && { key: keyName }), tool: tool.name, arguments: wanted.text ?? '{}' };
  const request = { method: 'POST', path: '/api/mcp/try', body };
  const submit = async (event) => {
    event.preventDefault();
    if (wanted.faults.length > 0) return setState({ faults: wanted.faults });
    setState({ isBusy: true });
    try {
      setState({ answer: await send('POST', request.path, body, { read: answerOf }) });
    } catch (error) {
      setState({ error });
    }
    return undefined;
  };
  useEffect(() => {
    if (state.answer || state.error || state.faults) result.current.focus();
  }, [state]);
  return html`<form onSubmit=${submit}>
      ${definition && html`<${Block} value=${definition.description} />`}
      ${raw === undefined ? html`<${SchemaField} ...${{ field: form, value, set, isRoot: true }} />` : html`<${Field} as="textarea" rows="8" label="Arguments as JSON" value=${raw} set=${setRaw} />`}
      <p class="notice">This really calls the tool, with the limits of ${keyName === '' ? 'a request without a key' : html`the key <${Text} value=${keyName} />`}. The call is recorded with your name.
        ${tool.approval === 'needed' && ' It waits until it is approved.'}</p>
      <div class="actions"><button class="primary" type="submit" disabled=${state.isBusy}>Call</button>
        ${form.kind === 'object' && html`<button type="button" onClick=${() => setRaw(raw === undefined ? (wanted.text ?? '{}') : undefined)}>${raw === undefined ? 'Edit as JSON' : 'Back to the form'}</button>`}</div>
    </form>
    <p role="status">${state.isBusy && 'The call runs.'}</p>
    <section ref=${result} tabindex="-1" aria-label="Result">
      ${state.faults && html`<div role="alert"><p>Nothing was sent:</p><ul>${state.faults.map(({ path, message }) => html`<li><${Text} value=${path.join(' › ') || 'arguments'} /> ${message}</li>`)}</ul></div>`}
      <${Fault} error=${state.error} />${state.answer && html`<${Answer} answer=${state.answer} />`}</section>
    <${Curl} request=${request} />`;
}

function Answer({ answer }) {
  if (answer.state === 'waiting') {
    return html`<h2><${Badge} level="wait">waits for an approval<//></h2><p><a href=${`/admin/approvals#${encodeURIComponent(answer.approval)}`}>Open it in the approvals</a>. Once it is approved, call again with the same arguments.</p>`;
  }
  const { result, error, shown } = answer;
  return html`<h2>${answer.state === 'completed' && !result?.isError ? html`<${Badge} level="good">completed<//>` : html`<${Badge} level="bad">failed<//>`}
      ${answer.duration_ms !== undefined && ` in ${answer.duration_ms} ms`}</h2>
    ${error && html`<p><code>${visible(error.code)}</code> <${Text} value=${error.message} /></p>`}
    ${shown.texts.map((text) => html`<${Block} value=${text} />`)}
    ${shown.structured && html`<h3>Structured content</h3><${Block} value=${shown.structured} />`}`;
}
