//! `mcp.information_flow`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

/// Rules about calls that are made after results of untrusted sources were read.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct InformationFlow {
    /// The rules, at most 256. Of several for one call, `deny` takes precedence. Without rules, sources are not
    /// followed.
    pub sinks: Vec<Sink>,
}

/// A rule about the calls of some tools.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Sink {
    /// Full names of tools, `CLIENT-TOOL`, where `*` stands for any text.
    pub tools: Vec<String>,
    /// Sources: names of clients, `caller` for results in the messages of a caller whose tool is not known, and `*` for
    /// all. Results of the tools of a trusted client have no source. Default: `["*"]`.
    #[serde(default = "all")]
    pub from: Vec<String>,
    /// Paths of arguments, such as `to` or `message.body`, at most 32: the rule is about calls in which one of them may
    /// come from the sources. In scripts, that is decided for each value; elsewhere, an argument may come from
    /// everything that was read. Default: none, for a rule about calls after anything was read from the sources.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Treatment of a call that is made after results of one of the sources were read: `deny` refuses it, `ask`
    /// requires an approval.
    pub decision: SinkDecision,
}

/// Treatment of calls.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SinkDecision {
    /// They are refused.
    Deny,
    /// They need an approval.
    Ask,
}

fn all() -> Vec<String> {
    vec!["*".to_owned()]
}
