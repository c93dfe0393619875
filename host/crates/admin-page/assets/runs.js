// Runs: scripts of all callers, and one of them as a timeline.
import { Empty, Fault, html, lazy, Text, useState } from './lib/core.js';
import { Field } from './lib/field.js';
import { count } from './lib/text.js';
import { Table, Time } from './lib/list.js';
import { pathOf, span, useHash, useLoad } from './lib/load.js';
import { start } from './lib/session.js';
import { Live, useEvents, useThrottle } from './work/live.js';
import { keyWords } from './work/key_words.js';
import { State } from './work/words.js';

const Run = lazy(() => import('./work/run.js'), 'Run', 'detail.css');
const ROWS = 50;
/** Columns beside a run that is open. */
const FEW = 3;
const COLUMNS = ['Run', 'State', 'Key', 'Language', 'Waiting', 'Began', 'Last change'];
const STATES = ['running', 'suspended', 'interrupted', 'completed', 'failed', 'cancelled'];

function Runs() {
  const open = useHash();
  const [filter, setFilter] = useState('');
  const [offset, setOffset] = useState(0);
  const [fresh, setFresh] = useState(0);
  const [version, setVersion] = useState(0);
  const { data, error, isBusy, reload } = useLoad(pathOf('/api/runs', { state: filter, limit: ROWS, offset: offset || '' }));
  const refreshOpen = useThrottle(() => setVersion((old) => old + 1), 500);
  const state = useEvents(['runs'], ({ data: change }) => {
    if (change.id === undefined || change.id === open) refreshOpen();
    setFresh((old) => old + 1);
  });
  const newest = () => {
    setFresh(0);
    if (offset > 0) setOffset(0);
    else reload();
  };
  const total = data?.total_count ?? data?.data.length ?? 0;
  return html`<div class="toolbar"><${Live} state=${state} /></div><${Fault} error=${error} retry=${reload} />
    <div class=${open ? 'inbox is-open' : 'inbox'}><div class="list wide" aria-busy=${isBusy && !data}>
      <div class="filters"><${Field} as="select" label="State" value=${filter} set=${(value) => { setFilter(value); setOffset(0); }} options=${[['', 'all'], ...STATES.map((name) => [name, name === 'suspended' ? 'waits for a person' : name])]} /></div>
      <div class="fresh"><span role="status">${data && `${count(total)} ${total === 1 ? 'run' : 'runs'}`}</span>${fresh > 0 && html`<button type="button" class="small primary" onClick=${newest}>Show changes</button>`}</div>
      ${data?.data.length > 0 && html`<${Table} label="Runs" plain=${2} columns=${COLUMNS.slice(0, open ? FEW : undefined)} rows=${data.data.map((run) => row(run, open))} />`}
      ${data?.data.length === 0 && html`<${Empty}>${filter ? 'No run has this state.' : 'No script has run yet. Models write scripts for clients in code mode (is_code_mode_client).'}<//>`}
      <div class="actions">${offset > 0 && html`<button type="button" onClick=${() => setOffset(Math.max(0, offset - ROWS))}>Newer</button>`}${data?.has_more && html`<button type="button" onClick=${() => setOffset(offset + ROWS)}>Older</button>`}</div></div>
      ${open && html`<section class="detail" aria-label="Run"><${Run} key=${open} id=${open} version=${version} /></section>`}</div>`;
}

function row(run, open) {
  return {
    key: run.id,
    isCurrent: run.id === open,
    cells: [
      html`<a class="code" href=${`#${encodeURIComponent(run.id)}`}><${Text} value=${run.id} /></a>`, html`<${State} name=${run.state} />`, html`<${Text} value=${keyWords(run.key)} />`,
      run.language, run.pending_calls > 0 ? run.pending_calls : '', html`<${Time} at=${run.created_at_ms} />`, `after ${span(run.changed_at_ms - run.created_at_ms)}`,
    ].slice(0, open ? FEW : undefined),
  };
}

start(Runs);
