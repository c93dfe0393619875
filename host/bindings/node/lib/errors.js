'use strict';
/** Errors of this package, and how failures of the native module become errors. */

const { types } = require('node:util');

const { pendingFrom } = require('./pending.js');
const { decode } = require('./values.js');

/** Errors of tools that are kept until the end of a run. A script may catch thousands; one that ends it is among the last. */
const MAX_KEPT = 64;
/** Begins the message of an error of the native module that describes a failure, see `src/failure.rs`. */
const DESCRIPTION = /^~?\{"class":/;

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
    // All are decided about, or this object is used up.
    const resumed = 'the run has no value before `resume`, which returns it';
    super(tools.length === 0 ? resumed : `the script waits for the approval of calls of ${tools.join(', ')}`);
    // Not in the output of `console.log`, which would be that of the whole run.
    Object.defineProperty(this, 'run', { value: run });
  }
}

class RunCancelled extends AirlockError {}

class BadTool extends AirlockError {}

class BadDump extends AirlockError {}

/** A gateway has failed, or a request to it. */
class GatewayError extends AirlockError {
  constructor(message, { code = '', cause } = {}) {
    super(message, { cause });
    this.code = code;
  }
}

class ConfigurationError extends GatewayError {}

class StartFailed extends GatewayError {}

class UnknownKey extends GatewayError {}

class KeyRequired extends GatewayError {}

class BadName extends GatewayError {}

class GatewayNotReady extends GatewayError {}

class GatewayStopped extends GatewayError {}

class GatewayOverloaded extends GatewayError {}

class CallFailed extends GatewayError {
  constructor(message, { kind = 'other', retry_after: retryAfter, ...details } = {}) {
    super(message, details);
    this.kind = kind;
    this.retryAfter = retryAfter ?? undefined;
  }
}

class ApprovalPending extends GatewayError {
  constructor(message, { pending, ...details }) {
    super(message, details);
    this.pending = pending;
  }
}

class NotWaiting extends GatewayError {}

class OperatorRequired extends GatewayError {}

class RunChanged extends GatewayError {}

class StoreUnavailable extends GatewayError {}

class BadConversation extends GatewayError {}

class ChatFailed extends GatewayError {
  constructor(message, { status = 500, error = {}, retry_after: retryAfter, ...details } = {}) {
    super(message, details);
    this.status = status;
    this.error = error;
    this.retryAfter = retryAfter ?? undefined;
  }
}

/** Is thrown by a model function that has no reply. Fails with an `AirlockError` if `status` or `retryAfter` is no number. */
class ModelError extends Error {
  constructor(message, { status = 502, code, retryAfter, cause } = {}) {
    checkNumber(status, 'the status of a ModelError');
    if (retryAfter !== undefined) checkNumber(retryAfter, 'retryAfter of a ModelError');
    super(message, cause === undefined ? undefined : { cause });
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

const GATEWAY_CLASSES = {
  GatewayError, ConfigurationError, StartFailed, UnknownKey, KeyRequired, BadName, GatewayNotReady, GatewayStopped,
  GatewayOverloaded, CallFailed, ApprovalPending, NotWaiting, OperatorRequired, RunChanged, StoreUnavailable, BadConversation,
  ChatFailed,
};
const CLASSES = {
  AirlockError, ScriptError, ScriptSyntaxError, ToolFailed, LimitExceeded, ApprovalNeeded, RunCancelled, BadTool, BadDump,
  ...GATEWAY_CLASSES,
};
for (const [name, made] of Object.entries({ ...CLASSES, ModelError })) {
  Object.defineProperty(made.prototype, 'name', { value: name, writable: true, configurable: true });
}

/** Makes the error of a failure that the native module describes. `kept` are the errors of the run's tools. */
function errorFrom(description, kept) {
  const { class: name, message, call, pending, ...details } = decode(description);
  if (pending !== undefined) details.pending = pendingFrom(pending);
  return new CLASSES[name](message, { ...details, cause: kept?.get(call) });
}

/** Fails with an `AirlockError` if a value is not a number. */
function checkNumber(value, what) {
  if (typeof value !== 'number') throw new AirlockError(`${what} must be a number, not a value of type ${value === null ? null : typeof value}`);
}

/** Calls the native module, whose failures become errors of this package. */
function guarded(call) {
  try {
    return call();
  } catch (error) {
    throw DESCRIPTION.test(String(error?.message)) ? errorFrom(error.message) : error;
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

/** Fails with an `AirlockError` unless a signal is one, or undefined. */
function checkSignal(signal, what) {
  // By its methods: an environment of tests may have a class of its own.
  const methods = ['throwIfAborted', 'addEventListener', 'removeEventListener'];
  const isSignal = methods.every((name) => typeof signal?.[name] === 'function');
  if (signal !== undefined && !isSignal) throw new AirlockError(`${what} must be an AbortSignal`);
}

/** Fails with an `AirlockError` if an object has other properties than these. A mistyped one would be ignored. */
function checkNames(given, known, what, Made = AirlockError) {
  if (typeof given !== 'object' || given === null || Array.isArray(given)) throw new Made(`${what} must be an object`);
  const unknown = Object.keys(given).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new Made(`${what} cannot have ${JSON.stringify(unknown)}; it can have ${known.join(', ')}`);
}

/** Returns the items of an iterable. Fails with an `AirlockError` if there are more than `most`: it may have no end. */
function listed(items, most, what, Made = AirlockError) {
  const list = [];
  for (const item of items) {
    if (list.length === most) throw new Made(`${what} cannot have more than ${most} items`);
    list.push(item);
  }
  return list;
}

module.exports = {
  ...CLASSES, GATEWAY_CLASSES, KeptErrors, ModelError, checkNames, checkNumber, checkSignal, errorFrom, guarded, listed, thrownParts,
};
