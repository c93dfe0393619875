/** Stores of keys and values that outlive a call. A key has 1 to 512 bytes, a value at most 1 MiB. */

import * as host from 'airlock:host/kv@0.1.0';

import { HostError } from './errors.js';
import { toU64 } from './wire.js';

const PAGE = 1000;
const TRIES = 16;
const TOO_LARGE =
  "a key has 1 to 512 bytes, a value at most 1 MiB, and an entry is not larger than the store's quota; one read has at most 1,000 " +
  'keys, and values of limited size';
const KINDS = {
  'no-such-store': ['internal', 'this plugin does not request a store of this name'],
  denied: [
    'denied',
    'this tool may not do that with the store: the operator has not granted it, or plugin.toml does not declare `read_kv`, or ' +
      '`write_kv` to write, for the tool',
  ],
  'quota-exceeded': ['too-large', 'the store is full; delete something first'],
  'too-large': ['too-large', TOO_LARGE],
  conflict: ['conflict', 'the entry was changed meanwhile; read it again'],
  unavailable: ['unavailable', 'the store cannot be used now'],
  other: ['other', 'the store failed'],
};

/** A failure of a store. */
export class KvError extends HostError {
  constructor(kind, detail) {
    const [toolKind, message] = KINDS[kind];
    super('KvError', kind, detail ? `${message}: ${detail}` : message, toolKind);
  }
}

/** A stored value with its version. */
export class Entry {
  constructor({ value, version }) {
    this.value = value;
    this.version = Number(version);
  }

  /** Returns the value as text. */
  text() {
    return new TextDecoder().decode(this.value);
  }

  /** Parses the value as JSON. */
  json() {
    return JSON.parse(this.text());
  }
}

/** An open store. */
class Store {
  #handle;

  constructor(handle) {
    this.#handle = handle;
  }

  /** Returns an entry; undefined if it is absent or has expired. */
  get(key) {
    return entry(call(() => this.#handle.get(key)));
  }

  /**
   * Returns the entries of the keys, in the order of the keys, as of one moment. Fails with `too-large` if there are more than
   * 1,000 keys, or if the values together have more bytes than one host call may return (8 MiB by default).
   */
  getMany(keys) {
    return call(() => this.#handle.getMany(keys)).map(entry);
  }

  /** Writes an entry and returns its new version. */
  set(key, value, { ifVersion, ttlMs } = {}) {
    const [version, ttl] = [toU64('ifVersion', ifVersion), toU64('ttlMs', ttlMs)];
    return Number(call(() => this.#handle.set(key, bytes(value), version, ttl)));
  }

  /** Writes a value as JSON. */
  setJson(key, value, options) {
    return this.set(key, JSON.stringify(value), options);
  }

  /** Deletes an entry. Returns true if there was one. */
  delete(key, { ifVersion } = {}) {
    const version = toU64('ifVersion', ifVersion);
    return call(() => this.#handle.delete(key, version));
  }

  /**
   * Iterates over the keys that begin with `prefix`, in the order of their bytes; one host call for each page of at most 1,000
   * keys. A page before the last may be short or empty: only the cursor ends the list.
   */
  *keys(prefix = '') {
    let cursor;
    do {
      const page = call(() => this.#handle.keys(prefix, cursor, PAGE));
      yield* page.keys;
      cursor = page.next;
    } while (cursor !== undefined);
  }

  /**
   * Replaces an entry by the result of `change`, and returns the new version. If another call writes in between, `change` runs
   * again on the new entry; after 16 attempts it fails with `conflict`.
   */
  update(key, change, { ttlMs } = {}) {
    for (let attempt = 0; attempt < TRIES; attempt++) {
      const found = this.get(key);
      const value = change(found);
      try {
        return this.set(key, value, { ifVersion: found?.version ?? 0, ttlMs });
      } catch (error) {
        if (!(error instanceof KvError && error.kind === 'conflict')) throw error;
      }
    }
    throw new KvError('conflict');
  }

  /** Replaces a JSON value by the result of `change`, as `update` does, and returns the new value. */
  updateJson(key, change, options) {
    let written;
    this.update(key, (found) => JSON.stringify((written = change(found?.json()))), options);
    return written;
  }
}

/** Opens the store that the plugin requests by this name. */
export const open = (name) => new Store(call(() => host.open(name)));

const entry = (found) => (found === undefined || found === null ? undefined : new Entry(found));

const bytes = (value) => (typeof value === 'string' ? new TextEncoder().encode(value) : value);

function call(run) {
  try {
    return run();
  } catch (error) {
    if (Object.hasOwn(KINDS, error?.payload?.tag ?? '')) throw new KvError(error.payload.tag, error.payload.val);
    throw error;
  }
}
