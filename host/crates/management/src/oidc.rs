//! Logins of operators at an identity provider.
//!
//! ```text
//! begin ─► store: digest of the state → browser, nonce, verifier ─► (browser at the provider)
//! complete ─► taken from the store, once ─► code → ID token ─► role ─► session
//! ```
//!
//! All of it is in the store, so each of several gateways can take the next step.
//!
//! | module | purpose |
//! |---|---|
//! | `rules` | who is an operator, and for how long |
//! | `places` | bounds the logins that wait for the provider |
//! | `uses` | records that sessions are used |

mod places;
mod rules;
mod uses;

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tracing::info;
use url::Url;
use uuid::Uuid;

use self::{places::LoginPlaces, rules::LoginRules, uses::SessionUses};
use crate::token;
use airlock_core::{
    act::{Act, ActKind, Actor, Acts},
    operator::{Operator, Role},
    secret::Secret,
};
use airlock_identity::{IdClaims, LoginAttempt, LoginClient, LoginError, LoginResponse};
use airlock_mcp_oauth::{Redirected, is_secret, new_secret};
use airlock_operator_api::{
    BegunLogin, OidcRole, OidcSettings, OpenedSession, OperatorLoginRefusal, OperatorLogins,
    OperatorSession, SessionLookup,
};
use airlock_store::{
    Database, LazyDatabase, Unavailable,
    operator_session::{
        FoundOperatorSession, NewOperatorLogin, NewOperatorSession, OperatorLoginTaken,
        SessionRules,
    },
};
use airlock_strings::{cut, visible_line};

/// Path of the redirect, below the URL of the gateway.
const CALLBACK: &str = "api/session/callback";
/// Time in which a login must be completed.
const LOGIN_LIFE: Duration = Duration::from_mins(10);
/// Maximum bytes of an email address (RFC 5321, section 4.5.3.1.3: a path has 256 with its
/// brackets), and of a subject, in the name of an operator, which each record of a change repeats.
const MAX_NAME_BYTES: usize = 254;
/// Maximum bytes of the issuer in the name of an operator, which each record of a change repeats.
const MAX_ISSUER_BYTES: usize = 256;

/// Logins of operators at the identity provider of a configuration. Cheap to clone.
#[derive(Clone)]
pub struct OidcLogins(Arc<OidcParts>);

struct OidcParts {
    client: LoginClient,
    rules: ArcSwap<LoginRules>,
    database: LazyDatabase,
    /// Record of logins.
    acts: Acts,
    /// URL at which browsers reach the gateway, with a slash at its end.
    base: OnceLock<Url>,
    places: LoginPlaces,
    uses: SessionUses,
}

/// Document of a login in the store.
#[derive(Serialize, Deserialize)]
struct LoginDocument {
    redirect: String,
    nonce: String,
    verifier: String,
    return_to: Option<String>,
}

impl OidcLogins {
    /// Creates the logins at the provider of `client`, whose sessions are in `database`. They are recorded in
    /// `acts`.
    pub fn new(
        client: LoginClient,
        settings: OidcSettings,
        database: LazyDatabase,
        acts: Acts,
    ) -> Self {
        Self(Arc::new(OidcParts {
            client,
            rules: ArcSwap::from_pointee(LoginRules::new(settings)),
            database,
            acts,
            base: OnceLock::new(),
            places: LoginPlaces::new(),
            uses: SessionUses::default(),
        }))
    }

    /// Returns which sessions are valid.
    pub(crate) fn rules(&self) -> SessionRules {
        self.0.rules.load().sessions
    }

    /// Takes the roles and the times of the configuration file; with `None`, no person is an operator. A session
    /// that was opened under others is not valid any more.
    pub(crate) fn follow(&self, wanted: Option<&OidcSettings>) {
        let next = self.0.rules.load().followed_by(wanted);
        self.0.rules.store(Arc::new(next));
    }

    /// Returns whether an administrator can log in.
    pub(crate) fn makes_admins(&self) -> bool {
        self.0.rules.load().makes_admins()
    }

    /// Sets the URL at which browsers reach the gateway. The first one counts.
    pub(crate) fn serve_at(&self, mut base: Url) {
        if !base.path().ends_with('/') {
            let path = format!("{}/", base.path());
            base.set_path(&path);
        }
        let _ = self.0.base.set(base);
    }
}

