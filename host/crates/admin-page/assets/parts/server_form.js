// The form of a new server → an element of `mcp.client_configs`.

export const KINDS = [
  ['stdio', 'a program on the machine of the gateway'],
  ['http', 'a server over HTTP'],
  ['sse', 'an old server over HTTP and SSE'],
];

export const EMPTY = { name: '', kind: 'stdio', command: '', args: '', envs: '', url: '', headers: '', tools: '*' };

/** Returns `{ body, faults }`; each fault is `{ field, message }`. */
export function clientBody(form) {
  const faults = [];
  const body = { name: form.name.trim(), connection_type: form.kind };
  if (!/^[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*$/.test(body.name)) faults.push({ field: 'name', message: 'has letters, digits, - and _, such as time or docs-search' });
  if (form.kind === 'stdio') {
    body.stdio_config = processOf(form, faults);
  } else {
    body.connection_string = form.url.trim();
    if (!/^https?:\/\/\S+$/.test(body.connection_string)) faults.push({ field: 'url', message: 'must begin with https:// or http://' });
    const headers = headersOf(form.headers, faults);
    if (headers.length > 0) body.headers = Object.fromEntries(headers);
  }
  body.tools_to_execute = lines(form.tools);
  return { body, faults };
}

function processOf(form, faults) {
  const command = form.command.trim();
  if (command === '') faults.push({ field: 'command', message: 'is required, such as uvx' });
  const envs = lines(form.envs);
  const process = { command, args: lines(form.args) };
  return envs.length > 0 ? { ...process, envs } : process;
}

function headersOf(text, faults) {
  return lines(text).flatMap((line) => {
    const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):\s*(\S.*)$/.exec(line) ?? [];
    if (name === undefined) faults.push({ field: 'headers', message: 'must be lines such as authorization: env.TOKEN' });
    return name === undefined ? [] : [[name, value]];
  });
}

/** Returns the lines of a text that have content. */
export function lines(text) {
  return text.split('\n').map((line) => line.trim()).filter(Boolean);
}
