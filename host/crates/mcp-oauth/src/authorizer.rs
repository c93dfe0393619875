//! The access token of each request to one server.
//!
//! ```text
//!                    ┌─► the known token, if it was read within 5 s and is good ─────────► sent
//! bearer ────────────┤
//! replace (refused) ─┴─► turn ─► the store ─┬─► no login ────────────────────────────────► sent without
//!                                           ├─► Valid ───────────────────────────────────► sent
//!                                           ├─► Expiring ─► sent at once, then renewed
//!                                           └─► Rejected ─► renewed ─┬─► new tokens ─────► sent
//!                                                                    └─► the operator has to log in
//! ```
//!
//! One request at a time has the turn; the others wait for it, or send the known token.
//!
//! | module | purpose |
//! |---|---|
//! | `bearer` | the token, as a request has it |
//! | `source` | the login, as the store has it and as it was read last |
//! | `renewal` | refreshes the tokens, once among all processes |
//! | `scopes` | requests that need more scopes |
//! | `state` | the login that was read last |

mod bearer;
mod error;
mod renewal;
mod scopes;
mod source;
mod state;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use tokio::{
    sync::{OnceCell, OwnedSemaphorePermit, Semaphore, oneshot},
    time::sleep,
};

pub use self::{bearer::Bearer, error::AuthorizationError};
use self::{
    bearer::RefusedRequest,
    source::{StoredToken, TokenSource},
    state::LoginState,
};
pub(super) use self::{error::LoginReason, state::REREAD};
use super::{
    http_settings::{HttpSettings, InvalidSettings},
    logins::StoredLogin,
    outbound::check_server,
    secrets::Redactor,
    settings::Oauth,
};
use airlock_core::tool::ClientName;
use airlock_store::{Clock, login::UpstreamLogin};

/// Interval at which a server that needs a login looks for one.
const WATCH: Duration = Duration::from_secs(2);

/// Source of the access token of one server. It refreshes the token before it expires, one refresh
/// at a time, also among processes that share the store.
pub struct Authorizer {
    source: Arc<TokenSource>,
    /// Permit for the one request that reads the store or refreshes the token.
    turn: Arc<Semaphore>,
}

/// Receiver of the result of one request for a token.
type BearerSender = oneshot::Sender<Result<Option<Bearer>, AuthorizationError>>;

impl Authorizer {
    /// Creates the source of one server, with this login. Nothing is read yet. Fails if the settings can never work.
    pub fn new(
        client: &ClientName,
        http: &HttpSettings,
        stored: StoredLogin,
        redactor: Arc<Redactor>,
    ) -> Result<Self, InvalidSettings> {
        Self::with_clock(client, http, stored, redactor, Arc::new(SystemTime::now))
    }

    fn with_clock(
        client: &ClientName,
        http: &HttpSettings,
        stored: StoredLogin,
        redactor: Arc<Redactor>,
        clock: Clock,
    ) -> Result<Self, InvalidSettings> {
        check_server(http)?;
        let oauth = http.oauth.as_ref();
        let source = TokenSource {
            client: client.clone(),
            backoff: stored.backoff(),
            stored,
            outbound: OnceCell::new(),
            http: http.clone(),
            clock,
            state: LoginState::new(redactor),
            registers: oauth.is_none_or(Oauth::registers),
            permitted: oauth.map(|oauth| oauth.scopes.clone()).unwrap_or_default(),
        };
        Ok(Self { source: Arc::new(source), turn: Arc::new(Semaphore::new(1)) })
    }

    /// Returns the token for a request; `None` if there is no login, which some servers do not need
    /// for every request.
    pub async fn bearer(&self) -> Result<Option<Bearer>, AuthorizationError> {
        if let Some(ready) = self.source.ready() {
            return ready;
        }
        let turn = match self.turn.clone().try_acquire_owned() {
            Ok(turn) => turn,
            // Neither a slow store nor a slow authorization server delays a request with a good token.
            Err(_) => match self.source.usable() {
                Some(login) => return Bearer::new(login).map(Some),
                None => self.turn().await?,
            },
        };
        self.run(turn, async |source: Arc<TokenSource>, answer: BearerSender| {
            match source.ready() {
                Some(ready) => drop(answer.send(ready)),
                None => hand_out(&source, RefusedRequest::None, answer).await,
            }
        })
        .await
    }

