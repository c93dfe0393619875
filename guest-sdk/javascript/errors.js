/** Failures: of a tool, and of the host. */

const KINDS = [
  'invalid-input', 'not-found', 'conflict', 'denied', 'auth-required', 'rate-limited', 'unavailable', 'unsupported', 'timeout',
  'cancelled', 'too-large', 'internal', 'other',
];

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

/** Fails with a `TypeError` if the contract cannot have an error with these members. */
export function checkError({ kind, code, retryAfterMs, content, details, meta }) {
  if (!isKind(kind)) throw new TypeError(`there is no kind of failure '${String(kind)}'; known are ${KINDS.join(', ')}`);
  if (code !== undefined && typeof code !== 'string') throw new TypeError(`code must be a string, not ${String(code)}`);
  if (retryAfterMs !== undefined && !(Number.isSafeInteger(retryAfterMs) && retryAfterMs >= 0)) {
    throw new TypeError(`retryAfterMs must be a whole number of 0 or more, not ${String(retryAfterMs)}`);
  }
  if (!Array.isArray(content) || !content.every((part) => typeof part === 'string' || typeof part?.type === 'string')) {
    throw new TypeError('content must be an array of parts and strings');
  }
  const isObject = typeof meta === 'object' && meta !== null && !Array.isArray(meta);
  if (meta !== undefined && !isObject) throw new TypeError('meta must be an object');
  jsonText('details', details);
  jsonText('meta', meta);
}

/** A failure, as the model reads it. */
export class ToolError extends Error {
  constructor(kind, message, { code, retryAfterMs, content, details, meta } = {}) {
    super(message);
    this.name = 'ToolError';
    // Null is a value of `details` only.
    code ??= undefined;
    retryAfterMs ??= undefined;
    meta ??= undefined;
    Object.assign(this, { kind, code, retryAfterMs, content: content ?? [], details, meta });
    checkError(this);
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
