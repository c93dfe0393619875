//! Servers that act for single users: each caller's own account, over a connection of its own.
//!
//! The supervisor's connection, with the operator's login, lists the tools. No call goes over it.
//!
//! | module | purpose |
//! |---|---|
//! | `pool` | the connections of all users at all servers, bounded |
//! | `session` | one connection of one user, from its opening to its end |

mod pool;
mod session;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{Instant, sleep},
};

use self::{
    pool::{PoolKey, UserConnection, UserPool},
    session::UserSession,
};
use crate::{limits::LOGIN_POLL, server::unavailable_before_sent};
use airlock_core::{
    tenant::Tenant,
    tool::{CallError, LoginRequired, ToolName},
};
use airlock_mcp_client::{
    Attempt, ConnectionError, Credentials, Handshake, Link, LoginLinks, Logins, OpenError, Settings,
};
use airlock_store::OwnerId;

/// The accounts of the operator and of users at all servers of a gateway, with the connections of users.
/// Cheap to clone.
#[derive(Clone)]
pub struct Accounts {
    logins: Logins,
    links: LoginLinks,
    pool: Arc<UserPool>,
}

impl Accounts {
    /// Creates the accounts whose logins are these. Nobody is connected yet.
    pub fn new(logins: Logins) -> Self {
        Self { links: LoginLinks::new(logins.clone()), logins, pool: Arc::default() }
    }

    /// Returns the stored logins.
    pub fn logins(&self) -> &Logins {
        &self.logins
    }

    /// Returns the links by which users log in.
    pub fn links(&self) -> &LoginLinks {
        &self.links
    }

    /// Closes the connection of a tenant at the server of a client, or those at all servers, because its
    /// logins have changed. Calls that run over it fail.
    pub fn disconnect(&self, holder: OwnerId, client: Option<&str>) {
        self.pool.close(|key| {
            key.holder == holder && client.is_none_or(|client| key.client.as_str() == client)
        });
    }
}

/// Credentials at one server.
pub(crate) struct Authority {
    /// The operator's.
    pub(crate) credentials: Result<Credentials, OpenError>,
    /// The users whose credentials its calls have; `None` if they have the operator's.
    pub(crate) users: Option<Arc<Users>>,
}

impl Authority {
    /// Creates the credentials at the server of these settings, whose calls run on `runtime`.
    pub(crate) fn new(settings: &Settings, accounts: &Accounts, runtime: &Handle) -> Self {
        Self {
            credentials: Credentials::new(settings, accounts.logins()),
            users: Users::new(settings, accounts, runtime),
        }
    }
}

/// The users of one server. Dropping it closes their connections.
pub(crate) struct Users {
    /// Tells the server from others, also from one with the same name that it replaces.
    number: u64,
    settings: Settings,
    accounts: Accounts,
    runtime: Handle,
    /// Handshake of the connection that listed the tools last.
    handshake: Mutex<Handshake>,
    is_stopped: AtomicBool,
}

/// Connection of one user, for one call. Dropping it before the call has ended has the connection
/// checked.
pub(crate) struct UserLink {
    link: Arc<Link>,
    connection: Arc<UserConnection>,
    is_done: bool,
}

/// Reason that a call has no connection of its user.
pub(crate) enum NoUserLink {
    /// The caller is anonymous.
    Anonymous,
    /// There are too many connections, and all are in use.
    Full,
    /// The user has to log in.
    LoginNeeded,
    /// The connection failed.
    Failed(Arc<ConnectionError>),
}

