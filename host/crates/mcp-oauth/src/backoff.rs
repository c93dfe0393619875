//! Backoff of the attempts to renew one login, which all its connections share: a connection that fails is
//! opened again by the next call, and would begin without it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::limits::MAX_REMEMBERED;
use airlock_store::login::{LoginId, UpstreamLogin};

/// Time for which a token that the server has refused twice is not sent again.
const REJECTED: Duration = Duration::from_mins(1);
/// Time after a refresh that failed in which none is attempted.
const PAUSE: Duration = Duration::from_secs(5);
/// The same after the authorization server has refused the client of the gateway, which an operator has to
/// correct.
const CLIENT_PAUSE: Duration = Duration::from_mins(1);
/// Least time between two refreshes because the server refuses a token.
const REPLACEMENT: Duration = Duration::from_secs(30);

/// SHA-256 of a token.
type TokenDigest = [u8; 32];

/// The backoff of each login of a process.
#[derive(Default)]
pub(super) struct RefreshBackoffs(Mutex<HashMap<LoginId, Arc<RefreshBackoff>>>);

/// The backoff of one login. Tokens are kept as digests: the backoff outlives the connections.
#[derive(Default)]
pub(super) struct RefreshBackoff(Mutex<RefreshBackoffState>);

#[derive(Default)]
struct RefreshBackoffState {
    /// Access token that the server refuses although it is new.
    rejected: Option<(TokenDigest, Instant)>,
    /// Refresh token of the operator that is refused for good, with the error code.
    refused: Option<(TokenDigest, String)>,
    pause: Option<Pause>,
    /// Time of the last refresh because the server refuses a token.
    replaced: Option<Instant>,
}

/// Pause after a refresh that failed.
struct Pause {
    /// The access token that was to be replaced.
    token: TokenDigest,
    until: Instant,
    /// Error code with which the client of the gateway was refused; `None` for another failure.
    client_refusal: Option<String>,
}

/// Reason that no refresh is attempted at present.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RefreshPaused {
    /// One has failed a moment ago.
    Failure,
    /// The client of the gateway was refused, with this error code.
    Client(String),
}

impl RefreshBackoffs {
    /// Returns the backoff of a login.
    pub(super) fn for_login(&self, id: &LoginId) -> Arc<RefreshBackoff> {
        let mut all = self.0.lock();
        if let Some(known) = all.get(id) {
            return known.clone();
        }
        if all.len() >= MAX_REMEMBERED {
            all.retain(|_, backoff| Arc::strong_count(backoff) > 1 || backoff.is_on());
        }
        let new = Arc::<RefreshBackoff>::default();
        if all.len() < MAX_REMEMBERED {
            all.insert(id.clone(), new.clone());
        }
        new
    }
}

impl RefreshBackoff {
    /// Records that the server refuses a token although it is new.
    pub(super) fn reject(&self, token: &str) {
        self.0.lock().rejected = Some((digest(token), Instant::now()));
    }

    /// Returns whether the server has refused the new token of a login within [`REJECTED`].
    pub(super) fn is_rejected(&self, login: &UpstreamLogin) -> bool {
        let token = digest(&login.access_token);
        let state = self.0.lock();
        state.rejected.is_some_and(|(rejected, at)| rejected == token && at.elapsed() < REJECTED)
    }

    /// Records that the refresh token of the operator's login is refused for good.
    pub(super) fn refuse_refresh(&self, login: &UpstreamLogin, code: &str) {
        let token = login.refresh_token.as_deref().map(digest);
        self.0.lock().refused = token.map(|token| (token, code.to_owned()));
    }

    /// Returns the error code with which the refresh token of a login was refused for good.
    pub(super) fn refresh_refusal(&self, login: &UpstreamLogin) -> Option<String> {
        let token = digest(login.refresh_token.as_deref()?);
        let state = self.0.lock();
        let (refused, code) = state.refused.as_ref()?;
        (*refused == token).then(|| code.clone())
    }

    /// Records that a refresh of a login has failed.
    pub(super) fn pause(&self, login: &UpstreamLogin) {
        self.set_pause(login, PAUSE, None);
    }

    /// Records that a refresh of a login has failed because the client of the gateway is refused.
    pub(super) fn pause_for_client(&self, login: &UpstreamLogin, code: &str) {
        self.set_pause(login, CLIENT_PAUSE, Some(code.to_owned()));
    }

    fn set_pause(&self, login: &UpstreamLogin, time: Duration, client_refusal: Option<String>) {
        let token = digest(&login.access_token);
        let until = Instant::now() + time;
        self.0.lock().pause = Some(Pause { token, until, client_refusal });
    }

    /// Returns the reason that this login is not refreshed at present; `None` if it may be.
    pub(super) fn paused(&self, login: &UpstreamLogin) -> Option<RefreshPaused> {
        let token = digest(&login.access_token);
        let state = self.0.lock();
        let pause = state.pause.as_ref()?;
        (pause.token == token && Instant::now() < pause.until).then(|| {
            pause.client_refusal.clone().map_or(RefreshPaused::Failure, RefreshPaused::Client)
        })
    }

    /// Returns whether a token that the server refuses may be replaced: once within [`REPLACEMENT`].
    /// The server decides what it refuses.
    pub(super) fn may_replace(&self) -> bool {
        let mut state = self.0.lock();
        let may = state.replaced.is_none_or(|at| at.elapsed() >= REPLACEMENT);
        if may {
            state.replaced = Some(Instant::now());
        }
        may
    }

    /// Returns whether something is still held up.
    fn is_on(&self) -> bool {
        let state = self.0.lock();
        state.refused.is_some()
            || state.rejected.is_some_and(|(_, at)| at.elapsed() < REJECTED)
            || state.pause.as_ref().is_some_and(|pause| Instant::now() < pause.until)
            || state.replaced.is_some_and(|at| at.elapsed() < REPLACEMENT)
    }
}

fn digest(token: &str) -> TokenDigest {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(access_token: &str) -> UpstreamLogin {
        UpstreamLogin { access_token: access_token.to_owned(), ..UpstreamLogin::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn connections_of_one_login_share_its_backoff_and_those_of_others_do_not() {
        let all = RefreshBackoffs::default();
        let ann = LoginId::of_operator("up", "s").of_holder([1; 32]);
        let bob = LoginId::of_operator("up", "s").of_holder([2; 32]);
        let first = all.for_login(&ann);
        first.pause(&login("a"));
        first.reject("a");
        assert!(first.may_replace());
        drop(first);
        let second = all.for_login(&ann);
        assert_eq!(second.paused(&login("a")), Some(RefreshPaused::Failure));
        assert!(second.is_rejected(&login("a")) && !second.may_replace());
        assert_eq!(second.paused(&login("b")), None, "a later login");
        let other = all.for_login(&bob);
        assert!(other.paused(&login("a")).is_none() && other.may_replace());
        tokio::time::advance(PAUSE).await;
        assert_eq!(second.paused(&login("a")), None);
        second.pause_for_client(&login("a"), "invalid_client");
        tokio::time::advance(PAUSE).await;
        let refused = RefreshPaused::Client("invalid_client".to_owned());
        assert_eq!(second.paused(&login("a")), Some(refused));
        tokio::time::advance(CLIENT_PAUSE).await;
        assert!(second.paused(&login("a")).is_none() && !second.is_on());
    }
}
