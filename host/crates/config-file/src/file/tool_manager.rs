//! `mcp.tool_manager_config`, as written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranged::{
    Bytes, Count, DAY, Flag, GIB, HOUR, KIB, MIB, MILLISECOND, MINUTE, Ranged, SECOND, Time,
};
use airlock_core::{model_calls::MAX_CALLS_READ, units::SecondsOrSpan};

/// Limits and settings of tool calls.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolManager {
    /// Time for one call with all its nested calls. A number without a unit is in seconds.
    pub tool_execution_timeout: Ranged<SecondsOrSpan, MILLISECOND, HOUR, { 30 * SECOND }, true>,
    /// Rounds of tool calls in one chat completion or Response. After the last round, the calls of
    /// the model's response are not run but returned as pending. 0 means the default.
    pub max_agent_depth: Ranged<u64, 1, 100, 10, true>,
    /// Tool calls of one response of the model that are run. Calls beyond it are not run, and the
    /// model is told to ask for them again.
    pub max_tool_calls_per_answer: Count<1, { MAX_CALLS_READ as u64 }, 128>,
    /// Bytes that tool calls and their results may add to the conversation of one request, all
    /// rounds together. A result that does not fit is left out, and the model is told so.
    pub max_tool_results: Bytes<{ 64 * KIB }, { 64 * MIB }, { 8 * MIB }>,
    /// Text of one MCP server's result in a conversation. The model receives a preview of a longer
    /// one and reads the rest in pages, with the tool `readContent`.
    pub max_inline_result: Bytes<{ 4 * KIB }, MIB, { 32 * KIB }>,
    /// Time for which such a longer result can be read.
    pub kept_result_expire_after: Time<SECOND, DAY, { 15 * MINUTE }>,
    /// Memory for all such longer results, and as much again for calls that clients do not send
    /// back and that may not be stored. One virtual key gets at most half of it.
    pub max_kept_results: Bytes<{ 8 * MIB }, { 4 * GIB }, { 64 * MIB }>,
    /// Wall-clock time for one chat completion or Response: all responses of the model and all tool
    /// calls together. The header `x-airlock-timeout` may shorten it.
    pub agent_timeout: Time<MILLISECOND, DAY, { 30 * MINUTE }>,
    /// Layout of the virtual files of code mode.
    pub code_mode_binding_level: BindingLevel,
    /// Time for one script with all its calls.
    pub code_mode_timeout: Time<MILLISECOND, HOUR, { 5 * MINUTE }>,
    /// CPU time of one script. The time in which it waits for tools does not count.
    pub code_mode_cpu_time: Time<MILLISECOND, DAY, { 30 * SECOND }>,
    /// False to keep no journal of the runs of scripts: a script that calls a tool that needs an
    /// approval then ends there and cannot be resumed.
    pub code_mode_journal: Flag<true>,
    /// Time from the last change of a run until it is removed.
    pub code_mode_run_expire_after: Time<SECOND, { 366 * DAY }, { 7 * DAY }>,
    /// Most runs that are kept for one virtual key.
    pub code_mode_max_runs: Count<1, 100_000, 200>,
    /// Most bytes of runs that are kept for one virtual key; all keys together may have 16 times as
    /// much.
    pub code_mode_max_run_bytes: Bytes<MIB, { 64 * GIB }, { 64 * MIB }>,
    /// Time after which another process may resume the run of a process that has ended.
    pub code_mode_run_lease: Time<{ 100 * MILLISECOND }, { 10 * MINUTE }, { 10 * SECOND }>,
    /// Time for which the approval of a call in a script is valid.
    pub code_mode_approval_expire_after: Time<SECOND, { 7 * DAY }, HOUR>,
    /// True if a caller that executes a script at `/v1/mcp/tool/execute` approves every call of the
    /// script, and not only those that it was shown.
    pub code_mode_approve_whole_scripts: bool,
    /// The calls of a script that a person approves at once.
    pub code_mode_approval: ScriptApproval,
    /// True to let Python scripts see the time at which their run began. It is stored with the run,
    /// so that a run that is resumed sees the same time.
    pub code_mode_clock: bool,
    /// Number of tools for scripts above which a request also has the meta-tool `searchTools`.
    pub code_mode_search_threshold: Count<0, 100_000, 60>,
    /// Way in which a request to a model offers the tools of clients with `is_code_mode_client`, unless the header
    /// `x-airlock-mode` or the member `airlock.mode` sets another.
    pub tool_mode: ToolMode,
    /// Language of scripts in code mode. The header `x-airlock-code-mode-language` selects another
    /// one for a request.
    pub code_mode_language: ScriptLanguage,
    /// True to offer a tool to a model only if the request names it in an include header.
    pub disable_auto_tool_inject: bool,
    /// Whether a chat completion has the results of calls that ran as text, if other calls of the
    /// same answer are returned. Other results are kept, and put back into the request that answers
    /// those calls.
    pub results_as_text: ResultsAsText,
    /// Treatment of a model's calls of tools that are not in `tools_to_auto_execute`, unless the
    /// header `x-airlock-approval` or the virtual key sets another.
    pub approval: ApprovalChoice,
    /// Longest time that one such call waits with `approval: wait`.
    pub approval_wait: Time<SECOND, DAY, { 10 * MINUTE }>,
    /// Calls at the same time, in one round of the model or in one script.
    pub max_parallel_tool_calls: Count<1, 64, 8>,
    /// Nested calls of a script or a plugin, at all depths together.
    pub max_nested_calls: Count<0, 10_000, 64>,
    /// Depth of nested calls, the first call included.
    pub max_call_depth: Count<1, 16, 4>,
}

/// Cases in which a chat completion has results of calls as text, beside returned calls.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResultsAsText {
    /// If all returned calls are of the gateway's tools, and the request does not ask for JSON. Also
    /// if the results cannot be kept, because the identifiers of the returned calls are not unique.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never, even if the results cannot be kept.
    Never,
}

/// Treatment of a model's calls that need an approval.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalChoice {
    /// They are returned to the caller, which can approve them.
    #[default]
    Return,
    /// Tools that need an approval are not offered to the model.
    Omit,
    /// The request stays open until a person decides by command line or API, or `approval_wait` has
    /// passed.
    Wait,
}

/// Way in which the tools of clients in code mode are offered to a model.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolMode {
    /// To scripts, with the search from `code_mode_search_threshold` on. The response does not name the way.
    #[default]
    Configured,
    /// One by one, like the tools of other clients.
    Direct,
    /// To scripts, with the search.
    Search,
    /// To scripts, without the search.
    Code,
    /// One by one, to scripts, or to scripts with the search, by the estimated tokens of the definitions and the
    /// number of tools.
    Auto,
}

/// The calls of a script that a person approves at once.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScriptApproval {
    /// Those at which the script has stopped.
    #[default]
    Calls,
    /// All of them, before the first: the script is planned, and held to the manifest that is approved. A script whose
    /// calls cannot be bounded stops at its calls.
    Manifest,
}

/// Layout of the virtual files of code mode.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BindingLevel {
    /// One file for each client.
    #[default]
    Server,
    /// One file for each tool.
    Tool,
}

/// Language of scripts in code mode.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScriptLanguage {
    /// A small Python without exceptions and classes.
    #[default]
    Starlark,
    /// A subset of Python, with exceptions and `await`.
    Python,
}
