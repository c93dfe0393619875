// Keys of a page. They are off while a person types or a dialog is open, and can be turned off (WCAG 2.1.4).
import { html, lazy, useEffect, useRef, useState } from '../lib/core.js';

const Help = lazy(() => import('./keys_help.js'), 'Help', 'detail.css', 'dialog.css');

/** Where this browser keeps that the keys are off. */
const SETTING = 'airlock.keys';

/** Calls `actions[key]` for keys that are pressed alone. `?` opens the list of keys, which is returned with its button. */
export function useKeys(actions) {
  const [isOpen, open] = useState(false);
  const [isOn, turn] = useState(localStorage.getItem(SETTING) !== 'off');
  const latest = useRef();
  latest.current = { ...actions, '?': () => open(true) };
  useEffect(() => {
    if (!isOn) return undefined;
    const pressed = (event) => {
      const isTyping = event.target.closest?.('input, textarea, select, dialog');
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
      const action = latest.current[event.key];
      if (!action) return;
      event.preventDefault();
      action();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, [isOn]);
  const set = (on) => {
    localStorage.setItem(SETTING, on ? 'on' : 'off');
    turn(on);
  };
  return html`<button type="button" class="small" onClick=${() => open(true)}>Shortcuts</button>
    ${isOpen && html`<${Help} ...${{ isOn, set }} close=${() => open(false)} />`}`;
}
