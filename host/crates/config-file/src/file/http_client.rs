//! Settings of MCP servers that are reached over HTTP, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::private_key::PrivateKey;
use crate::env_text::EnvText;

/// The gateway as a client of an authorization server. Each URL begins with `https://`, unless its
/// host is `localhost` or a private IP address.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OAuthConfig {
    /// Identifier of a client that is registered at the authorization server; may be `env.NAME`.
    /// Default: the gateway registers one with each login.
    pub client_id: Option<EnvText>,
    /// The secret of this client, if it has one; may be `env.NAME`.
    pub client_secret: Option<EnvText>,
    /// URL of a public document that describes the gateway as a client (client ID metadata
    /// document). Authorization servers that support it take the URL for the identifier.
    pub client_metadata_url: Option<String>,
    /// Identifier of the authorization server: a login fails if another one is discovered. Needed
    /// beside `client_secret`, unless both `authorize_url` and `token_url` are set.
    pub issuer: Option<String>,
    /// URL at which the operator logs in. Needs `token_url` beside it. Default: discovered.
    pub authorize_url: Option<String>,
    /// URL of the token endpoint. With `authorize_url` and `token_url`, nothing is discovered.
    /// Default: discovered.
    pub token_url: Option<String>,
    /// URL at which a client is registered. Default: discovered.
    pub registration_url: Option<String>,
    /// Scopes to ask for, instead of those that the server names.
    #[serde(default)]
    pub scopes: Vec<String>,
}

/// Exchange of the access tokens of callers for tokens of the server (RFC 8693).
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenExchangeConfig {
    /// URL of the token endpoint of the authorization server that issues the tokens. It begins with
    /// `https://`, unless its host is `localhost` or a private IP address.
    pub token_url: Option<String>,
    /// Identifier of the client that may exchange tokens there; may be `env.NAME`.
    pub client_id: Option<EnvText>,
    /// The secret of this client, if it has one; may be `env.NAME`.
    pub client_secret: Option<EnvText>,
    /// Name of the server at the authorization server. `audience` or `resource` is required.
    pub audience: Option<String>,
    /// URL of the server, as the authorization server knows it.
    pub resource: Option<String>,
    /// Scopes to ask for. Default: those that the authorization server grants by itself.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// Type of the callers' tokens, as it is sent to the authorization server.
    #[serde(default)]
    pub subject_token_type: SubjectTokenKind,
}

/// Type of the tokens of callers.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SubjectTokenKind {
    /// `urn:ietf:params:oauth:token-type:access_token`.
    #[default]
    AccessToken,
    /// `urn:ietf:params:oauth:token-type:jwt`.
    Jwt,
}

/// Certificates of a server, which are always checked, and of the gateway for the server.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// Certificates in PEM format that are trusted in addition to the system's; may be `env.NAME`.
    pub ca_cert_pem: Option<EnvText>,
    /// File of such certificates.
    pub ca_file: Option<PathBuf>,
    /// For servers that ask their clients for a certificate: PEM file of the gateway's certificate, and
    /// after it of those that connect it to its authority. Needs `client_key` beside it, and a
    /// URL that begins with `https://`. Read when the gateway connects to the server.
    pub client_certificate: Option<PathBuf>,
    /// Private key of `client_certificate`: a PEM file, or `env.NAME` for a variable that has the key in PEM
    /// format.
    pub client_key: Option<PrivateKey>,
}
