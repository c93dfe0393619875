//! The access token of each request to one server.

mod error;
mod state;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::HeaderValue;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, sleep},
};
use tracing::{error, info, warn};

pub(crate) use self::error::AuthorizationError;
use self::{
    error::{LoginNeeded, Why},
    state::State,
};
use super::{
    super::{
        http::{HttpSettings, InvalidSettings},
        secrets::Redactor,
    },
    logins::{Logins, LoginsUnavailable, StoredLogin},
    outbound::{self, Outbound},
    refresh::{RefreshError, refresh},
    tokens::{quoted, scopes},
};
use airlock_core::tool::ClientName;
use airlock_store::{
    Clock,
    login::{RefreshClaim, UpstreamLogin},
};
use airlock_strings::with_causes;

/// Time for which a refresh is claimed. The request and storing its result take less.
const CLAIM: Duration = outbound::TIMEOUT.saturating_add(Duration::from_secs(10));
/// Interval at which the claim of another process is looked at.
const CLAIM_POLL: Duration = Duration::from_millis(100);
/// Interval at which a server that needs a login looks for one.
const WATCH: Duration = Duration::from_secs(2);

/// An access token, as it is sent.
#[derive(Debug, Clone)]
pub(crate) struct Bearer {
    login: Arc<UpstreamLogin>,
    header: HeaderValue,
}

impl Bearer {
    fn new(login: Arc<UpstreamLogin>) -> Result<Self, AuthorizationError> {
        let header = HeaderValue::try_from(format!("Bearer {}", login.access_token));
        let mut header = header.map_err(|_| AuthorizationError::Unusable)?;
        header.set_sensitive(true);
        Ok(Self { login, header })
    }

    /// Returns the value of the header `Authorization`.
    pub(crate) fn header(&self) -> &HeaderValue {
        &self.header
    }

    fn token(&self) -> &str {
        &self.login.access_token
    }
}

/// Source of the access token of one server. It refreshes the token before it expires, one refresh
/// at a time, also among processes that share the store.
pub(crate) struct Authorizer {
    shared: Arc<Shared>,
    /// Permit for the one request that reads the store or refreshes the token.
    turn: Arc<Semaphore>,
}

struct Shared {
    client: ClientName,
    stored: StoredLogin,
    outbound: Outbound,
    clock: Clock,
    state: State,
    /// Scopes of the settings, which no server can extend; empty if there are none.
    permitted: Vec<String>,
}

/// Receiver of the result of one request for a token.
type Answer = oneshot::Sender<Result<Option<Bearer>, AuthorizationError>>;

/// The login, and what has to be done with it before a request.
enum Found {
    /// Nothing. There may be none.
    Good(Option<Arc<UpstreamLogin>>),
    /// It is to be refreshed, but can be sent.
    Due(Arc<UpstreamLogin>),
    /// It has to be refreshed first.
    Unusable(Arc<UpstreamLogin>),
}

/// Request that the server has refused.
enum Refused {
    /// None.
    Nothing,
    /// One without a token.
    NoToken,
    /// One with the token of this login.
    Token(Arc<UpstreamLogin>),
}

impl Refused {
    fn of(bearer: Option<&Bearer>) -> Self {
        bearer.map_or(Self::NoToken, |bearer| Self::Token(bearer.login.clone()))
    }

    /// Returns whether the token of this login was refused.
    fn has(&self, login: &UpstreamLogin) -> bool {
        matches!(self, Self::Token(refused) if refused.access_token == login.access_token)
    }
}

impl Authorizer {
    /// Creates the source of one server. Nothing is read yet. Fails if the settings can never work.
    pub(crate) fn new(
        client: &ClientName,
        http: &HttpSettings,
        logins: &Logins,
        redactor: Arc<Redactor>,
    ) -> Result<Self, InvalidSettings> {
        Self::with_clock(client, http, logins, redactor, Arc::new(SystemTime::now))
    }

    fn with_clock(
        client: &ClientName,
        http: &HttpSettings,
        logins: &Logins,
        redactor: Arc<Redactor>,
        clock: Clock,
    ) -> Result<Self, InvalidSettings> {
        let shared = Shared {
            client: client.clone(),
            stored: logins.of(client, http),
            outbound: Outbound::new(http)?,
            clock,
            state: State::new(redactor),
            permitted: http.oauth.as_ref().map(|oauth| oauth.scopes.clone()).unwrap_or_default(),
        };
        Ok(Self { shared: Arc::new(shared), turn: Arc::new(Semaphore::new(1)) })
    }

