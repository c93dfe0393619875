// A report of a test suite → its numbers, and tables of its lists. Its form is not known: reports differ.

const MAX_ROWS = 500;
const MAX_COLUMNS = 12;
const MAX_TABLES = 12;

/** Returns `{ facts, tables }`: `facts` are pairs of a name and a text, and a table has `name`, `columns`, `rows` and `left`. */
export function reportTables(document) {
  const out = { facts: [], tables: [] };
  collect(out, '', document, 0);
  return out;
}

function collect(out, name, value, depth) {
  if (Array.isArray(value)) {
    if (out.tables.length < MAX_TABLES) out.tables.push(tableOf(name, value));
  } else if (typeof value === 'object' && value !== null && depth < 3) {
    for (const [member, inner] of Object.entries(value).slice(0, MAX_ROWS)) collect(out, name === '' ? member : `${name} ${member}`, inner, depth + 1);
  } else if (out.facts.length < MAX_ROWS) {
    out.facts.push([name === '' ? 'value' : name, shown(value)]);
  }
}

function tableOf(name, list) {
  const rows = list.slice(0, MAX_ROWS);
  const isRecord = (row) => typeof row === 'object' && row !== null && !Array.isArray(row);
  const columns = [...new Set(rows.filter(isRecord).flatMap((row) => Object.keys(row)))].slice(0, MAX_COLUMNS);
  const cells = rows.map((row) => (isRecord(row) ? columns.map((column) => (Object.hasOwn(row, column) ? shown(row[column]) : '')) : [shown(row)]));
  return { name: name === '' ? 'entries' : name, columns: columns.length > 0 ? columns : ['value'], rows: cells, left: list.length - rows.length };
}

function shown(value) {
  if (typeof value === 'string') return value;
  const text = JSON.stringify(value) ?? '';
  return text.length > 2000 ? `${text.slice(0, 2000)}…` : text;
}
