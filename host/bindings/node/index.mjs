import airlock from './index.js';

export const {
  AirlockError, ApprovalNeeded, BadDump, BadTool, LimitExceeded, Run, RunCancelled, ScriptError, ScriptSyntaxError, Tool, ToolFailed,
  loadRun, replay, runScript, startScript, tool,
} = airlock;
