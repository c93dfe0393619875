//! The settings of a login client.

use std::time::Duration;

use url::Url;

use crate::settings::{BadSettings, bad, check_list, check_scope, check_text, identifier};
use airlock_core::secret::Secret;

/// Scope without which an issuer issues no ID token.
const OPENID: &str = "openid";

/// Settings of logins: the issuer, and the client that the gateway is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginSettings {
    /// Identifier of the issuer. ID tokens have it as `iss`, byte by byte.
    pub issuer: String,
    /// Identifier of the client. ID tokens have it in `aud`.
    pub client_id: String,
    /// Secret of the client; `None` for a public one.
    pub client_secret: Option<Secret>,
    /// Scopes to ask for, `openid` among them.
    pub scopes: Vec<String>,
    /// Skew of the clocks of issuer and gateway that is tolerated.
    pub clock_skew: Duration,
}

impl LoginSettings {
    /// Returns the URL of the issuer. Fails if the settings are incomplete or unsafe.
    pub fn check(&self) -> Result<Url, BadSettings> {
        let issuer = identifier("issuer", &self.issuer)?;
        check_text("client_id", &self.client_id)?;
        check_list("scopes", &self.scopes, |field, scope| check_scope(field, scope))?;
        if !self.scopes.iter().any(|scope| scope == OPENID) {
            return Err(bad("scopes", "must have \"openid\": without it, there is no ID token"));
        }
        Ok(issuer)
    }
}
