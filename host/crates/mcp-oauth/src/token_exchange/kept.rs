//! The outcomes of exchanges that are kept: tokens until they expire, refusals for a moment, and the servers whose
//! authorization server fails.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{ExchangeError, ExchangeKey, ExchangedToken};
use airlock_core::tool::ClientName;

/// Maximum outcomes that are kept: callers bring the tokens, and those of servers, of up to 16 KiB
/// each, take 64 MiB. The one that ends first makes room for one more.
const MAX_KEPT: usize = 4_096;
/// Maximum outcomes of one user at one server: callers' tokens are renewed, and must not take the room of other users.
const MAX_OF_USER: usize = 8;
/// Time for which a failure is kept that is about a caller's token.
const REFUSED: Duration = Duration::from_mins(1);
/// Least time between two exchanges because the server refuses a token.
const REPLACEMENT: Duration = Duration::from_secs(30);
/// Time after the first failure in which nothing is exchanged for a server. It doubles with each further
/// one.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
/// Longest time of that kind.
const LAST_PAUSE: Duration = Duration::from_mins(1);

/// The outcomes of exchanges.
#[derive(Default)]
pub(super) struct KeptOutcomes {
    outcomes: Mutex<HashMap<ExchangeKey, KeptToken>>,
    /// One entry for each client whose last exchange failed.
    pauses: Mutex<HashMap<ClientName, Pause>>,
}

struct KeptToken {
    outcome: KeptOutcome,
    since: Instant,
    until: Instant,
}

/// Outcome of an exchange that is kept.
pub(super) enum KeptOutcome {
    Token(ExchangedToken),
    /// The caller's token is refused, with this error code.
    Refused(String),
    /// The response for the caller's token has no token that can be sent, for this reason.
    Unusable(&'static str),
}

struct Pause {
    until: Instant,
    failures: u32,
    reason: String,
}

impl KeptOutcomes {
    /// Returns the outcome that is kept; `None` if the caller's token is to be exchanged.
    pub(super) fn find(&self, key: &ExchangeKey) -> Option<Result<ExchangedToken, ExchangeError>> {
        let outcomes = self.outcomes.lock();
        let kept = outcomes.get(key).filter(|kept| Instant::now() < kept.until)?;
        Some(match &kept.outcome {
            KeptOutcome::Token(token) => Ok(token.clone()),
            KeptOutcome::Refused(code) => Err(ExchangeError::Refused(code.clone())),
            KeptOutcome::Unusable(reason) => Err(ExchangeError::Unusable(reason)),
        })
    }

    /// Keeps an outcome until a time.
    pub(super) fn keep(&self, key: ExchangeKey, outcome: KeptOutcome, until: Instant) {
        let now = Instant::now();
        let mut outcomes = self.outcomes.lock();
        outcomes.remove(&key);
        if outcomes.len() >= MAX_KEPT {
            outcomes.retain(|_, kept| now < kept.until);
        }
        let of_user = outcomes.keys().filter(|other| other.login == key.login).count();
        let is_user_full = of_user >= MAX_OF_USER;
        if is_user_full || outcomes.len() >= MAX_KEPT {
            let candidates =
                outcomes.iter().filter(|(other, _)| !is_user_full || other.login == key.login);
            let first = candidates.min_by_key(|(_, kept)| kept.until).map(|(key, _)| key.clone());
            if let Some(first) = first {
                outcomes.remove(&first);
            }
        }
        outcomes.insert(key, KeptToken { outcome, since: now, until });
    }

    /// Keeps a failure that is about a caller's token, for [`REFUSED`].
    pub(super) fn refuse(&self, key: ExchangeKey, failure: KeptOutcome) {
        self.keep(key, failure, Instant::now() + REFUSED);
    }

    /// Forgets a token, which has this digest. Returns false, and keeps it, if it was received within
    /// [`REPLACEMENT`].
    pub(super) fn forget(&self, key: &ExchangeKey, digest: [u8; 32]) -> bool {
        let mut outcomes = self.outcomes.lock();
        let Some(kept) = outcomes.get(key) else { return true };
        let is_same =
            matches!(&kept.outcome, KeptOutcome::Token(token) if token.digest() == digest);
        if !is_same {
            return true;
        }
        if kept.since.elapsed() < REPLACEMENT {
            return false;
        }
        outcomes.remove(key);
        true
    }

    /// Fails if an exchange for this client failed a moment ago.
    pub(super) fn check_pause(&self, client: &ClientName) -> Result<(), ExchangeError> {
        let pauses = self.pauses.lock();
        match pauses.get(client).filter(|pause| Instant::now() < pause.until) {
            Some(pause) => Err(ExchangeError::Paused(pause.reason.clone())),
            None => Ok(()),
        }
    }

    /// Records that an exchange for this client has failed.
    pub(super) fn pause(&self, client: &ClientName, error: &ExchangeError) {
        let mut pauses = self.pauses.lock();
        let failures = pauses.get(client).map_or(0, |pause| pause.failures);
        let pause = FIRST_PAUSE.saturating_mul(1 << failures.min(8)).min(LAST_PAUSE);
        let reason = error.to_string();
        let until = Instant::now() + pause;
        pauses.insert(client.clone(), Pause { until, failures: failures + 1, reason });
    }

    /// Records that an exchange for this client has succeeded.
    pub(super) fn succeed(&self, client: &ClientName) {
        self.pauses.lock().remove(client);
    }
}
