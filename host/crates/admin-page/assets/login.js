// The login of an operator, and the set-up of a gateway that has none yet.
import { send } from './lib/api.js';
import { destination, logIn, LoginForm } from './lib/login.js';
import { Copy, Fault, Field, html, render, useState } from './lib/ui.js';

function Login() {
  const to = destination();
  return html`<${LoginForm} returnTo=${to} done=${() => location.assign(to)} /><${SetUp} to=${to} />`;
}

/** Makes the first operator with the setup token, and shows its token once. */
function SetUp({ to }) {
  const [value, set] = useState('');
  const [state, setState] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    setState({ isBusy: true });
    try {
      const { token } = await send('POST', '/api/session/setup', {}, { headers: { 'x-airlock-setup-token': value.trim() }, isLogin: true });
      setState({ token });
    } catch (error) {
      setState({ error });
    }
  };
  const enter = async () => {
    await logIn(state.token);
    location.assign(to);
  };
  if (state.token) {
    return html`<section><h2>You are the first operator</h2><p>This is your token. It is shown only now: keep it where you keep passwords.</p>
      <p><code>${state.token}</code></p><div class="actions"><${Copy} text=${state.token} /><button type="button" class="primary" onClick=${enter}>Go on</button></div></section>`;
  }
  return html`<details><summary>Set up a new gateway</summary>
    <p class="hint">A gateway without operators prints a setup token on stderr when it starts. It makes the first administrator.</p>
    <form onSubmit=${submit}><${Field} label="Setup token" placeholder="setup_…" required value=${value} set=${set} />
      <${Fault} error=${state.error} /><button disabled=${state.isBusy}>Make the first operator</button></form></details>`;
}

const place = document.getElementById('app');
render(html`<${Login} />`, place);
place.removeAttribute('aria-busy');
