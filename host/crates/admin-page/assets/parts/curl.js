// The line of curl that does the same as an action of the page, without the credential.

/** Returns the line for a request `{ method, path, body, file }`. Every foreign part is in single quotes. */
export function curlLine(origin, { method, path, body, file }) {
  const isPlain = method === 'GET' || (method === 'POST' && (body ?? file) !== undefined);
  const parts = [
    'curl',
    isPlain ? '' : `-X ${method}`,
    quoted(origin + path),
    '-H "Authorization: Bearer $AIRLOCK_OPERATOR_TOKEN"',
    body === undefined ? '' : `-d ${quoted(JSON.stringify(body))}`,
    file === undefined ? '' : `-H 'Content-Type: application/wasm' --data-binary @${quoted(file)}`,
  ];
  return parts.filter(Boolean).join(' ');
}

/** Quotes a text for a shell; characters that a terminal hides are escaped as JSON does. */
function quoted(text) {
  const shown = text.replaceAll(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, escaped);
  return /^[\w:/.,?&=%-]+$/.test(shown) && !/[?&]/.test(shown) ? shown : `'${shown.replaceAll("'", "'\\''")}'`;
}

function escaped(character) {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
