//! Finds the sender of a request, by a virtual key or by an access token of an identity provider.
//!
//! With an identity provider the gateway is an OAuth 2.1 resource server (MCP, section
//! "Authorization"; RFC 6750, RFC 9728). A token selects a virtual key or roles whose tools its sender
//! sees, and its sender is a tenant of its own. Tokens are never passed on; the request holds its token until
//! its response is sent, for servers at which it is exchanged. The API of MCP takes them, and
//! tells a client where to get one; the other APIs for callers take them if the operator says so, and
//! approvals never.

use std::{sync::Arc, time::SystemTime};

use airlock_identity::{ResourcePart, TokenApis, TokenRefusal, Verifier};
use http::{HeaderMap, HeaderValue, header};
use tracing::{debug, info};

use super::{App, sender::sender_of};
use airlock_core::{
    door::{CertificateDigest, LiveKeys, VirtualKey},
    secret::Secret,
    tenant::User,
};
use airlock_http::{
    auth,
    respond::{self, ApiError, Reply},
};
use airlock_ingress::{Ingress, Parking, Seat};
use airlock_requests::Sender;

/// Prefix of the paths at which the metadata is (RFC 9728, section 3).
const METADATA: &str = "/.well-known/oauth-protected-resource";

/// Returns whether a path may be one of the metadata's.
pub(super) fn is_metadata(path: &str) -> bool {
    path.strip_prefix(METADATA).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Returns the metadata of the gateway. Needs no credential. Fails if there is no identity provider,
/// or if the path is that of another resource.
pub(super) fn show(app: &App, path: &str) -> Result<Reply, ApiError> {
    let verifier = app.identity.as_ref();
    let metadata = verifier.and_then(|verifier| verifier.metadata(path));
    metadata.map(|metadata| respond::json(&metadata)).ok_or_else(|| ApiError::no_such_path(path))
}

/// API that a request is for, as far as the credential of its sender is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CredentialRules<'p> {
    /// MCP, with the path after that of the endpoint. With an identity provider, a request needs a
    /// credential, every bearer credential is a virtual key or an access token, and a refusal tells the
    /// client where to get a token.
    Mcp(&'p str),
    /// The logins of users, which belong to MCP. As for [`Self::Other`], but for the setting.
    Logins,
    /// Another API. Its clients also send keys of other services, which are ignored: only a JWT is an
    /// access token, if the settings permit tokens here.
    Other,
    /// Approvals. Usually the agent whose calls are to be approved holds a token, so none is accepted.
    Approvals,
}

impl CredentialRules<'_> {
    /// Returns whether access tokens are accepted.
    fn takes_tokens(self, apis: TokenApis) -> bool {
        match self {
            Self::Mcp(_) | Self::Logins => true,
            Self::Other => apis == TokenApis::All,
            Self::Approvals => false,
        }
    }

    /// Returns the credential that is an access token by its form, whether it is accepted or not.
    fn token(self, headers: &HeaderMap) -> Option<&str> {
        match self {
            Self::Mcp(_) => auth::token(headers),
            Self::Logins | Self::Other | Self::Approvals => auth::jwt(headers),
        }
    }

    /// Returns the message to a sender without a credential that is accepted.
    fn requirement(self, apis: TokenApis) -> &'static str {
        match self {
            Self::Approvals => "a virtual key is required: approvals accept no access tokens",
            Self::Other if !self.takes_tokens(apis) => {
                "a virtual key is required: access tokens are accepted at /mcp alone, unless `mcp_server.oauth.apis` is \"all\""
            }
            Self::Mcp(_) | Self::Logins | Self::Other => {
                "an access token or a virtual key is required"
            }
        }
    }

    /// Returns the part of the gateway that a request is for.
    fn part(self) -> Option<ResourcePart> {
        match self {
            Self::Mcp(rest) => ResourcePart::parse(rest.trim_matches('/')),
            Self::Logins | Self::Other | Self::Approvals => None,
        }
    }

    /// Adds `WWW-Authenticate`, by which a client of MCP finds the authorization server.
    fn challenged(
        self,
        error: ApiError,
        verifier: &Verifier,
        refusal: Option<&TokenRefusal>,
    ) -> ApiError {
        let challenge = match self {
            Self::Mcp(_) => verifier.challenge(self.part().as_ref(), refusal),
            Self::Logins | Self::Other | Self::Approvals => None,
        };
        match challenge {
            Some(challenge) => error.with_header(header::WWW_AUTHENTICATE, challenge),
            None => error,
        }
    }

    fn refused(self, refusal: &TokenRefusal, verifier: &Verifier) -> ApiError {
        self.challenged(error(refusal), verifier, Some(refusal))
    }
}

