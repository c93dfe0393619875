// Approvals: the calls that wait for a person, and one of them with all that is known of it.
import { get } from './lib/api.js';
import { Empty, Fault, html, lazy, useEffect, useMemo, useRef, useState } from './lib/core.js';
import { useHash, useLoad } from './lib/load.js';
import { start, useOperator } from './lib/session.js';
import { showWaiting } from './lib/waiting.js';
import { useKeys } from './work/keys.js';
import { Live, useEvents, useThrottle } from './work/live.js';
import { useFrozen, WaitingList } from './work/waiting_list.js';

const WaitingCall = lazy(() => import('./work/waiting_call.js'), 'WaitingCall', 'detail.css', 'dialog.css');
/** Calls of one request, and most requests for the list. */
const ROWS = 1000;
const MOST_PAGES = 5;
/** Width from which the list is beside the call. */
const WIDE = matchMedia('(min-width: 62rem)');

/** Loads all calls that wait, page by page. */
async function all(path) {
  const data = [];
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const part = await get(`${path}?limit=${ROWS}&offset=${data.length}`);
    data.push(...part.data);
    if (!part.has_more || part.data.length === 0) return { data, isPartial: false };
  }
  return { data, isPartial: true };
}

function useWide() {
  const [isWide, set] = useState(WIDE.matches);
  useEffect(() => {
    const changed = () => set(WIDE.matches);
    WIDE.addEventListener('change', changed);
    return () => WIDE.removeEventListener('change', changed);
  }, []);
  return isWide;
}

function Approvals() {
  const own = useOperator();
  if (!own.rights.includes('approve')) return html`<${Empty}>Your role ${own.role} does not decide about calls that wait, and does not see them. An administrator gives the role <code>approver</code>.<//>`;
  return html`<${Inbox} />`;
}

function Inbox() {
  const { data, error, isBusy, reload } = useLoad('/v1/approvals', all);
  const [version, setVersion] = useState(0);
  const open = useHash();
  const list = useRef();
  const actions = useRef({});
  const latest = useMemo(() => data?.data.filter((call) => call.state === 'pending').toSorted((one, other) => one.created_at_ms - other.created_at_ms), [data]);
  const frozen = useFrozen(latest);
  useEffect(() => {
    if (latest) showWaiting(latest.length);
  }, [latest]);
  // A long list is not loaded for each of many changes.
  const refresh = useThrottle(reload, latest?.length > 200 ? 3_000 : 400);
  const refreshOpen = useThrottle(() => setVersion((old) => old + 1), 400);
  const state = useEvents(['approvals', 'config'], ({ data: change }) => {
    refresh();
    if (change.id === undefined || change.id === open) refreshOpen();
  });
  const keys = useKeys({
    j: () => move(1, list.current, frozen.calls ?? [], open), k: () => move(-1, list.current, frozen.calls ?? [], open), n: frozen.update,
    a: () => actions.current.approve?.(), d: () => actions.current.deny?.(),
  });
  const current = frozen.calls?.find((call) => call.id === open);
  // A manifest has calls of several tools, and is approved by itself.
  const alike = (latest ?? []).filter((call) => call.tool === current?.tool && !call.manifest);
  const isWide = useWide();
  const isListed = isWide || open === '';
  return html`<div class="toolbar"><${Live} state=${state} />${keys}</div>
    <${Fault} error=${error} retry=${reload} />
    <div class=${open ? 'inbox is-open' : 'inbox'} aria-busy=${isBusy && !data}>
      ${isListed && frozen.calls && html`<section class="list" aria-label="Calls that wait"><${WaitingList} ...${frozen} ...${{ open, list }} isPartial=${data?.isPartial} /></section>`}
      ${open ? html`<section class="detail" aria-label="Call"><${WaitingCall} key=${open} id=${open} ...${{ version, alike, actions }} changed=${refresh} /></section>`
        : isWide && frozen.calls?.length > 0 && html`<${Empty}>Choose a call to see what will be sent, who asks, and what the tool does.<//>`}
    </div>`;
}

/** Moves the focus in the list, or opens the next call where the list is not shown. */
function move(step, list, calls, open) {
  const links = [...(list?.querySelectorAll('a') ?? [])];
  const focused = links.indexOf(document.activeElement);
  const ids = list ? links.map((link) => link.dataset.id) : calls.map((call) => call.id);
  const at = focused >= 0 ? focused + step : ids.indexOf(open) + step;
  const next = Math.min(ids.length - 1, Math.max(0, at));
  if (list) links[next]?.focus();
  else if (next >= 0) location.hash = encodeURIComponent(ids[next]);
}

start(Approvals);
