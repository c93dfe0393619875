'use strict';
/** Runs of scripts. */

const { AirlockError, ApprovalNeeded, BadDump, checkNames, checkNumber, guarded } = require('./errors.js');
const native = require('./native.js');
const { ActiveRun } = require('./active.js');
const { prepare } = require('./tools.js');
const { decode, encode } = require('./values.js');

const { dumpBytes: MAX_DUMP_BYTES } = native.valueBounds();
const SCRIPT_OPTIONS = ['tools', 'inputs', 'language', 'limits', 'onPrint', 'signal'];
const LIMITS = ['memoryMb', 'cpuSeconds', 'seconds', 'calls', 'parallelCalls', 'nesting'];

/** A run of a script that is finished, or that waits for decisions about calls of tools. */
class Run {
  #native;
  /** The tools that a run that waits will call. */
  #prepared;
  #onPrint;
  #value;

  constructor(run, prepared, onPrint) {
    this.#native = run;
    this.#prepared = prepared;
    this.#onPrint = onPrint;
    const value = run.value();
    this.#value = value === null || value === undefined ? null : decode(value);
  }

  get done() {
    return this.#native.isDone();
  }

  get value() {
    if (!this.done) throw new ApprovalNeeded(this);
    return this.#value;
  }

  get output() {
    return this.#native.output();
  }

  get pending() {
    return decode(this.#native.pending());
  }

  get usage() {
    const usage = this.#native.usage();
    return usage === null ? undefined : JSON.parse(usage);
  }

  approve(...given) {
    if (given.length > 1) throw new AirlockError('the ids of calls to approve must be one array');
    const approved = given.length === 0 ? undefined : numbers(given[0]);
    guarded(() => this.#native.approve(approved));
  }

  deny(ids, reason = '') {
    const denied = ids === undefined ? undefined : numbers(ids);
    if (typeof reason !== 'string') throw new AirlockError('the reason of a denial must be a string');
    guarded(() => this.#native.deny(denied, reason));
  }

  async resume(options = {}) {
    checkNames(options, ['onPrint', 'signal'], 'the options of a resumed run');
    const { onPrint = this.#onPrint, signal } = options;
    checkPrinter(onPrint);
    const place = { tools: this.#prepared.tools, onPrint, signal };
    const resumed = await ActiveRun.wait(place, (receive, nesting) => this.#native.resume(receive, onPrint !== undefined, nesting));
    return new Run(resumed, this.#prepared, onPrint);
  }

  dump() {
    const bytes = guarded(() => this.#native.dump());
    // Without the methods of a Buffer, some of which are those of an array with another meaning.
    return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }
}

/** Runs a script and returns its value. Fails with `ApprovalNeeded` if the script waits. */
async function runScript(code, options = {}) {
  const run = await begin(code, options, false);
  if (!run.done) throw new ApprovalNeeded(run);
  return run.value;
}

/** Runs a script until it is finished or waits, and returns the run. */
async function startScript(code, options = {}) {
  return begin(code, options, true);
}

/** Loads a run that waits from the bytes of `dump`, also in another process. */
function loadRun(bytes, options = {}) {
  checkNames(options, ['tools', 'onPrint'], 'the options of a loaded run');
  const { tools = [], onPrint } = options;
  checkPrinter(onPrint);
  const prepared = prepare(tools);
  const dump = copied(bytes);
  return new Run(guarded(() => prepared.set.load(dump)), prepared, onPrint);
}

/** Runs the script of a finished run again from its journal alone: no tool is called. */
async function replay(bytes, options = {}) {
  checkNames(options, ['signal'], 'the options of a replay');
  const dump = copied(bytes);
  const replayed = await ActiveRun.wait({ tools: [], signal: options.signal }, (receive) => native.replay(dump, receive));
  return new Run(replayed, prepare([]), undefined);
}

async function begin(code, options, hasJournal) {
  checkNames(options, SCRIPT_OPTIONS, 'the options of a script');
  const { tools = [], inputs = {}, language = 'python', limits = {}, onPrint, signal } = options;
  if (typeof code !== 'string') throw new AirlockError('the code of a script must be a string');
  if (!code.isWellFormed()) throw new AirlockError('the code of a script contains half of a surrogate pair');
  if (typeof language !== 'string') throw new AirlockError('the language of a script must be a string');
  checkPrinter(onPrint);
  checkLimits(limits);
  const prepared = prepare(tools);
  const script = { code, inputs: encode(inputs), language, limits, hasPrinter: onPrint !== undefined, hasJournal };
  const place = { tools: prepared.tools, onPrint, signal };
  const ended = await ActiveRun.wait(place, (receive, nesting) => prepared.set.run({ ...script, nesting }, receive));
  return new Run(ended, prepared, onPrint);
}

function checkPrinter(onPrint) {
  if (onPrint !== undefined && typeof onPrint !== 'function') throw new AirlockError('onPrint must be a function');
}

function checkLimits(limits) {
  checkNames(limits, LIMITS, 'the limits of a script');
  for (const name of LIMITS) if (limits[name] !== undefined) checkNumber(limits[name], `the limit ${name}`);
}

function numbers(given) {
  const ids = Array.isArray(given) ? given : [given];
  const mistyped = ids.findIndex((id) => typeof id !== 'number');
  if (mistyped !== -1) {
    throw new AirlockError(`the id of a call must be a number, as in \`pending\`; one is of type ${typeof ids[mistyped]}`);
  }
  const at = ids.findIndex((id) => !Number.isInteger(id) || id < 0 || id >= 2 ** 32);
  if (at !== -1) throw new AirlockError(`no call ${ids[at]} of the run waits for a decision`);
  return ids;
}

/** Returns a copy of bytes, which nobody else changes while they are read. */
function copied(bytes) {
  if (!ArrayBuffer.isView(bytes)) throw new AirlockError('a dump must be a Uint8Array');
  if (bytes.byteLength > MAX_DUMP_BYTES) throw new BadDump(`a dump has at most ${MAX_DUMP_BYTES} bytes, found ${bytes.byteLength}`);
  return Buffer.from(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
}

module.exports = { Run, loadRun, replay, runScript, startScript };
