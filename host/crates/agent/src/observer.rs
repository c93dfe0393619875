//! Observation of one request: what it exchanges with providers, its calls, and its end.

use airlock_conversation::Object;
use airlock_model::ExchangeObserver;

/// Receives what happens in one request.
pub trait RequestObserver: ExchangeObserver {
    /// The request has ended. `airlock` describes its calls and what was decided about them; `None` if there
    /// were none. `failure` is the reason that there is no response.
    fn ended(&self, airlock: Option<&Object>, failure: Option<&str>);
}
