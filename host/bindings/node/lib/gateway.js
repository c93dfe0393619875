'use strict';
/** A gateway within this process, with functions as tools and as a model. */

const { AirlockError, GatewayStopped, checkNames, checkNumber, listed } = require('./errors.js');
const { ProgramLine, callDepth } = require('./line.js');
const { pendingFrom } = require('./pending.js');
const { prepare } = require('./tools.js');
const { encode } = require('./values.js');

/** Most messages of a chat. */
const MAX_MESSAGES = 1_000_000;
const GATEWAY_OPTIONS = ['tools', 'onModel', 'codeMode'];
const LISTS = ['clients', 'tools', 'excludeTools'];
const TEXTS = ['key', 'language', 'approval'];
const FLAGS = ['operator', 'approving'];
const REQUEST_OPTIONS = [...TEXTS, ...LISTS, 'seconds', ...FLAGS, 'signal'];
const CHAT_OPTIONS = ['model', 'settings', ...REQUEST_OPTIONS];

/** Result of a call. */
class CallResult {
  constructor({ text, result }) {
    this.text = text;
    this.result = result;
  }

  get data() {
    return this.result.structuredContent;
  }
}

/** A chat completion. */
class ChatReply {
  get message() {
    return this.choices[0].message;
  }

  get text() {
    return this.message.content ?? '';
  }
}

/** The chunks of a chat completion that is streamed. The model runs only while the next one is waited for. */
class ChatStream {
  #line;
  #chat;
  #signal;

  constructor(line, chat, signal) {
    this.#line = line;
    this.#chat = chat;
    this.#signal = signal;
  }

  async next() {
    const { value } = await this.#line.work((_, work) => this.#chat.next(work), this.#signal);
    return value === null ? { done: true, value: undefined } : { done: false, value };
  }

  async return() {
    this.close();
    return { done: true, value: undefined };
  }

  close() {
    this.#chat.close();
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

/** A gateway that has started. */
class Gateway {
  #line;
  #closing;

  constructor(line) {
    if (!(line instanceof ProgramLine)) throw new AirlockError('a gateway is made with `await Gateway.start(…)`');
    this.#line = line;
  }

  static async start(config = {}, options = {}) {
    checkNames(options, GATEWAY_OPTIONS, 'the options of a gateway');
    const { tools = [], onModel, codeMode = false } = options;
    if (onModel !== undefined && typeof onModel !== 'function') throw new AirlockError('onModel must be a function');
    checkFlag(codeMode, 'codeMode');
    const prepared = prepare(tools);
    const fields = { ...configFields(config), codeMode, hasModel: onModel !== undefined };
    const line = new ProgramLine(prepared.tools, onModel);
    await line.start((receive) => prepared.set.startGateway(fields, receive));
    return new Gateway(line);
  }

  async tools(options = {}) {
    const tools = await this.#ask(options, (native, work, fields) => native.tools(work, fields));
    return tools.map(({ input_schema: inputSchema, output_schema: outputSchema, read_only: readOnly, ...tool }) => ({
      ...tool, inputSchema, outputSchema, readOnly,
    }));
  }

  async call(name, given = {}, options = {}) {
    checkText(name, 'the name of a tool');
    const text = encode(given);
    return new CallResult(await this.#ask(options, (native, work, fields) => native.call(work, fields, name, text)));
  }

  async runScript(code, options = {}) {
    checkText(code, 'the code of a script');
    return new CallResult(await this.#ask(options, (native, work, fields) => native.runScript(work, fields, code)));
  }

  async chat(messages, options = {}) {
    const [body, request] = chatParts(messages, options);
    const completion = await this.#ask(request, (native, work, fields) => native.chat(work, fields, body));
    // Its members are those of a provider: none of them is assigned.
    return Object.setPrototypeOf(completion, ChatReply.prototype);
  }

  async chatStream(messages, options = {}) {
    const [body, request] = chatParts(messages, options);
    const fields = requestFields(request);
    const ended = await this.#line.work((native, work) => native.chatStream(work, fields, body), request.signal);
    return new ChatStream(this.#line, ended.work.takeChat(), request.signal);
  }

  async pending(options = {}) {
    const pending = await this.#ask(options, (native, work, fields) => native.pending(work, fields));
    return pending.map(pendingFrom);
  }

  async approve(id, options = {}) {
    checkText(id, 'the id of calls that wait');
    await this.#ask(options, (native, work, fields) => native.approve(work, fields, id));
  }

  async deny(id, reason = '', options = {}) {
    checkText(id, 'the id of calls that wait');
    checkText(reason, 'the reason of a denial');
    await this.#ask(options, (native, work, fields) => native.deny(work, fields, id, reason));
  }

  async resume(id, options = {}) {
    checkText(id, 'the id of calls that wait');
    return new CallResult(await this.#ask(options, (native, work, fields) => native.resume(work, fields, id)));
  }

  async serve() {
    return (await this.#line.work((native, work) => native.serve(work))).value;
  }

  async close() {
    this.#closing ??= this.#stop();
    return this.#closing;
  }

  async #stop() {
    try {
      await this.#line.work((native, work) => native.stop(work));
    } finally {
      this.#line.end(new GatewayStopped('the gateway was stopped', { code: 'gateway_stopping' }));
    }
  }

  async #ask(options, begin) {
    const fields = requestFields(options);
    return (await this.#line.work((native, work) => begin(native, work, fields), options.signal)).value;
  }
}

/** Returns the configuration as the native module takes it: the path of a file, or a content. */
function configFields(config) {
  if (typeof config === 'string') return { file: config };
  if (typeof config !== 'object' || config === null || Array.isArray(config)) {
    throw new AirlockError('a configuration is the path of a file or an object');
  }
  return { content: encode(config) };
}

function chatParts(messages, options) {
  checkNames(options, CHAT_OPTIONS, 'the options of a chat');
  const { model, settings = {}, ...request } = options;
  checkText(model, 'the model of a chat');
  if (typeof messages?.[Symbol.iterator] !== 'function' || typeof messages === 'string') {
    throw new AirlockError('the messages of a chat must be a list');
  }
  const taken = listed(messages, MAX_MESSAGES, 'the messages of a chat');
  return [encode({ ...settings, model, messages: taken }), request];
}

function requestFields(options) {
  checkNames(options, REQUEST_OPTIONS, 'the options of a request');
  for (const name of TEXTS) if (options[name] !== undefined) checkText(options[name], `the option ${name}`);
  for (const name of LISTS) if (options[name] !== undefined) checkTexts(options[name], `the option ${name}`);
  for (const name of FLAGS) if (options[name] !== undefined) checkFlag(options[name], `the option ${name}`);
  const { signal, seconds, operator = false, approving = false, ...fields } = options;
  if (seconds !== undefined) checkNumber(seconds, 'the option seconds');
  if (seconds !== undefined && !(seconds > 0 && seconds < 2 ** 64)) {
    throw new AirlockError(`the option seconds is ${seconds}; it must be above 0 and below 2^64`);
  }
  return { ...fields, seconds, operator, approving, depth: callDepth() };
}

function checkText(text, what) {
  if (typeof text !== 'string') throw new AirlockError(`${what} must be a string`);
}

function checkFlag(flag, what) {
  if (typeof flag !== 'boolean') throw new AirlockError(`${what} must be true or false`);
}

function checkTexts(texts, what) {
  const fits = Array.isArray(texts) && texts.every((text) => typeof text === 'string');
  if (!fits) throw new AirlockError(`${what} must be a list of strings`);
}

module.exports = { CallResult, ChatReply, ChatStream, Gateway };
