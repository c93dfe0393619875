//! The control of requests to models, which only records them.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use futures_util::future::BoxFuture;
use uuid::Uuid;

use super::Recorder;
use crate::{
    event::{ModelEnd, RecordEvent, ShortText},
    queues::LogQueues,
};
use airlock_core::{
    model_control::{
        ControlRefusal, ControlledModelRequest, ModelControl, ModelOutcome, ModelRequest,
    },
    tool::HostCode,
};
use airlock_store::call_log::CallStatus;

impl ModelControl for Recorder {
    fn begin<'c>(
        &'c self,
        request: ModelRequest<'c>,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledModelRequest>, ControlRefusal>> {
        let running: Box<dyn ControlledModelRequest> = Box::new(self.running_request(request));
        Box::pin(std::future::ready(Ok(running)))
    }

    fn request_refused(&self, request: ModelRequest<'_>, refusal: &ControlRefusal) {
        let mut running = self.running_request(request);
        running.record(|end| {
            // It is cancelled unless something else is known.
            if refusal.code != HostCode::Cancelled {
                end.status = CallStatus::Refused;
                end.code = Some(ShortText::new(refusal.code.as_str()));
            }
        });
    }
}

impl Recorder {
    fn running_request(&self, request: ModelRequest<'_>) -> RunningRequest {
        let begun = SystemTime::now();
        let end = ModelEnd {
            id: Uuid::now_v7(),
            begun,
            at: begun,
            tenant: request.tenant.clone(),
            membership: request.membership.clone(),
            model: ShortText::new(request.model),
            is_streamed: request.is_streamed,
            status: CallStatus::Cancelled,
            provider: None,
            served_model: None,
            usage: None,
            tool_tokens: request.tool_tokens,
            cost: None,
            code: Some(ShortText::new(HostCode::Cancelled.as_str())),
            guards: Vec::new(),
            duration: Duration::ZERO,
        };
        RunningRequest { end: Some(Box::new(end)), logs: self.logs.clone(), begun: Instant::now() }
    }
}

/// A request that runs.
struct RunningRequest {
    /// The record of a request that was cut off; `None` once its end is recorded.
    end: Option<Box<ModelEnd>>,
    logs: Arc<LogQueues>,
    begun: Instant,
}

impl RunningRequest {
    fn record(&mut self, fill: impl FnOnce(&mut ModelEnd)) {
        let Some(mut end) = self.end.take() else { return };
        end.at = SystemTime::now();
        end.duration = self.begun.elapsed();
        fill(&mut end);
        // One that has no room is counted as lost.
        let _ = self.logs.push(RecordEvent::Model(end));
    }
}

impl ControlledModelRequest for RunningRequest {
    fn end(mut self: Box<Self>, outcome: &ModelOutcome<'_>) {
        self.record(|end| {
            end.status = status(outcome);
            end.provider = outcome.provider.map(ShortText::new);
            end.served_model = outcome.model.map(ShortText::new);
            end.usage = outcome.usage;
            end.cost = outcome.cost;
            end.code = outcome.error.map(ShortText::new);
            end.guards = outcome.guards.to_vec();
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
    match outcome.error {
        None => CallStatus::Success,
        Some(code) if code == HostCode::Cancelled.as_str() => CallStatus::Cancelled,
        Some(_) => CallStatus::Error,
    }
}
