// Calls: those that run now, and those of the past with filters.
import { Empty, Fault, html, lazy, Text, useState, visible } from './lib/core.js';
import { Field } from './lib/field.js';
import { count } from './lib/text.js';
import { Table, Time } from './lib/list.js';
import { pathOf, span, useHash, useLoad } from './lib/load.js';
import { start } from './lib/session.js';
import { Live, useEvents, useThrottle } from './work/live.js';
import { codeWords, ORIGIN_NAMES, originWords, outcomeOf, State } from './work/words.js';

const LoggedCall = lazy(() => import('./work/logged_call.js'), 'LoggedCall', 'detail.css');
const RunningCalls = lazy(() => import('./work/running.js'), 'RunningCalls');
const ROWS = 50;
/** Filters of the log API that this page has. */
const FILTERS = ['tool_names', 'server_labels', 'virtual_key_ids', 'status', 'origins', 'period', 'parent_request_ids'];
const STATUSES = [['', 'all'], ['success', 'succeeded'], ['error', 'failed, refused or cancelled'], ['refused', 'refused'], ['cancelled', 'cancelled'], ['processing', 'run now']];
/** Columns beside a call that is open, which need no headings on a narrow screen. */
const FEW = 3;
const WIDE = matchMedia('(min-width: 42rem)');
const COLUMNS = ['Tool', 'Outcome', 'Time', 'Took', 'Key', 'Origin'];
const PERIODS = [['', 'all that is kept'], ['1h', 'the last hour'], ['24h', 'the last day'], ['168h', 'the last week'], ['720h', 'the last 30 days']];

function Calls() {
  const open = useHash();
  const [fresh, setFresh] = useState(0);
  const running = useLoad('/api/calls');
  const refresh = useThrottle(running.reload, 1_000);
  const state = useEvents(['calls'], ({ type, data }) => {
    refresh();
    if (type === 'resync' || data.state === 'ended') setFresh((old) => old + 1);
  });
  return html`<div class="toolbar"><${Live} state=${state} /></div>
    <${Running} ...${running} />
    <div class=${open ? 'inbox is-open' : 'inbox'}><div class="list wide"><${Past} ...${{ open, fresh }} shown=${() => setFresh(0)} /></div>
      ${open && html`<section class="detail" aria-label="Call"><${LoggedCall} key=${open} id=${open} /></section>`}</div>`;
}

/** The calls that run at this gateway, folded, so that the list below does not move. */
function Running({ data, error }) {
  const [isOpen, set] = useState(false);
  const calls = data?.data ?? [];
  return html`<${Fault} error=${error} /><details class="running" onToggle=${(event) => set(event.currentTarget.open)}>
    <summary><strong>${count(data?.total_count ?? calls.length)}</strong> ${calls.length === 1 ? 'call runs' : 'calls run'} at this gateway now</summary>
    ${isOpen && (calls.length === 0 ? html`<${Empty}>Calls appear here while they run.<//>` : html`<${RunningCalls} calls=${calls} />`)}</details>`;
}

/** The filters of the address, such as `?server_labels=files`. */
function useFilters() {
  const own = new URLSearchParams(location.search);
  const [filters, set] = useState(Object.fromEntries(FILTERS.map((name) => [name, own.get(name) ?? ''])));
  const change = (name) => (value) => {
    const next = { ...filters, [name]: value };
    history.replaceState(null, '', pathOf(location.pathname, next) + location.hash);
    set(next);
  };
  return [filters, change];
}

