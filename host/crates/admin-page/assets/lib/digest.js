// Digests of texts.

/** Returns the SHA-256 of a text in hexadecimal; `undefined` where the browser has none, which is on plain HTTP. */
export async function sha256(text) {
  if (!globalThis.crypto?.subtle) return undefined;
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
