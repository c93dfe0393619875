'use strict';
/**
 * Values as JSON, in both directions.
 *
 * `JSON.stringify` would leave out functions, write NaN as null and fail for a BigInt. The native module writes integers that a
 * number does not have in a form of its own, see `src/convert.rs`.
 */

const { types } = require('node:util');

const { valueBounds } = require('./native.js');

const { bytes: MAX_BYTES, levels: MAX_LEVELS } = valueBounds();
/** Memory of an item of a list, or of a member of an object, beside that of its text. */
const ITEM_BYTES = 64;
const MIN_INTEGER = -(2n ** 63n);
const MAX_INTEGER = 2n ** 64n - 1n;

/** Begins a text in which strings have prefixes. */
const MARK = '~';
/** Prefix of an integer. */
const INTEGER = 'n';

/** Characters of the place of a mistake in a value. */
const MAX_PLACE = 80;

/** A part of a value that has no JSON form. */
class NoForm extends Error {}

/** Returns a value as JSON. Fails with a `TypeError` if it has no JSON form, is too deep or too large. */
function encode(value) {
  const encoder = new ValueEncoder();
  try {
    return encoder.value(value);
  } catch (error) {
    if (!(error instanceof NoForm)) throw error;
    const place = encoder.place();
    throw new TypeError(place === '' ? error.message : `${error.message} (in ${place})`);
  }
}

/** Returns the value of a text of the native module. */
function decode(text) {
  return text.startsWith(MARK) ? JSON.parse(text.slice(MARK.length), unmarked) : JSON.parse(text);
}

function unmarked(name, value) {
  if (typeof value !== 'string') return value;
  return value.startsWith(INTEGER) ? BigInt(value.slice(1)) : value.slice(1);
}

class ValueEncoder {
  #bytes = MAX_BYTES;
  #levels = MAX_LEVELS;
  /** Indices and names of the part that is written. */
  #path = [];

  /** Returns the place of the part that is written, such as `orders[2].price`; empty for the whole value. */
  place() {
    const text = this.#path.map((step) => (typeof step === 'number' ? `[${step}]` : `.${step.slice(0, MAX_PLACE)}`)).join('');
    const place = text.startsWith('.') ? text.slice(1) : text;
    return place.length > MAX_PLACE ? `${place.slice(0, MAX_PLACE)}…` : place;
  }

  value(value) {
    switch (typeof value) {
      case 'string':
        return this.#text(value);
      case 'number':
        return this.#take(numberText(value));
      case 'bigint':
        return this.#take(integerText(value));
      case 'boolean':
        return this.#take(String(value));
      case 'undefined':
        return this.#take('null');
      case 'object':
        return value === null ? this.#take('null') : this.#nested(value);
      default:
        throw new NoForm(`a ${typeof value} has no JSON form`);
    }
  }

  /** Writes a value that may have others in it. */
  #nested(value) {
    if (this.#levels === 0) throw new NoForm(`the value is nested more than ${MAX_LEVELS} levels deep, or contains itself`);
    this.#levels -= 1;
    const text = this.#container(value);
    this.#levels += 1;
    return text;
  }

  #container(value) {
    if (Array.isArray(value)) return this.#list(value);
    const bytes = bytesOf(value);
    if (bytes !== undefined) return this.#binary(bytes);
    if (types.isTypedArray(value) || types.isSet(value)) return this.#list(value);
    if (types.isMap(value)) return this.#members(value);
    if (types.isBoxedPrimitive(value)) return this.value(value.valueOf());
    if (types.isDate(value) && Number.isNaN(value.getTime())) throw new NoForm('an invalid Date has no JSON form');
    if (typeof value.toJSON === 'function') return this.value(value.toJSON());
    checkPlain(value);
    return this.#members(properties(value));
  }

  #list(items) {
    const texts = [];
    for (const item of items) {
      this.#charge(ITEM_BYTES);
      this.#path.push(texts.length);
      texts.push(this.value(item));
      this.#path.pop();
    }
    return `[${texts.join(',')}]`;
  }

  /** Writes members, without those that are undefined. */
  #members(members) {
    const texts = [];
    for (const [name, member] of members) {
      if (typeof name !== 'string') throw new NoForm(`the keys of a Map must be strings, found a ${typeof name}`);
      // Also one that is left out: an iterator may have no end.
      this.#charge(ITEM_BYTES);
      if (member === undefined) continue;
      this.#path.push(name);
      texts.push(`${this.#text(name)}:${this.value(member)}`);
      this.#path.pop();
    }
    return `{${texts.join(',')}}`;
  }

  #text(text) {
    // Before it is written, which takes memory.
    this.#charge(text.length);
    if (!text.isWellFormed()) throw new NoForm('a string with half of a surrogate pair has no JSON form');
    return JSON.stringify(text);
  }

  #binary(bytes) {
    // Before the text is made of it, which is longer.
    this.#charge(Math.ceil(bytes.length / 3) * 4);
    return `"${bytes.toString('base64')}"`;
  }

  #take(text) {
    this.#charge(text.length);
    return text;
  }

  #charge(bytes) {
    this.#bytes -= bytes;
    if (this.#bytes < 0) throw new NoForm(`the value takes more than ${MAX_BYTES / 2 ** 20} MiB`);
  }
}

function numberText(number) {
  if (!Number.isFinite(number)) throw new NoForm(`${number} has no JSON form; pass null or a string`);
  const text = String(number);
  // Else its digits would be those of an integer, which are not those of the number.
  const isRounded = Number.isInteger(number) && !Number.isSafeInteger(number);
  return isRounded && !text.includes('e') ? `${text}.0` : text;
}

function integerText(integer) {
  if (integer < MIN_INTEGER || integer > MAX_INTEGER) {
    throw new NoForm('a BigInt of more than 64 bits would be rounded; pass it as a string');
  }
  return String(integer);
}

/** Iterates over the properties of an object. A getter is called when the values before it are charged. */
function* properties(value) {
  for (const name of Object.keys(value)) yield [name, value[name]];
}

/** Returns the bytes of a binary value; undefined for another one, also for an array of other numbers. */
function bytesOf(value) {
  if (types.isAnyArrayBuffer(value)) return Buffer.from(value);
  if (types.isUint8Array(value) || types.isUint8ClampedArray(value) || types.isDataView(value)) {
    return Buffer.from(value.buffer, value.byteOffset, value.byteLength);
  }
  return undefined;
}

/** Fails for objects whose properties are not their value, such as a Promise, an Error or a RegExp. */
function checkPlain(value) {
  if (typeof value.then === 'function') throw new NoForm('a promise has no JSON form; await it');
  const tag = Object.prototype.toString.call(value).slice('[object '.length, -1);
  if (tag !== 'Object') throw new NoForm(`a value of type ${tag} has no JSON form; return a plain object or a string`);
}

module.exports = { decode, encode };
