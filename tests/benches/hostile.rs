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

mod neighbour;

use std::{
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use airlock::{
    compile::{CompilerChild, Compiling},
    door::Budget,
    sandbox::{Grants, HostResources, Limits, Sandbox, Settings},
    tool::ClientName,
};
use airlock_tests::{
    BUDGET, Client, Embedded, Setup,
    bench::{
        self,
        latency::Latencies,
        micros,
        process::Process,
        report::{Cell, Report, Table},
    },
    binary, guests,
    misdeeds::{self, Misdeed, Unloadable, slow, unloadable},
};
use futures_util::future::join_all;

use self::neighbour::{Fared, Neighbour, ended};

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

pub(super) fn main() -> ExitCode {
    let effort = if bench::is_full() { Effort::FULL } else { Effort::LITTLE };
    bench::runtime().block_on(measure(effort)).finish()
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
    /// Resident memory of the process, in MiB.
    rss_before: u64,
    rss_after: u64,
}

/// One component that must not be loaded.
struct Refusal {
    name: String,
    does: String,
    as_it_must: bool,
    reason: String,
    took: Duration,
}

async fn measure(effort: Effort) -> Report {
    let mut report = Report::new("every hostile guest beside a well-behaved neighbour");
    let (gateway, neighbour) = start().await;
    neighbour.answers(effort.alone, Duration::from_mins(1)).await;
    let alone = neighbour.take();
    let mut rows = Vec::new();
    for misdeed in misdeeds::all() {
        rows.push(beside(&gateway, &neighbour, &misdeed, effort).await);
    }
    let mut is_empty = Box::pin(end(gateway, neighbour)).await;
    // A second gateway, in which all circuits are closed.
    let (gateway, neighbour) = start().await;
    neighbour.answers(effort.beside, Duration::from_mins(1)).await;
    neighbour.take();
    rows.push(crowd(&gateway, &neighbour, effort.crowd).await);
    rows.push(scripts(&gateway, effort.scripts).await);
    is_empty &= Box::pin(end(gateway, neighbour)).await;
    report_rows(&mut report, &alone, &rows);
    report_refusals(&mut report, &refusals().await);
    report.check("the pool is empty", is_empty);
    report
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
    let mut took = Vec::new();
    let mut failed = 0;
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
        neighbour: Fared { latencies: Latencies::new(took), failed },
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
    let child = CompilerChild::new(binary("airlock-under-test"));
    let sandbox = |child| {
        let compiling = Compiling::InChild(child);
        Sandbox::new(&Settings { compiling, ..Settings::new(None) }).expect("a sandbox")
    };
    let as_shipped = sandbox(child.clone());
    let mut refusals = Vec::new();
    for Unloadable { name, does, component, says } in unloadable() {
        refusals.push(refusal(&as_shipped, name, does, component, says).await);
    }
    // The limit is ten minutes, which is too long to wait for.
    let hurried = sandbox(CompilerChild { wall: Duration::from_millis(50), ..child });
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

/// Returns the resident memory of this process, in MiB.
fn rss() -> u64 {
    Process::own().resident() >> 20
}

fn report_rows(report: &mut Report, alone: &Fared, rows: &[Row]) {
    let mut neighbour = Table::new("neighbour", &["p50", "p99"]);
    neighbour.row("alone", [50, 99].map(|percent| Cell::Time(alone.latencies.micros(percent))));
    report.table(neighbour);
    let mut table = Table::new(
        "guest",
        &[
            "does",
            "limit",
            "ended with",
            "runs",
            "stopped in",
            "neighbour p50",
            "neighbour p99",
            "MiB before",
            "MiB after",
        ],
    );
    for row in rows {
        let ended = if row.ended.len() > 2 {
            format!("{} codes", row.ended.len())
        } else {
            row.ended.join(" ")
        };
        let cells = [
            Cell::Text(row.does.clone()),
            Cell::Text(row.limit.clone()),
            Cell::Text(ended),
            Cell::Count(row.runs as u64),
            Cell::Time(micros(row.stopped_in)),
            Cell::Time(row.neighbour.latencies.micros(50)),
            Cell::Time(row.neighbour.latencies.micros(99)),
            Cell::Count(row.rss_before),
            Cell::Count(row.rss_after),
        ];
        let added = table.row(&row.guest, cells);
        if !row.as_it_must {
            added.remark(format!("NOT AS IT MUST: {}", row.ended.join(" ")));
        }
    }
    report.table(table);
    let stopped = rows.iter().filter(|row| row.as_it_must).count();
    let what = format!("{stopped} of {} rows ended as they must", rows.len());
    report.check(what, stopped == rows.len());
    let failed: usize = rows.iter().map(|row| row.neighbour.failed).sum();
    let answered: usize = rows.iter().map(|row| row.neighbour.latencies.count()).sum();
    let what = format!("the neighbour was answered {answered} times and failed {failed} times");
    report.check(what, failed == 0);
}

fn report_refusals(report: &mut Report, refusals: &[Refusal]) {
    let mut table = Table::new("component", &["does", "refused in", "reason"]);
    for Refusal { name, does, as_it_must, reason, took } in refusals {
        let words: Vec<_> = reason.split_whitespace().collect();
        let short = words.join(" ").chars().take(MAX_REASON).collect();
        let cells = [Cell::Text(does.clone()), Cell::Time(micros(*took)), Cell::Text(short)];
        let row = table.row(name, cells);
        if !as_it_must {
            row.remark("NOT AS IT MUST");
        }
    }
    report.table(table);
    let refused = refusals.iter().filter(|refusal| refusal.as_it_must).count();
    let what = format!("{refused} of {} components were refused as they must be", refusals.len());
    report.check(what, refused == refusals.len());
}
