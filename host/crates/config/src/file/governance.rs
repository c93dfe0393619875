//! `governance`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{ranged::Flag, tool_manager::ApprovalChoice};
use crate::env_text::EnvText;

/// Credentials of callers, and the tools that each opens.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Governance {
    /// Credentials of callers.
    pub(crate) virtual_keys: Vec<VirtualKey>,
}

/// A credential of callers. It opens the tools of its rows and those of clients with
/// `allow_on_all_virtual_keys`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VirtualKey {
    /// Identifier for other programs. The gateway uses the name.
    #[serde(rename = "id")]
    _id: Option<String>,
    /// Name for people; appears in logs.
    pub(crate) name: String,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// The credential: `sk-bf-` and more, together at least 20 characters; may be `env.NAME`.
    pub(crate) value: EnvText,
    /// False to refuse the key.
    #[serde(default)]
    pub(crate) is_active: Flag<true>,
    /// Treatment of a model's calls that need an approval. Default: that of `tool_manager_config`.
    pub(crate) approval: Option<ApprovalChoice>,
    /// Tools that it opens, by client.
    #[serde(default)]
    pub(crate) mcp_configs: Vec<KeyRow>,
}

/// Tools of one client that a virtual key opens. The row replaces `allow_on_all_virtual_keys`, even
/// if it lists nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyRow {
    /// The client.
    pub(crate) mcp_client_name: String,
    /// Tools, by the source's own names; `["*"]` opens all.
    #[serde(default)]
    pub(crate) tools_to_execute: Vec<String>,
    /// Resources, by URI, as in the client's `resources_to_read`.
    #[serde(default)]
    pub(crate) resources_to_read: Vec<String>,
    /// Prompts, by the source's own names; `["*"]` opens all.
    #[serde(default)]
    pub(crate) prompts_to_get: Vec<String>,
}
