//! Counters of the calls of one server, in the types of `prometheus-client`. The supervisor's own are
//! in [`Status`](super::status::Status); `collector` writes both for `GET /metrics`.

mod collector;
mod operations;
mod outcome;
mod processes;
mod window;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};
use serde_json::{Value, json};

pub use self::collector::{UpstreamMetrics, encode_family};
use self::{
    operations::Operations,
    outcome::{CallOutcome, Counters},
    window::Window,
};
use crate::limits::{SLOW_GRANT, SLOW_GRANT_PAUSE};
use airlock_catalog::MAX_TOOLS_PER_CLIENT;
use airlock_core::tool::{CallError, HostCode, ToolName, ToolOutput};
use airlock_mcp_client::LinkObserver;

/// Upper bounds of the buckets of times, in seconds. One more bucket has no bound.
const BOUNDS_SECONDS: [f64; 17] = [
    0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
    300.0,
];

/// Counters of the calls of one server.
pub(super) struct Metrics {
    tools: ArcSwap<BTreeMap<ToolName, Arc<Counters>>>,
    /// Calls of tools that are not in `tools`, which is full.
    other: Arc<Counters>,
    /// Times from the admission of a call to its end. Calls that were refused as busy are not in it.
    durations: Histogram,
    /// Times for which calls waited until they could be sent.
    waits: Histogram,
    last: Window,
    /// Times of its connections and of the requests over them.
    operations: Operations,
    /// Tools that came into quarantine.
    pub(super) drifts: Counter,
    /// Calls that wait at present.
    queued: Gauge,
    /// Calls that run at present.
    in_flight: Gauge,
    created: Instant,
    /// Time of the last report of a slow grant, in milliseconds after `created`; 0 if there is none.
    reported: AtomicU64,
}

impl Metrics {
    pub(super) fn new() -> Self {
        Self {
            tools: ArcSwap::default(),
            other: Arc::default(),
            durations: Histogram::new(BOUNDS_SECONDS),
            waits: Histogram::new(BOUNDS_SECONDS),
            last: Window::default(),
            operations: Operations::default(),
            drifts: Counter::default(),
            queued: Gauge::default(),
            in_flight: Gauge::default(),
            created: Instant::now(),
            reported: AtomicU64::new(0),
        }
    }

    /// Begins to observe a call. It counts as cancelled if the value is dropped.
    pub(super) fn begin(&self, tool: ToolName) -> Observed<'_> {
        Observed {
            metrics: self,
            tool,
            began: Instant::now(),
            outcome: CallOutcome::Failed(HostCode::Cancelled),
        }
    }

    /// Counts a call as waiting until the value is dropped or granted.
    pub(super) fn wait(&self) -> QueuedCall<'_> {
        QueuedCall { metrics: self, _queued: Raised::new(&self.queued), began: Instant::now() }
    }

    /// Returns the counters of the calls that have ended, by tool and outcome. The tool is `None` for
    /// calls of tools beyond [`MAX_TOOLS_PER_CLIENT`]. Sorted; without zeros.
    fn calls(&self) -> Vec<(Option<ToolName>, CallOutcome, Counter)> {
        let tools = self.tools.load();
        let named = tools.iter().map(|(tool, counters)| (Some(tool), counters));
        let all = std::iter::once((None, &self.other)).chain(named);
        let calls = all.flat_map(|(tool, counters)| {
            counters.nonzero().map(move |(outcome, counter)| (tool.cloned(), outcome, counter))
        });
        calls.collect()
    }

    /// Returns the members of the server's entry in the administrative API.
    pub(super) fn to_json(&self) -> [(&'static str, Value); 3] {
        let latency = self.last.quantiles().map(
            |[p50, p90, p99]| json!({"p50": millis(p50), "p90": millis(p90), "p99": millis(p99)}),
        );
        [
            ("in_flight", self.in_flight.get().into()),
            ("queued", self.queued.get().into()),
            ("latency_ms", latency.into()),
        ]
    }

    fn count(&self, tool: &ToolName, outcome: CallOutcome) {
        match self.tools.load().get(tool) {
            Some(counters) => counters.add(outcome),
            None => self.counters_of_new(tool).add(outcome),
        }
    }

    /// Returns the counters of a tool that was not called before. They are shared by all further
    /// tools once there are [`MAX_TOOLS_PER_CLIENT`], because a server may rename its tools for ever.
    fn counters_of_new(&self, tool: &ToolName) -> Arc<Counters> {
        let mut own = self.other.clone();
        self.tools.rcu(|known| {
            if let Some(counters) = known.get(tool) {
                own = counters.clone();
                return known.clone();
            }
            own = self.other.clone();
            if known.len() >= MAX_TOOLS_PER_CLIENT {
                return known.clone();
            }
            let mut next = BTreeMap::clone(known);
            own = Arc::default();
            next.insert(tool.clone(), own.clone());
            Arc::new(next)
        });
        own
    }

    /// Returns whether a slow grant is to be reported: once in a while, however many there are.
    fn may_report(&self) -> bool {
        let now = whole_millis(self.created.elapsed()).max(1);
        let last = self.reported.load(Ordering::Relaxed);
        let is_due = last == 0 || now.saturating_sub(last) >= whole_millis(SLOW_GRANT_PAUSE);
        is_due
            && self
                .reported
                .compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }
}

impl LinkObserver for Metrics {
    fn request_ended(
        &self,
        method: &'static str,
        took: Duration,
        error_type: Option<&'static str>,
    ) {
        self.operations.observe(method, took, error_type);
    }

