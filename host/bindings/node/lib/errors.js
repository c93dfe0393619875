'use strict';
/** Errors of this package, and how failures of the native module become errors. */

const { types } = require('node:util');

/** Errors of tools that are kept until the end of a run. A script may catch thousands; one that ends it is among the last. */
const MAX_KEPT = 64;
/** Begins the message of an error of the native module that describes a failure. */
const DESCRIPTION = '{"class":';

class AirlockError extends Error {
  constructor(message, { cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

class ScriptError extends AirlockError {
  constructor(message, { kind = 'runtime', line, column, rendered = message, cause } = {}) {
    super(message, { cause });
    this.kind = kind;
    this.line = line ?? undefined;
    this.column = column ?? undefined;
    this.rendered = rendered;
  }
}

class ScriptSyntaxError extends ScriptError {}

class ToolFailed extends ScriptError {
  constructor(message, { tool = '', code, ...details } = {}) {
    super(message, { kind: 'tool', ...details });
    this.tool = tool;
    this.code = code ?? undefined;
  }
}

class LimitExceeded extends AirlockError {
  constructor(message, { limit }) {
    super(message);
    this.limit = limit;
  }
}

class ApprovalNeeded extends AirlockError {
  constructor(run) {
    const tools = [...new Set(run.pending.map((call) => call.tool))].sort();
    super(`the script waits for the approval of calls of ${tools.join(', ')}`);
    // Not in the output of `console.log`, which would be that of the whole run.
    Object.defineProperty(this, 'run', { value: run });
  }
}

class RunCancelled extends AirlockError {}

class BadTool extends AirlockError {}

class BadDump extends AirlockError {}

const CLASSES = {
  AirlockError, ScriptError, ScriptSyntaxError, ToolFailed, LimitExceeded, ApprovalNeeded, RunCancelled, BadTool, BadDump,
};
for (const [name, made] of Object.entries(CLASSES)) {
  Object.defineProperty(made.prototype, 'name', { value: name, writable: true, configurable: true });
}

/** Makes the error of a failure that the native module describes as JSON. `kept` are the errors of the run's tools. */
function errorFrom(description, kept) {
  const { class: name, message, call, ...details } = JSON.parse(description);
  return new CLASSES[name](message, { ...details, cause: kept?.get(call) });
}

/** Calls the native module, whose failures become errors of this package. */
function guarded(call) {
  try {
    return call();
  } catch (error) {
    throw String(error?.message).startsWith(DESCRIPTION) ? errorFrom(error.message) : error;
  }
}

/** Errors of the tools of a run, by their calls. */
class KeptErrors {
  #errors = new Map();

  /** Keeps the error of a call, in the place of the oldest one if there are many. */
  keep(call, error) {
    if (this.#errors.size === MAX_KEPT) this.#errors.delete(this.#errors.keys().next().value);
    this.#errors.set(call, error);
  }

  get(call) {
    return this.#errors.get(call);
  }
}

/** Returns the name of the type of what a tool has thrown, and its text. */
function thrownParts(thrown) {
  try {
    if (!(thrown instanceof Error || types.isNativeError(thrown))) return ['Error', String(thrown)];
    const { name, message } = thrown;
    const kind = name === 'Error' ? thrown.constructor?.name : name;
    return [String(kind || 'Error'), String(message)];
  } catch {
    return ['Error', 'the error of the tool cannot be read'];
  }
}

/** Fails with an `AirlockError` if an object has other properties than these. A mistyped one would be ignored. */
function checkNames(given, known, what, Made = AirlockError) {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw new Made(`${what} must be an object`);
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Made(`${what} cannot have ${JSON.stringify(unknown)}; it can have ${known.join(', ')}`);
}

module.exports = { ...CLASSES, KeptErrors, checkNames, errorFrom, guarded, thrownParts };
