//! Repetition of requests to one service.
//!
//! A request is repeated only if nothing of its response was sent to the caller: the connection
//! could not be made, or the service reported that it is overloaded or failed. If the key caused the
//! failure and there is another key, the next attempt uses that one.

use std::time::Duration;

use http::StatusCode;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{
    ModelError,
    keys::{Random, ServiceKey, choose},
    settings::Retries,
};

/// Longest `Retry-After` for which a request waits, unless `retry_backoff_max` is longer. With a longer one
/// the request fails, and the caller receives the header. Limits of providers are per minute.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);
/// Anthropic's status of an overloaded service.
const OVERLOADED: u16 = 529;

/// The attempts of one request.
pub(super) struct Attempts<'k> {
    provider: &'k str,
    key: &'k ServiceKey,
    /// Keys that were not used yet.
    unused: Vec<&'k ServiceKey>,
    settings: &'k Retries,
    random: &'k Random,
    deadline: Instant,
    retries: u32,
    /// True if a key was not accepted and another one is in use.
    replaced_key: bool,
}

impl<'k> Attempts<'k> {
    /// Starts with one of `keys`; `None` if there are none.
    pub(super) fn new(
        provider: &'k str,
        mut keys: Vec<&'k ServiceKey>,
        settings: &'k Retries,
        random: &'k Random,
        deadline: Instant,
    ) -> Option<Self> {
        let key = choose(&mut keys, random)?;
        let unused = keys;
        let retries = 0;
        let replaced_key = false;
        Some(Self { provider, key, unused, settings, random, deadline, retries, replaced_key })
    }

    /// Returns the key of the next attempt.
    pub(super) fn key(&self) -> &'k ServiceKey {
        self.key
    }

    /// Returns the wait before the next attempt; `None` if there is none, because the error is
    /// final or the wait would pass the deadline.
    pub(super) fn after(&mut self, error: &ModelError) -> Option<Duration> {
        if let ModelError::Credential { refusal, .. } = error {
            let status = refusal.status.as_u16();
            let has_key = self.key.sign_in.is_some();
            let said = error.said().unwrap_or_default();
            if has_key {
                warn!(provider = self.provider, key = %self.key.name, status, said, "a provider does not accept a key");
            } else {
                warn!(
                    provider = self.provider,
                    status, said, "a provider requires a key, and none is configured"
                );
            }
        }
        if self.retries >= self.settings.max {
            return None;
        }
        let wait = match error {
            ModelError::Credential { .. } | ModelError::Token { .. } => self.after_credential()?,
            error if error.status() == StatusCode::TOO_MANY_REQUESTS && is_retryable(error) => {
                self.after_rate_limit(error)?
            }
            error if is_retryable(error) => self.pause(error)?,
            _ => return None,
        };
        if Instant::now() + wait >= self.deadline {
            return None;
        }
        self.retries += 1;
        debug!(
            provider = self.provider,
            key = %self.key.name,
            status = error.status().as_u16(),
            retry = self.retries,
            wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            "a request to a provider is repeated"
        );
        Some(wait)
    }

    /// Replaces a key that was not accepted, once for each request and without a wait. `None` if
    /// there is no other key.
    fn after_credential(&mut self) -> Option<Duration> {
        if self.replaced_key {
            return None;
        }
        self.key = choose(&mut self.unused, self.random)?;
        self.replaced_key = true;
        Some(Duration::ZERO)
    }

    /// Replaces a key whose rate limit is reached, and returns the backoff: `Retry-After` is about
    /// that key, but keys of one account share some limits. Without another key, returns the pause
    /// for the same one.
    fn after_rate_limit(&mut self, error: &ModelError) -> Option<Duration> {
        match choose(&mut self.unused, self.random) {
            Some(key) => {
                self.key = key;
                Some(self.backoff())
            }
            None => self.pause(error),
        }
    }

    /// Returns the backoff, or `Retry-After` if it is longer; `None` if that is too long.
    fn pause(&self, error: &ModelError) -> Option<Duration> {
        let wait = error.retry_after().unwrap_or_default().max(self.backoff());
        (wait <= MAX_RETRY_AFTER.max(self.settings.longest)).then_some(wait)
    }

    /// Returns the exponential backoff, shortened at random by up to half, so that requests that
    /// failed together are not repeated together.
    fn backoff(&self) -> Duration {
        let doubled = self.settings.initial.saturating_mul(1_u32 << self.retries.min(20));
        doubled.min(self.settings.longest).mul_f64(f64::midpoint(self.random.fraction(), 1.0))
    }
}

/// Returns whether the same request may succeed later and has no response yet.
fn is_retryable(error: &ModelError) -> bool {
    match error {
        ModelError::Unreachable { cause, .. } | ModelError::Timeout { cause, .. } => {
            cause.cause.is_before_request()
        }
        ModelError::Refused { refusal, .. } => {
            matches!(refusal.status.as_u16(), 429 | 500 | 502 | 503 | 504 | OVERLOADED)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