/// Finds the sender of a request. Waits for the issuer's keys for at most 5 seconds, during which the
/// connection in `seat` may be evicted.
pub(super) async fn sender(
    app: &App,
    rules: CredentialRules<'_>,
    headers: &HeaderMap,
    ingress: Ingress,
    seat: Option<&Seat>,
) -> Result<Sender, ApiError> {
    let Some(verifier) = &app.identity else { return app.sender(headers, ingress) };
    let Some(token) = rules.token(headers) else {
        return without_token(app, rules, headers, ingress, verifier);
    };
    if !rules.takes_tokens(verifier.apis()) {
        // It may be a token for the gateway, so it is not passed on either.
        let headers = without_authorization(headers);
        return without_token(app, rules, &headers, ingress, verifier);
    }
    let parked = seat.map(|seat| seat.park(Parking::Reading));
    let principal = verifier.verify(token, rules.part().as_ref()).await;
    drop(parked);
    let principal = principal.map_err(|refusal| {
        if refusal.is_by_anyone() {
            debug!(%refusal, "an access token was refused");
        } else {
            info!(%refusal, "an access token was refused");
        }
        rules.refused(&refusal, verifier)
    })?;
    // The file was checked to have this key or these roles, which may have been removed since.
    let key = view_key(&app.keys, &principal.view, ingress.certificate(), SystemTime::now());
    let key = key.ok_or_else(|| rules.refused(&TokenRefusal::View, verifier))?;
    let user = User { issuer: principal.issuer, subject: principal.subject };
    let mut key = key.on_behalf_of(user);
    // Else a stream would have the rights of the token for as long as it is open.
    let skew = verifier.settings().clock_skew;
    if let Some(end) = principal.expires_at.checked_add(skew) {
        key = key.expiring_by(end);
    }
    // The token is for the gateway alone and must not be passed on with the headers.
    let sender = sender_of(Some(Arc::new(key)), &without_authorization(headers))?;
    Ok(sender.with_token(Secret::new(token)))
}

fn without_authorization(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    headers.remove(header::AUTHORIZATION);
    headers
}

/// Finds the sender of a request without an access token that is accepted.
fn without_token(
    app: &App,
    rules: CredentialRules<'_>,
    headers: &HeaderMap,
    ingress: Ingress,
    verifier: &Verifier,
) -> Result<Sender, ApiError> {
    let is_required = matches!(rules, CredentialRules::Mcp(_)) || app.requires_key();
    if is_required && !auth::is_sent(headers) {
        let missing = ApiError::unauthorized(rules.requirement(verifier.apis()));
        return Err(rules.challenged(missing, verifier, None));
    }
    let key = auth::key(&app.keys, is_required, headers, ingress.certificate());
    let key = key.map_err(|error| rules.challenged(error, verifier, None))?;
    sender_of(key, headers)
}

/// Returns the key whose tools a token selects; `None` if it was removed or has expired, if one of the
/// roles was removed, or if it needs another certificate than that of the connection.
fn view_key(
    keys: &LiveKeys,
    view: &str,
    certificate: Option<CertificateDigest>,
    now: SystemTime,
) -> Option<Arc<VirtualKey>> {
    keys.view(view).filter(|key| key.permits(certificate) && !key.has_expired(now))
}

