//! Settings of MCP servers that are reached over HTTP, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::EnvText;

/// Certificates of a server. They are always checked.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct TlsConfig {
    /// Certificates in PEM format that are trusted in addition to the system's; may be `env.NAME`.
    pub(in crate::config) ca_cert_pem: Option<EnvText>,
    /// File of such certificates.
    pub(in crate::config) ca_file: Option<PathBuf>,
}
