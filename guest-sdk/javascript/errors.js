/** Failures: of a tool, and of the host. */

const KINDS = [
  'invalid-input', 'not-found', 'conflict', 'denied', 'auth-required', 'rate-limited', 'unavailable', 'unsupported', 'timeout',
  'cancelled', 'too-large', 'internal', 'other',
];

/** A failure, as the model reads it. */
export class ToolError extends Error {
  constructor(kind, message, { code, retryAfterMs, content = [], details, meta } = {}) {
    if (!KINDS.includes(kind)) throw new TypeError(`there is no kind of failure '${kind}'; known are ${KINDS.join(', ')}`);
    super(message);
    this.name = 'ToolError';
    Object.assign(this, { kind, code, retryAfterMs, content, details, meta });
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