    /// Returns the token for a request; `None` if there is no login, which some servers do not need
    /// for every request.
    pub(crate) async fn bearer(&self) -> Result<Option<Bearer>, AuthorizationError> {
        if let Some(ready) = self.shared.ready() {
            return ready;
        }
        let turn = match self.turn.clone().try_acquire_owned() {
            Ok(turn) => turn,
            // Neither a slow store nor a slow authorization server delays a request with a good token.
            Err(_) => match self.shared.usable() {
                Some(login) => return Bearer::new(login).map(Some),
                None => self.turn().await?,
            },
        };
        self.run(turn, async |shared: Arc<Shared>, answer: Answer| match shared.ready() {
            Some(ready) => drop(answer.send(ready)),
            None => shared.update(Refused::Nothing, answer).await,
        })
        .await
    }

    /// Returns the token for another attempt of a request whose token the server refuses: one that
    /// was stored meanwhile, or a refreshed one. Fails with [`AuthorizationError::NoOther`] if the
    /// login cannot be renewed, or was for this reason within half a minute.
    pub(crate) async fn replace(
        &self,
        refused: Option<&Bearer>,
    ) -> Result<Option<Bearer>, AuthorizationError> {
        let refused = Refused::of(refused);
        self.run(self.turn().await?, async |shared, answer| shared.update(refused, answer).await)
            .await
    }

    /// Returns the token for another attempt of a request that needs more scopes, if the operator
    /// has logged in meanwhile. Otherwise the scopes are stored for the next login.
    pub(crate) async fn widen(
        &self,
        refused: Option<&Bearer>,
        wanted: String,
    ) -> Result<Option<Bearer>, AuthorizationError> {
        let refused = Refused::of(refused);
        let turn = self.turn().await?;
        self.run(turn, async |shared: Arc<Shared>, answer: Answer| {
            drop(answer.send(shared.widen(refused, wanted).await));
        })
        .await
    }

    /// Returns the error of a request whose second token the server refuses as well. If the request
    /// was the gateway's own, the token is not sent again for a minute. A caller's may be refused for
    /// what is in it.
    pub(crate) fn give_up(&self, refused: Option<&Bearer>, is_own: bool) -> AuthorizationError {
        if !is_own {
            return self.shared.needs(Why::Declined);
        }
        if let Some(refused) = refused {
            self.shared.state.reject(refused.token());
        }
        self.shared.needs(Why::Rejected)
    }

    /// Waits until another login than the last one is stored.
    pub(crate) async fn changed(&self) {
        let before = self.shared.state.login().as_deref().map(version);
        loop {
            sleep(WATCH).await;
            // A store that fails now may be readable later.
            let now = self.shared.stored.read().await.ok().flatten();
            let unstored = self.shared.state.unstored();
            let now = now.filter(|now| {
                unstored.as_ref().is_none_or(|(replaced, _)| now.access_token != *replaced)
            });
            if now.is_some() && now.as_ref().map(version) != before {
                return;
            }
        }
    }

    /// Runs `work`, which has its turn, to its end: a refresh token may be used only once, so the
    /// tokens that are received for it are stored even if the request is given up.
    async fn run<F>(
        &self,
        turn: OwnedSemaphorePermit,
        work: impl FnOnce(Arc<Shared>, Answer) -> F + Send + 'static,
    ) -> Result<Option<Bearer>, AuthorizationError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let working = work(self.shared.clone(), answer);
        tokio::spawn(async move {
            let _turn = turn;
            working.await;
        });
        answered.await.unwrap_or(Err(AuthorizationError::Interrupted))
    }

    async fn turn(&self) -> Result<OwnedSemaphorePermit, AuthorizationError> {
        // The semaphore is never closed.
        let turn = self.turn.clone().acquire_owned().await;
        turn.map_err(|_| AuthorizationError::Interrupted)
    }
}

