//! A server at which there are logins.

use super::http_settings::HttpSettings;
use airlock_core::tool::ClientName;

/// A server at which there are logins, by the client of the configuration that it belongs to.
#[derive(Debug, Clone, Copy)]
pub struct LoginServer<'a> {
    /// Name of the client.
    pub client: &'a ClientName,
    /// Settings of the server.
    pub http: &'a HttpSettings,
}
