//! An access token as a request has it.

use std::sync::Arc;

use http::HeaderValue;

use super::error::AuthorizationError;
use airlock_store::login::UpstreamLogin;

/// An access token, as it is sent.
#[derive(Debug, Clone)]
pub struct Bearer {
    login: Arc<UpstreamLogin>,
    header: HeaderValue,
}

impl Bearer {
    pub(super) fn new(login: Arc<UpstreamLogin>) -> Result<Self, AuthorizationError> {
        let header = HeaderValue::try_from(format!("Bearer {}", login.access_token));
        let mut header = header.map_err(|_| AuthorizationError::Unusable)?;
        header.set_sensitive(true);
        Ok(Self { login, header })
    }

    /// Returns the value of the header `Authorization`.
    pub fn header(&self) -> &HeaderValue {
        &self.header
    }

    /// Returns the token itself.
    pub(super) fn token(&self) -> &str {
        &self.login.access_token
    }
}

/// Request that the server has refused, whose next attempt needs a token.
pub(super) enum RefusedRequest {
    /// None: it is a first attempt.
    None,
    /// One without a token.
    NoToken,
    /// One with the token of this login.
    Token(Arc<UpstreamLogin>),
}

impl RefusedRequest {
    /// Returns the request that had this token.
    pub(super) fn with(bearer: Option<&Bearer>) -> Self {
        bearer.map_or(Self::NoToken, |bearer| Self::Token(bearer.login.clone()))
    }

    /// Returns whether the token of this login was refused.
    pub(super) fn has(&self, login: &UpstreamLogin) -> bool {
        matches!(self, Self::Token(refused) if refused.access_token == login.access_token)
    }
}
