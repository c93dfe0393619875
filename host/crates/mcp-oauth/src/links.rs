//! Links by which users log in at the servers of tools that act for them.
//!
//! ```text
//! a call without a login ─► offer ─► the user opens the link ─► find: the page names who asked
//!                                                                 │ the user confirms
//!                                        authorization server ◄── begin
//!                                                 │ redirect
//!                                                 └──► complete ─► the login of who asked
//! ```
//!
//! At a server whose users enter the values of headers, the page has a form for them, and `submit` stores
//! them.
//!
//! A link is bound to the tenant that asked, and its login to the browser that confirmed: the redirect
//! is of use only there. All of it is in the store, so each of several gateways can take the next step.

mod authorization;
mod document;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::{Duration, SystemTime},
};

use base64::engine::{Engine as _, general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tracing::{info, warn};
use url::Url;
use uuid::Uuid;

use self::document::{LinkDocument, LinkHolder};
use super::{
    clients::RegisteredClients,
    keyed_permits::KeyedPermits,
    login::LoginError,
    logins::{Logins, LoginsUnavailable, login_id},
    server::LoginServer,
    user_headers::{self, BadUserHeaders},
};
use crate::limits::MAX_REMEMBERED;
use airlock_core::{
    act::{Act, ActKind, Actor, Acts},
    secret::Secret,
    tenant::{TenantIdentity, User},
    tool::LOGIN_LINK_LIFE,
    unix_time::unix_milliseconds,
};
use airlock_store::{
    OwnerId,
    login::{LoginHolder, LoginId, USER_HEADERS, UpstreamLogin},
    login_link::{LinkDigest, LoginLink, NewLoginLink},
};

/// Path of links, before their identifiers.
const LINK: &str = "oauth/login/";
/// Least time that a link which is offered again can still be followed.
const LEAST_LIFE: Duration = Duration::from_mins(5);
/// Maximum logins of one client that are begun at the same time. Each takes some requests, one after the
/// other, which a server that hangs holds up for two minutes.
const MAX_BEGINNING: usize = 4;
/// Number of wrong keys that end the link at which they are entered, so that no key is guessed there.
const MAX_WRONG_KEYS: u32 = 5;
/// Length of the identifiers of links and of the secrets of browsers, in characters.
const SECRET_CHARS: usize = 43;

/// Reason that no link is made.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The gateway is not reachable by browsers.
    #[error("this process does not serve HTTP, so its users cannot log in")]
    NoAddress,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] LoginsUnavailable),
}

/// Reason that a link cannot be followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// There is no such link: it has expired, was used, or never was.
    #[error("the link has expired or was used")]
    Gone,
    /// The redirect comes from another browser than the one that confirmed.
    #[error("the redirect belongs to another browser")]
    OtherBrowser,
    /// The link, or too many of its client, are being begun.
    #[error("too many logins at this server are being begun")]
    Busy,
    /// The values of headers that were entered cannot be used.
    #[error(transparent)]
    Headers(#[from] BadUserHeaders),
    /// The login failed.
    #[error(transparent)]
    Login(#[from] LoginError),
}

impl From<LoginsUnavailable> for FollowError {
    fn from(error: LoginsUnavailable) -> Self {
        Self::Login(error.into())
    }
}

/// A link that can be followed, as its page describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenLink {
    /// Name of the client.
    pub client: String,
    /// Scope of the tenant that asked.
    pub holder: OwnerId,
    /// Name of the virtual key of the tenant that asked.
    pub key_name: String,
    /// Issuer and subject of the user who asked with an access token; `None` if the virtual key was the
    /// credential.
    pub user: Option<(String, String)>,
}

/// Links by which users log in. Cheap to clone.
#[derive(Clone)]
pub struct LoginLinks(Arc<LinkParts>);

struct LinkParts {
    logins: Logins,
    /// URL at which browsers reach the gateway, with a slash at its end.
    base: OnceLock<Url>,
    /// Record of logins.
    acts: OnceLock<Acts>,
    clients: RegisteredClients,
    /// Tenants for which a link is looked for or made, so that calls at once get the same link.
    offering: KeyedPermits<LoginId>,
    /// Links that are begun, one at a time each.
    links_beginning: KeyedPermits<LinkDigest>,
    /// Clients at whose servers logins are begun: each causes requests to other servers.
    clients_beginning: KeyedPermits<String>,
    /// The links that were offered last, with the time of each.
    offered: Mutex<HashMap<LoginId, (String, tokio::time::Instant)>>,
}

