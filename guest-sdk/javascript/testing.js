/**
 * Runs tools without a gateway, in Node.js: `node --import ./airlock-plugin/register.js --test`.
 *
 *     const host = new Host({ stores: ['visits'], http: () => ({ status: 200, body: '{}' }) });
 *     const output = await host.call(tools, 'get_weather', { city: 'Oslo' });
 *     assert.equal(output.structuredContent.sky, 'snow');
 *     assert.equal(host.logs[0].message, 'weather asked for');
 *
 * Refuses everything that is not declared, as the gateway does. What is declared must be requested: by the `plugin.toml` in the working
 * directory, where there is one. Values cross the same conversions as in a component.
 */

import { Output } from './content.js';
import { ToolError } from './errors.js';
import { failed } from './host/failed.js';
import { requests } from './host/manifest.js';
import { storage } from './host/running.js';
import { Store } from './host/store.js';
import { contentFromHost, errorFromHost, errorToHost, outputFromHost, outputToHost, toJson, toU64 } from './wire.js';

const bytes = (value) => (typeof value === 'string' ? new TextEncoder().encode(value) : value);

/** The failure of a request: thrown by the function `http` of a host. */
export class Refusal extends Error {
  constructor(kind, message = 'the request failed', { requestSent = false } = {}) {
    super(message);
    Object.assign(this, { kind, requestSent });
  }
}

/** A host in memory. After a call, `logs`, `progress`, `parts` and `requests` hold what the tools sent. */
export class Host {
  logs = [];
  progress = [];
  parts = [];
  requests = [];
  #config;
  #stores;
  #secrets;
  #http;
  #tools;
  #remainingMs;
  /** URLs of the requests for HTTP; undefined if all are permitted. */
  #urls;

  constructor({ config = {}, stores = [], secrets = {}, http, tools = {}, remainingMs, manifest = '.' } = {}) {
    this.#config = config;
    const quotas = Array.isArray(stores) ? stores.map((name) => [name]) : Object.entries(stores);
    this.#stores = new Map(quotas.map(([name, quota]) => [name, new Store(quota)]));
    this.#secrets = new Map(Object.entries(secrets).map(([name, value]) => [name, bytes(value)]));
    this.#http = http;
    this.#tools = new Map(Object.entries(tools));
    this.#remainingMs = remainingMs;
    const requested = manifest === null ? undefined : requests(manifest);
    if (requested) this.#compare(requested);
  }