    /// Returns the token for another attempt of a request whose token the server refuses: one that
    /// was stored meanwhile, or a refreshed one. Fails with [`AuthorizationError::NoOther`] if the
    /// login cannot be renewed, or was for this reason within half a minute.
    pub async fn replace(
        &self,
        refused: Option<&Bearer>,
    ) -> Result<Option<Bearer>, AuthorizationError> {
        let refused = RefusedRequest::with(refused);
        self.run(self.turn().await?, async |source: Arc<TokenSource>, answer: BearerSender| {
            hand_out(&source, refused, answer).await;
        })
        .await
    }

    /// Returns the token for another attempt of a request that needs more scopes, if the operator
    /// has logged in meanwhile. Otherwise the scopes are stored for the next login.
    pub async fn widen(
        &self,
        refused: Option<&Bearer>,
        wanted: String,
    ) -> Result<Option<Bearer>, AuthorizationError> {
        let refused = RefusedRequest::with(refused);
        let turn = self.turn().await?;
        self.run(turn, async |source: Arc<TokenSource>, answer: BearerSender| {
            drop(answer.send(source.widen(refused, wanted).await));
        })
        .await
    }

    /// Returns the error of a request whose second token the server refuses as well. If the request
    /// was the gateway's own, the token is not sent again for a minute. A caller's may be refused for
    /// what is in it.
    pub fn refused_twice(&self, refused: Option<&Bearer>, is_own: bool) -> AuthorizationError {
        if !is_own {
            return self.source.needs(LoginReason::Declined);
        }
        if let Some(refused) = refused {
            self.source.backoff.reject(refused.token());
        }
        self.source.needs(LoginReason::Rejected)
    }

    /// Waits until another login than the last one is stored.
    pub async fn changed(&self) {
        let before = self.source.state.login().as_deref().map(version);
        loop {
            sleep(WATCH).await;
            // A store that fails now may be readable later.
            let now = self.source.stored.read().await.ok().flatten();
            let unstored = self.source.state.unstored();
            let now = now.filter(|now| {
                unstored.as_ref().is_none_or(|(replaced, _)| now.access_token != *replaced)
            });
            if now.is_some() && now.as_ref().map(version) != before {
                return;
            }
        }
    }

    /// Runs `work`, which has its turn, to its end: a refresh token may be used only once, so the
    /// tokens that are received for it are stored even if the request is dropped.
    async fn run<F>(
        &self,
        turn: OwnedSemaphorePermit,
        work: impl FnOnce(Arc<TokenSource>, BearerSender) -> F + Send + 'static,
    ) -> Result<Option<Bearer>, AuthorizationError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let working = work(self.source.clone(), answer);
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

/// Hands out the token of a request that has its turn. A token that is good for some time is handed out
/// before it is refreshed.
async fn hand_out(source: &TokenSource, refused: RefusedRequest, answer: BearerSender) {
    let found = match source.look_up(&refused).await {
        Ok(StoredToken::Valid(login)) => login.map(Bearer::new).transpose(),
        Ok(StoredToken::Expiring(login)) => {
            drop(answer.send(Bearer::new(login.clone()).map(Some)));
            // Its reason was reported. The next request tries again.
            let _ = source.renew(login).await;
            return;
        }
        Ok(StoredToken::Rejected(login)) => {
            source.renew(login).await.and_then(Bearer::new).map(Some)
        }
        Err(error) => Err(error),
    };
    // The request may have been dropped.
    drop(answer.send(found));
}

/// Identifies a login among those of its client. Some servers issue the same token again.
fn version(login: &UpstreamLogin) -> (String, i64) {
    (login.access_token.clone(), login.obtained_ms)
}

#[cfg(test)]
mod tests;
