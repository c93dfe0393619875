//! An access token that is requested when it is needed, and again before it expires.
//!
//! At most one request is made at a time. While there is a valid token, no other request waits for it;
//! without one, all wait for the same result, also if it is an error.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use parking_lot::Mutex;
use tokio::{sync::Semaphore, time::Instant};

use crate::TokenError;

/// Time before its expiry at which a token is requested again.
const REFRESH_AHEAD: Duration = Duration::from_mins(5);
/// Time before its expiry at which a token is not used any more: a request takes time to arrive.
const UNUSED_AHEAD: Duration = Duration::from_secs(30);
/// Pause after a refresh that failed, while the token is still valid.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// Longest life of a token that is believed, so that the time at which it ends can be computed: the service may state
/// any number of seconds. Tokens live for an hour.
const MAX_LIFE: Duration = Duration::from_hours(12);

/// An access token.
pub(super) struct AccessToken {
    /// Value of the header that carries it.
    header: HeaderValue,
    refresh_at: Instant,
    unused_at: Instant,
}

/// The token of one key.
pub(super) struct TokenCache {
    token: ArcSwapOption<AccessToken>,
    /// Permits one request at a time.
    turn: Semaphore,
    failure: Mutex<Option<TokenFailure>>,
}

#[derive(Clone)]
struct TokenFailure {
    at: Instant,
    error: Arc<TokenError>,
}

impl AccessToken {
    /// Creates a token that was requested at `requested` and lives for `life`.
    pub(super) fn new(header: HeaderValue, requested: Instant, life: Duration) -> Self {
        let life = life.min(MAX_LIFE);
        // A token of a short life is used for half of it before the refresh.
        let refresh_at = requested + life.saturating_sub(REFRESH_AHEAD).max(life / 2);
        let unused_at = requested + life.saturating_sub(UNUSED_AHEAD);
        Self { header, refresh_at: refresh_at.min(unused_at), unused_at }
    }
}

impl TokenCache {
    /// Creates a cache without a token.
    pub(super) fn new() -> Self {
        Self { token: ArcSwapOption::empty(), turn: Semaphore::new(1), failure: Mutex::default() }
    }

    /// Returns the header of a valid token. `request` requests a new one.
    pub(super) async fn get<F>(
        &self,
        request: impl FnOnce() -> F,
    ) -> Result<HeaderValue, Arc<TokenError>>
    where
        F: Future<Output = Result<AccessToken, TokenError>>,
    {
        let began = Instant::now();
        let valid = self.valid();
        let _turn = match &valid {
            Some(token) if began < token.refresh_at => return Ok(token.header.clone()),
            Some(token) => {
                let turn = self.turn.try_acquire();
                let Some(turn) = turn.ok().filter(|_| !self.has_just_failed()) else {
                    return Ok(token.header.clone());
                };
                turn
            }
            None => {
                let turn = self.turn.acquire().await.expect("it is never closed");
                if let Some(token) = self.valid() {
                    return Ok(token.header.clone());
                }
                if let Some(failure) = self.failure_since(began) {
                    return Err(failure.error);
                }
                turn
            }
        };
        match request().await {
            Ok(token) => {
                let header = token.header.clone();
                self.token.store(Some(Arc::new(token)));
                Ok(header)
            }
            Err(error) => {
                let error = Arc::new(error);
                let failure = TokenFailure { at: Instant::now(), error: error.clone() };
                *self.failure.lock() = Some(failure);
                valid.map(|token| token.header.clone()).ok_or(error)
            }
        }
    }

    fn valid(&self) -> Option<Arc<AccessToken>> {
        let now = Instant::now();
        self.token.load_full().filter(|token| now < token.unused_at)
    }

    fn has_just_failed(&self) -> bool {
        self.failure.lock().as_ref().is_some_and(|failure| failure.at.elapsed() < RETRY_PAUSE)
    }

