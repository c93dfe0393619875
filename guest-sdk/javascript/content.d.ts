/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | JsonObject;

/** A JSON object. */
export type JsonObject = { [name: string]: unknown };

/** Members that every part may have. */
export interface More {
  /** MCP annotations, such as `audience` and `priority`. */
  annotations?: JsonObject;
  /** Vendor keys of the part, forwarded as its MCP `_meta`. */
  meta?: JsonObject;
  /** Other members of the MCP content block, such as `icons`. */
  extra?: JsonObject;
}

/** A resource that the caller may fetch. `name` is for programs, `title` for people, `size` in bytes. */
export interface Link {
  uri: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
  size?: number;
}

/** A resource that is part of the result. */
export interface Resource {
  uri: string;
  contents: string | Uint8Array;
  mimeType?: string;
  /** Vendor keys of the resource itself. */
  meta?: JsonObject;
  /** Other members of the MCP resource contents. */
  extra?: JsonObject;
}

/**
 * One part of a result or of a failure. `type` is the name of the `content-block` in the contract (`airlock:types`). The Model
 * Context Protocol calls a `resource-link` `resource_link`, and an `embedded-resource` `resource`.
 */
export type Part = More &
  (
    | { type: 'text'; text: string }
    | { type: 'image' | 'audio'; data: Uint8Array; mimeType: string }
    | ({ type: 'resource-link' } & Link)
    | { type: 'embedded-resource'; resource: Resource }
    | { type: 'other'; json: JsonObject }
  );

/** Makes a part of text. */
export declare function text(text: string, more?: More): Part;
/** Makes a part with an image; `data` is not encoded. */
export declare function image(data: Uint8Array, mimeType: string, more?: More): Part;
/** Makes a part with a sound; `data` is not encoded. */
export declare function audio(data: Uint8Array, mimeType: string, more?: More): Part;
/** Makes a part that links to a resource, which the caller may fetch. */
export declare function resourceLink(uri: string, name: string, more?: More & Omit<Link, 'uri' | 'name'>): Part;
/** Makes a part that contains a resource, as text or as bytes. */
export declare function embeddedResource(
  uri: string,
  contents: string | Uint8Array,
  more?: More & { mimeType?: string; resourceMeta?: JsonObject; resourceExtra?: JsonObject },
): Part;
/** Makes a part of any other MCP content block. */
export declare function other(block: { type: string; [name: string]: unknown }, more?: More): Part;

/** The result of a tool: parts to read, and the same result as data. */
export declare class Output<T = unknown> {
  constructor(output?: {
    /** Parts, in reading order; a string is a text. */
    content?: (Part | string)[];
    /**
     * The result as data: any JSON value, which must match the output schema if the tool has one. Some clients expect an object.
     * `null` is a value; `undefined` is none.
     */
    structuredContent?: T;
    /** Vendor keys, forwarded as MCP `_meta`. */
    meta?: JsonObject;
    /** Other members of the MCP result. */
    extra?: JsonObject;
  });
  readonly content: Part[];
  readonly structuredContent?: T;
  readonly meta?: JsonObject;
  readonly extra?: JsonObject;
  /** The first text among the parts. */
  get firstText(): string | undefined;
  /** Returns the data or, if there is none, the JSON in the first text. */
  data(): T;
  /** Returns the result of a tool that returned this value. */
  static from(value: unknown): Output;
}
