// What a page loads, its address and times.
import { get } from './api.js';
import { useEffect, useRef, useState } from './core.js';

/** Returns a time span in words with its two largest units. */
export function span(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds * 10) / 10)} ms`;
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86_400)} d ${Math.floor((seconds % 86_400) / 3600)} h`;
}

/** Returns a time span in words with its largest unit, rounded down. */
export function about(milliseconds) {
  return span(milliseconds).split(' ', 2).join(' ');
}

/** Returns the time now, again each `interval` milliseconds. */
export function useNow(interval = 1000) {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), interval);
    return () => clearInterval(timer);
  }, [interval]);
  return now;
}

/** The fragment of the link that skips the navigation, which opens nothing. */
const SKIP = '#main';

/** Returns what is behind `#` in the address, decoded. */
export function useHash() {
  const [hash, set] = useState(location.hash === SKIP ? '' : location.hash);
  useEffect(() => {
    const changed = () => location.hash !== SKIP && set(location.hash);
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  try {
    return decodeURIComponent(hash.slice(1));
  } catch {
    return hash.slice(1);
  }
}

/**
 * Loads a path, again when it changes: `{ data, error, isBusy, reload }`. What is loaded stays until there is something newer of the
 * same path. `null` loads nothing.
 */
export function useLoad(path, load = get) {
  const [state, set] = useState({});
  const [times, again] = useState(0);
  const asked = useRef(path);
  const requests = useRef(0);
  asked.current = path;
  useEffect(() => {
    if (path === null) return;
    const request = ++requests.current;
    // Answers count in the order of their requests. One is shown although a newer request runs, so that a list that changes faster
    // than it loads is not empty.
    const keep = (next) => set((old) => {
      if (asked.current !== path || old.request > request) return old;
      return { data: old.path === path ? old.data : undefined, ...next, path, times, request };
    });
    load(path).then((data) => keep({ data, error: undefined }), (error) => keep({ error }));
  }, [path, times]);
  const isOwn = state.path === path;
  return { data: isOwn ? state.data : undefined, error: isOwn ? state.error : undefined, isBusy: path !== null && !(isOwn && state.times === times), reload: () => again((old) => old + 1) };
}

/** Returns a path with parameters; empty ones are left out. */
export function pathOf(path, parameters) {
  const sent = Object.entries(parameters).filter(([, value]) => value !== '' && value !== undefined && value !== null);
  return sent.length === 0 ? path : `${path}?${new URLSearchParams(sent)}`;
}
