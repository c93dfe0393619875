//! Keeps the key set of the issuer.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::watch, time::Instant};
use tokio_util::task::AbortOnDropHandle;
use tracing::{debug, warn};

use crate::{
    fetch::{FetchError, FetchedKeys, KeySource},
    jws::Jws,
    key_set::KeySet,
    refusal::{InvalidToken, TokenRefusal},
    verified::Digest,
};

/// Maximum time that a set is used after the end of its lifetime if no newer one can be fetched: a
/// day, so that an outage of the issuer over night stops no caller. A key that the issuer has
/// removed works as long.
pub(crate) const MAX_STALENESS: Duration = Duration::from_hours(24);
/// Time between two fetches while a set can be used. Tokens with unknown keys, which anyone can
/// send, cause no more requests than that.
pub(crate) const PAUSE: Duration = Duration::from_secs(30);
/// Time between two fetches while there is no usable set and every request is refused.
pub(crate) const PAUSE_WITHOUT_KEYS: Duration = Duration::from_secs(5);

/// Time after a failed fetch in which the next one is expected to fail too. It contains the next
/// one, so with steady traffic it lasts as long as the outage.
const OUTAGE: Duration = Duration::from_mins(1);

/// The newest key set, and the fetch of the next one. One fetch runs at a time, in a task of its
/// own: a caller that disconnects does not stop it, and the others need not start over.
pub(crate) struct KeyCache {
    shared: Arc<KeyFetcher>,
    /// The newest fetch. It stops when the cache is dropped.
    task: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// No set is usable, and the next fetch is not due yet.
#[derive(Debug)]
pub(crate) struct KeysUnavailable {
    /// Time until the next fetch.
    pub(crate) retry_after: Duration,
}

/// State that the cache and the running fetch share.
struct KeyFetcher {
    source: KeySource,
    state: Mutex<KeyCacheState>,
}

/// The newest key set, and the times that decide when it is fetched again.
#[derive(Default)]
struct KeyCacheState {
    cached: Option<CachedKeys>,
    /// Time at which the newest fetch began, or ended if it has ended.
    fetched_at: Option<Instant>,
    /// End of the newest fetch, if it failed.
    failed_at: Option<Instant>,
    /// Closed when the running fetch has ended.
    running: Option<watch::Receiver<()>>,
}

/// A key set of the issuer.
struct CachedKeys {
    keys: Arc<KeySet>,
    /// End of its lifetime.
    fresh_until: Instant,
}

impl KeyCache {
    /// Creates an empty cache. The first request fetches the set.
    pub(crate) fn new(source: KeySource) -> Self {
        let shared = Arc::new(KeyFetcher { source, state: Mutex::default() });
        Self { shared, task: Mutex::default() }
    }

    /// Checks the signature of a token. Fetches newer keys if no key fits.
    pub(crate) async fn verify(&self, jws: &Jws<'_>, digest: &Digest) -> Result<(), TokenRefusal> {
        let keys = self.current().await?;
        let Err(invalid) = keys.verify(jws, digest) else { return Ok(()) };
        // The issuer may have new keys. A key without a name may have been replaced by one.
        let may_be_new = match invalid {
            InvalidToken::Key => true,
            InvalidToken::Signature => jws.header.kid.is_none(),
            _ => false,
        };
        if !may_be_new {
            return Err(invalid.into());
        }
        Ok(self.newer(&keys).await?.verify(jws, digest)?)
    }

    /// Returns the key set. Fetches it first if there is none or its lifetime has ended. During
    /// an outage of the issuer, callers do not wait for a fetch while the old set is usable.
    async fn current(&self) -> Result<Arc<KeySet>, KeysUnavailable> {
        let running = {
            let mut state = self.shared.state();
            let now = Instant::now();
            if let Some(cached) = state.cached.as_ref().filter(|cached| now < cached.fresh_until) {
                return Ok(cached.keys.clone());
            }
            let running = self.fetch_if_due(&mut state, now);
            if state.is_outage(now)
                && let Ok(keys) = state.usable(now)
            {
                return Ok(keys);
            }
            running
        };
        self.after(running).await
    }

