// What operators type about keys → members of the API: rows of tools, and limits.
import { readAmount } from './amounts.js';

/** Windows that a person chooses from. */
export const WINDOWS = [['1m', 'minute'], ['1h', 'hour'], ['1d', 'day'], ['1w', 'week'], ['1M', '30 days'], ['1Y', '365 days'], ['never', 'all time']];

/** Members of a row that the text of tools can show. */
const SIMPLE = ['mcp_client_name', 'tools_to_execute'];

/** Returns rows of `mcp_configs` as text, one server a line; `null` if they have more than that. */
export function toolsText(rows) {
  const isSimple = (row) => Object.entries(row).every(([name, value]) => SIMPLE.includes(name) || value === null || (Array.isArray(value) && value.length === 0));
  if (!rows.every((row) => isSimple(row) && Array.isArray(row.tools_to_execute))) return null;
  return rows.map((row) => (row.tools_to_execute.includes('*') ? row.mcp_client_name : `${row.mcp_client_name}: ${row.tools_to_execute.join(', ')}`)).join('\n');
}

/** Reads such a text: `{ rows, faults }`. */
export function readTools(text) {
  const faults = [];
  const rows = text.split('\n').map((line) => line.trim()).filter(Boolean).map((line) => {
    const at = line.indexOf(':');
    const name = at < 0 ? line : line.slice(0, at).trim();
    const tools = at < 0 ? ['*'] : line.slice(at + 1).split(',').map((tool) => tool.trim()).filter(Boolean);
    if (name === '' || /\s/.test(name) || tools.length === 0) faults.push(`"${line}" is not a server, or a server and its tools, such as files: read_file, list_directory`);
    return { mcp_client_name: name, tools_to_execute: tools };
  });
  return { rows, faults };
}

const RATES = ['tool_call', 'argument_byte', 'request', 'token'];

/** The limits of an element as a person edits them: texts and windows. Has `isOdd` if it has more than that. */
export function limitsForm(element) {
  const budgets = element.budgets ?? [];
  const rate = element.rate_limit ?? {};
  const [first] = budgets;
  const isOdd = budgets.length > 1 || Object.keys(first ?? {}).some((name) => !['id', 'max_limit', 'reset_duration'].includes(name));
  const rates = RATES.flatMap((name) => [[name, textOf(rate[`${name}_max_limit`])], [`${name}_window`, rate[`${name}_reset_duration`] ?? '1m']]);
  return { isOdd, money: textOf(first?.max_limit), money_window: first?.reset_duration ?? '1M', concurrent: textOf(rate.max_concurrent), ...Object.fromEntries(rates) };
}

function textOf(number) {
  return number === undefined || number === null ? '' : String(number);
}

/** Returns the members of such a form: `{ body, faults }`. Budgets that the form cannot show stay as they are. */
export function limitsBody(form) {
  const faults = [];
  const read = (name, label, isWhole) => {
    const { amount, fault } = readAmount(form[name], isWhole);
    if (fault) faults.push(`${label} ${fault}`);
    return amount;
  };
  const body = { rate_limit: {} };
  if (!form.isOdd) {
    const money = read('money', 'Money', false);
    body.budgets = money === undefined ? [] : [{ max_limit: money, reset_duration: form.money_window }];
  }
  for (const name of RATES) {
    const amount = read(name, name.replace('_', ' '), true);
    if (amount !== undefined) Object.assign(body.rate_limit, { [`${name}_max_limit`]: amount, [`${name}_reset_duration`]: form[`${name}_window`] });
  }
  const concurrent = read('concurrent', 'At the same time', true);
  if (concurrent !== undefined) body.rate_limit.max_concurrent = concurrent;
  return { body, faults };
}
