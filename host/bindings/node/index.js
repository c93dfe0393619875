'use strict';
/**
 * Runs untrusted scripts in a sandbox within this process, and the whole gateway. `index.d.ts` documents what is exported.
 *
 * | file | purpose |
 * |---|---|
 * | `lib/gateway.js` | a gateway within this process |
 * | `lib/line.js` | the messages between a gateway and the program |
 * | `lib/run.js` | runs and the functions that begin them |
 * | `lib/active.js` | scripts that run: their messages, and the calls of tools that they wait for |
 * | `lib/tools.js` | tools, and sets of them |
 * | `lib/values.js` | values as JSON |
 * | `lib/errors.js` | errors |
 * | `lib/model.js` | a tool for models, for adapters of frameworks |
 * | `lib/native.js` | the native module |
 */

const {
  AirlockError, ApprovalNeeded, BadDump, BadTool, LimitExceeded, RunCancelled, ScriptError, ScriptSyntaxError, ToolFailed,
  GATEWAY_CLASSES, ModelError,
} = require('./lib/errors.js');
const { CallResult, ChatReply, ChatStream, Gateway } = require('./lib/gateway.js');
const { Run, loadRun, replay, runScript, startScript } = require('./lib/run.js');
const { Tool, tool } = require('./lib/tools.js');

module.exports = {
  AirlockError, ApprovalNeeded, BadDump, BadTool, LimitExceeded, Run, RunCancelled, ScriptError, ScriptSyntaxError, Tool, ToolFailed,
  loadRun, replay, runScript, startScript, tool,
  CallResult, ChatReply, ChatStream, Gateway, ModelError, ...GATEWAY_CLASSES,
};
