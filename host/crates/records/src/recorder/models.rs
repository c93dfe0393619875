//! The control of requests to models, which only records them.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::Recorder;
use crate::{
    event::{Event, MAX_TEXT_BYTES, ModelEnd},
    queue::Queue,
};
use airlock_core::{
    model_control::{
        ControlRefusal, ControlledModelRequest, ModelControl, ModelOutcome, ModelRequest,
    },
    tool::HostCode,
};
use airlock_store::call_log::CallStatus;
use airlock_strings::cut;

impl ModelControl for Recorder {
    fn begin<'c>(
        &'c self,
        request: ModelRequest<'c>,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledModelRequest>, ControlRefusal>> {
        let end = ModelEnd {
            id: Uuid::now_v7(),
            begun: SystemTime::now(),
            tenant: request.tenant.clone(),
            membership: request.membership.clone(),
            model: cut(request.model.to_owned(), MAX_TEXT_BYTES),
            is_streamed: request.is_streamed,
            status: CallStatus::Cancelled,
            provider: None,
            served_model: None,
            usage: None,
            cost: None,
            code: Some(HostCode::Cancelled.prefixed()),
            duration: std::time::Duration::ZERO,
        };
        let running = RunningRequest {
            end: Some(Box::new(end)),
            queue: self.queue.clone(),
            begun: Instant::now(),
        };
        let running: Box<dyn ControlledModelRequest> = Box::new(running);
        Box::pin(std::future::ready(Ok(running)))
    }
}

/// A request that runs.
struct RunningRequest {
    /// The record of a request that was cut off; `None` once its end is recorded.
    end: Option<Box<ModelEnd>>,
    queue: Arc<Queue>,
    begun: Instant,
}

impl RunningRequest {
    fn record(&mut self, fill: impl FnOnce(&mut ModelEnd)) {
        let Some(mut end) = self.end.take() else { return };
        end.duration = self.begun.elapsed();
        fill(&mut end);
        // One that has no room is counted as lost.
        let _ = self.queue.push(Event::Model(end));
    }
}

impl ControlledModelRequest for RunningRequest {
    fn end(mut self: Box<Self>, outcome: &ModelOutcome<'_>) {
        self.record(|end| {
            end.status = status(outcome);
            end.provider = outcome.provider.map(bounded);
            end.served_model = outcome.model.map(bounded);
            end.usage = outcome.usage;
            end.cost = outcome.cost;
            end.code = outcome.error.map(bounded);
        });
    }
}

impl Drop for RunningRequest {
    /// Records that the request was cut off, unless its end is recorded.
    fn drop(&mut self) {
        self.record(|_| {});
    }
}

fn status(outcome: &ModelOutcome<'_>) -> CallStatus {
    let refusals = [HostCode::LimitReached, HostCode::BudgetExceeded, HostCode::RecordsUnavailable];
    match outcome.error {
        None => CallStatus::Success,
        Some(code) => {
            let code = code.strip_prefix(HostCode::PREFIX).unwrap_or(code);
            let is_refused = refusals.iter().any(|refusal| refusal.as_str() == code);
            if is_refused { CallStatus::Refused } else { CallStatus::Error }
        }
    }
}

fn bounded(text: &str) -> String {
    cut(text.to_owned(), MAX_TEXT_BYTES)
}
