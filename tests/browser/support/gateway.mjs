// A real gateway as a child process, and its API as an operator or a caller uses it.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { until } from './until.mjs';

const HOSTILE_SERVER = fileURLToPath(new URL('../hostile_server.mjs', import.meta.url));

/** Command and arguments of the hostile server. */
export const HOSTILE_COMMAND = { command: process.execPath, args: [HOSTILE_SERVER] };

/** Returns the hostile server as a source of tools. Calls of its tool `note` wait for an approval. */
export function hostile(name, members = {}) {
  return {
    name,
    connection_type: 'stdio',
    stdio_config: { ...HOSTILE_COMMAND, envs: ['PATH'] },
    tools_to_execute: ['*'],
    tools_to_auto_execute: ['read', 'fail', 'change'],
    allow_on_all_virtual_keys: true,
    ...members,
  };
}

/** Configuration of the gateway that the suite starts: the hostile server for models, and once more for scripts. */
function configuration() {
  return {
    server: { listen: '127.0.0.1:0' },
    store: 'airlock.db',
    records: { call_log: { enabled: true, contents: true } },
    mcp_server: { approval_wait: '0s' },
    mcp: {
      tool_manager_config: {},
      client_configs: [
        hostile('hostile', { tools_to_approve_twice: ['transfer'] }),
        hostile('scripts', { is_code_mode_client: true }),
      ],
    },
    providers: {},
  };
}

/** A gateway that serves. `stop` ends it and removes its directory. */
export class Gateway {
  #child;
  #said = '';

  /** Starts a gateway with an empty store, and makes its first operator by the setup token. */
  static async start() {
    const gateway = new Gateway();
    gateway.directory = await mkdtemp(join(tmpdir(), 'airlock-browser-'));
    await writeFile(join(gateway.directory, 'airlock.json'), JSON.stringify(configuration(), null, 2));
    await gateway.#spawn();
    const token = await until('the setup token', () => /setup token: (\S+)/.exec(gateway.#said)?.[1]);
    const made = await gateway.send('POST', '/api/session/setup', {}, { 'x-airlock-setup-token': token });
    gateway.admin = made.token;
    for (const name of ['hostile', 'scripts']) {
      await until(`${name} to be connected`, async () => (await gateway.client(name))?.state === 'connected');
    }
    return gateway;
  }

  async #spawn() {
    const config = join(this.directory, 'airlock.json');
    const child = spawn(process.env.AIRLOCK_PROGRAM, ['serve', '--config', config], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    child.stderr.on('data', (data) => {
      this.#said += data;
    });
    const lines = createInterface({ input: child.stdout });
    const first = await Promise.race([once(lines, 'line'), once(child, 'exit')]);
    const address = /^listening on (.*)$/.exec(first[0])?.[1];
    if (address === undefined) {
      throw new Error(`the gateway does not start: ${this.#said}`);
    }
    this.address = address;
  }

  /** Returns what it has written to stderr. */
  get said() {
    return this.#said;
  }

  /** Ends it, and removes its directory. */
  async stop() {
    if (this.#child.exitCode === null) {
      this.#child.kill('SIGTERM');
      await once(this.#child, 'exit');
    }
    await rm(this.directory, { recursive: true, force: true });
  }

  /** Sends a request as the administrator. Returns the document of the response, and fails unless its status is 2xx. */
  async send(method, path, body, headers = { authorization: `Bearer ${this.admin}` }) {
    const response = await fetch(this.address + path, {
      method,
      headers: { 'content-type': 'application/json', ...headers },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) {
      throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 500)}`);
    }
    return text === '' ? {} : JSON.parse(text);
  }

  /** Returns a source of tools as the API shows it. */
  async client(name) {
    const { clients } = await this.send('GET', '/api/mcp/clients');
    return clients.find((client) => client.config.name === name);
  }

  /** Makes an operator. Returns its token. */
  async operator(name, role, rights = { sees_payloads: true }) {
    return (await this.send('POST', '/api/operators', { name, role, ...rights })).token;
  }

  /** Makes a virtual key. Returns its value. */
  async key(name, members = {}) {
    const made = await this.send('POST', '/api/governance/virtual-keys', { name, ...members });
    return made.virtual_key.value;
  }

  /** Calls a tool as an MCP client with this key. Returns the result. */
  async call(key, name, args) {
    const params = { name, arguments: args };
    const response = await fetch(`${this.address}/mcp`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        authorization: `Bearer ${key}`,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
    });
    const text = await response.text();
    const data = text.split('\n').findLast((line) => line.startsWith('data:') && line.includes('"id"'));
    const message = JSON.parse(data?.slice(5) ?? text);
    if (message.result === undefined) {
      throw new Error(`tools/call ${name}: ${response.status} ${text.slice(0, 500)}`);
    }
    return message.result;
  }

  /** Makes a call that waits for an approval. Returns its identifier. */
  async wait(key, args, tool = 'hostile-note') {
    const result = await this.call(key, tool, args);
    const id = result._meta?.['airlock/approval']?.id;
    if (id === undefined) {
      throw new Error(`the call does not wait: ${JSON.stringify(result).slice(0, 500)}`);
    }
    return id;
  }

  /** Returns the state of a call that waits or was decided: `pending`, `approved` or `denied`. */
  async approval(id) {
    return (await this.send('GET', `/v1/approvals/${encodeURIComponent(id)}`)).state;
  }
}