impl OidcParts {
    async fn begin(
        &self,
        browser: Option<&str>,
        return_to: Option<String>,
        peer: &str,
    ) -> Result<BegunLogin, OperatorLoginRefusal> {
        let base = self.base.get().ok_or(OperatorLoginRefusal::Gone)?;
        // A browser keeps its secret, so that logins in several of its windows end well.
        let browser = browser.filter(|browser| is_secret(browser));
        let browser = browser.map_or_else(new_secret, str::to_owned);
        let attempt = LoginAttempt {
            redirect: format!("{base}{CALLBACK}"),
            state: new_secret(),
            nonce: new_secret(),
            verifier: new_secret(),
        };
        let place = self.places.begin(peer).await.ok_or(OperatorLoginRefusal::Busy)?;
        let url = self.client.begin(&attempt).await.map_err(|error| refusal(&error))?;
        drop(place);
        let LoginAttempt { redirect, state, nonce, verifier } = attempt;
        let document = LoginDocument { redirect, nonce, verifier, return_to };
        let login = NewOperatorLogin {
            state: token::digest(&state),
            browser: token::digest(&browser),
            peer: token::digest(peer),
            // Texts are always JSON.
            document: Secret::new(serde_json::to_string(&document).unwrap_or_default()),
        };
        self.database().await?.begin_operator_login(login, LOGIN_LIFE).await?;
        Ok(BegunLogin { url: Secret::new(url), browser: Secret::new(browser) })
    }

    async fn complete(
        &self,
        query: &str,
        browser: Option<&str>,
        previous: Option<&str>,
        peer: &str,
    ) -> Result<OpenedSession, OperatorLoginRefusal> {
        let redirected = Redirected::parse(query).filter(|found| is_secret(&found.state));
        let redirected = redirected.ok_or(OperatorLoginRefusal::Gone)?;
        let browser = browser.filter(|browser| is_secret(browser));
        let browser = browser.ok_or(OperatorLoginRefusal::OtherBrowser)?;
        let _places = self.places.complete(peer).await.ok_or(OperatorLoginRefusal::Busy)?;
        let document = self.take(&redirected.state, browser, peer).await?;
        let Redirected { state, code, issuer, error, .. } = redirected;
        let LoginDocument { redirect, nonce, verifier, return_to } = document;
        let attempt = LoginAttempt { redirect, state, nonce, verifier };
        let response = LoginResponse { code, issuer, error };
        let claims = self.client.complete(&attempt, response).await;
        let claims = claims.map_err(|error| refusal(&error))?;
        let name = name(&claims);
        let rules = self.rules.load_full();
        let role = rules.role(&claims).ok_or_else(|| OperatorLoginRefusal::NoRole(name.clone()))?;
        let credential = self.open(&rules, &claims, &name, role, previous).await?;
        info!(operator = name, role = role.role.name(), "an operator has logged in");
        self.acts.record(|| {
            let actor = Actor::Operator(name.clone());
            Act::new(ActKind::OperatorLoggedIn, actor, claims.subject())
                .with("issuer", claims.issuer())
                .with("role", role.role.name())
        });
        let life = rules.settings.session_max;
        Ok(OpenedSession { credential: Secret::new(credential), life, name, return_to })
    }

    /// Takes a login out of the store. Of many redirects with its state, one succeeds.
    async fn take(
        &self,
        state: &str,
        browser: &str,
        peer: &str,
    ) -> Result<LoginDocument, OperatorLoginRefusal> {
        let database = self.database.existing().await?.ok_or(OperatorLoginRefusal::Gone)?;
        let peer = token::digest(peer);
        let taken =
            database.take_operator_login(token::digest(state), token::digest(browser), peer);
        match taken.await? {
            OperatorLoginTaken::Done(document) => {
                serde_json::from_str(document.expose()).map_err(|_| OperatorLoginRefusal::Gone)
            }
            OperatorLoginTaken::OtherBrowser => Err(OperatorLoginRefusal::OtherBrowser),
            OperatorLoginTaken::Gone => Err(OperatorLoginRefusal::Gone),
        }
    }

    /// Opens a session under the rules by which its role was found. Returns its credential.
    async fn open(
        &self,
        rules: &LoginRules,
        claims: &IdClaims,
        name: &str,
        role: &OidcRole,
        previous: Option<&str>,
    ) -> Result<String, OperatorLoginRefusal> {
        let credential = new_secret();
        let session = NewOperatorSession {
            id: Uuid::new_v4().simple().to_string(),
            digest: token::digest(&credential),
            policy: rules.sessions.policy,
            issuer: claims.issuer().to_owned(),
            subject: claims.subject().to_owned(),
            name: name.to_owned(),
            role: role.role.name().to_owned(),
            sees_payloads: role.sees_payloads,
        };
        let previous = previous.map(token::digest);
        let database = self.database().await?;
        let life = rules.settings.session_max;
        database.open_operator_session(session, life, previous).await?;
        Ok(credential)
    }

    async fn session(
        &self,
        credential: &str,
        peer: &str,
        lookup: SessionLookup,
    ) -> Result<Option<OperatorSession>, Unavailable> {
        if !is_secret(credential) {
            return Ok(None);
        }
        let Some(database) = self.database.existing().await? else { return Ok(None) };
        let digest = token::digest(credential);
        let rules = self.rules.load().sessions;
        let found = database.operator_session(digest, rules, peer).await?;
        let Some(FoundOperatorSession { session, is_use_due }) = found else { return Ok(None) };
        if is_use_due {
            self.uses.record(database, digest, lookup);
        }
        let Ok(role) = session.role.parse::<Role>() else { return Ok(None) };
        let operator = Operator { name: session.name, role, sees_payloads: session.sees_payloads };
        let expires = crate::timestamp::time(session.expires_ms);
        Ok(Some(OperatorSession { id: session.id, operator: Arc::new(operator), expires }))
    }

