import { readFileSync } from 'node:fs';

/** Kinds of requests whose tables have names. */
const NAMED = ['http', 'secret', 'kv', 'files', 'slot'];
const HEADER = /^\[\[?\s*([\w."'*\s-]+?)\s*\]\]?$/;
const MEMBER = /^("[^"]*"|'[^']*'|[\w.-]+)\s*=\s*(.*)$/;

/**
 * Reads the requests in the `plugin.toml` of a directory: for each kind a map from the names to the text of their members. Undefined if
 * there is no such file. Reads as much of TOML as a `plugin.toml` has; the build reads it all.
 */
export function requests(directory = '.') {
  let text;
  try {
    text = readFileSync(`${directory}/plugin.toml`, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
  const found = new Map();
  let table = [];
  for (const raw of text.split('\n')) {
    const line = raw.replace(/^((?:[^#"']|"(?:\\.|[^"\\])*"|'[^']*')*)#.*$/, '$1').trim();
    const header = HEADER.exec(line);
    if (header) {
      table = parts(header[1]);
      add(found, table);
      continue;
    }
    const member = MEMBER.exec(line);
    if (member) add(found, [...table, ...parts(member[1])], member[2]);
  }
  return found;
}

/** Splits a key at its dots. */
const parts = (key) => key.match(/"[^"]*"|'[^']*'|[\w*-]+/g).map((part) => part.replace(/^["']|["']$/g, ''));

/** Adds what a key says about a request: `request.KIND.NAME` and below, or a request without a name. */
function add(found, [first, kind, ...rest], value = '') {
  if (first === 'config') found.set('config', new Map([['', '']]));
  if (first !== 'request' || !kind) return;
  const name = NAMED.includes(kind) ? rest.shift() : '';
  if (name === undefined) return;
  const named = found.get(kind) ?? new Map();
  named.set(name, `${named.get(name) ?? ''}${rest.length > 0 ? `${rest.join('.')} = ${value}` : value}\n`);
  found.set(kind, named);
}
