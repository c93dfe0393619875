/** Conversion between the objects of this package and those of the bindings, without loss. */

import { Output, part } from './content.js';
import { ToolError, checkError, jsonText, objectText } from './errors.js';

/** Returns the JSON text of an object; undefined for undefined and null. */
export const toJson = (value) => (value === undefined || value === null ? undefined : JSON.stringify(value));

/** Parses a JSON text; undefined for undefined. */
export const fromJson = (text) => (text === undefined || text === null ? undefined : JSON.parse(text));

/** Converts a number to what the contract has for 64 bits. */
export const toU64 = (name, value) => {
  if (value === undefined) return undefined;
  if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${name} must be a whole number of 0 or more, not ${value}`);
  return BigInt(value);
};

/** Converts what the contract has for 64 bits to a number. */
// A number cannot have every value of 64 bits.
export const fromU64 = (value) =>
  value === undefined || value === null ? undefined : Math.min(Number(value), Number.MAX_SAFE_INTEGER);

/** Converts a part. */
export function contentToHost(given) {
  const { annotations, meta, extra } = given;
  return { block: blockToHost(given), annotations: toJson(annotations), meta: toJson(meta), extra: toJson(extra) };
}

function blockToHost(given) {
  switch (given.type) {
    case 'text':
      return { tag: 'text', val: String(given.text) };
    case 'image':
    case 'audio':
      return { tag: given.type, val: { data: bytes('data', given.data), mimeType: string('mimeType', given.mimeType) } };
    case 'resource-link': {
      const { uri, name, title, description, mimeType, size } = given;
      return {
        tag: 'resource-link',
        val: {
          uri: string('uri', uri),
          name: string('name', name),
          title: optional('title', title),
          description: optional('description', description),
          mimeType: optional('mimeType', mimeType),
          size: toU64('size', size),
        },
      };
    }
    case 'embedded-resource': {
      const { uri, mimeType, contents, meta, extra } = given.resource;
      const val = typeof contents === 'string' ? { tag: 'text', val: contents } : { tag: 'blob', val: bytes('contents', contents) };
      const types = { uri: string('uri', uri), mimeType: optional('mimeType', mimeType) };
      return { tag: 'embedded-resource', val: { ...types, contents: val, meta: toJson(meta), extra: toJson(extra) } };
    }
    case 'other':
      return { tag: 'other', val: string('json', jsonText('json', given.json)) };
    default:
      throw new TypeError(`there is no part of type '${given?.type}'; make parts with text, image and the like`);
  }
}

// The bindings convert after `invoke` has returned: a member of a wrong type would end the call there, without an error.

function string(name, value) {
  if (typeof value !== 'string') throw new TypeError(`${name} of a part must be a string, not ${String(value)}`);
  return value;
}

const optional = (name, value) => (value === undefined || value === null ? undefined : string(name, value));

function bytes(name, value) {
  if (!(value instanceof Uint8Array)) throw new TypeError(`${name} of a part must be a Uint8Array`);
  return value;
}

/** Converts a part. */
export function contentFromHost({ block, annotations, meta, extra }) {
  const more = { annotations: fromJson(annotations), meta: fromJson(meta), extra: fromJson(extra) };
  return part({ type: block.tag, ...blockFromHost(block), ...more });
}

function blockFromHost({ tag, val }) {
  switch (tag) {
    case 'text':
      return { text: val };
    case 'resource-link':
      return { ...val, size: fromU64(val.size) };
    case 'embedded-resource': {
      const { uri, mimeType, contents, meta, extra } = val;
      return { resource: { uri, contents: contents.val, mimeType, meta: fromJson(meta), extra: fromJson(extra) } };
    }
    case 'other':
      return { json: fromJson(val) };
    default:
      return val;
  }
}

/** Converts a result. Fails if its data is no JSON value. */
export const outputToHost = ({ content, structuredContent, meta, extra }) => ({
  content: content.map(contentToHost),
  structuredContent: jsonText('structuredContent', structuredContent),
  meta: objectText('meta', meta),
  extra: objectText('extra', extra),
});

/** Converts a result. */
export const outputFromHost = ({ content, structuredContent, meta, extra }) =>
  new Output({
    content: content.map(contentFromHost),
    structuredContent: fromJson(structuredContent),
    meta: fromJson(meta),
    extra: fromJson(extra),
  });

/** Converts a failure. Fails if a member was changed so that the contract cannot have it. */
export function errorToHost(error) {
  const { kind, code, message, retryAfterMs, content, details, meta, extra } = error;
  checkError(error);
  return {
    kind,
    code,
    message: String(message),
    retryAfterMs: toU64('retryAfterMs', retryAfterMs),
    content: content.map((part) => contentToHost(typeof part === 'string' ? { type: 'text', text: part } : part)),
    details: jsonText('details', details),
    meta: objectText('meta', meta),
    extra: objectText('extra', extra),
  };
}

/** Converts a failure of another tool. */
export const errorFromHost = ({ kind, code, message, retryAfterMs, content, details, meta, extra }) =>
  new ToolError(kind, message, {
    code,
    retryAfterMs: fromU64(retryAfterMs),
    content: content.map(contentFromHost),
    details: fromJson(details),
    meta: fromJson(meta),
    extra: fromJson(extra),
  });