    /// Returns a key set newer than `old` if one can be had now, else `old` itself.
    async fn newer(&self, old: &Arc<KeySet>) -> Result<Arc<KeySet>, KeysUnavailable> {
        let running = {
            let mut state = self.shared.state();
            let now = Instant::now();
            if let Some(cached) =
                state.cached.as_ref().filter(|cached| !Arc::ptr_eq(&cached.keys, old))
            {
                return Ok(cached.keys.clone());
            }
            self.fetch_if_due(&mut state, now)
        };
        self.after(running).await
    }

    /// Waits for a fetch, if there is one, and returns the keys that are cached then.
    async fn after(
        &self,
        running: Option<watch::Receiver<()>>,
    ) -> Result<Arc<KeySet>, KeysUnavailable> {
        if let Some(mut running) = running {
            // It closes when the fetch ends, by its time limit at the latest.
            let _ = running.changed().await;
        }
        self.shared.state().usable(Instant::now())
    }

    /// Returns the running fetch, or starts one if it is due.
    fn fetch_if_due(&self, state: &mut KeyCacheState, now: Instant) -> Option<watch::Receiver<()>> {
        let running = state.running.clone().filter(|running| running.has_changed().is_ok());
        running.or_else(|| (state.due_at(now) <= now).then(|| self.start(state, now)))
    }

    fn start(&self, state: &mut KeyCacheState, now: Instant) -> watch::Receiver<()> {
        let (ended, running) = watch::channel(());
        state.fetched_at = Some(now);
        state.running = Some(running.clone());
        let shared = self.shared.clone();
        let task = tokio::spawn(async move {
            let outcome = shared.source.fetch().await;
            shared.state().receive(outcome, Instant::now());
            // Last, so that those who wait find the outcome.
            drop(ended);
        });
        let task = Some(AbortOnDropHandle::new(task));
        *self.task.lock() = task;
        running
    }
}

impl KeyFetcher {
    fn state(&self) -> MutexGuard<'_, KeyCacheState> {
        self.state.lock()
    }
}

impl KeyCacheState {
    /// Returns the cached set, unless its lifetime has ended too long ago.
    fn usable(&self, now: Instant) -> Result<Arc<KeySet>, KeysUnavailable> {
        let cached = self.cached.as_ref().filter(|cached| now < cached.fresh_until + MAX_STALENESS);
        match cached {
            Some(cached) => Ok(cached.keys.clone()),
            None => Err(KeysUnavailable { retry_after: self.due_at(now).duration_since(now) }),
        }
    }

    /// Returns whether the issuer was not reachable a short time ago.
    fn is_outage(&self, now: Instant) -> bool {
        self.failed_at.is_some_and(|failed_at| now < failed_at + OUTAGE)
    }

    /// Time from which the next fetch may start.
    fn due_at(&self, now: Instant) -> Instant {
        let is_usable =
            self.cached.as_ref().is_some_and(|cached| now < cached.fresh_until + MAX_STALENESS);
        let pause = if is_usable { PAUSE } else { PAUSE_WITHOUT_KEYS };
        self.fetched_at.map_or(now, |fetched_at| fetched_at + pause)
    }

    fn receive(&mut self, outcome: Result<FetchedKeys, FetchError>, now: Instant) {
        self.fetched_at = Some(now);
        self.failed_at = outcome.is_err().then_some(now);
        match outcome {
            Ok(FetchedKeys { keys, lifetime }) => {
                debug!(keys = keys.len(), ?lifetime, "keys of the issuer fetched");
                if keys.len() == 0 {
                    warn!("the issuer has no usable keys, so every token is refused");
                }
                self.cached =
                    Some(CachedKeys { keys: Arc::new(keys), fresh_until: now + lifetime });
            }
            Err(error) => {
                let cause = airlock_strings::with_causes(&error);
                warn!(%cause, "keys of the issuer not fetched");
            }
        }
    }
}
