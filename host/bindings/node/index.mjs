import airlock from './index.js';

export const {
  AirlockError, ApprovalNeeded, BadDump, BadTool, LimitExceeded, Run, RunCancelled, ScriptError, ScriptSyntaxError, Tool, ToolFailed,
  ApprovalPending, BadConversation, BadName, CallFailed, CallResult, ChatFailed, ChatReply, ChatStream, ConfigurationError,
  Gateway, GatewayError, GatewayNotReady, GatewayOverloaded, GatewayStopped, KeyRequired, ModelError, NotWaiting, OperatorRequired, RunChanged,
  StartFailed, StoreUnavailable, UnknownKey,
  loadRun, replay, runScript, startScript, tool,
} = airlock;