    fn session_ended(&self, took: Duration, error_type: Option<&'static str>) {
        self.operations.observe_session(took, error_type);
    }
}

/// A call that is being observed.
pub(super) struct Observed<'m> {
    metrics: &'m Metrics,
    tool: ToolName,
    began: Instant,
    outcome: CallOutcome,
}

impl Observed<'_> {
    /// Counts the call with its outcome.
    pub(super) fn end(mut self, result: &Result<ToolOutput, CallError>) {
        self.outcome = CallOutcome::new(result);
    }
}

impl Drop for Observed<'_> {
    fn drop(&mut self) {
        self.metrics.count(&self.tool, self.outcome);
        if self.outcome != CallOutcome::Failed(HostCode::Busy) {
            let took = self.began.elapsed();
            self.metrics.durations.observe(took.as_secs_f64());
            self.metrics.last.record(took);
        }
    }
}

/// A call that waits.
pub(super) struct QueuedCall<'m> {
    metrics: &'m Metrics,
    _queued: Raised<'m>,
    began: Instant,
}

/// A call that runs.
pub(super) struct GrantedCall<'m> {
    _in_flight: Raised<'m>,
    /// Time that the call has waited, if the operator is to be told.
    pub(super) slow: Option<Duration>,
}

impl<'m> QueuedCall<'m> {
    /// Counts the call as running until the value is dropped.
    pub(super) fn granted(self) -> GrantedCall<'m> {
        let waited = self.began.elapsed();
        self.metrics.waits.observe(waited.as_secs_f64());
        let slow = (waited > SLOW_GRANT && self.metrics.may_report()).then_some(waited);
        GrantedCall { _in_flight: Raised::new(&self.metrics.in_flight), slow }
    }
}

/// One unit of a gauge, until it is dropped.
struct Raised<'m>(&'m Gauge);

impl<'m> Raised<'m> {
    fn new(gauge: &'m Gauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn whole_millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a time in milliseconds with three decimals.
fn millis(time: Duration) -> Value {
    let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
    json!(f64::from(micros) / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::tool::ClientName;

    fn tool(name: &str) -> ToolName {
        let client = ClientName::parse("up").expect("a good name");
        ToolName::new(&client, name)
    }

    fn calls(metrics: &Metrics) -> Vec<(Option<ToolName>, CallOutcome, u64)> {
        let calls = metrics.calls().into_iter();
        calls.map(|(tool, outcome, counter)| (tool, outcome, counter.get())).collect()
    }

    #[test]
    fn calls_are_counted_by_tool_and_outcome_and_a_dropped_one_as_cancelled() {
        let metrics = Metrics::new();
        metrics.begin(tool("b")).end(&Err(CallError::busy()));
        metrics.begin(tool("a")).end(&Ok(ToolOutput::default()));
        metrics.begin(tool("a")).end(&Ok(ToolOutput::default()));
        drop(metrics.begin(tool("a")));
        let expected = [
            (Some(tool("a")), CallOutcome::Ok, 2),
            (Some(tool("a")), CallOutcome::Failed(HostCode::Cancelled), 1),
            (Some(tool("b")), CallOutcome::Failed(HostCode::Busy), 1),
        ];
        assert_eq!(calls(&metrics), expected);
        assert_eq!(metrics.durations.count(), 3, "a busy call has no duration");
        assert!(metrics.last.quantiles().is_some());
    }

    #[test]
    fn only_so_many_tools_are_counted_apart() {
        let metrics = Metrics::new();
        for number in 0..=MAX_TOOLS_PER_CLIENT {
            metrics.count(&tool(&number.to_string()), CallOutcome::Ok);
        }
        assert_eq!(metrics.tools.load().len(), MAX_TOOLS_PER_CLIENT);
        metrics.count(&tool("0"), CallOutcome::Ok);
        let calls = calls(&metrics);
        assert_eq!(calls[0], (None, CallOutcome::Ok, 1));
        assert!(calls.contains(&(Some(tool("0")), CallOutcome::Ok, 2)));
    }

    #[test]
    fn a_call_is_queued_or_in_flight_and_neither_at_its_end() {
        let metrics = Metrics::new();
        let waiting = metrics.wait();
        let other = metrics.wait();
        assert_eq!(gauges(&metrics), (2, 0, 0));
        let running = waiting.granted();
        assert!(running.slow.is_none());
        assert_eq!(gauges(&metrics), (1, 1, 1));
        drop((running, other));
        assert_eq!(gauges(&metrics), (0, 0, 1));
    }

    /// Returns the numbers of calls that wait, that run, and that have waited.
    fn gauges(metrics: &Metrics) -> (i64, i64, u64) {
        (metrics.queued.get(), metrics.in_flight.get(), metrics.waits.count())
    }

    #[test]
    fn a_slow_grant_is_reported_once_in_a_while() {
        let metrics = Metrics::new();
        assert!(!is_reported(&metrics, Duration::ZERO));
        assert!(is_reported(&metrics, SLOW_GRANT));
        assert!(!is_reported(&metrics, SLOW_GRANT), "it was reported just now");
    }

    /// Returns whether a grant that is so late is reported as slow.
    fn is_reported(metrics: &Metrics, late: Duration) -> bool {
        let mut waiting = metrics.wait();
        waiting.began = waiting.began.checked_sub(late).expect("the clock runs for longer");
        waiting.granted().slow.is_some()
    }
}
