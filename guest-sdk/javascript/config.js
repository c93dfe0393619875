/** The plugin's configuration, which the operator writes and the host checks against the schema of `[config]` in `plugin.toml`. */

import * as host from 'airlock:host/config@0.1.0';

import { ToolError } from './errors.js';
import { fromJson } from './wire.js';

/** Returns one member, or the default if it is absent. A member that is null is null. */
export function get(key, fallback) {
  const found = fromJson(host.get(key));
  return found === undefined ? fallback : found;
}

/** Returns all members. */
export const getAll = () => JSON.parse(host.getAll());

/** Returns the configuration by a schema; members that are absent have their defaults. */
export function load(schema) {
  try {
    return schema.parse(getAll());
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    throw new ToolError('internal', `the plugin's configuration cannot be used: ${error.message}`);
  }
}
