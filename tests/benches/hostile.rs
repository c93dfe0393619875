//! Runs every hostile guest in one gateway with a well-behaved neighbour. Prints how each guest was
//! stopped, and the neighbour's latencies and failures.
//!
//! `make hostile` runs it; `--json` prints one document instead of tables. It can serve as a check:
//! the exit code is 1 if a guest was not stopped as it must be, a call of the neighbour failed, a
//! component was loaded that must be refused, or a resource of a guest stayed in use. Times depend
//! on the machine and its load, which is why the neighbour is first measured alone, in the same
//! process.
//!
//! The last two rows are crowds: one of all guests, and one of slow scripts, each of one tenant.
//! During the scripts, the neighbour is another tenant that runs scripts as well.
//!
//! A guest is called again until enough calls of the neighbour were measured. A guest that crashes,
//! or has to be stopped, is called five times: then its circuit opens.

use std::{
    env, fs,
    process::ExitCode,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use airlock::{
    door::{Admitted, Budget, Caller, Origin},
    sandbox::{Compiling, Grants, HostResources, Limits, Sandbox, Settings},
    tool::{CallError, ClientName},
};
use airlock_tests::{
    BUDGET, Client, Embedded, Setup, binary, guests,
    misdeeds::{self, Misdeed, Unloadable, slow, unloadable},
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::{sync::Notify, task::JoinHandle};

/// Hostile calls at once in the row of all guests.
const CROWD: usize = 200;
/// Slow scripts at once, all of one tenant.
const SCRIPTS: usize = 64;
/// A script that computes until it is stopped.
const SLOW_SCRIPT: &str =
    r#"{"code":"def f():\n    for i in range(1000000000):\n        pass\nf()"}"#;
const QUICK_SCRIPT: &str = r#"{"code":"result = 6 * 7"}"#;
/// Error code of a call whose plugin has failed too often.
const CIRCUIT_OPEN: &str = "circuit_open";
const FAILURES_TO_OPEN: usize = 5;
/// Longest reason in the table, in characters.
const MAX_REASON: usize = 110;

fn main() -> ExitCode {
    // `cargo test` runs benchmarks too, to check that they work; it passes no `--bench`.
    let is_bench = env::args().any(|argument| argument == "--bench");
    let as_json = env::args().any(|argument| argument == "--json");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let report = runtime.block_on(report(if is_bench { Effort::FULL } else { Effort::LITTLE }));
    if as_json {
        println!("{:#}", report.to_json());
    } else {
        report.print();
    }
    if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Extent of the measurements.
#[derive(Clone, Copy)]
struct Effort {
    /// Calls of the neighbour without other load.
    alone: usize,
    /// Calls of the neighbour per guest; the guest is started again until there are as many.
    beside: usize,
    /// Time limit for these calls.
    at_most: Duration,
    /// Hostile calls at once in the row of all guests.
    crowd: usize,
    /// Slow scripts at once.
    scripts: usize,
}

impl Effort {
    const FULL: Self = Self {
        alone: 5_000,
        beside: 500,
        at_most: Duration::from_secs(2),
        crowd: CROWD,
        scripts: SCRIPTS,
    };
    const LITTLE: Self =
        Self { alone: 20, beside: 1, at_most: Duration::ZERO, crowd: 8, scripts: 8 };
}

/// One line of the table.
struct Row {
    guest: String,
    does: String,
    limit: String,
    /// The codes of its results.
    ended: Vec<String>,
    as_it_must: bool,
    runs: usize,
    /// Longest time from the start of a call to its end.
    stopped_in: Duration,
    neighbour: Fared,
    rss_before: u64,
    rss_after: u64,
}

/// Latencies and failures of the neighbour.
#[derive(Clone, Copy, Default)]
struct Fared {
    answered: usize,
    failed: usize,
    p50: Duration,
    p99: Duration,
}

struct Report {
    load: String,
    cores: usize,
    alone: Fared,
    rows: Vec<Row>,
    refusals: Vec<Refusal>,
    is_empty: bool,
}

/// One component that must not be loaded.
struct Refusal {
    name: String,
    does: String,
    as_it_must: bool,
    reason: String,
    took: Duration,
}

async fn report(effort: Effort) -> Report {
    let (gateway, neighbour) = start().await;
    neighbour.answers(effort.alone, Duration::from_mins(1)).await;
    let alone = neighbour.take();
    let mut rows = Vec::new();
    for misdeed in misdeeds::all() {
        rows.push(beside(&gateway, &neighbour, &misdeed, effort).await);
    }
    let mut is_empty = end(gateway, neighbour).await;
    // A second gateway, in which all circuits are closed.
    let (gateway, neighbour) = start().await;
    neighbour.answers(effort.beside, Duration::from_mins(1)).await;
    neighbour.take();
    rows.push(crowd(&gateway, &neighbour, effort.crowd).await);
    rows.push(scripts(&gateway, effort.scripts).await);
    is_empty &= end(gateway, neighbour).await;
    let refusals = refusals().await;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    Report {
        load: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
        cores,
        alone,
        rows,
        refusals,
        is_empty,
    }
}

/// Starts a gateway with all guests, and the neighbour in it.
async fn start() -> (Embedded, Neighbour) {
    let setup = Setup::new()
        .client(Client::wasm("good", guests::TEXT))
        .client(Client::wasm("scripted", guests::TEXT).code_mode().auto(&["*"]));
    let gateway = Embedded::start(misdeeds::configure(setup)).await;
    let neighbour = Neighbour::start(&gateway);
    (gateway, neighbour)
}

/// Stops both. Returns whether the pool is empty.
async fn end(gateway: Embedded, neighbour: Neighbour) -> bool {
    neighbour.stop().await;
    gateway.emptied().await;
    let is_empty = gateway.is_empty();
    gateway.stop().await;
    is_empty
}

/// Runs one guest again and again until enough calls of the neighbour were measured.
async fn beside(
    gateway: &Embedded,
    neighbour: &Neighbour,
    misdeed: &Misdeed,
    effort: Effort,
) -> Row {
    let began = Instant::now();
    let rss_before = rss();
    let mut row = Row {
        guest: misdeed.name.into(),
        does: misdeed.does.into(),
        limit: misdeed.limit(),
        ended: Vec::new(),
        as_it_must: true,
        runs: 0,
        stopped_in: Duration::ZERO,
        neighbour: Fared::default(),
        rss_before,
        rss_after: rss_before,
    };
    let arguments = misdeed.arguments();
    while row.runs == 0 || (neighbour.seen() < effort.beside && began.elapsed() < effort.at_most) {
        let (code, took) = ended(gateway.caller().admit(&misdeed.tool(), &arguments)).await;
        if code == CIRCUIT_OPEN && row.runs == FAILURES_TO_OPEN {
            break;
        }
        row.see(misdeed.is_stopped_by(&code), code, took);
    }
    row.neighbour = neighbour.take();
    row.rss_after = rss();
    row
}

/// Runs every guest a few times, all of them at once. There are more of them than slots in
/// the pool.
async fn crowd(gateway: &Embedded, neighbour: &Neighbour, size: usize) -> Row {
    let rss_before = rss();
    let misdeeds: Vec<_> = misdeeds::all().cycle().take(size).collect();
    let calls = misdeeds.into_iter().map(async |misdeed| {
        let call = gateway.caller().admit(&misdeed.tool(), &misdeed.arguments());
        let (code, took) = tokio::spawn(ended(call)).await.expect("no panic in it");
        // With so many guests on two cores, a guest may run out of time before it exceeds its own
        // limit.
        let is_late = ["busy", "cpu_time", "deadline"].contains(&code.as_str());
        (misdeed.is_stopped_by(&code) || is_late, code, took)
    });
    let ended = join_all(calls).await;
    let mut row = Row {
        guest: format!("{size} at once"),
        does: "does all of the above".into(),
        limit: "as above".into(),
        ended: Vec::new(),
        as_it_must: true,
        runs: 0,
        stopped_in: Duration::ZERO,
        neighbour: neighbour.take(),
        rss_before,
        rss_after: rss(),
    };
    for (as_it_must, code, took) in ended {
        row.see(as_it_must, code, took);
    }
    row
}

/// Runs slow scripts of one tenant, all at once, and scripts of another tenant until the slow ones
/// have ended.
async fn scripts(gateway: &Embedded, size: usize) -> Row {
    let rss_before = rss();
    let deadline = Duration::from_secs(4);
    let slow = (0..size).map(|_| {
        let caller = gateway.holder_within("greedy", Budget { deadline, ..BUDGET });
        tokio::spawn(ended(caller.admit("executeToolCode", SLOW_SCRIPT)))
    });
    let slow: Vec<_> = slow.collect();
    let (mut took, mut failed) = (Vec::new(), 0);
    while took.is_empty() || slow.iter().any(|task| !task.is_finished()) {
        let (code, time) =
            ended(gateway.holder("neighbour").admit("executeToolCode", QUICK_SCRIPT)).await;
        failed += usize::from(code != "ok");
        took.push(time);
    }
    let mut row = Row {
        guest: format!("{size} slow scripts"),
        does: "computes until it is stopped, in as many scripts of one key at once".into(),
        limit: format!("deadline {deadline:?}"),
        ended: Vec::new(),
        as_it_must: true,
        runs: 0,
        stopped_in: Duration::ZERO,
        neighbour: Fared::of(took, failed),
        rss_before,
        rss_after: rss(),
    };
    for task in slow {
        let (code, took) = task.await.expect("no panic in it");
        let as_it_must = ["busy", "cpu_time", "deadline", "out_of_fuel"].contains(&code.as_str());
        row.see(as_it_must, code, took);
    }
    row
}

/// Offers each component that must be refused to a sandbox, which compiles in separate processes as
/// the program does.
async fn refusals() -> Vec<Refusal> {
    let compiling =
        Compiling { program: Some(binary("airlock-under-test")), ..Compiling::in_process() };
    let sandbox = |compiling| {
        Sandbox::new(&Settings { compiling, ..Settings::new(None) }).expect("a sandbox")
    };
    let as_shipped = sandbox(compiling.clone());
    let mut refusals = Vec::new();
    for Unloadable { name, does, component, says } in unloadable() {
        refusals.push(refusal(&as_shipped, name, does, component, says).await);
    }
    // The limit is ten minutes, which is too long to wait for.
    let hurried = sandbox(Compiling { wall: Duration::from_millis(50), ..compiling });
    refusals.push(
        refusal(
            &hurried,
            "slow",
            "takes longer to compile than it may, here 50 ms",
            slow(),
            "took more than 50ms",
        )
        .await,
    );
    refusals
}

async fn refusal(
    sandbox: &Sandbox,
    name: &str,
    does: &str,
    component: Vec<u8>,
    says: &str,
) -> Refusal {
    let began = Instant::now();
    let client = ClientName::parse(name).expect("a good name");
    let component: Arc<[u8]> = component.into();
    let loaded = sandbox
        .plugin(
            &client,
            component.clone(),
            Grants::default(),
            Limits::PLUGIN,
            HostResources::default(),
        )
        .await;
    let described = match loaded {
        Ok(plugin) => plugin.definitions(&component).await.map(drop),
        Err(error) => Err(error),
    };
    let took = began.elapsed();
    let reason = described.map_or_else(
        |error| format!("{:#}", anyhow::Error::new(error)),
        |()| "it was loaded".to_owned(),
    );
    Refusal {
        name: name.into(),
        does: does.into(),
        as_it_must: reason.contains(says),
        reason,
        took,
    }
}

impl Row {
    fn see(&mut self, as_it_must: bool, code: String, took: Duration) {
        self.runs += 1;
        self.as_it_must &= as_it_must;
        self.stopped_in = self.stopped_in.max(took);
        if !self.ended.contains(&code) {
            self.ended.push(code);
        }
    }
}

/// Runs a call in its own task, as requests are. Returns the code of its error, or `ok`, and the
/// time that it took.
async fn ended(call: Result<Admitted, CallError>) -> (String, Duration) {
    let began = Instant::now();
    let answer = match call {
        Ok(call) => tokio::spawn(call.run()).await.expect("no panic in it"),
        Err(error) => Err(error),
    };
    (answer.map_or_else(|error| error.code().to_owned(), |_| "ok".to_owned()), began.elapsed())
}

/// A caller that counts words again and again, on the same runtime.
struct Neighbour {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    seen: AtomicUsize,
    /// Number of calls that `answers` waits for; it is notified exactly when they are reached.
    awaited: AtomicUsize,
    reached: Notify,
    failed: AtomicUsize,
    took: Mutex<Vec<Duration>>,
}

impl Neighbour {
    fn start(gateway: &Embedded) -> Self {
        let shared = Arc::new(Shared::default());
        let view = gateway.gateway().caller(Origin::Caller).view().clone();
        let task = tokio::spawn({
            let shared = shared.clone();
            async move {
                while !shared.over.load(Ordering::Relaxed) {
                    let caller = Caller::new(view.clone(), Origin::Caller, BUDGET);
                    let began = Instant::now();
                    let (code, _) =
                        ended(caller.admit("good-word_count", r#"{"text":"good morning"}"#)).await;
                    shared
                        .took
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(began.elapsed());
                    shared.failed.fetch_add(usize::from(code != "ok"), Ordering::Relaxed);
                    if shared.seen.fetch_add(1, Ordering::Relaxed) + 1
                        == shared.awaited.load(Ordering::Relaxed)
                    {
                        shared.reached.notify_one();
                    }
                }
            }
        });
        Self { shared, task }
    }

    fn seen(&self) -> usize {
        self.shared.seen.load(Ordering::Relaxed)
    }

    /// Waits until `count` calls have ended, for `at_most` this long.
    async fn answers(&self, count: usize, at_most: Duration) {
        self.shared.awaited.store(count, Ordering::Relaxed);
        let answered = async {
            while self.seen() < count {
                self.shared.reached.notified().await;
            }
        };
        // The number of calls that ended in time does not matter.
        let _ = tokio::time::timeout(at_most, answered).await;
    }

    /// Returns and resets the measurements.
    fn take(&self) -> Fared {
        self.shared.seen.store(0, Ordering::Relaxed);
        let failed = self.shared.failed.swap(0, Ordering::Relaxed);
        Fared::of(
            std::mem::take(&mut *self.shared.took.lock().unwrap_or_else(PoisonError::into_inner)),
            failed,
        )
    }

    async fn stop(self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.task.await.expect("no panic in it");
    }
}

/// Returns the resident memory of this process, in KiB.
fn rss() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

impl Report {
    fn is_good(&self) -> bool {
        self.is_empty
            && self.refusals.iter().all(|refusal| refusal.as_it_must)
            && self.rows.iter().all(|row| row.as_it_must && row.neighbour.failed == 0)
    }

    fn print(&self) {
        println!(
            "{} cores, load {}; the neighbour alone: p50 {:.0?}, p99 {:.0?}\n",
            self.cores, self.load, self.alone.p50, self.alone.p99
        );
        println!(
            "{:18} {:70} {:50} {:17} {:>5} {:>9} {:>8} {:>8} {:>15}",
            "guest", "does", "limit", "ended with", "runs", "stopped", "p50", "p99", "RSS in MiB"
        );
        for row in &self.rows {
            let ended = if row.ended.len() > 2 {
                format!("{} codes", row.ended.len())
            } else {
                row.ended.join(" ")
            };
            let mark = if row.as_it_must { "" } else { "  NOT AS IT MUST" };
            let (took, p50, p99) = (row.stopped_in, row.neighbour.p50, row.neighbour.p99);
            let (took, p50, p99) =
                (format!("{took:.1?}"), format!("{p50:.0?}"), format!("{p99:.0?}"));
            let rss = format!("{} → {}", row.rss_before >> 10, row.rss_after >> 10);
            println!(
                "{:18} {:70} {:50} {:17} {:>5} {took:>9} {p50:>8} {p99:>8} {rss:>15}{mark}",
                row.guest, row.does, row.limit, ended, row.runs
            );
        }
        let stopped = self.rows.iter().filter(|row| row.as_it_must).count();
        let failed: usize = self.rows.iter().map(|row| row.neighbour.failed).sum();
        let answered: usize = self.rows.iter().map(|row| row.neighbour.answered).sum();
        println!(
            "\n{stopped} of {} rows ended as they must; the neighbour was answered {answered} times and failed {failed} times",
            self.rows.len()
        );
        println!("\n{:18} {:74} {:>9}  reason", "component", "does", "refused");
        for Refusal { name, does, as_it_must, reason, took } in &self.refusals {
            let mark = if *as_it_must { "" } else { "  NOT AS IT MUST" };
            let (took, reason) =
                (format!("{took:.1?}"), reason.split_whitespace().collect::<Vec<_>>().join(" "));
            println!(
                "{name:18} {does:74} {took:>9}  {}{mark}",
                reason.chars().take(MAX_REASON).collect::<String>()
            );
        }
        let refused = self.refusals.iter().filter(|refusal| refusal.as_it_must).count();
        println!("\n{refused} of {} components were refused as they must be", self.refusals.len());
        println!(
            "{}",
            if self.is_empty { "the pool is empty" } else { "SOMETHING STAYED BEHIND IN THE POOL" }
        );
    }

    fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            json!({
                "guest": row.guest, "does": row.does, "limit": row.limit, "ended_with": row.ended,
                "as_it_must": row.as_it_must, "runs": row.runs, "stopped_in_us": micros(row.stopped_in),
                "neighbour": row.neighbour.to_json(), "rss_before_kib": row.rss_before, "rss_after_kib": row.rss_after,
            })
        });
        let refusals = self.refusals.iter().map(|Refusal { name, does, as_it_must, reason, took }| {
            json!({"component": name, "does": does, "as_it_must": as_it_must, "reason": reason, "refused_in_us": micros(*took)})
        });
        json!({
            "cores": self.cores, "load": self.load, "neighbour_alone": self.alone.to_json(),
            "rows": rows.collect::<Vec<_>>(), "refusals": refusals.collect::<Vec<_>>(), "pool_is_empty": self.is_empty, "good": self.is_good(),
        })
    }
}

impl Fared {
    fn of(mut took: Vec<Duration>, failed: usize) -> Self {
        took.sort_unstable();
        let at = |percent: usize| {
            took.get(took.len().saturating_sub(1) * percent / 100).copied().unwrap_or_default()
        };
        Self { answered: took.len(), failed, p50: at(50), p99: at(99) }
    }

    fn to_json(self) -> Value {
        json!({"answered": self.answered, "failed": self.failed, "p50_us": micros(self.p50), "p99_us": micros(self.p99)})
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
