// Reports of test suites whose documents the operator has put in the directory.
import { Facts, useLoad } from './lib/list.js';
import { start } from './lib/session.js';
import { Empty, Fault, html, Text, visible } from './lib/ui.js';
import { Rows, when } from './parts/lists.js';
import { reportTables } from './parts/report_tables.js';

function Reports() {
  const { data, error, isBusy } = useLoad('/api/reports');
  return html`<${Fault} error=${error} /><div aria-busy=${isBusy}>${data?.data.map((report) => html`<${Report} key=${report.name} report=${report} />`)}
    ${data?.data.length === 0 && html`<${Empty}>There is no report. Write one with <code>make hostile HOSTILE=--json</code> or <code>make chaos CHAOS=--json</code> into a directory, and name it in <code>management.reports</code>.<//>`}</div>`;
}

function Report({ report }) {
  const { facts, tables } = report.problem ? { facts: [], tables: [] } : reportTables(report.document);
  return html`<section><h2><${Text} value=${report.name} /></h2>${report.modified_at_ms && html`<p class="hint">written ${when(report.modified_at_ms)}</p>`}
    ${report.problem && html`<p class="notice"><${Text} value=${report.problem} /></p>`}
    <${Facts} rows=${facts.map(([name, value]) => [html`<${Text} value=${name} />`, html`<${Text} value=${value} />`])} />
    ${tables.map((table) => html`<h3><${Text} value=${table.name} /></h3><${Rows} label=${visible(`${report.name}: ${table.name}`)} columns=${table.columns.map((column) => html`<${Text} value=${column} />`)} rows=${table.rows.map((row) => row.map((cell) => html`<${Text} value=${cell} />`))} />
      ${table.left > 0 && html`<p>${table.left} more rows are not shown.</p>`}`)}</section>`;
}

start(Reports);