    fn failure_since(&self, time: Instant) -> Option<TokenFailure> {
        self.failure.lock().clone().filter(|failure| failure.at > time)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use tokio::time::{advance, sleep};

    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    /// An endpoint of tokens that counts its requests, each of which takes a second.
    #[derive(Default)]
    struct Endpoint(AtomicUsize);

    impl Endpoint {
        async fn token(&self, life: Duration) -> Result<AccessToken, TokenError> {
            let requested = Instant::now();
            let count = self.0.fetch_add(1, Ordering::Relaxed) + 1;
            sleep(Duration::from_secs(1)).await;
            Ok(AccessToken::new(HeaderValue::from(count), requested, life))
        }

        async fn failure(&self) -> Result<AccessToken, TokenError> {
            self.0.fetch_add(1, Ordering::Relaxed);
            sleep(Duration::from_secs(1)).await;
            Err(TokenError::Timeout)
        }

        fn count(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn number(header: Result<HeaderValue, Arc<TokenError>>) -> String {
        header.expect("a token").to_str().expect("text").to_owned()
    }

    #[tokio::test(start_paused = true)]
    async fn many_requests_share_one_token_until_it_is_refreshed_before_its_expiry() {
        let cache = TokenCache::new();
        let endpoint = Endpoint::default();
        let get = || cache.get(|| endpoint.token(HOUR));
        let all = join_all((0..20).map(|_| get())).await;
        assert!(all.into_iter().all(|header| number(header) == "1"));
        let before_refresh = REFRESH_AHEAD + Duration::from_secs(2);
        advance(HOUR.saturating_sub(before_refresh)).await;
        assert_eq!(number(get().await), "1");
        advance(Duration::from_secs(1)).await;
        // One request refreshes; the others use the valid token.
        let mut all: Vec<_> =
            join_all((0..20).map(|_| get())).await.into_iter().map(number).collect();
        all.sort_unstable();
        assert_eq!((all[0].as_str(), all[18].as_str(), all[19].as_str()), ("1", "1", "2"));
        assert_eq!((number(get().await).as_str(), endpoint.count()), ("2", 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refresh_that_fails_leaves_the_token_until_its_expiry() {
        let cache = TokenCache::new();
        let good = Endpoint::default();
        number(cache.get(|| good.token(HOUR)).await);
        advance(HOUR.saturating_sub(REFRESH_AHEAD)).await;
        let bad = Endpoint::default();
        for _ in 0..3 {
            assert_eq!(number(cache.get(|| bad.failure()).await), "1");
        }
        assert_eq!(bad.count(), 1, "there is a pause after a failure");
        advance(RETRY_PAUSE).await;
        assert_eq!(number(cache.get(|| bad.failure()).await), "1");
        assert_eq!(bad.count(), 2);
        advance(REFRESH_AHEAD.saturating_sub(UNUSED_AHEAD)).await;
        let error = cache.get(|| bad.failure()).await.expect_err("it has expired");
        assert!(matches!(*error, TokenError::Timeout));
        assert_eq!(number(cache.get(|| good.token(HOUR)).await), "2");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_wait_share_a_failure_and_later_ones_try_again() {
        let cache = TokenCache::new();
        let endpoint = Endpoint::default();
        let all = join_all((0..20).map(|_| cache.get(|| endpoint.failure()))).await;
        assert!(all.iter().all(Result::is_err));
        assert_eq!(endpoint.count(), 1);
        advance(Duration::from_millis(1)).await;
        cache.get(|| endpoint.failure()).await.expect_err("it fails again");
        assert_eq!(endpoint.count(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_dropped_lets_the_next_one_try() {
        let cache = TokenCache::new();
        let endpoint = Endpoint::default();
        let mut dropped = Box::pin(cache.get(std::future::pending));
        assert!(futures_util::poll!(&mut dropped).is_pending());
        drop(dropped);
        assert_eq!(number(cache.get(|| endpoint.token(HOUR)).await), "1");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_of_a_short_life_is_requested_again_and_a_long_life_is_not_believed() {
        let cache = TokenCache::new();
        let endpoint = Endpoint::default();
        for _ in 0..2 {
            cache.get(|| endpoint.token(Duration::ZERO)).await.expect("a token");
        }
        assert_eq!(endpoint.count(), 2);
        cache.get(|| endpoint.token(Duration::MAX)).await.expect("a token");
        advance(MAX_LIFE).await;
        cache.get(|| endpoint.token(HOUR)).await.expect("a token");
        assert_eq!(endpoint.count(), 4);
    }
}
