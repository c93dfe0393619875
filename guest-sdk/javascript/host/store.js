import { failed } from './failed.js';

const KEY_MAX = 512;
const VALUE_MAX = 1 << 20;
const KEYS_MAX = 1000;
/** Most bytes that one host call returns, unless more are granted. */
const COPIED_MAX = 8 << 20;

/** A store in memory, as the contract has it: no quota, and its time stands still. */
export class Store {
  #entries = new Map();
  #last = 0n;

  get(key) {
    check(key);
    return this.#entries.get(key);
  }

  getMany(keys) {
    if (keys.length > KEYS_MAX) throw failed({ tag: 'too-large' });
    const entries = keys.map((key) => this.get(key));
    const bytes = entries.reduce((sum, entry) => sum + (entry?.value.length ?? 0), 0);
    if (bytes > COPIED_MAX) throw failed({ tag: 'too-large' });
    return entries;
  }

  set(key, value, ifVersion, ttlMs) {
    check(key, value);
    this.#expect(key, ifVersion);
    this.#entries.set(key, { value, version: ++this.#last });
    if (ttlMs === 0n) this.#entries.delete(key);
    return this.#last;
  }

  delete(key, ifVersion) {
    check(key);
    this.#expect(key, ifVersion);
    return this.#entries.delete(key);
  }

  keys(prefix, cursor, limit) {
    const sorted = [...this.#entries.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    const from = cursor === undefined ? 0 : sorted.indexOf(cursor) + 1;
    const keys = sorted.slice(from).filter((key) => key.startsWith(prefix));
    return { keys: keys.slice(0, limit), next: keys.length > limit ? keys[limit - 1] : undefined };
  }

  #expect(key, version) {
    if (version !== undefined && version !== (this.#entries.get(key)?.version ?? 0n)) throw failed({ tag: 'conflict' });
  }
}

function check(key, value = '') {
  const size = Buffer.byteLength(key);
  if (size < 1 || size > KEY_MAX || value.length > VALUE_MAX) throw failed({ tag: 'too-large' });
}
