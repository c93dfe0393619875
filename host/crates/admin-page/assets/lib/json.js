// JSON as it was written: texts of numbers, escapes, and members that occur twice stay as they are. Only spaces between
// tokens are new, because what is shown here is what will be sent.

/** Spaces or a token, but no string: a browser has no room for the steps of an expression over a long one. */
const TOKEN = /\s+|[{}[\],:]|[^\s"{}[\],:]+/y;
/** Depth beyond which a document is shown as it came. */
const MOST_DEPTH = 100;

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
