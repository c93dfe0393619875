//! What the store remembers of a link.

use serde::{Deserialize, Serialize};

use super::super::exchange::AuthorizationRequest;
use airlock_core::tenant::Identity;
use airlock_store::login::{LoginHolder, UpstreamLogin};

/// What the store remembers of a link.
#[derive(Serialize, Deserialize)]
pub(super) struct LinkDocument {
    pub(super) holder: LinkHolder,
    /// The login, once its user has confirmed it.
    pub(super) started: Option<StartedLogin>,
}

/// The tenant that asked for a link.
#[derive(Serialize, Deserialize)]
pub(super) struct LinkHolder {
    pub(super) key_name: String,
    /// Empty if the virtual key was the credential, and the subject too.
    pub(super) issuer: String,
    pub(super) subject: String,
}

/// A login whose browser is at the authorization server.
#[derive(Serialize, Deserialize)]
pub(super) struct StartedLogin {
    /// Digest of the secret of the browser that confirmed it.
    pub(super) browser: String,
    verifier: String,
    redirect: String,
    requires_issuer: bool,
    issuer: String,
    client_id: String,
    client_secret: Option<String>,
    authentication: String,
    token_endpoint: String,
    resource: String,
    scopes: String,
}

impl LinkDocument {
    pub(super) fn to_text(&self) -> String {
        // Texts and flags are always JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

impl From<&Identity<'_>> for LinkHolder {
    fn from(identity: &Identity<'_>) -> Self {
        let user = identity.user;
        Self {
            key_name: identity.key_name.to_owned(),
            issuer: user.map(|user| user.issuer.clone()).unwrap_or_default(),
            subject: user.map(|user| user.subject.clone()).unwrap_or_default(),
        }
    }
}

impl LinkHolder {
    /// Returns the holder of a login with this session.
    pub(super) fn to_holder(&self, session: String) -> LoginHolder {
        LoginHolder {
            session,
            key_name: self.key_name.clone(),
            issuer: self.issuer.clone(),
            subject: self.subject.clone(),
        }
    }
}

impl StartedLogin {
    pub(super) fn new(request: &AuthorizationRequest, browser: String) -> Self {
        let AuthorizationRequest { state: _, verifier, redirect, requires_issuer, login } = request;
        Self {
            browser,
            verifier: verifier.clone(),
            redirect: redirect.clone(),
            requires_issuer: *requires_issuer,
            issuer: login.issuer.clone(),
            client_id: login.client_id.clone(),
            client_secret: login.client_secret.clone(),
            authentication: login.authentication.clone(),
            token_endpoint: login.token_endpoint.clone(),
            resource: login.resource.clone(),
            scopes: login.scopes.clone(),
        }
    }

    /// Returns the request with this state, whose login is for `holder`.
    pub(super) fn into_request(self, state: String, holder: LoginHolder) -> AuthorizationRequest {
        AuthorizationRequest {
            state,
            verifier: self.verifier,
            redirect: self.redirect,
            requires_issuer: self.requires_issuer,
            login: UpstreamLogin {
                holder: Some(holder),
                issuer: self.issuer,
                client_id: self.client_id,
                client_secret: self.client_secret,
                authentication: self.authentication,
                token_endpoint: self.token_endpoint,
                resource: self.resource,
                scopes: self.scopes,
                wanted: String::new(),
                access_token: String::new(),
                refresh_token: None,
                obtained_ms: 0,
                expires_ms: None,
            },
        }
    }
}