impl LoginLinks {
    /// Creates the links of a gateway, which keeps them with its logins.
    pub fn new(logins: Logins) -> Self {
        Self(Arc::new(LinkParts {
            logins,
            base: OnceLock::new(),
            acts: OnceLock::new(),
            clients: RegisteredClients::default(),
            offering: KeyedPermits::new(1),
            links_beginning: KeyedPermits::new(1),
            clients_beginning: KeyedPermits::new(MAX_BEGINNING),
            offered: Mutex::default(),
        }))
    }

    /// Sets the URL at which browsers reach the gateway. The first one counts.
    pub fn serve_at(&self, mut base: Url) {
        if !base.path().ends_with('/') {
            let path = format!("{}/", base.path());
            base.set_path(&path);
        }
        let _ = self.0.base.set(base);
    }

    /// Returns whether browsers reach the gateway over TLS.
    pub fn is_secure(&self) -> bool {
        self.0.base.get().is_some_and(|base| base.scheme() == "https")
    }

    /// Returns a link for a tenant at this server: the last one, if it can be followed for
    /// some time yet, so that a model that repeats its call does not end the link that its user reads.
    pub async fn offer(
        &self,
        server: LoginServer<'_>,
        identity: &TenantIdentity<'_>,
    ) -> Result<String, LinkError> {
        let base = self.0.base.get().ok_or(LinkError::NoAddress)?;
        let id = login_id(server.client, server.http).of_holder(identity.scope);
        // The operations of the store, for which it is held, are bounded in time.
        let _turn = self.0.offering.take(&id).await;
        let link = match self.offered(&id).await? {
            Some(link) => link,
            None => self.make(id.clone(), identity).await?,
        };
        Ok(format!("{base}{LINK}{link}"))
    }

    /// Returns the link that was offered last, if it can be followed for [`LEAST_LIFE`].
    async fn offered(&self, id: &LoginId) -> Result<Option<String>, LoginsUnavailable> {
        let last = self.0.offered.lock().get(id).cloned();
        let recent = last.filter(|(_, at)| at.elapsed() + LEAST_LIFE < LOGIN_LINK_LIFE);
        let Some((link, _)) = recent else { return Ok(None) };
        let database = self.0.logins.database().await?;
        Ok(database.login_link(digest(&link)).await?.map(|_| link))
    }

    async fn make(&self, id: LoginId, identity: &TenantIdentity<'_>) -> Result<String, LinkError> {
        let link = new_secret();
        let new = NewLoginLink {
            digest: digest(&link),
            client: id.client.clone(),
            server: id.server.clone(),
            holder: identity.scope,
            document: LinkDocument::new(&id.client, &id.server, identity).to_text(),
        };
        let database = self.0.logins.database().await.map_err(LoginsUnavailable::from)?;
        let putting = database.put_login_link(new, LOGIN_LINK_LIFE);
        putting.await.map_err(LoginsUnavailable::from)?;
        let mut offered = self.0.offered.lock();
        if offered.len() >= MAX_REMEMBERED {
            offered.retain(|_, (_, at)| at.elapsed() < LOGIN_LINK_LIFE);
        }
        if offered.len() < MAX_REMEMBERED {
            offered.insert(id, (link.clone(), tokio::time::Instant::now()));
        }
        Ok(link)
    }

    /// Returns the link with this identifier.
    pub async fn find(&self, link: &str) -> Result<OpenLink, FollowError> {
        let (found, document) = self.read(link).await?;
        OpenLink::new(found.id, document.holder)
    }

    /// Records that a key was entered at a link, and whether it is the holder's. The link ends with the last
    /// of [`MAX_WRONG_KEYS`], and a right key is of no use after that. Each wrong key is one change of the
    /// store, so of keys that are entered at once, here or at other gateways, no more are of use.
    pub async fn enter_key(&self, link: &str, is_holders: bool) -> Result<(), FollowError> {
        let (found, _) = self.read(link).await?;
        if is_holders {
            return Ok(());
        }
        let database = self.0.logins.database().await.map_err(LoginsUnavailable::from)?;
        let counting = database.update_login_link(found.digest, |link| {
            let counted = LinkDocument::open(link)?.count_wrong_key()?;
            Some(counted.to_text())
        });
        if counting.await.map_err(LoginsUnavailable::from)?.is_some() {
            return Ok(());
        }
        let client = found.id.client;
        warn!(client, "a login link has ended, because wrong keys were entered at it");
        Err(FollowError::Gone)
    }