impl Shared {
    /// Returns the known token if it can be sent without a look into the store.
    fn ready(&self) -> Option<Result<Option<Bearer>, AuthorizationError>> {
        if !self.state.is_recent() {
            return None;
        }
        match self.state.login() {
            None => Some(Ok(None)),
            Some(login) if self.state.is_rejected(&login) => None,
            Some(login) if self.is_expired(&login) => None,
            Some(login)
                if self.is_due(&login)
                    && !self.state.is_paused()
                    && self.state.dead(&login).is_none() =>
            {
                None
            }
            Some(login) => Some(Bearer::new(login).map(Some)),
        }
    }

    /// Returns the known login if its token can be sent, however old the look into the store is.
    fn usable(&self) -> Option<Arc<UpstreamLogin>> {
        let login = self.state.login();
        login.filter(|login| !self.is_expired(login) && !self.state.is_rejected(login))
    }

    /// Reads the login, and refreshes it if it is due, or if its token is the one that was refused.
    /// A token that is good for some time is handed out before it is refreshed.
    async fn update(&self, refused: Refused, answer: Answer) {
        let found = match self.find(&refused).await {
            Ok(Found::Good(login)) => login.map(Bearer::new).transpose(),
            Ok(Found::Due(login)) => {
                drop(answer.send(Bearer::new(login.clone()).map(Some)));
                // Its reason was reported. The next request tries again.
                let _ = self.renew(login).await;
                return;
            }
            Ok(Found::Unusable(login)) => self.renew(login).await.and_then(Bearer::new).map(Some),
            Err(error) => Err(error),
        };
        // The request may have been given up.
        drop(answer.send(found));
    }

    async fn find(&self, refused: &Refused) -> Result<Found, AuthorizationError> {
        let login = match self.read().await {
            Ok(login) => login,
            // The known token is good for as long as it lasts.
            Err(error) => match self.state.login().filter(|login| !self.is_expired(login)) {
                Some(login) if matches!(refused, Refused::Nothing) => Some(login),
                _ => return Err(error.into()),
            },
        };
        let Some(login) = login else {
            return match refused {
                Refused::Nothing => Ok(Found::Good(None)),
                _ => Err(self.needs(Why::Missing)),
            };
        };
        if self.state.is_rejected(&login) {
            return Err(self.needs(Why::Rejected));
        }
        if refused.has(&login) {
            let is_replaceable = login.refresh_token.is_some() && self.state.may_replace();
            return if is_replaceable {
                Ok(Found::Unusable(login))
            } else {
                Err(AuthorizationError::NoOther)
            };
        }
        Ok(if !self.is_due(&login) {
            Found::Good(Some(login))
        } else if self.is_expired(&login) {
            Found::Unusable(login)
        } else {
            Found::Due(login)
        })
    }

    /// Reads the login. Tokens that could not be stored are stored first. As long as that fails, they
    /// are used in place of the version that they replace.
    async fn read(&self) -> Result<Option<Arc<UpstreamLogin>>, LoginsUnavailable> {
        let Some((replaced, login)) = self.state.unstored() else {
            return Ok(self.state.remember(self.stored.read().await?));
        };
        let renewed = self.stored.renew(&replaced, UpstreamLogin::clone(&login)).await;
        let is_unstored = renewed.is_err()
            && match self.stored.read().await {
                Ok(present) => present.is_some_and(|present| present.access_token == replaced),
                Err(_) => true,
            };
        if is_unstored {
            return Ok(Some(self.state.keep(UpstreamLogin::clone(&login))));
        }
        self.state.settle();
        Ok(self.state.remember(self.stored.read().await?))
    }

