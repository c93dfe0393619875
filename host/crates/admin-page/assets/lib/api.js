// Requests to the API of the gateway.

/** Where the token of an operator is kept: in the tab, until it is closed. */
const TOKEN = 'airlock.token';
/** Time after which a request is given up. */
const TIMEOUT_MS = 90_000;
/** Time after the last input of a person after which requests are of the page alone. */
const ATTENDED_MS = 60_000;

let lastInput = Date.now();

/** A request that has failed: with status 0 if there was no response. */
export class ApiError extends Error {
  constructor(status, code, message, { param, retryAfter } = {}) {
    super(message);
    Object.assign(this, { status, code, param: param ?? undefined, retryAfter });
  }
}

/** The session: `renew` asks for a login and returns `{ isSame }` or nothing, `reload` reads it again. */
export const session = { csrf: undefined, renew: undefined, reload: undefined };

export function token() {
  return sessionStorage.getItem(TOKEN);
}

/** Keeps a token for this tab; an empty one is removed. */
export function keepToken(value) {
  if (value) sessionStorage.setItem(TOKEN, value);
  else sessionStorage.removeItem(TOKEN);
}

/** Notes that a person uses the page now. */
export function noteInput() {
  lastInput = Date.now();
}

/**
 * Returns the headers of the credential. In a session of the browser, a change needs its token, and what the page reads without a
 * person is no use of the session: it ends after its idle time although the page is open.
 */
export function credential(method, own = token()) {
  if (own) return { authorization: `Bearer ${own}` };
  if (method !== 'GET') return session.csrf ? { 'x-airlock-csrf': session.csrf } : {};
  return Date.now() - lastInput > ATTENDED_MS ? { 'x-airlock-background': 'true' } : {};
}

/** Returns the document of a path. */
export async function get(path, options) {
  return JSON.parse(await text('GET', path, options));
}

/** Returns the document of a path as it was written. */
export function getText(path, options) {
  return text('GET', path, options);
}

/** Sends a request with a JSON body, or none, and returns the document of the response, or what `read` makes of its text. */
export async function send(method, path, body, { read = JSON.parse, ...options } = {}) {
  const sent = body === undefined ? {} : { body: JSON.stringify(body), type: 'application/json' };
  return read((await text(method, path, { ...options, ...sent })) || 'null');
}

/** Sends a file as the body of a request. */
export async function sendFile(method, path, file, type = 'application/wasm') {
  return JSON.parse((await text(method, path, { body: file, type })) || 'null');
}

/** Sends a request, again once after a login that was renewed. Returns the text of the response. */
async function text(method, path, options = {}) {
  try {
    return await once(method, path, options);
  } catch (error) {
    if (options.isLogin || !(await isRenewed(method, error))) throw error;
    return once(method, path, options);
  }
}

/** Returns whether the request can be sent again. A change is sent again only for the same operator. */
async function isRenewed(method, error) {
  const isOldToken = error.code === 'csrf_token_invalid';
  if (!isOldToken && error.status !== 401) return false;
  const renewed = await (isOldToken ? session.reload?.() : session.renew?.());
  if (renewed && method !== 'GET' && !renewed.isSame) {
    throw new ApiError(401, 'operator_changed', 'Another operator has logged in. Nothing was sent: read it again, and send it yourself.');
  }
  return isOldToken || renewed !== undefined;
}

async function once(method, path, { body, type, headers, ownToken, isLogin, signal } = {}) {
  const response = await reached(path, {
    method,
    body,
    headers: { accept: 'application/json', ...(type && { 'content-type': type }), ...credential(method, ownToken), ...headers },
    cache: 'no-store',
    credentials: isLogin && ownToken ? 'omit' : 'same-origin',
    redirect: 'error',
    signal: signal ?? AbortSignal.timeout(TIMEOUT_MS),
  });
  const content = await response.text().catch((cause) => {
    throw unreachable(cause);
  });
  if (!response.ok) throw failure(response, content);
  return content;
}

/** Sends a request. Fails with an `ApiError` if there is no response. */
export async function reached(path, options) {
  try {
    return await fetch(path, options);
  } catch (cause) {
    throw unreachable(cause);
  }
}

function unreachable(cause) {
  const isLate = cause?.name === 'TimeoutError';
  const message = isLate ? 'The gateway has not responded in time.' : 'The gateway cannot be reached. Is it running?';
  return new ApiError(0, cause?.name === 'AbortError' ? 'aborted' : 'unreachable', message);
}

/** Returns the error of a response: that of the API, or one with the status alone. */
export function failure(response, content) {
  let error;
  try {
    error = JSON.parse(content).error;
  } catch {
    // A proxy in front of the gateway has responded.
  }
  const message = typeof error?.message === 'string' ? error.message : `The response has the status ${response.status}.`;
  const code = typeof error?.code === 'string' ? error.code : 'unknown';
  const retryAfter = Number(response.headers.get('retry-after')) || undefined;
  return new ApiError(response.status, code, message, { param: error?.param, retryAfter });
}
