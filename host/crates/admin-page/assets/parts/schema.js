// JSON Schema of a tool → a form, and what was typed → the text of the arguments.
//
// A schema comes from a server and is hostile: it may be deep, wide, recursive, or not a schema. What a form cannot show
// is a field for raw JSON. Numbers stay text, so that what is sent has the digits that were typed, or that the schema has: it is
// read by `exact`.
import { jsonText, LongNumber } from '../lib/json.js';

const MAX_DEPTH = 6;
/** Fields of a whole form. */
const MAX_FIELDS = 200;
const MAX_OPTIONS = 200;
/** Steps from one `$ref` to the next. */
const MAX_REFERENCES = 16;
export const MAX_ITEMS = 100;
const MAX_TEXT = 2000;
const ESCAPES = { '~0': '~', '~1': '/' };

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const INTEGER = /^-?(0|[1-9]\d*)$/;

/**
 * Returns the field for a whole schema: `{ kind, name, label, hint, isRequired, … }`. `kind` is `text`, `number`,
 * `integer`, `boolean`, `choice` (with `options`), `object` (with `fields`), `list` (with `item`) or `json` (with `reason`).
 */
export function formOf(schema) {
  const build = { root: schema, left: MAX_FIELDS };
  const field = fieldOf(build, schema, '', true, 0);
  return field.kind === 'object' || field.kind === 'json' ? field : raw(field, 'its schema does not describe an object');
}

/** Returns a field for raw JSON in the place of another. */
function raw({ name, label, hint, isRequired }, reason) {
  return { kind: 'json', name, label, hint, isRequired, reason };
}

function fieldOf(build, given, name, isRequired, depth) {
  build.left -= 1;
  const bare = { name, label: name, hint: '', isRequired };
  if (build.left < 0) return raw(bare, 'the schema has too many members');
  const schema = resolved(build.root, given);
  if (schema === undefined) return raw(bare, 'its schema cannot be followed');
  const field = { ...bare, hint: textOf(schema.description) };
  if (typeof schema.title === 'string' && schema.title !== name) field.hint = [textOf(schema.title), field.hint].filter(Boolean).join('. ');
  if (depth > MAX_DEPTH) return raw(field, 'the schema is too deep');
  const options = 'const' in schema ? [schema.const] : schema.enum;
  if (Array.isArray(options)) return choiceOf(field, options, schema.default);
  const type = typeOf(schema);
  switch (type) {
    case 'string':
      return { ...field, kind: 'text', isLong: !(schema.maxLength <= 200), initial: typeof schema.default === 'string' ? schema.default : '' };
    case 'number':
    case 'integer':
      return { ...field, kind: type, range: rangeOf(schema), initial: isNumber(schema.default) ? String(schema.default) : '' };
    case 'boolean':
      return { ...field, kind: 'boolean', initial: typeof schema.default === 'boolean' ? String(schema.default) : '' };
    case 'object':
      return objectOf(build, schema, field, depth);
    case 'array':
      return { ...field, kind: 'list', item: fieldOf(build, schema.items ?? {}, '', true, depth + 1) };
    default:
      return raw(field, 'its schema permits several types');
  }
}

function choiceOf(field, options, preset) {
  if (options.length === 0 || options.length > MAX_OPTIONS) return raw(field, 'its schema lists too many values');
  const texts = options.map(jsonText);
  const at = texts.indexOf(jsonText(preset));
  const labels = options.map((value, index) => textOf(typeof value === 'string' ? value : texts[index]));
  return { ...field, kind: 'choice', options: labels, texts, initial: at < 0 ? '' : String(at) };
}

function objectOf(build, schema, field, depth) {
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  if (properties.length > build.left) return raw(field, `its schema has ${properties.length} members`);
  if (properties.length === 0 && depth > 0) return raw(field, 'its schema names no members');
  const fields = properties.map(([name, inner]) => fieldOf(build, inner, name, required.has(name), depth + 1));
  // Required ones first: the others may be left empty.
  const sorted = [...fields.filter((inner) => inner.isRequired), ...fields.filter((inner) => !inner.isRequired)];
  return { ...field, kind: 'object', fields: sorted };
}

