//! `mcp_server`, as written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ranged::{Count, DAY, MINUTE, SECOND, Time};

/// The gateway as an MCP server: `/mcp`, and `airlock mcp`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServer {
    /// Approval of calls of tools that are not in `tools_to_auto_execute`.
    pub approval: Approval,
    /// Exceptions from `approval` for some clients. The first one that applies counts.
    pub approval_rules: Vec<ApprovalRule>,
    /// Time for a client's user to answer a question.
    pub approval_timeout: Time<SECOND, DAY, { 5 * MINUTE }>,
    /// Time for which a call whose client cannot ask its user waits for an approval by command line
    /// or API before it fails. Clients often wait for 60 s.
    pub approval_wait: Time<0, DAY, { 45 * SECOND }>,
    /// Sessions at the same time. Beyond it, an idle one of the virtual key with the most sessions
    /// is closed.
    pub max_sessions: Count<1, { 1 << 20 }, 4_096>,
    /// Sessions of one virtual key, or of all callers without a key together. Beyond it, its
    /// session that has been idle for longest is closed. Default: a quarter of `max_sessions`.
    pub max_sessions_per_key: Option<Sessions>,
    /// Streams that wait for notifications at the same time. Each takes a connection. Default: half
    /// of `server.max_connections`.
    pub max_streams: Option<Sessions>,
    /// Such streams of one virtual key, or of all callers without a key together. Default: half of
    /// `max_streams`.
    pub max_streams_per_key: Option<Sessions>,
    /// Time after which a session without requests and streams expires.
    pub session_timeout: Time<SECOND, { 30 * DAY }, { 30 * MINUTE }>,
    /// True to serve `/sse` too, for clients that speak nothing newer than the deprecated transport
    /// HTTP+SSE of 2024-11-05.
    pub sse: bool,
    /// Access tokens of an identity provider, for `/mcp`, and with `apis` for other APIs. With it,
    /// every request to `/mcp` needs a token or a virtual key.
    pub oauth: Option<OAuth>,
}

/// A number of sessions or streams. A session takes some kilobytes.
pub type Sessions = Count<1, { 1 << 20 }>;

/// Access tokens of an identity provider: the gateway is an OAuth 2.1 resource server.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuth {
    /// Identifier of the authorization server, as tokens have it in `iss`: an https URL.
    pub issuer: String,
    /// Identifier of this gateway: the URL at which clients reach it, such as
    /// `https://airlock.example.com/mcp`. Tokens must have it in `aud`, unless `audiences` is set.
    pub resource: String,
    /// Name of this gateway for people. Default: `Airlock`.
    pub resource_name: Option<String>,
    /// Values of `aud` that mean this gateway, for an issuer that ignores the resource that a
    /// client asks for. Default: `resource`.
    #[serde(default)]
    pub audiences: Vec<String>,
    /// URL of the issuer's keys. Default: that of the issuer's metadata.
    pub jwks_uri: Option<String>,
    /// Scopes that a token needs, all of them.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Difference between the clocks of issuer and gateway that is tolerated.
    #[serde(default)]
    pub clock_skew: Time<0, { 5 * MINUTE }, MINUTE>,
    /// APIs that accept the tokens.
    #[serde(default)]
    pub apis: TokenApis,
    /// The table of views. The first row that matches decides; a token without one is refused.
    pub views: Vec<View>,
}

/// APIs that accept access tokens.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenApis {
    /// `/mcp` and `/sse`, and `/api/mcp/sessions` with the logins of the sender.
    #[default]
    Mcp,
    /// Those, and the other APIs for callers: chat completions, responses, messages, models, execution of
    /// tools, results, runs and `/api/mcp/clients`. `/v1/approvals` accepts no tokens: usually the agent
    /// whose calls are to be approved holds them.
    All,
}

/// A row of the table of views.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct View {
    /// Name of a claim, or the path to a nested one, such as `realm_access.roles`.
    pub claim: String,
    /// Value of the claim: its text, one of its texts if it is a list, or one word of `scope`.
    pub value: String,
    /// Name of the virtual key whose tools the sender sees. Each sender is a tenant of its own.
    pub virtual_key: Option<String>,
    /// Instead of `virtual_key`, the names of roles whose rows the sender has, at most 16.
    pub roles: Option<Vec<String>>,
}

/// Approval of the calls of some MCP clients: of those that fulfil all conditions of the rule.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// Name of the virtual key that the client sends.
    pub virtual_key: Option<String>,
    /// Name that the client gives itself (`clientInfo.name`), such as `claude-code`. It
    /// authenticates nothing: any client can give itself this name.
    pub client_name: Option<String>,
    /// Approval of its calls.
    pub approval: Approval,
}

/// Treatment of a call of an MCP client that needs an approval.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// It is refused.
    Never,
    /// The client's user is asked, if the client can ask with a form (`elicitation`); else the call
    /// waits in the list of pending approvals (`airlock approvals`, `/v1/approvals`).
    #[default]
    Elicit,
    /// It waits in the list of pending approvals until an operator decides, also if the client could ask
    /// its user. The caller of the call does not decide.
    Wait,
    /// It runs, because the client asks its user itself. Each such call is logged.
    Client,
    /// It runs.
    AlwaysAllow,
}
