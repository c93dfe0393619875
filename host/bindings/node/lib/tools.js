'use strict';
/** Tools: functions that scripts may call, with the schema of their arguments. */

const { BadTool, checkNames, guarded, listed } = require('./errors.js');
const native = require('./native.js');

const PROPERTIES = ['name', 'description', 'parameters', 'needsApproval', 'readOnly', 'execute'];
/** Most tools of a list. A script has fewer, see the runner. */
const MAX_TOOLS = 10_000;
const NO_PARAMETERS = { type: 'object', properties: {}, additionalProperties: false };

/** A function as a tool. */
class Tool {
  /** Checks and converts arguments; undefined if the JSON Schema is all that there is. */
  #standard;

  constructor(definition) {
    const { name, description, parameters, needsApproval, readOnly, execute } = definition;
    this.name = name;
    this.description = description;
    this.inputSchema = inputSchema(name, parameters);
    this.needsApproval = needsApproval;
    this.readOnly = readOnly;
    this.execute = execute;
    this.#standard = parameters['~standard'] ?? undefined;
    Object.freeze(this);
  }

  /** Calls the function of a tool with arguments that fit its JSON Schema. */
  static async call(tool, given, context) {
    const standard = tool.#standard;
    return tool.execute(standard === undefined ? given : await converted(standard, given), context);
  }
}

/** Makes a function a tool. Fails with `BadTool` if it cannot be one. */
function tool(definition) {
  checkNames(definition, PROPERTIES, 'the definition of a tool', BadTool);
  const { name, description = '', parameters = NO_PARAMETERS, needsApproval = false, readOnly = false, execute } = definition;
  if (typeof name !== 'string') throw new BadTool('a tool must have a name, a string');
  check(name, typeof description === 'string', 'its description must be a string');
  check(name, typeof parameters === 'object' && parameters !== null, 'its parameters must be a JSON Schema or a schema of zod');
  check(name, typeof needsApproval === 'boolean', 'needsApproval must be true or false');
  check(name, typeof readOnly === 'boolean', 'readOnly must be true or false');
  check(name, typeof execute === 'function', 'execute must be a function');
  return new Tool({ name, description, parameters, needsApproval, readOnly, execute });
}

function check(name, fits, problem) {
  if (!fits) throw new BadTool(`tool ${name}: ${problem}`);
}

/** Returns the JSON Schema of the parameters, which are that, or a schema of zod or another library. */
function inputSchema(name, parameters) {
  const standard = parameters['~standard'] ?? undefined;
  if (standard === undefined) return parameters;
  const convert = standard.jsonSchema?.input;
  check(name, typeof convert === 'function', 'its schema cannot become a JSON Schema: use zod 4.2 or newer, or pass a JSON Schema');
  try {
    return convert({ target: 'draft-2020-12' });
  } catch (error) {
    const remedy = 'take a type that JSON has, such as a string, and convert it with `transform`';
    throw new BadTool(`tool ${name}: its schema cannot become a JSON Schema: ${error?.message}; ${remedy}`, { cause: error });
  }
}

/** Returns arguments as the schema of a library converts them: with its defaults, of its types. */
async function converted(standard, given) {
  const result = await standard.validate(given);
  if (result.issues === undefined) return result.value;
  throw new TypeError(result.issues.map(issueText).join('; '));
}

function issueText({ message, path = [] }) {
  const names = path.map((segment) => String(segment?.key ?? segment));
  return names.length === 0 ? message : `${names.join('.')}: ${message}`;
}

/** Sets of tools that were used before: one step for each tool. A set is kept as long as its tools live. */
class KnownTools {
  #following = new WeakMap();
  #set;

  /** Returns the set of these tools: that of an earlier run if they are the same. */
  static set(tools) {
    let known = root;
    for (const tool of tools) known = known.#next(tool);
    known.#set ??= compiled(tools);
    return known.#set;
  }

  #next(tool) {
    let next = this.#following.get(tool);
    if (next === undefined) {
      next = new KnownTools();
      this.#following.set(tool, next);
    }
    return next;
  }
}

const root = new KnownTools();

/** Returns the tools of a run, as a list of them and as the set whose schemas are compiled. Fails with `BadTool`. */
function prepare(given) {
  if (typeof given?.[Symbol.iterator] !== 'function') throw new BadTool('tools must be a list of tools');
  const tools = listed(given, MAX_TOOLS, 'a list of tools', BadTool);
  if (!tools.every((one) => one instanceof Tool)) throw new BadTool('each tool must be made with `tool({ … })`');
  return { tools, set: KnownTools.set(tools) };
}

function compiled(tools) {
  return guarded(() => native.toolSet(tools.map(described)));
}

function described({ name, description, inputSchema, needsApproval, readOnly }) {
  const parameters = Object.keys(inputSchema.properties ?? {});
  return { name, description, inputSchema: schemaText(name, inputSchema), parameters, needsApproval, readOnly };
}

function schemaText(name, schema) {
  try {
    return JSON.stringify(schema) ?? 'null';
  } catch (error) {
    throw new BadTool(`tool ${name}: its schema is not JSON: ${error?.message}`, { cause: error });
  }
}

module.exports = { Tool, prepare, tool };