fn error(refusal: &TokenRefusal) -> ApiError {
    let code = match refusal {
        TokenRefusal::View => "no_view",
        TokenRefusal::Unavailable { .. } => "issuer_unavailable",
        _ => refusal.error().unwrap_or("invalid_token"),
    };
    let error = ApiError::from_status(refusal.status(), code, refusal.to_string());
    match refusal.retry_after_s() {
        Some(seconds) => error.with_header(header::RETRY_AFTER, HeaderValue::from(seconds)),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use airlock_identity::{VerifierSettings, ViewRule};
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::{
        Hooks, RequestSettings,
        tests::{
            hooks::{hooks, request_settings},
            settings,
        },
    };
    use airlock_core::door::Keys;
    use airlock_egress::tls;
    use airlock_fakes as fake;
    use airlock_ingress::{Connections, EvictionRank, Peer};

    /// Token with the header `{"alg":"ES256"}`, no claims, and a signature that no key made.
    const UNSIGNED: &str = "Bearer eyJhbGciOiJFUzI1NiJ9.e30.AA";

    fn app() -> App {
        let view =
            ViewRule { claim: "sub".to_owned(), value: "ann".to_owned(), view: "ann".to_owned() };
        let issuer = "https://issuer.example.com";
        let rules = VerifierSettings::new(issuer, "https://airlock.example.com/mcp", [view]);
        let identity = Verifier::new(rules, tls::client().no_proxy()).expect("a verifier");
        let (catalog, _) = fake::catalog();
        let hooks = Hooks { catalog, ..hooks(None) };
        let own = request_settings(settings(), fake::scripted(&json!([])));
        App::new(hooks, RequestSettings { identity: Some(Arc::new(identity)), ..own })
    }

    #[test]
    fn a_token_selects_no_key_that_was_removed_or_has_expired() {
        let end = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let ann = VirtualKey::new("ann", "sk-bf-1", BTreeMap::new()).with_expiry(Some(end));
        let keys = LiveKeys::new(Keys::new([ann]));
        let before = SystemTime::UNIX_EPOCH;
        assert!(view_key(&keys, "ann", None, before).is_some());
        assert!(view_key(&keys, "ann", None, end).is_none());
        keys.replace(Keys::default());
        assert!(view_key(&keys, "ann", None, before).is_none());
    }

    #[test]
    fn a_token_selects_no_key_that_needs_another_certificate() {
        let own = CertificateDigest::from_der(b"own");
        let ann = VirtualKey::new("ann", "sk-bf-1", BTreeMap::new());
        let keys = LiveKeys::new(Keys::new([ann.with_certificates([own].into())]));
        let other = CertificateDigest::from_der(b"other");
        for (shown, is_selected) in [(Some(own), true), (Some(other), false), (None, false)] {
            let found = view_key(&keys, "ann", shown, SystemTime::UNIX_EPOCH);
            assert_eq!(found.is_some(), is_selected, "{shown:?}");
        }
    }

    #[test]
    fn tokens_are_for_mcp_unless_the_settings_permit_more_and_never_for_approvals() {
        for (rules, by_default, with_all) in [
            (CredentialRules::Mcp(""), true, true),
            (CredentialRules::Logins, true, true),
            (CredentialRules::Other, false, true),
            (CredentialRules::Approvals, false, false),
        ] {
            assert_eq!(rules.takes_tokens(TokenApis::default()), by_default, "{rules:?}");
            assert_eq!(rules.takes_tokens(TokenApis::All), with_all, "{rules:?}");
        }
    }

    // The runtime has one thread, so nothing is fetched before the test ends.
    #[tokio::test]
    async fn a_connection_may_be_evicted_while_its_token_waits_for_the_keys_of_the_issuer() {
        let app = app();
        let slot = Connections::new(1, 1).admit(Peer::new(None)).expect("there is room");
        let _running = slot.activity.begin();
        let seat = slot.seats().seat();
        let headers =
            HeaderMap::from_iter([(header::AUTHORIZATION, HeaderValue::from_static(UNSIGNED))]);
        let rules = CredentialRules::Mcp("");
        let address = Some([127, 0, 0, 1].into());
        let ingress = Ingress::Remote { address, certificate: None };
        let waiting = sender(&app, rules, &headers, ingress, Some(&seat));
        let mut waiting = std::pin::pin!(waiting);
        assert!(waiting.as_mut().now_or_never().is_none(), "the keys are not there");
        assert!(matches!(slot.activity.rank(), Some(EvictionRank::Reading(_))));
    }
}