  /** Fails if a test declares what `plugin.toml` does not request: the gateway would refuse it. */
  #compare(requested) {
    const names = (kind) => [...(requested.get(kind)?.keys() ?? [])];
    const missing = (what, table) => {
      throw new Error(`the test's host has ${what}, which plugin.toml does not request; write [${table}], or remove it from the test`);
    };
    for (const [kind, declared] of [['kv', this.#stores], ['secret', this.#secrets]]) {
      for (const name of declared.keys()) {
        if (!names(kind).includes(name)) missing(`the ${kind === 'kv' ? 'store' : 'secret'} ${name}`, `request.${kind}.${name}`);
      }
    }
    const called = requested.get('tools')?.get('') ?? '';
    for (const name of this.#tools.keys()) {
      const isRequested = names('slot').includes(name) || called.includes(`"${name}"`) || called.includes(`'${name}'`);
      if (!isRequested) missing(`the tool ${name}`, name.includes('-') ? 'request.tools' : `request.slot.${name}`);
    }
    if (Object.keys(this.#config).length > 0 && !requested.has('config')) missing('a configuration', 'config');
    if (this.#http && names('http').length === 0) missing('HTTP', 'request.http.NAME');
    this.#urls = [...(requested.get('http')?.values() ?? [])].map((members) => /^url = ["'](.*?)["']/m.exec(members)?.[1] ?? '*');
  }

  /** Returns whether a URL has the scheme and the host of a request. */
  #mayReach(url) {
    const origin = (text) => /^(\w+):\/\/([^/?#]*)/.exec(text.toLowerCase());
    const [, scheme, host] = origin(url) ?? [];
    const fits = (requested) => {
      const [, own, name] = origin(requested) ?? [];
      return own === scheme && (name === host || (name?.startsWith('*.') && host.endsWith(name.slice(1))));
    };
    return this.#urls === undefined || this.#urls.some((requested) => requested === '*' || fits(requested));
  }

  /**
   * Calls a tool of a plugin: what its `plugin.js` exports as `tools`. Fails with `ToolError`. The content of the result, or of the
   * error, begins with the parts that the tool sent before it.
   */
  async call(plugin, name, args = {}) {
    const sent = [];
    try {
      const output = outputFromHost(await this.run(() => plugin.invoke(name, JSON.stringify(args), this.#handle(sent))));
      output.content.unshift(...sent);
      return output;
    } catch (thrown) {
      if (thrown instanceof Error) throw thrown;
      const error = errorFromHost(thrown);
      error.content.unshift(...sent);
      throw error;
    }
  }

  /** Runs any function that uses the host. */
  run(work) {
    return storage.run(this, work);
  }

  #handle(sent) {
    return {
      id: () => 'test',
      remainingMs: () => toU64('remainingMs', this.#remainingMs),
      progress: (done, total, message) => void this.progress.push({ done, total, message }),
      emit: (part) => {
        sent.push(contentFromHost(part));
        this.parts.push(sent.at(-1));
      },
    };
  }

  // The interfaces of the host, as the modules in `host/` forward them.

  write(level, message, fields) {
    this.logs.push({ level, message, fields: Object.fromEntries(fields) });
  }

  configGet(key) {
    return Object.hasOwn(this.#config, key) ? JSON.stringify(this.#config[key]) : undefined;
  }

  configGetAll() {
    return JSON.stringify(this.#config);
  }

  secretExists(name) {
    return this.#secrets.has(name);
  }

  secretReveal(name) {
    if (!this.#secrets.has(name)) throw failed({ tag: 'denied' });
    return this.#secrets.get(name);
  }

  kvOpen(name) {
    if (!this.#stores.has(name)) throw failed({ tag: 'no-such-store' });
    return this.#stores.get(name);
  }

  httpSend({ headers, timeoutMs, maxResponseBytes, ...rest }) {
    const [timeout, most] = [timeoutMs, maxResponseBytes].map((value) => (value === undefined ? undefined : Number(value)));
    const sent = { ...rest, headers: headers.map(({ name, value }) => [name, value]), timeoutMs: timeout, maxResponseBytes: most };
    this.requests.push(sent);
    try {
      if (!this.#http) throw new Refusal('denied', 'this request is not granted');
      if (!this.#mayReach(sent.url)) throw new Refusal('denied', `plugin.toml has no [request.http.NAME] for ${sent.url}`);
      const { status = 200, body = '', headers: fields = {} } = this.#http(sent);
      const received = Object.entries(fields).map(([name, value]) => ({ name, value: bytes(value) }));
      return { status, headers: received, body: bytes(body), finalUrl: sent.url };
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      throw failed({ kind: error.kind, message: error.message, requestSent: error.requestSent });
    }
  }

  toolsList(cursor, limit) {
    // First the slots, whose names have no `-`.
    const sorted = [...this.#tools.keys()].sort();
    const all = [...sorted.filter((name) => !name.includes('-')), ...sorted.filter((name) => name.includes('-'))];
    const names = all.slice(cursor === undefined ? 0 : all.indexOf(cursor) + 1);
    const items = names.slice(0, limit).map((name) => ({ name, title: undefined, description: '' }));
    return { items, next: names.length > limit ? items.at(-1).name : undefined };
  }

  toolsDescribe(name) {
    this.#other(name);
    const annotations = { readOnly: undefined, destructive: undefined, idempotent: undefined, openWorld: undefined, extra: undefined };
    return { name, description: '', inputSchema: toJson({ type: 'object' }), annotations };
  }

  toolsCall({ name, arguments: text }) {
    const run = this.#other(name);
    try {
      return outputToHost(Output.from(run(JSON.parse(text))));
    } catch (error) {
      throw error instanceof ToolError ? failed(errorToHost(error)) : error;
    }
  }

  toolsCallBatch(requests) {
    return requests.map((request) => {
      try {
        return { tag: 'ok', val: this.toolsCall(request) };
      } catch (error) {
        if (!error.payload) throw error;
        return { tag: 'err', val: error.payload };
      }
    });
  }

  #other(name) {
    const run = this.#tools.get(name);
    if (!run) throw failed(errorToHost(new ToolError('not-found', `there is no tool ${name}`, { code: 'airlock.not_found' })));
    return run;
  }
}
