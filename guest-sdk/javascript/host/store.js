import { failed } from './failed.js';

const KEY_MAX = 512;
const VALUE_MAX = 1 << 20;
const KEYS_MAX = 1000;
/** Most bytes of the values of one reading: those that the host copies at once by default. */
const READ_MAX = 8 << 20;
/** Bytes that an entry counts besides its key and its value. */
const ENTRY_BYTES = 64;

/** A store in memory, as the contract has it. Its time stands still. */
export class Store {
  #entries = new Map();
  #last = 0n;
  #quota;

  constructor(quota = Infinity) {
    this.#quota = quota;
  }

  get(key) {
    check(key);
    return this.#entries.get(key);
  }

  getMany(keys) {
    if (keys.length > KEYS_MAX) throw failed({ tag: 'too-large' });
    const entries = keys.map((key) => this.get(key));
    const bytes = entries.reduce((sum, entry) => sum + (entry?.value.length ?? 0), 0);
    if (bytes > READ_MAX) throw failed({ tag: 'too-large' });
    return entries;
  }

  set(key, value, ifVersion, ttlMs) {
    check(key, value);
    this.#expect(key, ifVersion);
    this.#fit(key, value);
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

  #fit(key, value) {
    if (size(key, value) > this.#quota) throw failed({ tag: 'too-large' });
    if (this.#quota === Infinity) return;
    const others = [...this.#entries].filter(([other]) => other !== key);
    const used = others.reduce((sum, [other, entry]) => sum + size(other, entry.value), 0);
    if (used + size(key, value) > this.#quota) throw failed({ tag: 'quota-exceeded' });
  }

  #expect(key, version) {
    if (version !== undefined && version !== (this.#entries.get(key)?.version ?? 0n)) throw failed({ tag: 'conflict' });
  }
}

const size = (key, value) => Buffer.byteLength(key) + value.length + ENTRY_BYTES;

function check(key, value = '') {
  const bytes = Buffer.byteLength(key);
  if (bytes < 1 || bytes > KEY_MAX || value.length > VALUE_MAX) throw failed({ tag: 'too-large' });
}