    async fn database(&self) -> Result<&Database, OperatorLoginRefusal> {
        Ok(self.database.available().await?)
    }
}

impl OperatorLogins for OidcLogins {
    fn external_url(&self) -> Option<&Url> {
        self.0.base.get()
    }

    fn begin<'a>(
        &'a self,
        browser: Option<&'a str>,
        return_to: Option<String>,
        peer: &'a str,
    ) -> BoxFuture<'a, Result<BegunLogin, OperatorLoginRefusal>> {
        Box::pin(self.0.begin(browser, return_to, peer))
    }

    fn complete<'a>(
        &'a self,
        query: &'a str,
        browser: Option<&'a str>,
        previous: Option<&'a str>,
        peer: &'a str,
    ) -> BoxFuture<'a, Result<OpenedSession, OperatorLoginRefusal>> {
        let logins = self.0.clone();
        let query = query.to_owned();
        let browser = browser.map(str::to_owned);
        let previous = previous.map(str::to_owned);
        let peer = peer.to_owned();
        Box::pin(async move {
            // In a task of its own: the code is used up, so that the provider learns of a browser that leaves
            // nothing but its absence.
            let completing = tokio::spawn(async move {
                logins.complete(&query, browser.as_deref(), previous.as_deref(), &peer).await
            });
            completing.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()))
        })
    }

    fn session<'a>(
        &'a self,
        credential: &'a str,
        peer: &'a str,
        lookup: SessionLookup,
    ) -> BoxFuture<'a, Result<Option<OperatorSession>, String>> {
        Box::pin(async move {
            self.0.session(credential, peer, lookup).await.map_err(|error| error.to_string())
        })
    }
}

impl fmt::Debug for OidcLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OidcLogins").field("rules", &self.0.rules.load()).finish_non_exhaustive()
    }
}

/// Returns the name of an operator for people, such as `ann@example.com (https://idp.example.com)`: the verified
/// email address, or else the subject. Other claims may be chosen by the person.
fn name(claims: &IdClaims) -> String {
    let email = claims.verified_email().filter(|email| is_plain(email));
    let who =
        email.map_or_else(|| cut(visible_line(claims.subject()), MAX_NAME_BYTES), str::to_owned);
    format!("{who} ({})", cut(claims.issuer().to_owned(), MAX_ISSUER_BYTES))
}

/// Returns whether an email address cannot be taken for anything else.
fn is_plain(email: &str) -> bool {
    (1..=MAX_NAME_BYTES).contains(&email.len())
        && email.bytes().all(|byte| byte.is_ascii_graphic() && !b"()<>\"\\,;".contains(&byte))
}

fn refusal(error: &LoginError) -> OperatorLoginRefusal {
    match error {
        LoginError::Unavailable(_) => OperatorLoginRefusal::Unavailable(error.to_string()),
        LoginError::Denied(_) | LoginError::NoCode | LoginError::OtherIssuer => {
            OperatorLoginRefusal::Declined(error.to_string())
        }
        // The code is not valid: a redirect may have any. A client that is not valid is a matter of the
        // configuration.
        LoginError::Refused { status: StatusCode::BAD_REQUEST, code }
            if !matches!(&**code, "invalid_client" | "unauthorized_client") =>
        {
            OperatorLoginRefusal::Declined(error.to_string())
        }
        _ => OperatorLoginRefusal::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_a_name_cannot_be_taken_for_anything_else() {
        assert!(is_plain("ann+ops@example.com"));
        for email in
            ["", "a b@c", "ann@example.com (https://idp)", "a\n@b", "\u{202e}@b", "\"a\"@b"]
        {
            assert!(!is_plain(email), "{email:?}");
        }
        assert!(!is_plain(&"x".repeat(255)));
    }

    #[test]
    fn what_anyone_can_cause_with_a_redirect_is_told_from_a_failure() {
        let code = "invalid_grant".to_owned();
        let client = "invalid_client".to_owned();
        let bad_request = StatusCode::BAD_REQUEST;
        for (error, is_by_anyone) in [
            (LoginError::Denied("access_denied".to_owned()), true),
            (LoginError::NoCode, true),
            (LoginError::OtherIssuer, true),
            (LoginError::Refused { status: bad_request, code }, true),
            (LoginError::Refused { status: bad_request, code: client.clone() }, false),
            (LoginError::Refused { status: StatusCode::UNAUTHORIZED, code: client }, false),
            (LoginError::NoIdToken, false),
            (LoginError::Nonce, false),
        ] {
            let refused = refusal(&error);
            let is_declined = matches!(refused, OperatorLoginRefusal::Declined(_));
            assert_eq!(is_declined, is_by_anyone, "{error}");
        }
    }
}
