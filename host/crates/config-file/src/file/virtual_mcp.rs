//! `mcp.virtual_mcps`, as written.

use schemars::JsonSchema;
use serde::Deserialize;

use super::ranged::Flag;

/// A group of tools that MCP clients find at a path of its own, `/mcp/<slug>`. It opens nothing: a
/// request sees those of its tools that it sees at `/mcp`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VirtualMcp {
    /// Its name.
    pub name: String,
    /// Last part of its path: 1 to 64 lower-case letters, digits and `-`, not at the ends. No client and
    /// no other group has it as its name. Default: derived from `name`.
    #[schemars(extend("pattern" = "^[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?$"))]
    pub endpoint_slug: Option<String>,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// False to leave it out.
    #[serde(default)]
    pub enabled: Flag<true>,
    /// Its tools, by client.
    pub tools: Vec<VirtualMcpTools>,
    /// Names of the virtual keys for which it exists. Default: every caller.
    pub virtual_keys: Option<Vec<String>>,
}

/// Tools of one client in a group.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VirtualMcpTools {
    /// The client.
    pub mcp_client_name: String,
    /// Tools, by the source's own names; `["*"]` for all.
    pub tool_names: Vec<String>,
}
