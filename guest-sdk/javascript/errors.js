/** Failures: of a tool, and of the host. */

const KINDS = [
  'invalid-input', 'not-found', 'conflict', 'denied', 'auth-required', 'rate-limited', 'limit-reached', 'unavailable', 'unsupported',
  'timeout', 'cancelled', 'too-large', 'internal', 'other',
];

/** Prefix of the codes of the host's own errors. The host removes it from the code of a tool. */
const HOST_CODE = 'airlock.';

/** Returns true if the contract has this kind. */
export const isKind = (kind) => KINDS.includes(kind);

/** Returns the JSON text of a value; undefined for undefined. Fails with a `TypeError` that names the value. */
export function jsonText(name, value) {
  if (value === undefined) return undefined;
  let text;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw new TypeError(`${name} must be a JSON value: ${error?.message}`);
  }
  if (text === undefined) throw new TypeError(`${name} must be a JSON value, not a ${typeof value}`);
  return text;
}

/** Returns the JSON text of an object; undefined for undefined and null. Fails with a `TypeError` that names the value. */
export function objectText(name, value) {
  const text = jsonText(name, value ?? undefined);
  if (text !== undefined && !text.startsWith('{')) throw new TypeError(`${name} must be an object`);
  return text;
}

/** Fails with a `TypeError` if the contract cannot have an error with these members. */
export function checkError({ kind, code, retryAfterMs, content, details, meta, extra }) {
  if (!isKind(kind)) throw new TypeError(`there is no kind of failure '${String(kind)}'; known are ${KINDS.join(', ')}`);
  if (code !== undefined && typeof code !== 'string') throw new TypeError(`code must be a string, not ${String(code)}`);
  if (retryAfterMs !== undefined && !(Number.isSafeInteger(retryAfterMs) && retryAfterMs >= 0)) {
    throw new TypeError(`retryAfterMs must be a whole number of 0 or more, not ${String(retryAfterMs)}`);
  }
  if (!Array.isArray(content) || !content.every((part) => typeof part === 'string' || typeof part?.type === 'string')) {
    throw new TypeError('content must be an array of parts and strings');
  }
  jsonText('details', details);
  objectText('meta', meta);
  objectText('extra', extra);
}

/** A failure, as the model reads it. */
export class ToolError extends Error {
  constructor(kind, message, { code, retryAfterMs, content, details, meta, extra } = {}) {
    super(message);
    this.name = 'ToolError';
    // Null is a value of `details` only.
    code ??= undefined;
    retryAfterMs ??= undefined;
    meta ??= undefined;
    extra ??= undefined;
    Object.assign(this, { kind, code, retryAfterMs, content: content ?? [], details, meta, extra });
    checkError(this);
  }

  /** True if the host made the error of a called tool, and not the tool. */
  get isFromHost() {
    return typeof this.code === 'string' && this.code.startsWith(HOST_CODE);
  }
}

/** A refusal or a failure of the host. A tool that does not catch it fails with `toToolError()`. */
export class HostError extends Error {
  constructor(name, kind, message, toolKind, details) {
    super(message);
    this.name = name;
    this.kind = kind;
    Object.defineProperty(this, 'toToolError', {
      value: () => {
        const code = `${name.replace('Error', '').toLowerCase()}_${kind.replaceAll('-', '_')}`;
        return new ToolError(toolKind, message, { code, details });
      },
    });
  }
}
