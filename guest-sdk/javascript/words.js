/** JSON values and schemas in words, for messages that a model reads. */

import { ToolError } from './errors.js';

/** Longest piece of a value that a message repeats, in characters. */
const EXCERPT_MAX = 40;

/** Returns the failure of a value that does not fit. */
export function misfit(place, json, value) {
  const subject = place === '' ? 'the value' : `argument \`${place}\``;
  const words = expected(json);
  return new ToolError('invalid-input', words ? `${subject} must be ${words}, not ${found(value)}` : `${subject} cannot be ${found(value)}`);
}

/** Describes in words what a schema expects; empty if its type is not enough to describe it. */
export function expected(json) {
  if (json.enum) return `one of ${json.enum.filter((value) => value !== null).map((value) => JSON.stringify(value)).join(', ')}`;
  if (json.anyOf) {
    const words = json.anyOf.filter(({ type }) => type !== 'null').map(expected);
    return words.every(Boolean) ? words.join(' or ') : '';
  }
  const known = {
    integer: 'an integer', number: 'a number', string: 'a string', boolean: 'true or false', array: 'an array', object: 'an object', null: 'null',
  };
  return Object.hasOwn(known, json.type ?? '') ? known[json.type] + bounds(json) : '';
}

function bounds({ type, minimum, maximum, minLength, maxLength, minItems, maxItems, pattern }) {
  const matches = pattern === undefined ? '' : ` that matches ${pattern}`;
  if (minimum !== undefined && maximum !== undefined) return ` from ${minimum} to ${maximum}`;
  if (minimum !== undefined) return ` of ${minimum} or more`;
  if (maximum !== undefined) return ` of ${maximum} or less`;
  const [least, most, unit] = type === 'array' ? [minItems, maxItems, 'items'] : [minLength, maxLength, 'characters'];
  if (least !== undefined && most !== undefined) return `${matches} of ${least} to ${most} ${unit}`;
  if (least !== undefined) return `${matches} of at least ${least} ${unit}`;
  return most === undefined ? matches : `${matches} of at most ${most} ${unit}`;
}

function found(value) {
  if (typeof value === 'string') return `the string "${excerpt(value)}"`;
  if (Array.isArray(value)) return `an array of ${value.length}`;
  return typeof value === 'object' && value !== null ? 'an object' : String(value);
}

/** Cuts a text. */
export const excerpt = (text) => (text.length <= EXCERPT_MAX ? text : `${text.slice(0, EXCERPT_MAX)}…`);