function Past({ open, fresh, shown }) {
  const [filters, change] = useFilters();
  // The cursors of the pages so far: the last one is that of the page that is shown.
  const [cursors, turn] = useState(['']);
  const { data, error, isBusy, reload } = useLoad(pathOf('/api/mcp-logs', { ...filters, limit: ROWS, cursor: cursors.at(-1) }));
  const values = useLoad('/api/mcp-logs/filterdata').data ?? {};
  const filter = (name) => (value) => {
    turn(['']);
    change(name)(value);
  };
  const newest = () => {
    shown();
    if (cursors.length > 1) turn(['']);
    else reload();
  };
  const total = data?.pagination.total_count ?? 0;
  const isFiltered = FILTERS.some((name) => filters[name] !== '');
  const [isOpen] = useState(isFiltered || WIDE.matches);
  return html`<details class="fold-filters" open=${isOpen}><summary>Filters</summary><div class="filters">
      <${Choice} label="Tool" name="tool_names" list=${values.tool_names} ...${{ filters, filter }} /><${Choice} label="Server" name="server_labels" list=${values.server_labels} ...${{ filters, filter }} />
      <${Field} as="select" label="Key" value=${filters.virtual_key_ids} set=${filter('virtual_key_ids')} options=${[['', 'all'], ...(values.virtual_keys ?? []).map(({ id, name }) => [id, visible(name ?? id)])]} />
      <${Field} as="select" label="Outcome" value=${filters.status} set=${filter('status')} options=${STATUSES} />
      <${Field} as="select" label="Origin" value=${filters.origins} set=${filter('origins')} options=${[['', 'all'], ...ORIGIN_NAMES.map((name) => [name, originWords(name)])]} />
      <${Field} as="select" label="Time" value=${filters.period} set=${filter('period')} options=${PERIODS} />
      ${filters.parent_request_ids && html`<div class="field"><button type="button" onClick=${() => filter('parent_request_ids')('')}>All callers</button></div>`}</div></details>
    <div class="fresh"><span role="status">${data && `${count(total)}${data.is_partial ? ' or more' : ''} calls, ${total > 0 ? `${Math.floor(data.stats.success_rate)} % successful` : 'none of them shown'}`}</span>
      ${fresh > 0 && html`<button type="button" class="small primary" onClick=${newest}>${count(fresh)} new</button>`}</div>
    <${Fault} error=${error} retry=${reload} />
    <div aria-busy=${isBusy}>${data?.logs.length > 0 && html`<${Table} label="Past calls" plain=${FEW} columns=${COLUMNS.slice(0, open ? FEW : undefined)} rows=${data.logs.map((call) => row(call, open))} />`}
      ${data?.logs.length === 0 && html`<${Empty}>${isFiltered ? 'No call matches these filters.' : data.is_call_log_on ? 'No call is recorded.' : 'The call log is off: set records.call_log.enabled in the configuration, and restart the gateway.'}<//>`}</div>
    <div class="actions">${cursors.length > 1 && html`<button type="button" onClick=${() => turn(cursors.slice(0, -1))}>Newer</button>`}
      ${data?.pagination.next_cursor && data.logs.length === ROWS && html`<button type="button" onClick=${() => turn([...cursors, data.pagination.next_cursor])}>Older</button>`}</div>`;
}

function Choice({ label, name, list = [], filters, filter }) {
  const own = filters[name];
  const all = own && !list.includes(own) ? [own, ...list] : list;
  return html`<${Field} as="select" label=${label} value=${own} set=${filter(name)} options=${[['', 'all'], ...all.map((value) => [value, visible(value)])]} />`;
}

function row(call, open) {
  return {
    key: call.id,
    isCurrent: call.id === open,
    cells: [
      html`<a class="name" href=${`#${encodeURIComponent(call.id)}`}><${Text} value=${call.tool_name} /></a>`,
      html`<${State} name=${outcomeOf(call)} />${call.error_details && html` <span class="hint"><${Text} value=${codeWords(call.error_details.code)} /></span>`}`,
      html`<${Time} at=${call.timestamp} />`,
      call.latency === null ? '' : span(call.latency),
      html`<${Text} value=${call.virtual_key_name ?? 'no key'} />`,
      originWords(call.origin),
    ].slice(0, open ? FEW : undefined),
  };
}

start(Calls);
