/** Parts of results, and results. A part is an object whose `type` is the name of its `content-block` in the contract. */

import { ToolError } from './errors.js';

/** A part. A class, so that data that a tool returns is never taken for one. */
class Part {
  constructor(members) {
    for (const [name, value] of Object.entries(members)) if (value !== undefined) this[name] = value;
  }
}

/** Makes a part from its members. */
export const part = (members) => new Part(members);

/** Makes a part of text. */
export const text = (text, more) => part({ type: 'text', text, ...more });

/** Makes a part with an image; `data` is a `Uint8Array`, not encoded. */
export const image = (data, mimeType, more) => part({ type: 'image', data, mimeType, ...more });

/** Makes a part with a sound; `data` is a `Uint8Array`, not encoded. */
export const audio = (data, mimeType, more) => part({ type: 'audio', data, mimeType, ...more });

/** Makes a part that links to a resource, which the caller may fetch. */
export const resourceLink = (uri, name, more) => part({ type: 'resource-link', uri, name, ...more });

/** Makes a part that contains a resource: `contents` is a string or a `Uint8Array`. */
export const embeddedResource = (uri, contents, { mimeType, resourceMeta: meta, resourceExtra: extra, ...more } = {}) =>
  part({ type: 'embedded-resource', resource: { uri, contents, mimeType, meta, extra }, ...more });

/** Makes a part of any other MCP content block: a JSON object with a `type`. */
export const other = (block, more) => {
  if (typeof block?.type !== 'string') throw new TypeError('a content block needs a member `type` that is a string');
  return part({ type: 'other', json: block, ...more });
};

/** The result of a tool: parts to read, and the same result as data. */
export class Output {
  constructor({ content = [], structuredContent, meta, extra } = {}) {
    this.content = content.map((part) => (typeof part === 'string' ? text(part) : part));
    this.structuredContent = structuredContent;
    this.meta = meta;
    this.extra = extra;
  }

  /** Returns the first text among the parts. */
  get firstText() {
    return this.content.find((part) => part.type === 'text')?.text;
  }

  /** Returns the data or, if there is none, the JSON in the first text. */
  data() {
    if (this.structuredContent !== undefined) return this.structuredContent;
    if (this.firstText === undefined) throw new ToolError('internal', 'the tool returned neither data nor text');
    try {
      return JSON.parse(this.firstText);
    } catch (error) {
      throw new ToolError('internal', `the tool's result is not JSON: ${error.message}`);
    }
  }

  /**
   * Returns the result of a tool that returned this value: a string is a text; an object is data, and its JSON a text for
   * readers that know only texts.
   */
  static from(value) {
    if (value instanceof Output) return value;
    if (value === undefined || value === null) return new Output();
    if (typeof value === 'string' || value instanceof Part) return new Output({ content: [value] });
    if (Array.isArray(value) && value.length > 0 && value.every((each) => each instanceof Part)) return new Output({ content: value });
    const json = JSON.stringify(value);
    if (json === undefined) throw new TypeError(`a tool cannot return a ${typeof value}`);
    const isData = json.startsWith('{');
    return new Output({ content: [json], structuredContent: isData ? value : undefined });
  }
}