    async fn widen(
        &self,
        refused: Refused,
        wanted: String,
    ) -> Result<Option<Bearer>, AuthorizationError> {
        let Some(login) = self.read().await? else {
            return Err(self.needs(Why::Missing));
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
                Why::Limited(named)
            } else {
                Why::Scopes(named)
            }));
        }
        let wanted = scopes([login.wanted.as_str(), wanted.as_str()]);
        if wanted != login.wanted {
            self.stored.want(&login.access_token, &wanted).await?;
        }
        Err(self.needs(Why::Scopes(named)))
    }

    /// Refreshes the tokens, unless another process does. Returns the login with new tokens.
    async fn renew(
        &self,
        login: Arc<UpstreamLogin>,
    ) -> Result<Arc<UpstreamLogin>, AuthorizationError> {
        if let Some(code) = self.state.dead(&login) {
            return Err(self.needs(Why::Refused(code)));
        }
        if login.refresh_token.is_none() {
            return Err(self.needs(Why::Expired));
        }
        if self.state.is_paused() {
            return Err(AuthorizationError::Paused);
        }
        // The store has a refresh token that was used.
        if self.state.unstored().is_some() {
            return Err(AuthorizationError::Unstored);
        }
        let deadline = Instant::now() + CLAIM;
        let mut token = login.access_token.clone();
        while Instant::now() < deadline {
            match self.stored.claim(&token, CLAIM).await? {
                RefreshClaim::Claimed(login) => return self.refresh(login).await,
                RefreshClaim::Gone => {
                    self.state.remember(None);
                    return Err(self.needs(Why::Missing));
                }
                RefreshClaim::Changed(login) => {
                    token.clone_from(&login.access_token);
                    let login = self.state.keep(login);
                    if !self.is_due(&login) {
                        return Ok(login);
                    }
                }
                RefreshClaim::Busy => sleep(CLAIM_POLL).await,
            }
        }
        Err(AuthorizationError::Busy)
    }

    /// Refreshes the tokens of a login that is claimed.
    async fn refresh(
        &self,
        login: UpstreamLogin,
    ) -> Result<Arc<UpstreamLogin>, AuthorizationError> {
        let client = &self.client;
        let error = match refresh(&self.outbound, &login, || (self.clock)()).await {
            Ok(renewed) => {
                info!(%client, "access token of an upstream server refreshed");
                return self.store(&login.access_token, renewed).await;
            }
            Err(error) => error,
        };
        // An attempt is not made again at once, whether the claim can be ended or not.
        let _ = self.stored.release(&login.access_token).await;
        // Another process may have used the refresh token first.
        if let Some(present) = self.stored.read().await?
            && present.access_token != login.access_token
        {
            return Ok(self.state.keep(present));
        }
        warn!(%client, error = with_causes(&error), "access token of an upstream server not refreshed");
        match error {
            RefreshError::Refused(code) => {
                self.state.bury(&login, &code);
                Err(self.needs(Why::Refused(code)))
            }
            error => {
                self.state.pause();
                Err(error.into())
            }
        }
    }

    /// Stores refreshed tokens, which are lost otherwise: if that fails, each look into the store tries
    /// it again. Returns the login that is to be used.
    async fn store(
        &self,
        token: &str,
        renewed: UpstreamLogin,
    ) -> Result<Arc<UpstreamLogin>, AuthorizationError> {
        match self.stored.renew(token, renewed.clone()).await {
            Ok(true) => return Ok(self.state.keep(renewed)),
            Ok(false) => {}
            Err(error) => {
                let client = &self.client;
                let error = with_causes(&error);
                error!(%client, error, "refreshed tokens of an upstream server were not stored yet");
                return Ok(self.state.postpone(token, renewed));
            }
        }
        // The operator has logged in or out meanwhile.
        let present = self.state.remember(self.stored.read().await?);
        present.ok_or_else(|| self.needs(Why::Missing))
    }

    fn needs(&self, why: Why) -> AuthorizationError {
        LoginNeeded { client: self.client.clone(), why }.into()
    }

    /// Returns whether a token is to be refreshed: a minute before it expires, or after half its life
    /// if that is short; but not in its first second.
    fn is_due(&self, login: &UpstreamLogin) -> bool {
        let Some(expires) = login.expires_ms else { return false };
        let now = super::tokens::millis((self.clock)());
        let life = expires.saturating_sub(login.obtained_ms);
        let margin = (life / 2).clamp(0, 60_000);
        now >= expires.saturating_sub(margin) && now >= login.obtained_ms.saturating_add(1_000)
    }

    fn is_expired(&self, login: &UpstreamLogin) -> bool {
        let now = super::tokens::millis((self.clock)());
        login.expires_ms.is_some_and(|expires| now >= expires)
    }
}

/// Identifies a login among those of its client. Some servers issue the same token again.
fn version(login: &UpstreamLogin) -> (String, i64) {
    (login.access_token.clone(), login.obtained_ms)
}

#[cfg(test)]
mod tests;
