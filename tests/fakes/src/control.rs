//! A control of requests to models that keeps what it is told.

use std::{mem, sync::Arc, time::Duration};

use futures_util::future::{self, BoxFuture, FutureExt as _};
use parking_lot::Mutex;

use airlock_core::{
    model_control::{
        ControlRefusal, ControlledModelRequest, ModelControl, ModelOutcome, ModelRequest,
        TokenUsage,
    },
    tool::{GuardAct, HostCode},
};

/// Time to wait that a refusal of [`RecordingControl`] tells.
pub const WAIT: Duration = Duration::from_millis(1_500);

/// Control that keeps what it is told, and may refuse.
#[derive(Clone, Default)]
pub struct RecordingControl {
    told: Arc<Mutex<Vec<Told>>>,
    /// Requests that are permitted; `None` for all.
    most: Option<usize>,
    fallbacks: Arc<Mutex<Vec<String>>>,
    asked: Arc<Mutex<Option<String>>>,
    guards: Arc<Mutex<Vec<GuardAct>>>,
    cost: Option<u64>,
    /// True if it does not use the outcomes of requests.
    ignores_outcome: bool,
}

/// A call of the control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// A request is permitted, and about to be sent.
    Begun {
        /// Model, with its provider.
        model: String,
        /// Name of the key of the caller.
        key: Option<String>,
        /// Maximum number of tokens of the response.
        most: Option<u64>,
        /// True if the response is streamed.
        is_streamed: bool,
    },
    /// A request was refused.
    Refused,
    /// A request has ended.
    Ended {
        /// The provider that responded.
        provider: Option<String>,
        /// The model that responded.
        model: Option<String>,
        /// The tokens.
        usage: Option<TokenUsage>,
        /// Cost in millionths of a US dollar.
        cost: Option<u64>,
        /// Code of the error.
        error: Option<String>,
        /// True if no provider has begun it.
        has_not_begun: bool,
    },
    /// A request was dropped before its end.
    CutOff,
}

impl RecordingControl {
    /// Refuses the requests after the first `most`.
    #[must_use]
    pub fn permitting(self, most: usize) -> Self {
        Self { most: Some(most), ..self }
    }

    /// Knows the cost of each request, in millionths of a US dollar.
    #[must_use]
    pub fn with_cost(self, cost: u64) -> Self {
        Self { cost: Some(cost), ..self }
    }

    /// Does not use the outcomes of requests.
    #[must_use]
    pub fn ignoring_outcomes(self) -> Self {
        Self { ignores_outcome: true, ..self }
    }

    /// Returns what it was told, and forgets it.
    pub fn told(&self) -> Vec<Told> {
        mem::take(&mut *self.told.lock())
    }

    /// Returns the ends of requests that it was told of, and forgets all.
    pub fn ends(&self) -> Vec<Told> {
        let mut told = self.told();
        told.retain(|told| matches!(told, Told::Ended { .. } | Told::CutOff));
        told
    }

    /// Returns the fallbacks of the last request.
    pub fn fallbacks(&self) -> Vec<String> {
        self.fallbacks.lock().clone()
    }

    /// Returns the model that responded last, as it was asked for.
    pub fn asked(&self) -> Option<String> {
        self.asked.lock().clone()
    }

    /// Returns the decisions of guards about all requests that have ended.
    pub fn guards(&self) -> Vec<GuardAct> {
        self.guards.lock().clone()
    }

    fn tell(&self, told: Told) {
        self.told.lock().push(told);
    }

    /// Returns the number of requests that have begun since it was last asked what it was told.
    pub fn begun(&self) -> usize {
        let told = self.told.lock();
        told.iter().filter(|told| matches!(told, Told::Begun { .. })).count()
    }
}

impl ModelControl for RecordingControl {
    fn begin<'c>(
        &'c self,
        request: ModelRequest<'c>,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledModelRequest>, ControlRefusal>> {
        if self.most.is_some_and(|most| self.begun() >= most) {
            self.tell(Told::Refused);
            let refusal = ControlRefusal {
                code: HostCode::LimitReached,
                message: "a limit of this gateway is reached: requests of the test".to_owned(),
                retry_after: Some(WAIT),
            };
            return future::ready(Err(refusal)).boxed();
        }
        *self.fallbacks.lock() = request.fallbacks.to_vec();
        self.tell(Told::Begun {
            model: request.model.to_owned(),
            key: request.membership.key_name.clone(),
            most: request.max_output_tokens,
            is_streamed: request.is_streamed,
        });
        let recorded: Box<dyn ControlledModelRequest> =
            Box::new(RecordedRequest { control: self.clone(), has_ended: false });
        future::ready(Ok(recorded)).boxed()
    }
}

/// A request that runs.
struct RecordedRequest {
    control: RecordingControl,
    has_ended: bool,
}

impl ControlledModelRequest for RecordedRequest {
    fn needs_outcome(&self) -> bool {
        !self.control.ignores_outcome
    }

    fn cost(&self, _outcome: &ModelOutcome<'_>) -> Option<u64> {
        self.control.cost
    }

    fn end(mut self: Box<Self>, outcome: &ModelOutcome<'_>) {
        self.has_ended = true;
        *self.control.asked.lock() = outcome.asked.map(str::to_owned);
        let mut guards = self.control.guards.lock();
        guards.extend_from_slice(outcome.guards);
        drop(guards);
        self.control.tell(Told::Ended {
            provider: outcome.provider.map(str::to_owned),
            model: outcome.model.map(str::to_owned),
            usage: outcome.usage,
            cost: outcome.cost,
            error: outcome.error.map(str::to_owned),
            has_not_begun: outcome.has_not_begun,
        });
    }
}

impl Drop for RecordedRequest {
    fn drop(&mut self) {
        if !self.has_ended && self.needs_outcome() {
            self.control.tell(Told::CutOff);
        }
    }
}
