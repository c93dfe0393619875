//! The configuration file as written. These types are the one place of each key's description, range
//! and default: the published schema, the checks and the settings come from them. A default that
//! depends on other keys is made with the settings.

mod client;
mod forms;
mod governance;
mod guard;
mod http_client;
mod information_flow;
mod limits;
mod management;
mod mcp_server;
mod plugin;
mod private_key;
mod process;
mod provider;
mod publishers;
mod ranged;
mod records;
mod server;
mod store_key;
mod team;
mod telemetry;
mod tool_manager;
mod virtual_mcp;

use schemars::JsonSchema;
use serde::Deserialize;

use super::env_text::EnvText;

pub use self::{
    client::{
        Allowed, AuthType, Client, ConnectionType, Framing, Lifecycle, Pin, Protocol, Restart,
        Trust,
    },
    forms::{Entries, NameOr},
    governance::{Environment, Governance, KeyRow, KeyValue, Role, VirtualKey},
    guard::{GuardEntry, GuardLimits, GuardScope, NamedHook},
    http_client::{OAuthConfig, SubjectTokenKind, TlsConfig, TokenExchangeConfig},
    information_flow::{InformationFlow, Sink, SinkDecision},
    limits::{
        Budget, CallRateLimit, Dollars, LimitScope, ModelConfig, PricingMatch, PricingOverride,
        PricingPatch, PricingScope, RateLimit,
    },
    management::{Management, Oidc, OidcRole, Operator, OperatorRole},
    mcp_server::{Approval, ApprovalRule, McpServer, OAuth, Sessions, TokenApis, View},
    plugin::{
        Access, FilesGrant, HttpRule, Inject, KvGrant, PluginGrants, SecretGrant, Stored, Wasm,
    },
    private_key::PrivateKey,
    process::{Confine, Docker, DockerMount, Network, ProcessLimits, Stdio},
    provider::{
        NetworkConfig, Provider, ProviderApi, ProviderKey, ProviderKind, ProviderPublisher,
        ProviderRetries, ProviderTimeouts, ProxyConfig, ProxyKind,
    },
    publishers::Plugins,
    ranged::{Amount, RANGE, Ranged},
    records::{Audit, OnFailure, Records},
    server::{BuiltinTools, ClientAuth, Responses, Server, Tls},
    store_key::StoreKey,
    team::{Customer, Team},
    telemetry::{Otlp, Telemetry},
    tool_manager::{
        ApprovalChoice, BindingLevel, ResultsAsText, ScriptApproval, ScriptLanguage, ToolManager,
        ToolMode,
    },
    virtual_mcp::{VirtualMcp, VirtualMcpTools},
};

/// Configuration of an Airlock gateway.
///
/// If a description permits `env.NAME`, that text stands for a variable of the gateway's
/// environment. Paths are relative to this file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Airlock configuration")]
pub struct File {
    /// Location of this schema, for editors.
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// The HTTP server of the gateway.
    #[serde(default)]
    pub server: Server,
    /// Model providers by name. A request names a model as `NAME/model`. A model without the name
    /// of a provider goes to the first one.
    #[serde(default)]
    pub providers: Entries<Provider>,
    /// Sources of tools.
    #[serde(default)]
    pub mcp: Mcp,
    /// Signatures of plugins.
    #[serde(default)]
    pub plugins: Plugins,
    /// Guards, in the order in which they are asked.
    #[serde(default)]
    pub guards: Vec<GuardEntry>,
    /// The gateway as an MCP server: `/mcp`, and `airlock mcp`.
    #[serde(default)]
    pub mcp_server: McpServer,
    /// Database of the state that survives a restart: plugins' stores, responses, approvals, runs, logins, and
    /// the first definitions of MCP servers. A path, or the URL of a database of PostgreSQL that several gateways
    /// share, for example `postgres://airlock@db.example.com/airlock`; `env.NAME` takes it from the
    /// environment, so that a password is not in the file. Default: `airlock.db` beside this file.
    pub store: Option<EnvText>,
    /// URL of the server of PostgreSQL itself, if `store` is the URL of a pooler such as PgBouncer. Notifications
    /// of changes are received there, and `store` may give each transaction another connection.
    pub store_listen_url: Option<EnvText>,
    /// Key that secrets in the store are sealed with: `env.NAME`, or `{"file": "PATH"}` for a file that
    /// has only the key. Default: none; they are stored as they are.
    pub store_key: Option<StoreKey>,
    /// Keys before `store_key`, at most 8, which still open what was sealed with them.
    #[serde(default)]
    pub store_old_keys: Vec<StoreKey>,
    /// The records of calls, decisions and changes.
    #[serde(default)]
    pub records: Records,
    /// Traces, metrics and log records for other programs.
    #[serde(default)]
    pub telemetry: Telemetry,
    /// The management API, with which operators change clients and virtual keys while the gateway runs.
    #[serde(default)]
    pub management: Management,
    /// Credentials of callers, and the tools that each opens.
    #[serde(default)]
    pub governance: Governance,
}

/// Sources of tools.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Mcp {
    /// True to switch all tools off, on every API. Models are still reached, without tools. It is taken
    /// while the gateway runs: calls that run already end, and no other begins.
    pub disabled: bool,
    /// The sources: MCP servers and plugins.
    pub client_configs: Vec<Client>,
    /// Groups of tools at paths of their own.
    pub virtual_mcps: Vec<VirtualMcp>,
    /// Limits and settings of tool calls.
    pub tool_manager_config: ToolManager,
    /// Calls that are refused or need an approval after results of untrusted sources were read.
    pub information_flow: InformationFlow,
}
