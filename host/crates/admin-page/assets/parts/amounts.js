// Limits in words and numbers: amounts, windows, and how much is used.

const UNITS = { m: 'minute', h: 'hour', d: 'day', w: 'week', M: 'month', Q: 'quarter', Y: 'year' };
/** Days of a rolling window whose unit has no fixed length. */
const ROLLING_DAYS = { M: 30, Q: 90, Y: 365 };
const WORDS = { daily: '1d', weekly: '1w', monthly: '1M', yearly: '1Y' };
const MEASURES = { request: 'Requests to models', token: 'Tokens', tool_call: 'Calls of tools', argument_byte: 'Bytes of arguments' };
/** Part of a limit from which its bar is marked. */
const NEAR = 0.8;

const NUMBERS = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const DOLLARS = new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD', maximumFractionDigits: 6 });

export function dollars(amount) {
  return DOLLARS.format(amount);
}

export function count(amount) {
  return NUMBERS.format(amount);
}

/** Returns a window in words, such as "30 days" or "calendar month"; a text that is no window as it is. */
export function windowText(duration, isCalendar) {
  if (duration === 'never') return 'all time';
  const text = WORDS[duration] ?? duration;
  const [, digits, unit] = /^(\d{1,6})([mhdwMQY])$/.exec(text) ?? [];
  if (unit === undefined) return String(duration);
  const length = Number(digits);
  if (isCalendar && length === 1 && unit !== 'm' && unit !== 'h') return `calendar ${UNITS[unit]}`;
  const days = ROLLING_DAYS[unit];
  return days === undefined ? plural(length, UNITS[unit]) : plural(length * days, 'day');
}

function plural(number, unit) {
  return `${number} ${unit}${number === 1 ? '' : 's'}`;
}

/**
 * Returns how much of a limit is used: `percent` (0 to 100, never 100 before the limit is reached), `level` (`low`, `near`,
 * `full` or `unknown`) and its `word`.
 */
export function usage(used, reserved, most) {
  if (typeof used !== 'number') return { percent: 0, level: 'unknown', word: 'not counted here' };
  const taken = used + (reserved ?? 0);
  if (taken >= most) return { percent: 100, level: 'full', word: 'reached' };
  const percent = Math.floor((taken / most) * 100);
  return taken / most >= NEAR ? { percent, level: 'near', word: 'almost reached' } : { percent, level: 'low', word: 'available' };
}

/** Returns a budget as a row: `{ what, window, used, most, reset, … }`. */
export function budgetRow(budget) {
  const most = budget.effective_max_limit ?? budget.max_limit;
  return {
    what: 'Money',
    window: windowText(budget.reset_duration, budget.calendar_aligned),
    ...usage(budget.current_usage, budget.reserved, most),
    used: typeof budget.current_usage === 'number' ? dollars(budget.current_usage) : '?',
    reserved: budget.reserved > 0 ? dollars(budget.reserved) : '',
    most: dollars(most),
    reset: budget.next_reset ?? '',
    raise: budget.override_amount === undefined ? '' : dollars(budget.override_amount),
    raiseEnds: budget.override_until ?? '',
    id: budget.id,
  };
}

/** Returns the rows of an element of the list of rate limits. */
export function rateRows(limit) {
  const rows = Object.entries(MEASURES).filter(([measure]) => limit[`${measure}_max_limit`] !== undefined);
  const counted = rows.map(([measure, what]) => {
    const member = (name) => limit[`${measure}_${name}`];
    const used = member('current_usage');
    return {
      what,
      window: windowText(member('reset_duration'), limit.calendar_aligned),
      ...usage(used, member('reserved'), member('max_limit')),
      used: typeof used === 'number' ? count(used) : '?',
      reserved: member('reserved') > 0 ? count(member('reserved')) : '',
      most: count(member('max_limit')),
      reset: member('next_reset') ?? '',
    };
  });
  if (limit.max_concurrent === undefined) return counted;
  const running = limit.current_concurrent;
  const concurrent = { what: 'At the same time', window: '', used: typeof running === 'number' ? count(running) : '?' };
  return [...counted, { ...concurrent, ...usage(running, 0, limit.max_concurrent), reserved: '', most: count(limit.max_concurrent), reset: '' }];
}

/** Returns whose limit it is: `{ kind, name, scope }`. */
export function ownerOf(limit) {
  const kinds = { virtual_key_id: 'Key', team_id: 'Team', customer_id: 'Customer' };
  const [member, kind] = Object.entries(kinds).find(([name]) => limit[name] !== undefined) ?? [];
  const scopes = [
    limit.model_name === undefined ? '' : `model ${limit.model_name}${limit.provider ? ` of ${limit.provider}` : ''}`,
    limit.mcp_client_name === undefined ? '' : `server ${limit.mcp_client_name}`,
    limit.tool === undefined ? '' : `tool ${limit.tool}`,
  ];
  return { kind: kind ?? 'All callers', name: limit.owner_name ?? limit[member] ?? '', scope: scopes.filter(Boolean).join(', ') };
}

/** Reads an amount that a person has typed: `{ amount }` or `{ fault }`. An empty text is no limit. */
export function readAmount(text, isWhole) {
  const typed = text.trim().replace(/^\$/, '').replaceAll(/[ _,](?=\d{3})/g, '');
  if (typed === '') return {};
  const isValid = isWhole ? /^\d{1,15}$/.test(typed) : /^\d{1,12}(\.\d{1,6})?$/.test(typed);
  return isValid ? { amount: Number(typed) } : { fault: `must be a ${isWhole ? 'whole number, such as 100' : 'number of dollars, such as 2.50'}` };
}
