/**
 * Other tools of the gateway. A tool is called by the slot to which the operator binds it (`[request.slot.NAME]` in
 * `plugin.toml`), else by its full name, `<client>-<tool>`. A failure of the tool throws `ToolError` with its kind, code and
 * parts; a tool that does not catch it fails in the same way.
 */

import * as host from 'airlock:host/tools@0.1.0';

import { errorFromHost, fromJson, outputFromHost, toU64 } from './wire.js';

const PAGE = 1000;

/** Iterates over the tools that may be called. First the slots, then the tools by full name, both sorted by name. */
export function* list() {
  let cursor;
  do {
    const page = orThrow(() => host.list(cursor, PAGE));
    yield* page.items;
    cursor = page.next;
  } while (cursor !== undefined);
}

/** Returns the descriptor of one tool. */
export function describe(name) {
  const { inputSchema, outputSchema, annotations, meta, extra, ...rest } = orThrow(() => host.describe(name));
  const schemas = { inputSchema: fromJson(inputSchema), outputSchema: fromJson(outputSchema) };
  const hints = { ...annotations, extra: fromJson(annotations.extra) };
  return { ...rest, ...schemas, annotations: hints, meta: fromJson(meta), extra: fromJson(extra) };
}

/** Calls one tool and waits for its result. */
export const call = (name, args, { timeoutMs } = {}) => {
  const sent = request({ name, arguments: args, timeoutMs });
  return outputFromHost(orThrow(() => host.call(sent)));
};

/** Makes several calls concurrently. The results are in the order of the calls; failures are returned, not thrown. */
export const callBatch = (calls) =>
  host.callBatch(calls.map(request)).map(({ tag, val }) => (tag === 'ok' ? outputFromHost(val) : errorFromHost(val)));

const request = ({ name, arguments: args = {}, timeoutMs }) => ({
  name,
  arguments: JSON.stringify(args),
  timeoutMs: toU64('timeoutMs', timeoutMs),
});

function orThrow(run) {
  try {
    return run();
  } catch (error) {
    throw error?.payload?.kind ? errorFromHost(error.payload) : error;
  }
}
