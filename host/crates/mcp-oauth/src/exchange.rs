//! The request for a login, and the exchange of the code that it results in (RFC 6749, section 4.1; RFC
//! 7636; RFC 9207).

use std::time::SystemTime;

use super::{
    callback::Redirected,
    limits::MAX_REASON_BYTES,
    login::LoginError,
    outbound::Outbound,
    secrets::Redactor,
    token_endpoint::{INVALID_GRANT, TokenError, request_tokens},
};
use airlock_store::login::UpstreamLogin;
use airlock_strings::{cut, with_causes};

const EXCHANGE: &str = "exchanging the code for tokens";
/// Error code of a login with scopes that the authorization server does not know.
const INVALID_SCOPE: &str = "invalid_scope";

/// A request for a login: what has to be known of it when the browser comes back.
pub(super) struct AuthorizationRequest {
    /// Its state, which the redirect repeats.
    pub(super) state: String,
    /// Proof of possession of the code.
    pub(super) verifier: String,
    /// URL to which the browser is redirected.
    pub(super) redirect: String,
    /// True if the redirect must name the issuer.
    pub(super) requires_issuer: bool,
    /// The login as far as it is known, without tokens.
    pub(super) login: UpstreamLogin,
}

impl AuthorizationRequest {
    /// Exchanges the code of a redirect. Returns the login with its tokens. Fails with
    /// [`LoginError::Stranger`] if the redirect belongs to another request.
    pub(super) async fn finish(
        &self,
        redirected: Redirected,
        outbound: &Outbound,
        redactor: &Redactor,
    ) -> Result<UpstreamLogin, LoginError> {
        if redirected.state != self.state {
            return Err(LoginError::Stranger);
        }
        self.check_issuer(redirected.issuer.as_deref(), redactor)?;
        if let Some(error) = redirected.error {
            if error == INVALID_SCOPE {
                return Err(LoginError::UnknownScope);
            }
            let reason = match redirected.description {
                Some(description) => format!("{error} ({description})"),
                None => error,
            };
            return Err(LoginError::Denied(redactor.scrubber().line(&reason, MAX_REASON_BYTES)));
        }
        let code = redirected.code.ok_or(LoginError::Stranger)?;
        redactor.add_tokens([("code", code.clone()), ("code verifier", self.verifier.clone())]);
        let grant = [
            ("grant_type", "authorization_code"),
            ("code", &code),
            ("redirect_uri", &self.redirect),
            ("code_verifier", &self.verifier),
        ];
        let tokens = request_tokens(outbound, &self.login, &grant).await;
        let tokens = tokens.map_err(|error| not_exchanged(error, redactor))?;
        Ok(tokens.into_login(self.login.clone(), SystemTime::now()))
    }

    /// Compares the issuer of a redirect, whether it has a code or an error, with that of the
    /// metadata (RFC 9207, section 2.4). If the issuer is not known, because the operator has set the
    /// endpoints, the code goes to that token endpoint alone.
    fn check_issuer(&self, received: Option<&str>, redactor: &Redactor) -> Result<(), LoginError> {
        let expected = &self.login.issuer;
        match received {
            _ if expected.is_empty() => Ok(()),
            Some(received) if received == expected => Ok(()),
            None if !self.requires_issuer => Ok(()),
            None => Err(LoginError::WrongIssuer(format!("it does not name {expected:?}"))),
            Some(received) => {
                let received = redactor.scrubber().line(received, MAX_REASON_BYTES);
                let expected = cut(expected.clone(), MAX_REASON_BYTES);
                let reason = format!("it names {received:?}, expected {expected:?}");
                Err(LoginError::WrongIssuer(reason))
            }
        }
    }
}

fn not_exchanged(error: TokenError, redactor: &Redactor) -> LoginError {
    match error {
        TokenError::Tokens(bad) => LoginError::Tokens(bad),
        TokenError::Status { code: Some(code), .. } if code == INVALID_SCOPE => {
            LoginError::UnknownScope
        }
        TokenError::Refused(code) if code != INVALID_GRANT => LoginError::UnknownClient(code),
        error => LoginError::Failed {
            step: EXCHANGE,
            reason: redactor.scrubber().line(&with_causes(&error), MAX_REASON_BYTES),
        },
    }
}
