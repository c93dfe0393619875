// The line of curl of a request, folded.
import { Block, Copy, html } from '../lib/ui.js';
import { curlLine } from './curl.js';

/** The same request as a line of curl, folded. */
export function Curl({ request }) {
  const line = curlLine(location.origin, request);
  return html`<details class="curl"><summary>Same request with curl</summary><${Block} value=${line} /><${Copy} text=${line} /></details>`;
}
