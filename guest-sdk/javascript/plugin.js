/** Tools, and the export of a plugin. */

import { Output } from './content.js';
import { Context } from './context.js';
import { HostError, ToolError, isKind, objectText } from './errors.js';
import { log, redirectConsole } from './log.js';
import { Schema } from './schema.js';
import { errorToHost, outputToHost, toJson } from './wire.js';

const NAME = /^[a-zA-Z0-9_-]{1,64}$/;
const MEMBERS = ['name', 'title', 'description', 'input', 'output', 'annotations', 'meta', 'extra', 'run'];
const HINTS = ['readOnly', 'destructive', 'idempotent', 'openWorld'];

/** A tool, checked where it is defined. */
class Tool {
  constructor(definition) {
    const { name, description, run, annotations = {} } = definition;
    if (!NAME.test(name)) throw new TypeError(`${JSON.stringify(name)} is not a valid name of a tool; use 1 to 64 of a-z, A-Z, 0-9, _ and -`);
    const wrong = (problem) => new TypeError(`tool ${name}: ${problem}`);
    for (const member of Object.keys(definition)) {
      if (!MEMBERS.includes(member)) throw wrong(`unknown member ${member}; known are ${MEMBERS.join(', ')}`);
    }
    const known = [...HINTS, 'extra'];
    for (const hint of Object.keys(annotations)) {
      if (!known.includes(hint)) throw wrong(`unknown annotation ${hint}; known are ${known.join(', ')}`);
    }
    const objects = { meta: definition.meta, extra: definition.extra, 'annotations.extra': annotations.extra };
    for (const [member, value] of Object.entries(objects)) objectText(`tool ${name}: ${member}`, value);
    if (!description) throw wrong('it has no description, by which a model chooses a tool');
    if (typeof run !== 'function') throw wrong('run is no function');
    for (const member of ['input', 'output']) {
      const schema = definition[member];
      if (schema !== undefined && JSON.parse(JSON.stringify(schema)).type !== 'object') throw wrong(`${member} is no schema of an object`);
    }
    Object.assign(this, definition, { annotations, input: definition.input ?? { type: 'object', properties: {}, additionalProperties: false } });
    Object.freeze(this);
  }
}

/** Defines a tool. */
export const tool = (definition) => new Tool(definition);

/**
 * Returns what `plugin.js` must export as `tools`: `export const tools = plugin(getWeather)`. The last argument may be an object with
 * the schema of the configuration: `plugin(getWeather, { config: s.object({ … }) })`, with `from_code = true` in `[config]` of
 * `plugin.toml`.
 */
export function plugin(...tools) {
  const last = tools.at(-1);
  const options = tools.length > 1 && !(last instanceof Tool) && Object.hasOwn(last ?? {}, 'config') ? tools.pop() : {};
  const config = configSchema(options);
  const table = new Map();
  for (const each of tools) {
    if (!(each instanceof Tool)) throw new TypeError('plugin takes tools, each made by tool({ … })');
    if (table.has(each.name)) throw new TypeError(`there are two tools with the name ${each.name}`);
    table.set(each.name, each);
  }
  // Node.js has a console of its own, and tests print to it.
  if (typeof process === 'undefined') redirectConsole();
  return {
    describe: () => [...table.values()].map((tool, index) => descriptor(index === 0 && config ? withConfig(tool, config) : tool)),

    async invoke(name, text, handle) {
      try {
        if (!table.has(name)) throw new ToolError('not-found', `this plugin has no tool ${name}`);
        const { input, run } = table.get(name);
        return outputToHost(Output.from(await run(argumentsOf(input, text), new Context(handle))));
      } catch (error) {
        throw converted(error);
      }
    },
  };
}

/** Returns the schema of the configuration, which admits no other members; undefined if there is none. */
function configSchema({ config }) {
  if (config === undefined) return undefined;
  const schema = JSON.parse(JSON.stringify(config) ?? 'null');
  if (schema?.type !== 'object') throw new TypeError('config is no schema of an object; write s.object({ … })');
  return { ...schema, additionalProperties: false };
}

/** Adds the schema of the configuration to the vendor keys of a tool, where `airlock plugin build` takes it from. */
const withConfig = (tool, config) => ({ ...tool, meta: { ...tool.meta, 'airlock/config_schema': config } });

function argumentsOf(input, text) {
  let given;
  try {
    given = JSON.parse(text);
  } catch (error) {
    throw new ToolError('invalid-input', `the arguments are not JSON: ${error.message}`);
  }
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    throw new ToolError('invalid-input', 'the arguments must be a JSON object');
  }
  return input instanceof Schema ? input.parse(given) : given;
}

/** Converts an exception to an error of the contract. Never fails: an error that cannot be sent keeps its kind and message. */
function converted(exception) {
  let error;
  try {
    error = failure(exception);
    return errorToHost(error);
  } catch (fault) {
    report('an error cannot be sent; the caller gets only its kind and message', fault);
    const kind = attempt(() => error.kind);
    const message = attempt(() => String(error.message)) ?? described(exception);
    return errorToHost(new ToolError(isKind(kind) ? kind : 'internal', message));
  }
}

/** Returns the failure that an exception stands for. Any other exception is a fault of the tool. */
function failure(error) {
  if (error instanceof ToolError) return error;
  if (error instanceof HostError) return error.toToolError();
  report('the tool failed', error);
  return new ToolError('internal', described(error));
}

/** Writes an exception to the log. A log that fails does not hide the exception. */
const report = (message, error) => attempt(() => log.error(message, { error }));

const described = (error) => attempt(() => String(error)) ?? 'the tool threw a value that cannot be converted to a string';

/** Returns the result of a function; undefined if it throws. */
function attempt(run) {
  try {
    return run();
  } catch {
    return undefined;
  }
}

const descriptor = ({ name, title, description, input, output, annotations, meta, extra }) => ({
  name,
  title,
  description,
  inputSchema: toJson(input),
  outputSchema: toJson(output),
  annotations: { ...Object.fromEntries(HINTS.map((hint) => [hint, annotations[hint]])), extra: toJson(annotations.extra) },
  meta: toJson(meta),
  extra: toJson(extra),
});
