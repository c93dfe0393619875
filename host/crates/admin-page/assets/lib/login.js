// The login: by the token of an operator, or at the identity provider. It is a page, and a dialog over the others.
import { get, keepToken, reached } from './api.js';
import { reload, renew } from './session.js';
import { Dialog, Fault, Field, html, render, Text, useEffect, useRef, useState } from './ui.js';

/**
 * The form. `done` is called after a login; that at the identity provider, if the gateway has one, leads to `returnTo`, in
 * another tab if it `isInPlace`.
 */
export function LoginForm({ done, returnTo, isInPlace }) {
  const [value, set] = useState('');
  const [state, setState] = useState({});
  const [hasProvider, setProvider] = useState(false);
  useEffect(() => {
    // Without a response, only the login with a token is offered.
    readMethods().then((methods) => setProvider(methods.identity_provider), () => {});
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setState({ isBusy: true });
    try {
      await logIn(value.trim());
      done();
    } catch (error) {
      setState({ error: error.status === 401 ? { message: 'This is not the token of an operator, or it has been revoked or has expired.' } : error });
    }
  };
  return html`<form onSubmit=${submit}>
    <${Field} label="Operator token" type="password" name="password" autocomplete="current-password" required autofocus=${isInPlace} value=${value} set=${set}
      placeholder="alop_…" hint="It is kept in this tab until you close it or log out." />
    <${Fault} error=${state.error} />
    <div class="actions"><button class="primary" disabled=${state.isBusy}>Log in</button>
      ${hasProvider && html`<a class="button" href=${`/api/session/login?return_to=${encodeURIComponent(returnTo)}`} target=${isInPlace ? '_blank' : undefined} rel="noopener">Use the identity provider</a>`}</div>
  </form>`;
}

/** Returns the methods of login. The request needs no credential. */
async function readMethods() {
  return (await reached('/admin/login.json', { cache: 'no-store', redirect: 'error' })).json();
}

/** Logs in with a token. Fails if it is not the token of an operator, and keeps the one before then. */
export async function logIn(value) {
  await get('/api/session', { ownToken: value, isLogin: true });
  keepToken(value);
  return reload({ isLogin: true });
}

/** Asks for a login in place of that of `operator`. Returns `{ isSame }`, or nothing if the person declines. */
export async function ask(operator) {
  const place = document.body.appendChild(document.createElement('div'));
  const isDone = await new Promise((resolve) => render(html`<${LoginDialog} name=${operator?.name} close=${resolve} />`, place));
  render(null, place);
  place.remove();
  return isDone ? { isSame: (await reload({ isLogin: true })).name === operator?.name } : undefined;
}

/** The login over a page whose login has ended. `close` gets whether there is a login now. */
function LoginDialog({ name, close }) {
  // A login at the identity provider happens in another tab; this one sees it when the person comes back.
  useEffect(() => {
    const returned = () => reload({ isLogin: true }).then(() => close(true), () => {});
    addEventListener('focus', returned);
    return () => removeEventListener('focus', returned);
  }, []);
  const isDone = useRef(false);
  // The dialog is closed before it is removed, so that the focus is where it was.
  const finish = (end) => () => {
    isDone.current = true;
    end();
  };
  return html`<${Dialog} title="Your login has ended" close=${() => close(isDone.current)}>${(end) => html`
    <p>${name && html`You were <${Text} value=${name} />. `}Log in again to go on here. Nothing that you have typed is lost.</p>
    <${LoginForm} isInPlace returnTo="/admin/approvals" done=${finish(end)} />`}<//>`;
}

/** Says that a login is about to end, with a button that extends it. */
export function Expiry({ at }) {
  const [isFinal, setFinal] = useState(false);
  const extend = async () => {
    try {
      // With a later end, this notice is removed.
      setFinal((await reload()).expires_at === at);
    } catch {
      setFinal(true);
    }
  };
  const time = new Date(at).toLocaleTimeString('sv-SE', { timeStyle: 'short' });
  return html`<div class="notice expiry" role="alert"><p>Your login ends at ${time}.${isFinal && ' It cannot be extended any more.'}</p>
    ${isFinal ? html`<button type="button" onClick=${renew}>Log in again</button>` : html`<button type="button" onClick=${extend}>Stay logged in</button>`}</div>`;
}

/** Returns the address of this gateway's page to which a login leads: the parameter `to`, if it is one. */
export function destination(search = location.search, origin = location.origin) {
  const first = '/admin/approvals';
  const to = new URLSearchParams(search).get('to') ?? first;
  const url = URL.canParse(to, origin) ? new URL(to, origin) : undefined;
  const isOwn = url?.origin === origin && /^\/admin\/[a-z]+$/.test(url.pathname) && url.pathname !== '/admin/login';
  return isOwn ? url.pathname + url.search + url.hash : first;
}
