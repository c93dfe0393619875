/** HTTP requests to the servers that the operator grants. A request that is not granted fails with `denied`. */

import * as host from 'airlock:host/http@0.1.0';

import { HostError, ToolError } from './errors.js';
import { toU64 } from './wire.js';

const EXCERPT = 200;
const KINDS = {
  denied: 'denied', 'invalid-request': 'invalid-input', timeout: 'timeout', 'too-large': 'too-large',
  'limit-reached': 'limit-reached', other: 'other',
};
const STATUS = {
  401: 'auth-required', 403: 'denied', 404: 'not-found', 408: 'timeout', 409: 'conflict', 410: 'not-found', 429: 'rate-limited',
  504: 'timeout',
};

/** A request without a response. */
export class HttpError extends HostError {
  constructor({ kind, message, requestSent }) {
    super('HttpError', kind, message, KINDS[kind] ?? 'unavailable', { request_sent: requestSent });
    this.requestSent = requestSent;
  }
}

/** A response, whatever its status. */
class Response {
  constructor({ status, headers, body, finalUrl }) {
    Object.assign(this, { status, headers: headers.map(({ name, value }) => [name, value]), body, finalUrl });
  }

  /** Returns the first header of that name, in any case; undefined if it is absent. */
  header(name) {
    const found = this.headers.find(([known]) => known.toLowerCase() === name.toLowerCase());
    return found && String.fromCharCode(...found[1]);
  }

  /** Returns the body as text; bytes that are not UTF-8 are replaced. */
  text() {
    return new TextDecoder().decode(this.body);
  }

  /** Parses the body as JSON. Fails with `unavailable` if it is none. */
  json() {
    try {
      return JSON.parse(this.text());
    } catch (error) {
      throw new ToolError('unavailable', `the server's response is not JSON: ${error.message}`);
    }
  }

  /** Returns the response if its status is a success. Fails with the kind that fits the status otherwise. */
  ok() {
    if (this.status >= 200 && this.status < 300) return this;
    const kind = STATUS[this.status] ?? (this.status >= 400 && this.status < 500 ? 'invalid-input' : 'unavailable');
    // The engine of components knows no Unicode properties in regular expressions.
    const excerpt = this.text().slice(0, EXCERPT).replace(/[\x00-\x1f\x7f-\x9f]/g, '');
    const after = this.header('retry-after')?.trim() ?? '';
    throw new ToolError(kind, `the server responded with ${this.status}: ${excerpt}`, {
      code: `http_${this.status}`,
      retryAfterMs: /^\d{1,8}$/.test(after) ? Number(after) * 1000 : undefined,
    });
  }
}

/** Sends a request and waits for the whole response. */
export function request(method, url, options = {}) {
  const { query, headers = [], body, json, credentials = [], timeoutMs, maxResponseBytes, redirects = 'follow' } = options;
  const fields = Array.isArray(headers) ? [...headers] : Object.entries(headers);
  if (json !== undefined && body !== undefined) throw new TypeError('a request has body or json, not both');
  if (json !== undefined && !fields.some(([name]) => name.toLowerCase() === 'content-type')) {
    fields.push(['content-type', 'application/json']);
  }
  const sent = {
    method: method.toUpperCase(),
    url: withQuery(url, query),
    headers: fields.map(([name, value]) => ({ name, value: bytes(value) })),
    body: bytes(json === undefined ? body : JSON.stringify(json)),
    timeoutMs: toU64('timeoutMs', timeoutMs),
    maxResponseBytes: toU64('maxResponseBytes', maxResponseBytes),
    credentials,
    redirects,
  };
  try {
    return new Response(host.send(sent));
  } catch (error) {
    throw error?.payload?.kind ? new HttpError(error.payload) : error;
  }
}

/** Sends a GET request. */
export const get = (url, options) => request('GET', url, options);

/** Sends a POST request. */
export const post = (url, options) => request('POST', url, options);

const bytes = (value) => (typeof value === 'string' ? new TextEncoder().encode(value) : value);

function withQuery(url, query = {}) {
  const pairs = Object.entries(query).flatMap(([name, value]) => [value].flat().map((each) => [name, each]));
  if (pairs.length === 0) return url;
  const added = pairs.map((pair) => pair.map(encodeURIComponent).join('=')).join('&');
  const [, before, fragment] = /^([^#]*)(.*)$/s.exec(url);
  return `${before}${before.includes('?') ? '&' : '?'}${added}${fragment}`;
}
