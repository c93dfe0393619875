//! Callers of the good servers, which are measured, and of the others.

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use airlock_tests::{Gateway, bench::latency::Latencies};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

/// Time between two calls of one good server.
const GOOD_EVERY: Duration = Duration::from_millis(50);
/// Time between two calls of one server that misbehaves.
const WILD_EVERY: Duration = Duration::from_millis(500);
/// Failures of good servers that are kept as text.
const KEPT: usize = 5;

pub(crate) fn good_name(number: u64) -> String {
    format!("good{number}")
}

pub(crate) fn wild_name(seed: u64) -> String {
    format!("wild{seed}")
}

/// Sends calls to a gateway.
#[derive(Clone)]
pub(crate) struct Caller {
    http: reqwest::Client,
    url: String,
}

impl Caller {
    pub(crate) fn new(gateway: &Gateway) -> Self {
        // A proxy of this machine must not come between the two.
        let http = airlock::tls::client().no_proxy().timeout(Duration::from_mins(1)).build();
        let url = format!("{}/v1/mcp/tool/execute?present=raw", gateway.address());
        Self { http: http.expect("a client"), url }
    }

    /// Calls one tool with a text. Returns the text of its result, or the code of the error.
    async fn call(&self, tool: &str, text: &str) -> Result<String, String> {
        let arguments = json!({"text": text}).to_string();
        let function = json!({"name": tool, "arguments": arguments});
        let body = json!({"id": "c", "type": "function", "function": function});
        let response = self.http.post(&self.url).json(&body).send().await;
        let response = response.map_err(|error| format!("no response: {error}"))?;
        let status = response.status();
        let body: Value = response.json().await.map_err(|error| format!("no JSON: {error}"))?;
        if status.is_success() {
            return Ok(body["content"].as_str().unwrap_or_default().to_owned());
        }
        Err(body["error"]["code"].as_str().unwrap_or(status.as_str()).to_owned())
    }
}

/// Latencies and failures of the good servers.
#[derive(Default)]
pub(crate) struct Fared {
    pub(crate) latencies: Latencies,
    pub(crate) failed: usize,
    /// The first failures.
    pub(crate) failures: Vec<String>,
}

impl Fared {
    /// Returns the number of calls, successful or not.
    pub(crate) fn calls(&self) -> usize {
        self.latencies.count() + self.failed
    }
}

/// Callers of the good servers.
pub(crate) struct Good {
    tasks: JoinSet<Measured>,
    is_over: Arc<AtomicBool>,
}

#[derive(Default)]
struct Measured {
    took: Vec<Duration>,
    failures: Vec<String>,
    failed: usize,
}

impl Good {
    /// Calls each of `count` good servers at a steady rate.
    pub(crate) fn start(caller: &Caller, count: u64) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for number in 0..count {
            tasks.spawn(steady(caller.clone(), number, is_over.clone()));
        }
        Self { tasks, is_over }
    }

    /// Returns the measurements after some time.
    pub(crate) async fn run(self, over: Duration) -> Fared {
        tokio::time::sleep(over).await;
        self.is_over.store(true, Ordering::Relaxed);
        let mut took = Vec::new();
        let mut fared = Fared::default();
        for measured in self.tasks.join_all().await {
            took.extend(measured.took);
            fared.failed += measured.failed;
            fared.failures.extend(measured.failures);
        }
        fared.failures.truncate(KEPT);
        fared.latencies = Latencies::new(took);
        fared
    }
}

async fn steady(caller: Caller, number: u64, is_over: Arc<AtomicBool>) -> Measured {
    let tool = format!("{}-echo", good_name(number));
    let mut measured = Measured::default();
    let mut turns = interval(GOOD_EVERY);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let began = Instant::now();
    for turn in 0_u64.. {
        turns.tick().await;
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        // A text of its own, so that the result of another call counts as a failure.
        let text = format!("{number}.{turn}");
        let sent = Instant::now();
        match caller.call(&tool, &text).await {
            Ok(content) if content == text => measured.took.push(sent.elapsed()),
            other => {
                measured.failed += 1;
                if measured.failures.len() < KEPT {
                    measured
                        .failures
                        .push(format!("{tool} after {:.1?}: {other:?}", began.elapsed()));
                }
            }
        }
    }
    measured
}

/// Callers of the servers that misbehave.
pub(crate) struct Wild {
    tasks: JoinSet<BTreeMap<String, usize>>,
    is_over: Arc<AtomicBool>,
}

impl Wild {
    /// Calls each of these servers again and again.
    pub(crate) fn start(caller: &Caller, seeds: Range<u64>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut tasks = JoinSet::new();
        for seed in seeds {
            let caller = caller.clone();
            let is_over = is_over.clone();
            tasks.spawn(async move {
                let tool = format!("{}-echo", wild_name(seed));
                let mut outcomes = BTreeMap::new();
                let mut turns = interval(WILD_EVERY);
                turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
                while !is_over.load(Ordering::Relaxed) {
                    turns.tick().await;
                    let outcome = match caller.call(&tool, "x").await {
                        Ok(_) => "ok".to_owned(),
                        Err(code) => code,
                    };
                    *outcomes.entry(outcome).or_default() += 1;
                }
                outcomes
            });
        }
        Self { tasks, is_over }
    }

    /// Stops the calls. Returns the number of each outcome.
    pub(crate) async fn end(self) -> BTreeMap<String, usize> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = BTreeMap::new();
        for outcomes in self.tasks.join_all().await {
            for (outcome, count) in outcomes {
                *all.entry(outcome).or_default() += count;
            }
        }
        all
    }
}
