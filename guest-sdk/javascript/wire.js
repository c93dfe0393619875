/** Conversion between the objects of this package and those of the bindings, without loss. */

import { Output, part } from './content.js';
import { ToolError } from './errors.js';

/** Returns the JSON text of a value; undefined for undefined. */
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
export const fromU64 = (value) => (value === undefined || value === null ? undefined : Number(value));

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
      return { tag: given.type, val: { data: given.data, mimeType: given.mimeType } };
    case 'resource-link': {
      const { uri, name, title, description, mimeType, size } = given;
      return { tag: 'resource-link', val: { uri, name, title, description, mimeType, size: toU64('size', size) } };
    }
    case 'embedded-resource': {
      const { uri, mimeType, contents, meta, extra } = given.resource;
      const tag = typeof contents === 'string' ? 'text' : 'blob';
      const resource = { uri, mimeType, contents: { tag, val: contents }, meta: toJson(meta), extra: toJson(extra) };
      return { tag: 'embedded-resource', val: resource };
    }
    case 'other':
      return { tag: 'other', val: JSON.stringify(given.json) };
    default:
      throw new TypeError(`there is no part of type '${given?.type}'; make parts with text, image and the like`);
  }
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

/** Converts a result. Fails if its data is no object. */
export function outputToHost({ content, structuredContent, meta }) {
  const data = toJson(structuredContent);
  if (data !== undefined && !data.startsWith('{')) throw new TypeError(`structuredContent must be an object, not ${data.slice(0, 40)}`);
  return { content: content.map(contentToHost), structuredContent: data, meta: toJson(meta) };
}

/** Converts a result. */
export const outputFromHost = ({ content, structuredContent, meta }) =>
  new Output({
    content: content.map(contentFromHost),
    structuredContent: fromJson(structuredContent),
    meta: fromJson(meta),
  });

/** Converts a failure. */
export const errorToHost = ({ kind, code, message, retryAfterMs, content, details, meta }) => ({
  kind,
  code,
  message,
  retryAfterMs: toU64('retryAfterMs', retryAfterMs),
  content: content.map((part) => contentToHost(typeof part === 'string' ? { type: 'text', text: part } : part)),
  details: toJson(details),
  meta: toJson(meta),
});

/** Converts a failure of another tool. */
export const errorFromHost = ({ kind, code, message, retryAfterMs, content, details, meta }) =>
  new ToolError(kind, message, {
    code,
    retryAfterMs: fromU64(retryAfterMs),
    content: content.map(contentFromHost),
    details: fromJson(details),
    meta: fromJson(meta),
  });
