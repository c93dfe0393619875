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
    path::Path,
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
    door::CallerToken,
    tenant::Tenant,
    tool::{CallError, LoginRequired, ToolName},
};
use airlock_mcp_client::{
    Attempt, ConnectionError, Credentials, Handshake, Link, OpenError, Settings, UserGrant,
    login_server,
};
use airlock_mcp_oauth::{
    ExchangeError, ExchangedToken, ExchangedTokens, LinkError, LoginLinks, Logins, TokenExchanger,
};
use airlock_store::OwnerId;
use airlock_strings::shell_word;

/// Reason that a call failed whose server refuses an exchanged token.
const REFUSED_TOKEN: &str = "the server of the tool refuses the token for which the access token of its caller was exchanged; \
                             its user may have no access to the server";

/// The accounts of the operator and of users at all servers of a gateway, with the connections of users.
/// Cheap to clone.
#[derive(Clone)]
pub struct Accounts {
    logins: Logins,
    links: LoginLinks,
    exchanged: ExchangedTokens,
    pool: Arc<UserPool>,
    /// Option that names the configuration in a command for the operator, with a space before it; empty if
    /// there is none.
    config_option: Arc<str>,
}

impl Accounts {
    /// Creates the accounts whose logins are these. No user is connected yet.
    pub fn new(logins: Logins) -> Self {
        Self {
            links: LoginLinks::new(logins.clone()),
            logins,
            exchanged: ExchangedTokens::default(),
            pool: Arc::default(),
            config_option: Arc::default(),
        }
    }

    /// Has reasons name the configuration of the gateway in the command by which the operator logs in.
    #[must_use]
    pub fn with_config(self, file: &Path) -> Self {
        let file = shell_word(&file.display().to_string());
        Self { config_option: format!(" --config {file}").into(), ..self }
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
    /// The operator's, for each instance of the server.
    pub(crate) credentials: Vec<Result<Credentials, OpenError>>,
    /// The users whose credentials its calls have; `None` if they have the operator's.
    pub(crate) users: Option<Arc<Users>>,
    /// As in [`Accounts`].
    pub(crate) config_option: Arc<str>,
}

impl Authority {
    /// Creates the credentials at the server of these settings, whose calls run on `runtime`.
    pub(crate) fn new(settings: &Settings, accounts: &Accounts, runtime: &Handle) -> Self {
        let instances = settings.instances();
        let logins = accounts.logins();
        Self {
            credentials: instances.map(|settings| Credentials::new(&settings, logins)).collect(),
            users: Users::new(settings, accounts, runtime),
            config_option: accounts.config_option.clone(),
        }
    }
}

/// The users of one server. Dropping it closes their connections.
pub(crate) struct Users {
    /// Identifies the server among others, also beside one with the same name that it replaces.
    number: u64,
    settings: Settings,
    accounts: Accounts,
    /// Exchanges the access tokens of callers; `None` if they have other credentials. Fails if its settings
    /// cannot be used.
    exchanger: Option<Result<TokenExchanger, String>>,
    runtime: Handle,
    /// The last failure of a user's connection, for the operator; `None` after a success.
    failure: Mutex<Option<String>>,
    /// Handshake of the connection that listed the tools last.
    handshake: Mutex<Handshake>,
    is_stopped: AtomicBool,
}

/// Connection of one user, for one call. Dropping it before the call has ended has the connection
/// checked.
pub(crate) struct UserLink {
    link: Arc<Link>,
    connection: Arc<UserConnection>,
    /// Token that the connection has, if it was exchanged.
    token: Option<ExchangedToken>,
    is_done: bool,
}

/// Caller of a call, as far as its user's connection depends on it.
#[derive(Clone, Copy)]
pub(crate) struct UserCaller<'c> {
    pub(crate) tenant: &'c Tenant,
    /// Access to the token with which the caller has come.
    pub(crate) token: &'c CallerToken,
}

