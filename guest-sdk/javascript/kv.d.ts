import { HostError } from './errors.js';

/**
 * A failure of a store. `quota-exceeded`: the store would exceed the granted quota; deleting other entries helps. `too-large`: a key
 * has 1 to 512 bytes, a value at most 1 MiB, and an entry is not larger than the quota; `getMany` reads at most 1,000 keys and, by
 * default, 8 MiB.
 */
export declare class KvError extends HostError<
  'no-such-store' | 'denied' | 'quota-exceeded' | 'too-large' | 'conflict' | 'unavailable' | 'other'
> {}

/** A stored value with its version. */
export declare class Entry {
  private constructor();
  readonly value: Uint8Array;
  /** Grows with every change of the entry; never 0, and never used again after a deletion. */
  readonly version: number;
  /** Returns the value as text. */
  text(): string;
  /** Parses the value as JSON. */
  json(): any;
}

/** Condition and lifetime of a write. */
export interface Write {
  /** Writes only if the entry has this version, or does not exist if it is 0; fails with `conflict` otherwise. */
  ifVersion?: number;
  /** The entry expires after that many milliseconds. */
  ttlMs?: number;
}

/** An open store. */
export interface Store {
  /** Returns an entry; undefined if it is absent or has expired. */
  get(key: string): Entry | undefined;
  /**
   * Returns the entries of the keys, in the order of the keys, as of one moment. Fails with `too-large` if there are more than
   * 1,000 keys, or if the values together have more bytes than one host call may return (8 MiB by default).
   */
  getMany(keys: string[]): (Entry | undefined)[];
  /** Writes an entry and returns its new version. A string is stored as UTF-8. */
  set(key: string, value: Uint8Array | string, write?: Write): number;
  /** Writes a value as JSON. */
  setJson(key: string, value: unknown, write?: Write): number;
  /** Deletes an entry. Returns true if there was one. */
  delete(key: string, write?: Pick<Write, 'ifVersion'>): boolean;
  /**
   * Iterates over the keys that begin with `prefix`, in the order of their bytes; one host call for each page of at most 1,000
   * keys. A page may have fewer, or none.
   */
  keys(prefix?: string): Generator<string, void, undefined>;
  /**
   * Replaces an entry by the result of `change`, and returns the new version. If another call writes in between, `change` runs
   * again on the new entry; after 16 attempts it fails with `conflict`.
   */
  update(key: string, change: (entry: Entry | undefined) => Uint8Array | string, write?: Pick<Write, 'ttlMs'>): number;
  /** Replaces a JSON value by the result of `change`, as `update` does, and returns the new value. */
  updateJson<T>(key: string, change: (value: T | undefined) => T, write?: Pick<Write, 'ttlMs'>): T;
}

/** Opens the store that the plugin requests by this name. */
export declare function open(name: string): Store;