/** Follows references, and takes the one member of a union that is not `null`. `undefined` if that does not end. */
function resolved(root, given) {
  let schema = given === true ? {} : given;
  for (let step = 0; step < MAX_REFERENCES; step += 1) {
    if (!isObject(schema)) return undefined;
    const union = schema.anyOf ?? schema.oneOf ?? schema.allOf;
    if (typeof schema.$ref === 'string') {
      schema = pointed(root, schema.$ref);
    } else if (Array.isArray(union)) {
      const others = union.slice(0, MAX_OPTIONS).filter((inner) => inner?.type !== 'null');
      if (others.length !== 1 || union.length > MAX_OPTIONS || schema.properties !== undefined) return { description: schema.description };
      schema = isObject(others[0]) ? { description: schema.description, default: schema.default, ...others[0] } : undefined;
    } else {
      return schema;
    }
  }
  return undefined;
}

/** Returns the part of a schema at a local JSON pointer. Nothing is fetched. */
function pointed(root, reference) {
  if (reference === '#') return root;
  if (!reference.startsWith('#/')) return undefined;
  let found = root;
  for (const step of reference.slice(2).split('/')) {
    const key = step.replaceAll(/~[01]/g, (escape) => ESCAPES[escape]);
    if ((!isObject(found) && !Array.isArray(found)) || !Object.hasOwn(found, key)) return undefined;
    found = found[key];
  }
  return found;
}

function typeOf(schema) {
  const types = [schema.type].flat().filter((type) => type !== 'null');
  if (types.length === 1 && types[0] !== undefined) return types[0];
  return schema.type === undefined && isObject(schema.properties) ? 'object' : undefined;
}

function rangeOf(schema) {
  const from = isNumber(schema.minimum) ? `from ${schema.minimum}` : '';
  const to = isNumber(schema.maximum) ? `to ${schema.maximum}` : '';
  return [from, to].filter(Boolean).join(' ');
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof LongNumber);
}

function isNumber(value) {
  return typeof value === 'number' || value instanceof LongNumber;
}

function textOf(value) {
  return typeof value === 'string' ? value.slice(0, MAX_TEXT) : '';
}

/** Returns what a new field contains: text, or an array of the contents of its members or elements. */
export function initialOf(field) {
  if (field.kind === 'object') return field.fields.map(initialOf);
  if (field.kind === 'list') return [];
  return field.initial ?? '';
}

/**
 * Writes a form as JSON. Returns `{ text, faults }`: `text` is undefined for an optional field that is empty, and each fault
 * is `{ path, message }` with the names on the way to a field.
 */
export function written(field, value, path = []) {
  switch (field.kind) {
    case 'object':
      return writtenObject(field, value, path);
    case 'list':
      return writtenList(field, value, path);
    default:
      return writtenScalar(field, value, path);
  }
}

function writtenScalar(field, value, path) {
  if (value === '' && !(field.kind === 'text' && field.isRequired)) {
    return { faults: field.isRequired ? [{ path, message: 'is required' }] : [] };
  }
  if (field.kind === 'text') return { text: JSON.stringify(value), faults: [] };
  if (field.kind === 'choice') return { text: field.texts[Number(value)], faults: [] };
  const typed = value.trim();
  const message = faultOf(field.kind, typed);
  return { text: typed, faults: message === undefined ? [] : [{ path, message }] };
}

function faultOf(kind, typed) {
  if (kind === 'number' && !NUMBER.test(typed)) return 'must be a number such as 2.5';
  if (kind === 'integer' && !INTEGER.test(typed)) return 'must be a whole number such as 2';
  if (kind !== 'json') return undefined;
  try {
    JSON.parse(typed);
    return undefined;
  } catch (error) {
    return `is not JSON: ${error.message}`;
  }
}

function writtenObject(field, values, path) {
  const parts = field.fields.map((inner, index) => ({ inner, ...written(inner, values[index], [...path, inner.name]) }));
  const sent = parts.filter((part) => part.text !== undefined);
  const isEmpty = sent.length === 0 && !field.isRequired;
  if (isEmpty) return { faults: [] };
  const members = sent.map(({ inner, text }) => `${JSON.stringify(inner.name)}:${text}`);
  return { text: `{${members.join(',')}}`, faults: parts.flatMap((part) => part.faults) };
}

function writtenList(field, values, path) {
  if (values.length === 0 && !field.isRequired) return { faults: [] };
  const parts = values.map((value, index) => written(field.item, value, [...path, String(index + 1)]));
  return { text: `[${parts.map((part) => part.text ?? 'null').join(',')}]`, faults: parts.flatMap((part) => part.faults) };
}
