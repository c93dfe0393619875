//! The calls that run now, which operators see, and the events of their begin and their end.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::Arc,
    time::{Instant, SystemTime},
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::event_bus::{EventBus, Topic};
use airlock_core::{
    door::{Admitted, CallControl, CallId, ControlledCall, Refusal},
    thread_number::thread_number,
    tool::{CallError, ToolOutput},
    unix_time::unix_milliseconds,
};

/// Maximum calls that are shown, for a person. No call of a part begins or ends while those of the
/// part are copied. Of more, the ones that began last are shown.
const MAX_SHOWN: usize = 1_000;

/// Parts of the list. Threads on different cores rarely change the same one.
const PARTS: usize = 8;

/// The calls that run at a gateway. Cheap to clone.
#[derive(Debug, Clone)]
pub struct LiveCalls(Arc<LiveParts>);

#[derive(Debug)]
struct LiveParts {
    /// Each call is in one of them.
    tables: [TablePart; PARTS],
    bus: Arc<EventBus>,
}

/// One part of the list. Two parts have no line of a cache in common.
#[derive(Debug, Default)]
#[repr(align(128))]
struct TablePart(Mutex<CallTable>);

/// Calls by their numbers, which are never used again.
#[derive(Debug, Default)]
struct CallTable {
    next: u64,
    calls: BTreeMap<u64, LiveCall>,
}

/// A call that runs, without its contents.
#[derive(Debug, Clone)]
struct LiveCall {
    id: CallId,
    parent: Option<CallId>,
    tool: String,
    key: Option<String>,
    origin: &'static str,
    /// Time for people; the clock may be set back.
    begun: SystemTime,
    /// Order of the calls of all parts.
    since: Instant,
}

impl LiveCalls {
    /// Creates an empty list, whose events are published on this bus.
    pub fn new(bus: Arc<EventBus>) -> Self {
        Self(Arc::new(LiveParts { tables: Default::default(), bus }))
    }

    /// The bus on which the events are published.
    pub fn bus(&self) -> &Arc<EventBus> {
        &self.0.bus
    }

    /// Describes the calls that run, the latest first.
    pub(super) fn describe(&self) -> Value {
        let mut shown = Vec::new();
        let mut count = 0;
        for part in &self.0.tables {
            let table = part.0.lock();
            count += table.calls.len();
            shown.extend(table.calls.values().rev().take(MAX_SHOWN).cloned());
        }
        shown.sort_by_key(|call: &LiveCall| Reverse(call.since));
        shown.truncate(MAX_SHOWN);
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
            id: chain.id(),
            parent: chain.parent(),
            tool: call.tool().name.as_str().to_owned(),
            key: chain.view().membership().key_name.clone(),
            origin: call.origin().name(),
            begun: SystemTime::now(),
            since: Instant::now(),
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
        let begun = live.since;
        let part = thread_number() % PARTS;
        let number = self.0.tables[part].0.lock().add(live);
        let running = RunningCall { calls: self.clone(), part, number, begun };
        // An operator who reads the list because of the event finds the call there, and so does one whose stream begins
        // after the event.
        self.0.bus.publish(Topic::Calls, || {
            let chain = call.chain();
            json!({
                "id": chain.id(),
                "state": "started",
                "tool": call.tool().name.as_str(),
                "key": chain.view().membership().key_name,
                "origin": call.origin().name(),
            })
        });
        let running: Box<dyn ControlledCall> = Box::new(running);
        Box::pin(std::future::ready(Ok(running)))
    }

    fn refused(&self, _: &Refusal<'_>) {}
}

/// A call in the list, until it is dropped.
struct RunningCall {
    calls: LiveCalls,
    /// The part of the list that it is in.
    part: usize,
    number: u64,
    begun: Instant,
}

impl RunningCall {
    /// Takes the call out of the list; only the first time does anything.
    fn leave(&self, outcome: &str) {
        let LiveParts { tables, bus } = &*self.calls.0;
        let live = tables[self.part].0.lock().calls.remove(&self.number);
        let Some(live) = live else { return };
        bus.publish(Topic::Calls, || {
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

#[cfg(test)]
mod tests {
    use std::thread;

    use futures_util::FutureExt as _;

    use super::*;
    use airlock_core::door::{Caller, Filter, Origin};
    use airlock_fakes as fake;

    fn begin(calls: &LiveCalls, caller: &Caller) -> (CallId, Box<dyn ControlledCall>) {
        let call = caller.admit("desk-echo", "{}").expect("it is permitted");
        let begun = CallControl::begin(calls, &call).now_or_never().expect("it waits for nothing");
        (call.chain().id(), begun.expect("no call is refused"))
    }

    fn shown(calls: &LiveCalls) -> Vec<String> {
        let list = calls.describe();
        assert_eq!(list["total_count"], list["data"].as_array().expect("a list").len());
        let data = list["data"].as_array().expect("a list").iter();
        data.map(|call| call["id"].as_str().expect("text").to_owned()).collect()
    }

    #[test]
    fn calls_of_all_threads_are_listed_in_the_order_of_their_begin_also_if_the_clock_is_set_back() {
        let calls = LiveCalls::new(EventBus::new());
        let (catalog, _) = fake::catalog();
        let view = catalog.snapshot().view(&Filter::none(), None);
        let caller = Caller::new(view, Origin::Caller, fake::BUDGET);
        let begun = [(); PARTS + 1].map(|()| {
            let begun = thread::scope(|scope| scope.spawn(|| begin(&calls, &caller)).join());
            begun.expect("no panic in it")
        });
        let mut expected: Vec<_> = begun.iter().rev().map(|(id, _)| id.to_string()).collect();
        assert_eq!(shown(&calls), expected);
        for part in &calls.0.tables {
            for call in part.0.lock().calls.values_mut() {
                call.begun = SystemTime::UNIX_EPOCH + call.since.elapsed();
            }
        }
        assert_eq!(shown(&calls), expected);
        let [(_, first), ..] = begun;
        drop(first);
        expected.pop();
        assert_eq!(shown(&calls), expected, "it has ended");
    }
}
