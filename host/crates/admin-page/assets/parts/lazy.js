// A component whose module is loaded when it is shown for the first time.
import { Fault, html, useEffect, useState } from '../lib/ui.js';

export function lazy(load, name) {
  return function Lazy(properties) {
    const [state, set] = useState({});
    useEffect(() => {
      load().then((module) => set({ Component: module[name] }), (error) => set({ error }));
    }, []);
    if (state.Component) return html`<${state.Component} ...${properties} />`;
    return state.error ? html`<${Fault} error=${state.error} />` : html`<span aria-busy="true"></span>`;
  };
}
