// Tables, facts and times, and what `load.js` has.
import { html } from './core.js';
import { isAmount } from './text.js';

export * from './load.js';

/**
 * A table; on a narrow screen, each row becomes a block, with `plain` as the number of columns that need no heading there: its
 * cells are then in lines. `columns` are headings, `rows` have a `key` and `cells`. Columns of amounts are
 * right-aligned. The roles are written out, because browsers take them away from what is shown as a block.
 */
export function Table({ label, columns, rows, plain }) {
  const classes = columns.map((_, at) => (isAmount(rows.map(({ cells }) => cells[at]?.props?.value ?? cells[at])) ? 'amount' : ''));
  const cell = (content, at) => html`<${at === 0 ? 'th' : 'td'} role=${at === 0 ? 'rowheader' : 'cell'} class=${`${classes[at]} ${!content ? 'none' : at < plain ? 'plain' : ''}`}>
    ${at > 0 && html`<span class="column" aria-hidden="true">${columns[at]}</span>`}<div>${content}</div><//>`;
  return html`<div class=${plain ? 'scroll compact' : 'scroll'} tabindex="0" role="region" aria-label=${label}><table role="table" aria-label=${label}>
    <thead role="rowgroup"><tr role="row">${columns.map((column, at) => html`<th role="columnheader" scope="col" class=${classes[at]}>${column}</th>`)}</tr></thead>
    <tbody role="rowgroup">${rows.map(({ key, cells, isCurrent }) => html`<tr role="row" key=${key} aria-current=${isCurrent ? 'true' : undefined}>${cells.map(cell)}</tr>`)}</tbody>
  </table></div>`;
}

/** Pairs of a term and its content; those without content are left out. */
export function Facts({ rows }) {
  const shown = rows.filter(([, value]) => value !== undefined && value !== null && value !== false && value !== '');
  return html`<dl class="facts">${shown.map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl>`;
}

/** A time of this browser's zone, such as `2026-01-31 14:05:09`. */
export function Time({ at }) {
  const date = new Date(at ?? Number.NaN);
  return Number.isNaN(date.getTime()) ? null : html`<time datetime=${date.toISOString()}>${date.toLocaleString('sv-SE')}</time>`;
}
