//! Settings that more than one API has.

use serde_json::{Number, Value};

/// Settings of a request. `None` stands for the provider's default.
///
/// Settings whose value only a provider can judge are not checked here: the writer passes them on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Settings {
    /// True if the reply is to be streamed.
    pub stream: bool,
    /// Maximum number of tokens of the reply, reasoning included.
    pub max_output_tokens: Option<u64>,
    /// Sampling temperature.
    pub temperature: Option<Number>,
    /// Probability mass of the tokens that are considered.
    pub top_p: Option<Number>,
    /// Number of tokens that are considered.
    pub top_k: Option<u64>,
    /// Texts that end the reply.
    pub stop: Vec<String>,
    /// False if at most one tool may be called in a turn.
    pub parallel_tool_calls: Option<bool>,
    /// Amount of reasoning in the words of OpenAI's API: `none`, `minimal`, `low`, `medium`, `high`, and
    /// later ones.
    pub effort: Option<String>,
    /// Maximum number of tokens of the reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Format of the text of the reply.
    pub format: Option<ReplyFormat>,
    /// Identifier of the caller's user, by which a provider detects abuse.
    pub user: Option<String>,
    /// Tier of service in the words of OpenAI's API: `auto`, `default`, and others.
    pub service_tier: Option<String>,
}

/// Format of the text of a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum ReplyFormat {
    /// Text.
    Text,
    /// Any JSON object.
    Json,
    /// JSON that matches a schema.
    Schema {
        /// Name of the schema; empty if its API has none.
        name: String,
        /// Purpose of the format.
        description: Option<String>,
        /// The schema; `None` if the caller left it out.
        schema: Option<Value>,
        /// True if the text must match exactly.
        strict: Option<bool>,
    },
}
