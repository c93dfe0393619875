'use strict';
/** A tool with which a model runs scripts over functions: its description, and what runs it. */

const { ApprovalNeeded, LimitExceeded, ScriptError } = require('./errors.js');
const { startScript } = require('./run.js');
const { encode } = require('./values.js');

/** Most characters of a text that a model reads. The rest is cut, and the text says so. */
const MAX_TEXT = 24_000;
const TYPES = { string: 'str', integer: 'int', number: 'float', boolean: 'bool', array: 'list', object: 'dict', null: 'None' };

/** Describes the tool to a model, with the signatures of the functions. */
function describe(tools, language) {
  const name = language.charAt(0).toUpperCase() + language.slice(1);
  const together = language === 'python' ? 'await asyncio.gather(...)' : 'gather([(function, {...}), ...])';
  return [
    `Runs a script in ${name} and returns its value: that of the variable \`result\`, or of the last expression.`,
    'Each script starts afresh, without files, network or clock.',
    `Calls of functions can be made at the same time with \`${together}\`.`,
    `The script can call these functions:\n${tools.map(signature).join('\n')}`,
  ].join(' ');
}

/** Runs a script, and returns its result as text. An error is for the model, which can correct the script. */
async function runForModel(code, options, onApproval) {
  const printed = [];
  try {
    const run = await startScript(code, { ...options, onPrint: (line) => printed.push(line) });
    const finished = await decided(run, options.signal, onApproval);
    const result = encode(finished.value);
    return cut(printed.length === 0 ? result : `printed:\n${printed.join('\n')}\nresult: ${result}`);
  } catch (error) {
    if (!(error instanceof ScriptError || error instanceof LimitExceeded)) throw error;
    const reason = error instanceof ScriptError ? error.rendered : error.message;
    throw new Error(cut(printed.length === 0 ? reason : `printed:\n${printed.join('\n')}\n${reason}`), { cause: error });
  }
}

/** Returns the finished run, after `onApproval` has decided about its calls. Fails with `ApprovalNeeded` if it does not. */
async function decided(run, signal, onApproval) {
  while (!run.done) {
    const { length } = run.pending;
    await onApproval?.(run);
    if (run.pending.length === length) throw new ApprovalNeeded(run);
    run = await run.resume({ signal });
  }
  return run;
}

/** Returns the signature of a tool with its description, as Python. */
function signature({ name, description, inputSchema }) {
  const required = new Set(inputSchema.required);
  const parameters = Object.entries(inputSchema.properties ?? {}).map(([parameter, schema]) => {
    const fallback = required.has(parameter) ? '' : ` = ${literal(schema.default ?? null)}`;
    return `${parameter}: ${typeText(schema, inputSchema)}${fallback}`;
  });
  const lines = description === '' ? [] : description.split('\n').map((line) => `    # ${line}`);
  return [`def ${name}(${parameters.join(', ')}): ...`, ...lines].join('\n');
}

/** Renders a schema as a type of Python. `within` are the definitions that contain it. */
function typeText(schema, root, within = []) {
  if (typeof schema !== 'object' || schema === null) return 'Any';
  if (typeof schema.$ref === 'string') {
    const definition = root.$defs?.[schema.$ref.split('/').at(-1)];
    return definition === undefined || within.includes(definition) ? 'dict' : typeText(definition, root, [...within, definition]);
  }
  if (schema.const !== undefined) return `Literal[${literal(schema.const)}]`;
  if (Array.isArray(schema.enum)) return `Literal[${schema.enum.map(literal).join(', ')}]`;
  const choices = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(choices)) return choices.map((choice) => typeText(choice, root, within)).join(' | ');
  if (Array.isArray(schema.type)) return schema.type.map((kind) => TYPES[kind] ?? 'Any').join(' | ');
  if (schema.type === 'array' && schema.items) return `list[${typeText(schema.items, root, within)}]`;
  if (schema.type === 'object' && schema.properties) return membersText(schema, root, within);
  return TYPES[schema.type] ?? 'Any';
}

function membersText(schema, root, within) {
  const required = new Set(schema.required);
  const members = Object.entries(schema.properties).map(
    ([name, member]) => `${JSON.stringify(name)}${required.has(name) ? '' : '?'}: ${typeText(member, root, within)}`,
  );
  return `{${members.join(', ')}}`;
}

/** Writes a JSON value as Python. */
function literal(value) {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value !== 'object') return JSON.stringify(value);
  return `{${Object.entries(value).map(([name, member]) => `${JSON.stringify(name)}: ${literal(member)}`).join(', ')}}`;
}

function cut(text) {
  return text.length <= MAX_TEXT ? text : `${text.slice(0, MAX_TEXT)}… (${text.length - MAX_TEXT} more characters)`;
}

module.exports = { describe, runForModel };
