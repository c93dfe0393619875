//! Requests that need more scopes than the login has.

use super::{
    bearer::{Bearer, RefusedRequest},
    error::{AuthorizationError, LoginReason},
    source::TokenSource,
};
use crate::tokens::{quoted, scopes};

impl TokenSource {
    /// Returns the token for another attempt of a request that needs more scopes, if the operator has
    /// logged in meanwhile. Otherwise the scopes are stored for the next login.
    pub(super) async fn widen(
        &self,
        refused: RefusedRequest,
        wanted: String,
    ) -> Result<Option<Bearer>, AuthorizationError> {
        let Some(login) = self.read().await? else {
            return Err(self.needs(LoginReason::Missing));
        };
        if !refused.has(&login) {
            return Bearer::new(login).map(Some);
        }
        let quoted = quoted(&wanted);
        let named = if quoted.is_empty() { String::new() } else { format!(": {quoted}") };
        if !self.permitted.is_empty() {
            let mut wanted = wanted.split_ascii_whitespace();
            let is_limited =
                wanted.any(|scope| !self.permitted.iter().any(|permitted| permitted == scope));
            return Err(self.needs(if is_limited {
                LoginReason::Limited(named)
            } else {
                LoginReason::Scopes(named)
            }));
        }
        let wanted = scopes([login.wanted.as_str(), wanted.as_str()]);
        if wanted != login.wanted {
            self.stored.want(&login.access_token, &wanted).await?;
        }
        Err(self.needs(LoginReason::Scopes(named)))
    }
}
