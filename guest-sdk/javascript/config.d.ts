import type { Schema } from './schema.js';

/** Returns one member, or `fallback` if it is absent. A member that is `null` is `null`. */
export declare function get<T = unknown>(key: string): T | undefined;
export declare function get<T>(key: string, fallback: T): T;
/** Returns all members. */
export declare function getAll(): Record<string, unknown>;
/** Returns the configuration by a schema; members that are absent have their defaults. */
export declare function load<T>(schema: Schema<T>): T;
