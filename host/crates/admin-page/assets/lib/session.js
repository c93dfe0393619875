// The operator of a page: who it is, when the login ends, and the frame of each page with both.
import { get, keepToken, noteInput, send, session as hooks } from './api.js';
import { Fault, html, render, styled, Text, useEffect, useState } from './core.js';
import { countWaiting } from './waiting.js';

/** Time before the end of a login at which the page says so. */
const WARNING_MS = 120_000;
/** Longest time of a timer. */
const MOST_MS = 2_147_483_647;
const LOGIN = '/admin/login';
/** Events of a person who uses the page. */
const INPUTS = ['click', 'input', 'keydown', 'pointerdown', 'wheel'];

/** The operator of the page, with `rights` and, for a session of the browser, `expires_at`. */
let operator;
const listeners = new Set();
let renewing;

/** Reads the session again, which counts as a use of it. */
export async function reload(options) {
  const found = await get('/api/session', options);
  hooks.csrf = found.csrf_token;
  operator = { ...found.operator, rights: found.rights ?? [], expires_at: found.session?.expires_at, hasSession: Boolean(found.session) };
  for (const listener of listeners) listener(operator);
  return operator;
}

/** Reads the session again. Returns whether it is of the same operator. */
async function again() {
  const before = operator?.name;
  return { isSame: (await reload()).name === before };
}

/** Returns the operator of the page. */
export function useOperator() {
  const [own, set] = useState(operator);
  useEffect(() => {
    listeners.add(set);
    set(operator);
    return () => listeners.delete(set);
  }, []);
  return own;
}

async function logOut() {
  try {
    if (operator?.hasSession) await send('POST', '/api/session/logout', undefined, { isLogin: true });
  } finally {
    keepToken('');
    location.assign(LOGIN);
  }
}

/** Asks for a login over the page, so that nothing typed is lost. */
export function renew() {
  renewing ??= Promise.all([import('./login.js'), styled('dialog.css')]).then(([login]) => login.ask(operator)).finally(() => {
    renewing = undefined;
  });
  return renewing;
}

/** Shows a page for the operator who is logged in. Without a login, the page of the login is opened. */
export async function start(App) {
  const place = document.getElementById('app');
  for (const input of INPUTS) addEventListener(input, noteInput, { capture: true, passive: true });
  try {
    await reload({ isLogin: true });
  } catch (error) {
    if (error.status === 401) {
      keepToken('');
      location.replace(`${LOGIN}?to=${encodeURIComponent(location.pathname + location.search + location.hash)}`);
      return;
    }
    render(html`<${Fault} error=${error} retry=${() => location.reload()} />`, place);
    place.removeAttribute('aria-busy');
    return;
  }
  Object.assign(hooks, { renew, reload: again });
  if (operator.rights.includes('approve')) countWaiting();
  render(html`<${Account} />`, document.getElementById('account'));
  render(html`<${App} />`, place);
  place.removeAttribute('aria-busy');
}

function Account() {
  const own = useOperator();
  const [Expiry, set] = useState();
  useEffect(() => {
    if (!own.expires_at) return undefined;
    const show = async () => {
      const found = await import('./login.js');
      set(() => found.Expiry);
    };
    const timer = setTimeout(show, Math.min(MOST_MS, Math.max(0, Date.parse(own.expires_at) - Date.now() - WARNING_MS)));
    return () => {
      clearTimeout(timer);
      set(undefined);
    };
  }, [own.expires_at]);
  return html`<p class="who"><${Text} value=${own.name} /> <span class="hint">${own.role}</span></p>
    <button type="button" class="small" onClick=${logOut}>Log out</button>
    ${Expiry && html`<${Expiry} at=${own.expires_at} />`}`;
}
