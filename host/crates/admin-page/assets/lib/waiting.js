// The number of calls that wait for a person, in the navigation and the title of each page.
import { get } from './api.js';

/** Time between two requests for the number. */
const EVERY_MS = 15_000;

/** Returns the title of a page with the number of calls that wait, such as `(3) Keys – Airlock`. */
export function titled(title, number) {
  return (number > 0 ? `(${number}) ` : '') + title.replace(/^\(\d+\) /, '');
}

/** Shows the number. */
export function showWaiting(number) {
  const link = document.querySelector('nav a[href="/admin/approvals"]');
  const mark = Object.assign(document.createElement('span'), { className: 'count', textContent: number });
  link.replaceChildren(link.firstChild, ...(number > 0 ? [' ', mark] : []));
  document.title = titled(document.title, number);
}

/** Keeps the number up to date while the page is seen. */
export function countWaiting() {
  const count = async () => {
    if (!document.hidden) showWaiting((await get('/v1/approvals?limit=1', { isLogin: true })).waiting_count);
  };
  // A failure is shown by the page itself: this number stays until the next one.
  const tryCount = () => count().catch(() => {});
  setInterval(tryCount, EVERY_MS);
  document.addEventListener('visibilitychange', tryCount);
  return tryCount();
}