    /// Stores the values of headers that the user of a link has entered, in the place of a login at an
    /// authorization server. Returns the stored login. `server` is that of the client. All other links for
    /// the same login end with it.
    pub async fn submit(
        &self,
        link: &str,
        entered: &[(String, Secret)],
        server: LoginServer<'_>,
    ) -> Result<LoginId, FollowError> {
        let (found, document) = self.read(link).await?;
        check_settings(&found.id, server)?;
        let names = server.http.user_headers().ok_or(FollowError::Gone)?;
        let values = user_headers::document(names, entered)?;
        let holder = document.holder.to_holder(Uuid::new_v4().simple().to_string());
        let key_name = holder.key_name.clone();
        let login = UpstreamLogin {
            holder: Some(holder),
            authentication: USER_HEADERS.to_owned(),
            access_token: values,
            obtained_ms: unix_milliseconds(SystemTime::now()),
            ..UpstreamLogin::default()
        };
        self.store(&found, login).await?;
        info!(client = found.id.client, key = key_name, "a user has entered headers");
        self.record_login(&found.id.client, &document.holder, USER_HEADERS);
        Ok(found.id)
    }

    /// Sets the record of logins. The first one counts.
    pub fn record_in(&self, acts: Acts) {
        let _ = self.0.acts.set(acts);
    }

    fn record_login(&self, client: &str, holder: &LinkHolder, way: &str) {
        if let Some(acts) = self.0.acts.get() {
            let LinkHolder { key_name, issuer, subject } = holder;
            let actor = actor(key_name, issuer, subject);
            acts.record(|| Act::new(ActKind::UserLoggedIn, actor, client).with("way", way));
        }
    }

    /// Records that the login of a holder at a client was removed: by the holder, or by an operator.
    pub fn record_logout(&self, client: &str, holder: &LoginHolder, by: Actor) {
        if let Some(acts) = self.0.acts.get() {
            let LoginHolder { key_name, issuer, subject, .. } = holder;
            let of = actor(key_name, issuer, subject).to_string();
            acts.record(|| Act::new(ActKind::UserLoggedOut, by, client).with("login_of", of));
        }
    }

    /// Stores the login of a link, unless its holder or its client was removed meanwhile.
    async fn store(&self, link: &LoginLink, login: UpstreamLogin) -> Result<(), FollowError> {
        let database = self.0.logins.database().await.map_err(LoginsUnavailable::from)?;
        let stored = database.put_user_login(&link.id, link.digest, login).await;
        if stored.map_err(LoginsUnavailable::from)? { Ok(()) } else { Err(FollowError::Gone) }
    }

    async fn read(&self, link: &str) -> Result<(LoginLink, LinkDocument), FollowError> {
        if !is_secret(link) || self.0.logins.is_absent() {
            return Err(FollowError::Gone);
        }
        let database = self.0.logins.database().await.map_err(LoginsUnavailable::from)?;
        let found = database.login_link(digest(link)).await.map_err(LoginsUnavailable::from)?;
        let found = found.ok_or(FollowError::Gone)?;
        let document = LinkDocument::open(&found).ok_or(FollowError::Gone)?;
        Ok((found, document))
    }
}

impl OpenLink {
    fn new(id: LoginId, holder: LinkHolder) -> Result<Self, FollowError> {
        let LinkHolder { key_name, issuer, subject } = holder;
        let user = (!issuer.is_empty()).then_some((issuer, subject));
        let holder = id.holder.ok_or(FollowError::Gone)?;
        Ok(Self { client: id.client, holder, key_name, user })
    }
}

/// Returns the holder of a login as the records have it. `issuer` is empty if the virtual key is the credential.
fn actor(key_name: &str, issuer: &str, subject: &str) -> Actor {
    let user = User { issuer: issuer.to_owned(), subject: subject.to_owned() };
    Actor::holder(key_name, Some(&user).filter(|user| !user.issuer.is_empty()))
}

/// Fails if the settings of a client have changed so that a link is for another login.
fn check_settings(id: &LoginId, server: LoginServer<'_>) -> Result<(), FollowError> {
    let acts_for_users = server.http.users.is_some();
    let present = acts_for_users.then(|| login_id(server.client, server.http).server);
    if present.as_ref() == Some(&id.server) { Ok(()) } else { Err(FollowError::Gone) }
}

/// Returns a random text that cannot be guessed: 256 bits.
pub fn new_secret() -> String {
    // Four random bits of each UUID are lost to its version and variant, so three are hashed.
    let random = [Uuid::new_v4(), Uuid::new_v4(), Uuid::new_v4()].map(Uuid::into_bytes);
    URL_SAFE_NO_PAD.encode(Sha256::digest(random.concat()))
}

/// Returns whether a text may be one of [`new_secret`].
pub fn is_secret(text: &str) -> bool {
    text.len() == SECRET_CHARS
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn digest(secret: &str) -> LinkDigest {
    Sha256::digest(secret).into()
}

#[cfg(test)]
mod tests;
