//! Callers, which make each call once.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

use super::effects::{TOOL, arguments};

/// Value of the callers' key.
pub(super) const KEY: &str = "sk-bf-killed-0123456789abcdef";
/// Longest time for a response. A call that waits for a store that was killed fails before.
const TIMEOUT: Duration = Duration::from_mins(1);
/// Longest time for the calls before a kill. A run that hangs fails.
const PATIENCE: Duration = Duration::from_mins(5);
/// Time that a caller waits after a call that failed. It doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Longest time that a caller waits.
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Address of a gateway; `None` while it is killed.
pub(super) type Address = Option<String>;

/// End of a call, as its caller sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CallFate {
    Answered,
    /// The limit refused it.
    LimitReached,
    /// It was refused because the store or a log was not available.
    Unavailable,
    /// There was no whole response.
    NoResponse,
    /// It failed with another code.
    Failed(String),
}

/// Numbers the calls from 0, and holds them back for kills.
pub(super) struct CallTurns {
    calls: u64,
    next: AtomicU64,
    /// Number of calls that may be begun now.
    permitted: watch::Sender<u64>,
    /// Number of calls that were begun.
    begun: watch::Sender<u64>,
}

impl CallTurns {
    fn new(calls: u64) -> Self {
        let permitted = watch::Sender::new(0);
        let begun = watch::Sender::new(0);
        Self { calls, next: AtomicU64::new(0), permitted, begun }
    }

    /// Permits as many calls in all.
    pub(super) fn permit(&self, calls: u64) {
        self.permitted.send_replace(calls);
    }

    /// Waits until as many calls were begun.
    pub(super) async fn until_begun(&self, calls: u64) {
        let mut begun = self.begun.subscribe();
        let waited = timeout(PATIENCE, begun.wait_for(|begun| *begun >= calls)).await;
        assert!(waited.is_ok(), "waited {PATIENCE:?} for call {calls}");
    }

    /// Returns the number of the next call once it is permitted; `None` after the last one.
    async fn next(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.calls {
            return None;
        }
        let mut permitted = self.permitted.subscribe();
        // It fails only without a sender, which is here.
        drop(permitted.wait_for(|permitted| number < *permitted).await);
        Some(number)
    }

    fn begin(&self) {
        self.begun.send_modify(|begun| *begun += 1);
    }
}

/// All callers.
pub(super) struct CallerTasks {
    tasks: JoinSet<Vec<(u64, CallFate)>>,
    turns: Arc<CallTurns>,
}

impl CallerTasks {
    /// Starts `each` callers of each gateway, which together make `calls` calls.
    pub(super) fn start(addresses: &[watch::Receiver<Address>], each: usize, calls: u64) -> Self {
        // A proxy of this machine must not come between the two.
        let http = airlock::tls::client().no_proxy().timeout(TIMEOUT).build().expect("a client");
        let turns = Arc::new(CallTurns::new(calls));
        let mut tasks = JoinSet::new();
        for address in addresses {
            for _ in 0..each {
                tasks.spawn(call_in_turn(http.clone(), address.clone(), turns.clone()));
            }
        }
        Self { tasks, turns }
    }

    /// Turns of the callers.
    pub(super) fn turns(&self) -> &CallTurns {
        &self.turns
    }

    /// Waits until all calls are made. Returns the end of each.
    pub(super) async fn end(self) -> BTreeMap<u64, CallFate> {
        self.tasks.join_all().await.into_iter().flatten().collect()
    }
}

/// Makes one call after the other, as long as there are any.
async fn call_in_turn(
    http: reqwest::Client,
    mut address: watch::Receiver<Address>,
    turns: Arc<CallTurns>,
) -> Vec<(u64, CallFate)> {
    let mut fates = Vec::new();
    let mut pause = FIRST_PAUSE;
    while let Some(number) = turns.next().await {
        let waited = address.wait_for(Option::is_some);
        let started = waited.await.expect("the gateways outlive their callers").clone();
        turns.begin();
        let fate = call(&http, &started.unwrap_or_default(), number).await;
        let is_decided = matches!(fate, CallFate::Answered | CallFate::LimitReached);
        fates.push((number, fate));
        if is_decided {
            pause = FIRST_PAUSE;
        } else {
            // As a client does. Otherwise an outage would take most of the calls.
            sleep(pause).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
    fates
}

async fn call(http: &reqwest::Client, address: &str, number: u64) -> CallFate {
    let function = json!({"name": TOOL, "arguments": arguments(number)});
    let body = json!({"id": "c", "type": "function", "function": function});
    let request = http.post(format!("{address}/v1/mcp/tool/execute?present=raw"));
    let response = request.header("x-bf-vk", KEY).json(&body).send().await;
    let Ok(response) = response else { return CallFate::NoResponse };
    let is_success = response.status().is_success();
    let Ok(body) = response.bytes().await else { return CallFate::NoResponse };
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    if is_success && body["is_error"] != true {
        return CallFate::Answered;
    }
    let codes = [&body["error"]["code"], &body["airlock"]["error"]["code"]];
    match codes.into_iter().find_map(Value::as_str).unwrap_or("no code") {
        "limit_reached" => CallFate::LimitReached,
        "records_unavailable" | "store_unavailable" | "unavailable" => CallFate::Unavailable,
        code => CallFate::Failed(code.to_owned()),
    }
}
