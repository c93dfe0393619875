// Set-up: what to paste into agents and programs so that they use this gateway.
import { start } from './lib/session.js';
import { Block, Copy, Field, html, useState } from './lib/ui.js';
import { agents } from './parts/agents.js';
import { KeyChoice } from './parts/key_choice.js';

function SetUp() {
  const [key, set] = useState('');
  const [chosen, choose] = useState('');
  const all = agents(location.origin, key);
  const shown = all.filter(({ name }) => chosen === '' || name === chosen);
  return html`<p>Each agent gets a virtual key of its own, which says what it may use. <a href="/admin/keys">Make one</a> if there is none.</p>
    <div class="columns"><${KeyChoice} value=${key} set=${set} none="any key" />
      <${Field} as="select" label="Agent or program" value=${chosen} set=${choose} options=${[['', 'all'], ...all.map(({ name }) => [name, name])]} /></div>
    <p class="hint">A value is shown only when a key is made, so the texts have a placeholder: put the value in its place.</p>
    <div class="cards">${shown.map(({ name, where, text, note }) => html`<section key=${name}><h2>${name}</h2><p>In ${/\.\w+$/.test(where) ? html`<code>${where}</code>` : where}:</p><${Block} value=${text} /><${Copy} text=${text} />${note && html`<p class="hint">${note}</p>`}</section>`)}</div>`;
}

start(SetUp);