impl Users {
    /// Creates the users of a server with these settings; `None` if it acts for the operator alone.
    pub(crate) fn new(
        settings: &Settings,
        accounts: &Accounts,
        runtime: &Handle,
    ) -> Option<Arc<Self>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        settings.transport.http().filter(|http| http.is_per_user)?;
        Some(Arc::new(Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            settings: settings.clone(),
            accounts: accounts.clone(),
            runtime: runtime.clone(),
            handshake: Mutex::new(Handshake::first(settings.protocol, settings.questions)),
            is_stopped: AtomicBool::new(false),
        }))
    }

    /// Records the handshake of a connection that has listed the tools.
    pub(crate) fn agree(&self, handshake: Handshake) {
        *self.handshake.lock() = handshake;
    }

    /// Closes all connections, and opens no more.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
        self.accounts.pool.close(|key| key.server == self.number);
    }

    /// Returns the connection of a tenant. Opens it if there is none, which takes at most the startup
    /// timeout; dropping the future does not cancel that.
    pub(crate) async fn link(&self, tenant: &Tenant) -> Result<UserLink, NoUserLink> {
        let identity = tenant.identity().ok_or(NoUserLink::Anonymous)?;
        let client = self.settings.name.clone();
        let key = PoolKey { server: self.number, client, holder: identity.scope };
        let connection = self.accounts.pool.connection(key, |slot, opened| {
            let session = UserSession {
                settings: self.settings.clone(),
                logins: self.accounts.logins.clone(),
                attempt: Attempt { handshake: *self.handshake.lock(), has_headers: false },
                slot,
            };
            self.runtime.spawn(session.run(opened));
        });
        let connection = connection.ok_or(NoUserLink::Full)?;
        // After it is in the pool: what is added later than `stop` closes all is closed here.
        if self.is_stopped.load(Ordering::Acquire) {
            self.accounts.pool.close(|key| key.server == self.number);
        }
        match connection.opened().await {
            Ok(link) => Ok(UserLink { link, connection, is_done: false }),
            Err(error) if matches!(*error, ConnectionError::LoginNeeded(_)) => {
                Err(NoUserLink::LoginNeeded)
            }
            Err(error) => Err(NoUserLink::Failed(error)),
        }
    }

    /// Has the next call open another connection. Calls that run over this one go on.
    pub(crate) fn replace(&self, user: &UserLink) {
        self.accounts.pool.remove(&user.connection);
    }

    /// Returns whether a tenant has a login that has tokens. False if the store cannot be read.
    pub(crate) async fn has_login(&self, tenant: &Tenant) -> bool {
        let identity = tenant.identity();
        let login = identity.and_then(|own| Credentials::login_of(&self.settings, own.scope));
        match login {
            Some(login) => self.accounts.logins.has(&login).await.unwrap_or(false),
            None => false,
        }
    }

    /// Returns the session of the login of a tenant; `None` if it has none that has tokens, or if the store
    /// cannot be read.
    pub(crate) async fn session(&self, tenant: &Tenant) -> Option<String> {
        let login = Credentials::login_of(&self.settings, tenant.identity()?.scope)?;
        self.accounts.logins.session(&login).await.ok().flatten()
    }

    /// Waits until a tenant has another login than the one with the session `refused`, for at most `limit`.
    pub(crate) async fn logged_in(&self, tenant: &Tenant, refused: Option<&str>, limit: Duration) {
        let until = Instant::now() + limit;
        while Instant::now() + LOGIN_POLL < until {
            let session = self.session(tenant).await;
            if session.is_some_and(|session| Some(&*session) != refused) {
                return;
            }
            sleep(LOGIN_POLL).await;
        }
    }

    /// Returns the error of a call whose user has to log in, with a link for it.
    pub(crate) async fn login_required(&self, tool: &ToolName, tenant: &Tenant) -> CallError {
        let Some(identity) = tenant.identity() else {
            return CallError::identity_required(tool.clone());
        };
        match self.accounts.links.offer(&self.settings, &identity).await {
            Ok(url) => {
                let client = self.settings.name.clone();
                CallError::login_required(tool.clone(), LoginRequired { client, url })
            }
            Err(error) => unavailable_before_sent(tool, error),
        }
    }
}

impl Drop for Users {
    fn drop(&mut self) {
        self.stop();
    }
}

impl UserLink {
    /// Returns the link.
    pub(crate) fn link(&self) -> &Arc<Link> {
        &self.link
    }

    /// Records that the call has ended.
    pub(crate) fn done(mut self) {
        self.is_done = true;
    }
}

impl Drop for UserLink {
    fn drop(&mut self) {
        if !self.is_done {
            // It may hang: the call reached its deadline, or its caller left.
            self.link.request_check();
        }
    }
}

#[cfg(test)]
mod tests;
