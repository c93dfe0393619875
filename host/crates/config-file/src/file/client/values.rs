//! Values of the keys of a client.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of a source of tools.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConnectionType {
    /// A child process that speaks MCP on stdin and stdout.
    Stdio,
    /// A process in a container that speaks MCP on stdin and stdout.
    Docker,
    /// An MCP server with the streamable HTTP transport.
    Http,
    /// An MCP server with the transport HTTP+SSE of 2024-11-05.
    Sse,
    /// A plugin.
    Wasm,
    /// The same as `wasm`.
    Inprocess,
}

impl ConnectionType {
    /// Returns whether the source is a plugin, and not an MCP server.
    pub fn is_plugin(self) -> bool {
        matches!(self, Self::Wasm | Self::Inprocess)
    }

    /// Returns its name if the source is an MCP server.
    pub fn of_server(self) -> Option<&'static str> {
        match self {
            Self::Stdio => Some("stdio"),
            Self::Docker => Some("docker"),
            Self::Http => Some("http"),
            Self::Sse => Some("sse"),
            Self::Wasm | Self::Inprocess => None,
        }
    }
}

/// Authentication at a server.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// No authentication. The gateway sends exactly the `headers`.
    None,
    /// The `headers` authenticate the gateway.
    #[default]
    Headers,
    /// OAuth 2.1: the operator logs in with `airlock upstream login`, and the gateway sends the
    /// access token in addition to the `headers`.
    Oauth,
    /// For `http`. OAuth 2.1 for each user: a virtual key, or a user with an access token, acts at the
    /// server with an account of its own, and logs in by a link of the gateway. The operator's login
    /// lists the tools, if the server needs one for that, and nothing else.
    PerUserOauth,
    /// For `http`. Headers of each user: a virtual key, or a user with an access token, enters the values of
    /// `per_user_header_keys` at a link of the gateway. Headers of these names in `headers` list the tools,
    /// and nothing else.
    PerUserHeaders,
    /// For `http`. The access token of each caller is exchanged for one of the server (RFC 8693), which needs
    /// `mcp_server.oauth`. An `authorization` in `headers` lists the tools, and nothing else.
    TokenExchange,
}

impl AuthType {
    /// Returns its name if each call has credentials of its caller.
    pub fn of_users(self) -> Option<&'static str> {
        match self {
            Self::None | Self::Headers | Self::Oauth => None,
            Self::PerUserOauth => Some("per_user_oauth"),
            Self::PerUserHeaders => Some("per_user_headers"),
            Self::TokenExchange => Some("token_exchange"),
        }
    }
}

/// Life cycle of the connection to an MCP server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lifecycle {
    /// Connected for as long as the gateway runs.
    #[default]
    Persistent,
    /// Stopped after `idle_timeout` without calls, and started by the next call.
    Idle,
    /// A connection of its own for each call, which ends with the call.
    PerCall,
}

/// Framing of messages to an MCP server that is a process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Framing {
    /// `lines`, and `content_length` after two starts on which the server wrote nothing within
    /// `startup_timeout`.
    #[default]
    Auto,
    /// One message for each line, as MCP demands.
    Lines,
    /// A header `Content-Length` before each message.
    ContentLength,
}

/// Era of the protocol that is spoken with an MCP server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// The one that the server speaks. Of a server of both, the legacy one if `allow` permits
    /// questions, because many such servers can ask in it alone; else the modern one.
    #[default]
    Auto,
    /// The legacy one, with `initialize`: revisions up to 2025-11-25.
    Legacy,
    /// The modern one, with `server/discover`: revision 2026-07-28.
    Modern,
}

/// Definitions of an MCP server's tools that are used.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pin {
    /// Those that the server sends. Nothing is pinned.
    Off,
    /// Those of the first list, and those accepted with `airlock upstream accept`. A changed tool
    /// keeps its old definition. A tool that is added later needs an approval for every call until
    /// it is accepted.
    #[default]
    TrustOnFirstUse,
    /// Those accepted with `airlock upstream accept`. All others are withheld.
    Strict,
}

/// Trust in the texts of an MCP server.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Models see its descriptions and results marked as external.
    #[default]
    Untrusted,
    /// Models see its descriptions and results as they are.
    Trusted,
}

/// A question of an MCP server to the caller of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Allowed {
    /// A form or a URL for the caller's user.
    Elicitation,
    /// A message that the caller's model writes.
    Sampling,
    /// The list of the caller's roots.
    Roots,
}
