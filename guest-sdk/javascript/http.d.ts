import { HostError } from './errors.js';

/** A request without a response. */
export declare class HttpError extends HostError<
  | 'denied'
  | 'invalid-request'
  | 'dns'
  | 'connect'
  | 'tls'
  | 'timeout'
  | 'too-large'
  | 'too-many-redirects'
  | 'protocol'
  | 'unavailable'
  | 'limit-reached'
  | 'other'
> {
  /** True if the request may have reached the server. */
  readonly requestSent: boolean;
}

/** A response, whatever its status. */
export interface Response {
  readonly status: number;
  /** Headers as the server sent them. */
  readonly headers: [name: string, value: Uint8Array][];
  readonly body: Uint8Array;
  /** URL of the response, after redirects. */
  readonly finalUrl: string;
  /** Returns the first header of that name, in any case; undefined if it is absent. */
  header(name: string): string | undefined;
  /** Returns the body as text; bytes that are not UTF-8 are replaced. */
  text(): string;
  /** Parses the body as JSON. Fails with `unavailable` if it is none. */
  json(): any;
  /** Returns the response if its status is a success. Fails with the kind that fits the status otherwise. */
  ok(): Response;
}

/** The rest of a request. */
export interface Options {
  /** Parameters to add to the URL. */
  query?: Record<string, string | number | boolean | (string | number | boolean)[]>;
  headers?: Record<string, string | Uint8Array> | [name: string, value: string | Uint8Array][];
  /** The body; a string is sent as UTF-8. */
  body?: Uint8Array | string;
  /** The body as a JSON value, with its content type. */
  json?: unknown;
  /** Names of secrets of the plugin, which the host adds to the request. */
  credentials?: string[];
  /** Time for the whole exchange, in milliseconds. */
  timeoutMs?: number;
  /** Most bytes of the response's body. */
  maxResponseBytes?: number;
  /** `manual` returns a redirect as it is. */
  redirects?: 'follow' | 'manual';
}

/** Sends a request to an absolute URL and waits for the whole response. Fails with `HttpError`. */
export declare function request(method: string, url: string, options?: Options): Response;
/** Sends a GET request. */
export declare function get(url: string, options?: Options): Response;
/** Sends a POST request. */
export declare function post(url: string, options?: Options): Response;
