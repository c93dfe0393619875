/** Schemas: builders that become JSON Schema, and that convert and check a JSON value. */

import { ToolError } from './errors.js';
import { excerpt, expected, misfit } from './words.js';

/** A schema. It does not change: every method returns another one. */
export class Schema {
  #json;
  #convert;
  /** True if a member with this schema may be left out of an object. */
  isOptional;
  /** Value of a member that is left out. */
  fallback;

  constructor(json, convert, { isOptional = false, fallback } = {}) {
    this.#json = json;
    this.#convert = convert;
    this.isOptional = isOptional;
    this.fallback = fallback;
  }

  /** Returns the JSON Schema; `JSON.stringify` calls it. */
  toJSON() {
    return this.#json;
  }

  /** Converts a JSON value. Fails with `invalid-input` if it does not fit; `place` is its place, for the message. */
  parse(value, place = '') {
    return this.#convert(value, place, this.#json);
  }

  #with(json, more = {}) {
    return new Schema({ ...this.#json, ...json }, this.#convert, { isOptional: this.isOptional, fallback: this.fallback, ...more });
  }

  /** Adds a bound, and checks it after the conversion. */
  #bound(json, fits) {
    const convert = this.#convert;
    const checked = (value, place, whole) => {
      const converted = convert(value, place, whole);
      if (value !== null && !fits(value)) throw misfit(place, whole, value);
      return converted;
    };
    return new Schema({ ...this.#json, ...json }, checked, { isOptional: this.isOptional, fallback: this.fallback });
  }

  /** Describes the value to a model. */
  describe(description) {
    return this.#with({ description });
  }

  /** Adds examples. */
  examples(...examples) {
    return this.#with({ examples });
  }

  /** Adds keywords of JSON Schema, which the host checks. */
  with(json) {
    return this.#with(json);
  }

  /** Lets the member be left out. */
  optional() {
    return this.#with({}, { isOptional: true });
  }

  /** Lets the member be left out, and gives it a value then. */
  default(value) {
    return this.#with({ default: value }, { isOptional: true, fallback: value });
  }

  /** Lets the value be null. */
  nullable() {
    const { description, default: fallback, ...rest } = this.#json;
    const convert = this.#convert;
    const json = { anyOf: [rest, { type: 'null' }] };
    if (description !== undefined) json.description = description;
    if (fallback !== undefined) json.default = fallback;
    const either = (value, place) => (value === null ? null : convert(value, place, rest));
    return new Schema(json, either, { isOptional: this.isOptional, fallback: this.fallback });
  }

  /** Sets the least number, or the fewest characters or items. */
  min(min) {
    const [keyword, size] = measure(this.#json, 'min', 'min');
    return this.#bound({ [keyword]: min }, (value) => size(value) >= min);
  }

  /** Sets the greatest number, or the most characters or items. */
  max(max) {
    const [keyword, size] = measure(this.#json, 'max', 'max');
    return this.#bound({ [keyword]: max }, (value) => size(value) <= max);
  }

  /** Sets the regular expression that a string must match somewhere. */
  pattern(pattern) {
    const expression = pattern instanceof RegExp ? pattern : new RegExp(pattern, 'u');
    return this.#bound({ pattern: expression.source }, (value) => new RegExp(expression.source, expression.flags.replace(/[gy]/g, '')).test(value));
  }
}

function measure({ type }, limit) {
  const letters = (value) => [...value].length;
  const items = (value) => value.length;
  const known = {
    string: [`${limit}Length`, letters], array: [`${limit}Items`, items],
    number: [`${limit}imum`, Number], integer: [`${limit}imum`, Number],
  };
  if (!Object.hasOwn(known, type ?? '')) throw new TypeError(`a schema of type ${type} has no ${limit}`);
  return known[type];
}

const is = (type, fits) =>
  new Schema({ type }, (value, place, json) => {
    if (!fits(value)) throw misfit(place, json, value);
    return value;
  });

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

const at = (place, name) => (place === '' ? name : `${place}.${name}`);

/** The builders. */
export const s = Object.freeze({
  string: () => is('string', (value) => typeof value === 'string'),
  number: () => is('number', (value) => typeof value === 'number'),
  integer: () => is('integer', Number.isInteger),
  boolean: () => is('boolean', (value) => typeof value === 'boolean'),
  null: () => is('null', (value) => value === null),
  any: () => new Schema({}, (value) => value),

  /** One of some strings, numbers, booleans or null. */
  enum(values) {
    const types = new Set(values.map((value) => typeof value));
    const type = types.size === 1 && { string: 'string', number: 'number', boolean: 'boolean' }[typeof values[0]];
    return new Schema({ ...(type ? { type } : {}), enum: [...values] }, (value, place, json) => {
      if (!values.includes(value)) throw misfit(place, json, value);
      return value;
    });
  },

  /** A list. */
  array: (item) =>
    new Schema({ type: 'array', items: item.toJSON() }, (value, place, json) => {
      if (!Array.isArray(value)) throw misfit(place, json, value);
      return value.map((each, index) => item.parse(each, `${place}[${index}]`));
    }),

  /** An object with these members and no others. */
  object: (members) =>
    new Schema(
      {
        type: 'object',
        properties: Object.fromEntries(Object.entries(members).map(([name, member]) => [name, member.toJSON()])),
        required: Object.keys(members).filter((name) => !members[name].isOptional),
        additionalProperties: false,
      },
      (value, place, json) => {
        if (!isObject(value)) throw misfit(place, json, value);
        return convertMembers(members, value, place);
      },
    ),

  /** An object with any members of one schema. */
  record: (item) =>
    new Schema({ type: 'object', additionalProperties: item.toJSON() }, (value, place, json) => {
      if (!isObject(value)) throw misfit(place, json, value);
      return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, item.parse(each, at(place, name))]));
    }),

  /** The first of some schemas that fits. */
  union: (...schemas) =>
    new Schema({ anyOf: schemas.map((schema) => schema.toJSON()) }, (value, place, json) => {
      for (const schema of schemas) {
        try {
          return schema.parse(value, place);
        } catch (error) {
          if (!(error instanceof ToolError)) throw error;
        }
      }
      throw misfit(place, json, value);
    }),

  /** Any JSON Schema, which the host alone checks. */
  json: (json) => new Schema(json, (value) => value),
});

function convertMembers(members, value, place) {
  const names = Object.keys(members);
  for (const name of Object.keys(value)) {
    if (!Object.hasOwn(members, name)) {
      const known = names.length > 0 ? `known are ${names.map((known) => `\`${known}\``).join(', ')}` : 'none is known';
      throw new ToolError('invalid-input', `unknown argument \`${excerpt(at(place, name))}\`; ${known}`);
    }
  }
  const converted = {};
  for (const [name, member] of Object.entries(members)) {
    if (Object.hasOwn(value, name)) {
      converted[name] = member.parse(value[name], at(place, name));
    } else if (!member.isOptional) {
      const words = expected(member.toJSON());
      throw new ToolError('invalid-input', `argument \`${at(place, name)}\` is missing${words && `; it must be ${words}`}`);
    } else if (member.fallback !== undefined) {
      converted[name] = structuredClone(member.fallback);
    }
  }
  return converted;
}