/// Reason that a call has no connection of its user.
pub(crate) enum NoUserLink {
    /// The caller is anonymous.
    Anonymous,
    /// The caller has no access token that can be exchanged.
    NoToken,
    /// The caller's access token was not exchanged.
    NotExchanged(ExchangeError),
    /// There are too many connections, and all are in use.
    Full,
    /// The credentials are of no use: the user has to log in, or the caller's token has to be exchanged once
    /// more for another one than this.
    LoginNeeded(Option<ExchangedToken>),
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
        let server = login_server(settings).filter(|server| server.http.users.is_some())?;
        let exchanger = TokenExchanger::new(server, &accounts.exchanged);
        let exchanger = exchanger.map_err(|error| error.to_string()).transpose();
        Some(Arc::new(Self {
            exchanger,
            failure: Mutex::default(),
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

    /// Returns the connection of a caller's user. Opens it if there is none, which takes at most the startup
    /// timeout; dropping the future does not cancel that.
    pub(crate) async fn link(&self, caller: UserCaller<'_>) -> Result<UserLink, NoUserLink> {
        let identity = caller.tenant.identity().ok_or(NoUserLink::Anonymous)?;
        let token = self.exchanged(identity.scope, caller.token).await?;
        let key = PoolKey {
            server: self.number,
            client: self.settings.name.clone(),
            holder: identity.scope,
            token: token.as_ref().map(ExchangedToken::digest),
        };
        let grant = match &token {
            Some(token) => UserGrant::Exchanged(token.clone()),
            None => UserGrant::Stored(identity.scope),
        };
        let connection = self.accounts.pool.connection(key, |slot, opened| {
            let session = UserSession {
                settings: self.settings.clone(),
                logins: self.accounts.logins.clone(),
                grant,
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
            Ok(link) => Ok(UserLink { link, connection, token, is_done: false }),
            Err(error) if matches!(*error, ConnectionError::LoginNeeded(_)) => {
                Err(NoUserLink::LoginNeeded(token))
            }
            Err(error) => Err(NoUserLink::Failed(error)),
        }
    }

    /// Returns the token for which that of a caller is exchanged; `None` if its credentials are stored.
    async fn exchanged(
        &self,
        user: OwnerId,
        token: &CallerToken,
    ) -> Result<Option<ExchangedToken>, NoUserLink> {
        let exchanger = match &self.exchanger {
            None => return Ok(None),
            Some(Ok(exchanger)) => exchanger,
            Some(Err(reason)) => {
                let error = ConnectionError::Open(OpenError::Invalid(reason.clone()));
                return Err(NoUserLink::Failed(Arc::new(error)));
            }
        };
        let token = token.get().ok_or(NoUserLink::NoToken)?;
        exchanger.token(user, &token).await.map(Some).map_err(NoUserLink::NotExchanged)
    }

    /// Records the failure of a user's connection, for the operator, or a success.
    pub(crate) fn report(&self, failure: Option<String>) {
        *self.failure.lock() = failure;
    }

    /// Returns the last failure of a user's connection; `None` after a success.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    /// Returns whether a call whose credentials the server refuses may be sent once more: with a login that
    /// the user has made since, or with a newly exchanged token in the place of `refused`.
    pub(crate) async fn has_other(
        &self,
        caller: UserCaller<'_>,
        refused: Option<&ExchangedToken>,
    ) -> bool {
        match (&self.exchanger, refused) {
            (Some(Ok(exchanger)), Some(refused)) => {
                let user = caller.tenant.identity().map(|identity| identity.scope);
                let known = user.zip(caller.token.get());
                known.is_some_and(|(user, token)| exchanger.forget(user, &token, refused))
            }
            _ => self.has_login(caller.tenant).await,
        }
    }

    /// Has the next call open another connection. Calls that run over this one go on.
    pub(crate) fn replace(&self, user: &UserLink) {
        self.accounts.pool.remove(&user.connection);
    }

    /// Returns whether a tenant has a login that has tokens. False if the store cannot be read.
    async fn has_login(&self, tenant: &Tenant) -> bool {
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

    /// Returns the error of a call whose user has to log in or to enter headers, with a link for it. At a
    /// server for which tokens are exchanged, no user can mend it.
    pub(crate) async fn login_required(&self, tool: &ToolName, tenant: &Tenant) -> CallError {
        let Some(identity) = tenant.identity() else {
            return CallError::identity_required(tool.clone());
        };
        if self.exchanger.is_some() {
            return CallError::token_refused(tool.clone(), REFUSED_TOKEN);
        }
        let Some(server) = login_server(&self.settings) else {
            return unavailable_before_sent(tool, LinkError::NoAddress);
        };
        let header_keys = server.http.user_headers().unwrap_or_default();
        let header_keys = header_keys.iter().map(ToString::to_string).collect();
        match self.accounts.links.offer(server, &identity).await {
            Ok(url) => {
                let client = self.settings.name.clone();
                CallError::login_required(tool.clone(), LoginRequired { client, url, header_keys })
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

    /// Token that the connection has, if it was exchanged.
    pub(crate) fn token(&self) -> Option<&ExchangedToken> {
        self.token.as_ref()
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
