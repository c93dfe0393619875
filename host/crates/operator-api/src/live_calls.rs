//! The calls that run now, which operators see, and the events of their begin and their end.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::event_bus::{EventBus, Topic};
use airlock_core::{
    door::{Admitted, CallControl, ControlledCall, Refusal},
    tool::{CallError, ToolOutput},
    unix_time::unix_milliseconds,
};

/// Maximum calls that are shown. Beyond it, the ones that began last are.
const MAX_SHOWN: usize = 1_000;

/// The calls that run at a gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LiveCalls {
    table: Arc<Mutex<CallTable>>,
    bus: Arc<EventBus>,
}

/// Calls by their numbers, which are never used again.
#[derive(Debug, Default)]
struct CallTable {
    next: u64,
    calls: BTreeMap<u64, LiveCall>,
}

/// A call that runs, without its contents.
#[derive(Debug, Clone)]
struct LiveCall {
    id: String,
    parent: Option<String>,
    tool: String,
    key: Option<String>,
    origin: &'static str,
    begun: SystemTime,
}

impl LiveCalls {
    /// Creates an empty list, whose events are published on this bus.
    pub fn new(bus: Arc<EventBus>) -> Self {
        Self { table: Arc::default(), bus }
    }

    /// The bus on which the events are published.
    pub fn bus(&self) -> &Arc<EventBus> {
        &self.bus
    }

    /// Describes the calls that run, the latest first.
    pub(super) fn describe(&self) -> Value {
        let table = self.table.lock();
        let count = table.calls.len();
        let shown: Vec<_> = table.calls.values().rev().take(MAX_SHOWN).cloned().collect();
        drop(table);
        let data: Vec<_> = shown.iter().map(LiveCall::describe).collect();
        json!({"object": "list", "data": data, "has_more": count > data.len(), "total_count": count})
    }
}

impl CallTable {
    fn add(&mut self, live: LiveCall) -> u64 {
        let number = self.next;
        self.next += 1;
        self.calls.insert(number, live);
        number
    }
}

impl LiveCall {
    fn new(call: &Admitted) -> Self {
        let chain = call.chain();
        Self {
            id: chain.id().to_string(),
            parent: chain.parent().map(|parent| parent.to_string()),
            tool: call.tool().name.as_str().to_owned(),
            key: chain.view().membership().key_name.clone(),
            origin: call.origin().name(),
            begun: SystemTime::now(),
        }
    }

    fn describe(&self) -> Value {
        json!({
            "id": self.id,
            "parent": self.parent,
            "tool": self.tool,
            "key": self.key,
            "origin": self.origin,
            "started_at_ms": unix_milliseconds(self.begun),
        })
    }
}

impl CallControl for LiveCalls {
    fn begin<'c>(
        &'c self,
        call: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>> {
        let live = LiveCall::new(call);
        self.bus.publish(Topic::Calls, || {
            json!({
                "id": live.id,
                "state": "started",
                "tool": live.tool,
                "key": live.key,
                "origin": live.origin,
            })
        });
        let number = self.table.lock().add(live);
        let running = RunningCall { calls: self.clone(), number, begun: Instant::now() };
        let running: Box<dyn ControlledCall> = Box::new(running);
        Box::pin(std::future::ready(Ok(running)))
    }

    fn refused(&self, _: &Refusal<'_>) {}
}

/// A call in the list, until it is dropped.
struct RunningCall {
    calls: LiveCalls,
    number: u64,
    begun: Instant,
}

impl RunningCall {
    /// Takes the call out of the list; only the first time does anything.
    fn leave(&self, outcome: &str) {
        let Some(live) = self.calls.table.lock().calls.remove(&self.number) else { return };
        self.calls.bus.publish(Topic::Calls, || {
            let duration_ms = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            json!({
                "id": live.id,
                "state": "ended",
                "tool": live.tool,
                "key": live.key,
                "outcome": outcome,
                "duration_ms": duration_ms,
            })
        });
    }
}

impl ControlledCall for RunningCall {
    fn end(self: Box<Self>, result: &Result<ToolOutput, CallError>) {
        match result {
            Ok(_) => self.leave("success"),
            Err(error) => self.leave(error.code().as_str()),
        }
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.leave("cancelled");
    }
}
