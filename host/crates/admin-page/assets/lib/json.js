// JSON as it was written: texts of numbers, escapes, and members that occur twice stay as they are. Only spaces between
// tokens are new, because what is shown here is what will be sent.

/** Spaces or a token, but no string: a browser has no room for the steps of an expression over a long one. */
const TOKEN = /\s+|[{}[\],:]|[^\s"{}[\],:]+/y;
/** Depth beyond which a document is shown as it came. */
const MOST_DEPTH = 100;
/** Digits that every number of a browser keeps. */
const KEPT_DIGITS = 15;

/** A number as it was written, which a number of the browser would round. */
export class LongNumber {
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }

  valueOf() {
    return Number(this.text);
  }
}

/** Returns the tokens of a document without the spaces between them; `undefined` if it is not JSON. */
export function tokens(text) {
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  const found = [];
  for (let at = 0, end; at < text.length; at = end) {
    end = text[at] === '"' ? stringEnd(text, at) : tokenEnd(text, at);
    if (!/\s/.test(text[at])) found.push(text.slice(at, end));
  }
  return found;
}

function stringEnd(text, start) {
  let at = start + 1;
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
  return at + 1;
}

function tokenEnd(text, start) {
  TOKEN.lastIndex = start;
  TOKEN.exec(text);
  return TOKEN.lastIndex;
}

/**
 * Returns the tokens with the spaces that make them readable: `{ space, text, kind }`, where `kind` is `name`, `string`,
 * `value` or `mark`. `undefined` if the text is not JSON, or is nested too deeply.
 */
export function layout(text) {
  const all = tokens(text);
  if (all === undefined) return undefined;
  const found = [];
  let depth = 0;
  let isFresh = true;
  for (const [at, token] of all.entries()) {
    const isEnd = token === '}' || token === ']';
    if (isEnd) depth -= 1;
    const isEmpty = isEnd && /^[{[]$/.test(all[at - 1]);
    const isNewLine = at > 0 && ((isEnd && !isEmpty) || (isFresh && !isEnd));
    const space = isNewLine ? `\n${'  '.repeat(depth)}` : all[at - 1] === ':' ? ' ' : '';
    found.push({ space, text: token, kind: kindOf(token, all[at + 1]) });
    if (token === '{' || token === '[') depth += 1;
    if (depth > MOST_DEPTH) return undefined;
    isFresh = token === '{' || token === '[' || token === ',';
  }
  return found;
}

function kindOf(token, next) {
  if (token.startsWith('"')) return next === ':' ? 'name' : 'string';
  return /^[{}[\],:]$/.test(token) ? 'mark' : 'value';
}

/** Returns the document with line breaks and indentation; as it is if it is not JSON. */
export function pretty(text) {
  const found = layout(text);
  return found === undefined ? text : found.map((token) => token.space + token.text).join('');
}

/**
 * Returns the members of an object as `[name, text]`, or the elements of an array as `[index, text]`, each as it was
 * written. Empty for other documents.
 */
export function parts(text) {
  const all = tokens(text) ?? [];
  const isObject = all[0] === '{';
  if (!isObject && all[0] !== '[') return [];
  const found = [];
  let depth = 0;
  let own = [];
  for (const token of all.slice(1)) {
    if (depth === 0 && (token === ',' || token === '}' || token === ']')) {
      if (own.length > 0) found.push(part(own, isObject, found.length));
      own = [];
      continue;
    }
    if (token === '{' || token === '[') depth += 1;
    if (token === '}' || token === ']') depth -= 1;
    own.push(token);
  }
  return found;
}

function part(own, isObject, index) {
  return isObject ? [JSON.parse(own[0]), own.slice(2).join('')] : [index, own.join('')];
}

/** Returns the text of the last member with a name, as programs read it; `undefined` if there is none. */
export function member(text, name) {
  return parts(text).findLast(([found]) => found === name)?.[1];
}

/** Returns what `JSON.parse` returns, with a `LongNumber` for each number that would be rounded. */
export function exact(text) {
  const rest = (tokens(text) ?? JSON.parse(text)).values();
  return valueFrom(rest.next().value, rest);
}

/** Returns the value that begins with a token; `rest` has the tokens behind it. */
function valueFrom(token, rest) {
  const found = [];
  if (token === '[') {
    for (const next of until(']', rest)) found.push(valueFrom(next, rest));
    return found;
  }
  if (token !== '{') return isLong(token) ? new LongNumber(token) : JSON.parse(token);
  for (const name of until('}', rest)) {
    rest.next();
    found.push([JSON.parse(name), valueFrom(rest.next().value, rest)]);
  }
  return Object.fromEntries(found);
}

/** Yields the first token of each element or member, up to the end of the array or object. */
function* until(end, rest) {
  for (const token of rest) {
    if (token === end) return;
    if (token !== ',') yield token;
  }
}

function isLong(token) {
  if (!/^[-\d]/.test(token)) return false;
  return token.replace(/e.*/i, '').replaceAll(/\D/g, '').length > KEPT_DIGITS || !Number.isFinite(Number(token));
}

/** Writes a value of `exact` as JSON; `undefined` if it is undefined. */
export function jsonText(value) {
  if (value instanceof LongNumber) return value.text;
  if (Array.isArray(value)) return `[${value.map(jsonText).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, inner]) => `${JSON.stringify(name)}:${jsonText(inner)}`).join(',')}}`;
}
