// The upload of a component, which then waits to be accepted.
import { sendFile } from '../lib/api.js';
import { pathOf } from '../lib/list.js';
import { Fault, Field, html, useId, useState } from '../lib/ui.js';
import { Curl } from './curl_view.js';

const MOST_BYTES = 64 << 20;

export function Upload() {
  const [file, setFile] = useState();
  const [name, setName] = useState('');
  const [state, set] = useState({});
  const id = useId();
  const path = pathOf('/api/plugins', { name: name.trim() });
  const submit = async (event) => {
    event.preventDefault();
    if (!file) return set({ error: { message: 'Choose a component, a file that ends with .wasm' } });
    if (file.size > MOST_BYTES) return set({ error: { message: 'The component has more than 64 MiB, which is refused' } });
    set({ isBusy: true });
    try {
      const plugin = await sendFile('POST', path, file);
      location.hash = `plugin=${encodeURIComponent(plugin.name ?? plugin.plugin?.name ?? name)}`;
    } catch (error) {
      set({ error });
    }
    return undefined;
  };
  return html`<p><a href="#">All plugins</a></p><h2>Upload a plugin</h2><form onSubmit=${submit}>
    <div class="field"><label for=${id}>Component</label><input id=${id} type="file" accept=".wasm,application/wasm" onChange=${(event) => setFile(event.currentTarget.files[0])} /></div>
    <${Field} label="Name" hint="Empty: the id that the component gives itself. The name of an uploaded plugin gives that one another version, which waits too" value=${name} set=${setName} />
    <${Fault} error=${state.error} /><p role="status">${state.isBusy && 'The component is sent and compiled. This may take minutes.'}</p>
    <div class="actions"><button class="primary" type="submit" disabled=${state.isBusy}>Upload</button></div>
    <${Curl} request=${{ method: 'POST', path, file: 'plugin.wasm' }} /></form>`;
}
