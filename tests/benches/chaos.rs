//! Runs sixty MCP servers that misbehave at random in one gateway with five good ones, and calls all
//! of them. Prints how the good ones fared, and what was left after the gateway's end.
//!
//! `make chaos` runs it for `CHAOS_SECONDS`, 600 by default; `--json` prints one document instead of
//! tables. It can serve as a check: the exit code is 1 if a call of a good server failed, a process
//! of any server outlived the gateway, or the gateway did not stop. Times depend on the machine and
//! its load, which is why the good servers are first measured alone, in a gateway of their own.
//!
//! The servers are `chaos-server SEED`, see `tests/src/bin/chaos_server.rs`. The seeds are printed;
//! `CHAOS_SEED` changes the first one.
//!
//! With `--kills`, gateways and their store are killed instead, see `kills.rs`.

mod callers;
mod kills;
mod leaks;
mod report;
mod watch;

use std::{
    env, fs,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use airlock_tests::{
    Client, Gateway, Setup,
    bench::{self, report::Report},
    binary,
};

use self::{
    callers::{Caller, Fared, Good, Wild},
    kills::KillEffort,
    leaks::Mark,
    report::Observed,
    watch::Watch,
};

/// Good servers.
const GOOD: u64 = 5;
/// Longest time to wait for the result of a tool, so that a server that hangs is called again.
const TIMEOUT: &str = "3s";
/// Time that processes have to disappear after the gateway's end.
const GRACE: Duration = Duration::from_secs(5);

pub(super) fn main() -> ExitCode {
    if bench::has_option("--kills") {
        let report = bench::runtime().block_on(kills::run(long_kills()));
        // Without PostgreSQL there is none, and stderr says so.
        return report.map_or(ExitCode::FAILURE, |report| report.finish());
    }
    let effort = if bench::is_full() { Effort::asked() } else { Effort::LITTLE };
    bench::runtime().block_on(run(effort)).finish()
}

/// Extent of a run.
#[derive(Clone, Copy)]
struct Effort {
    /// Servers that misbehave.
    wild: u64,
    /// Seed of the first of them.
    seed: u64,
    before: Duration,
    during: Duration,
}

impl Effort {
    const LITTLE: Self = Self {
        wild: 6,
        seed: 1,
        before: Duration::from_millis(200),
        during: Duration::from_secs(1),
    };

    /// Reads the extent from the environment.
    fn asked() -> Self {
        let during = Duration::from_secs(number("CHAOS_SECONDS").unwrap_or(600));
        let before = (during / 6).min(Duration::from_secs(30));
        Self { wild: 60, seed: number("CHAOS_SEED").unwrap_or(1), before, during }
    }
}

/// Returns the number in a variable of the environment; `None` without the variable.
fn number(name: &str) -> Option<u64> {
    let value = env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name}={value} is no whole number")))
}

/// Returns the extent of the long run with kills.
fn long_kills() -> KillEffort {
    KillEffort {
        seed: number("CHAOS_SEED").unwrap_or(1),
        calls: 10_000,
        limit: 6_000,
        callers: 8,
        gateway_kills: 12,
        store_kills: 3,
    }
}

async fn run(effort: Effort) -> Report {
    let Effort { wild: count, seed, before, during } = effort;
    let mut report = Report::new(format!(
        "{GOOD} good servers for {before:.0?} alone and for {during:.0?} beside {count} others, seeds {seed} to {}",
        seed + count - 1
    ));
    let mark = Mark::new();
    let before = alone(&mark, before).await;
    let lives = tempfile::tempdir().expect("a temporary directory");
    let mut setup = good(Setup::new(), &mark);
    for seed in seed..seed + count {
        setup = setup.client(wild(seed, &mark, lives.path()));
    }
    let gateway = start(setup).await;
    let caller = Caller::new(&gateway);
    let watch = Watch::start(gateway.pid(), during);
    let bad = Wild::start(&caller, seed..seed + count);
    let during = Good::start(&caller, GOOD).run(during).await;
    let resources = watch.end().await;
    let outcomes = bad.end().await;
    let alive = mark.processes().len();
    let stopping = Instant::now();
    let has_stopped = stop(gateway).await;
    let stopped_in = stopping.elapsed();
    let observed = Observed {
        before,
        during,
        resources,
        outcomes,
        lives: count_lives(lives.path()),
        alive,
        has_stopped,
        stopped_in,
        leaked: mark.left_after(GRACE).await,
    };
    observed.fill(&mut report);
    report
}

/// Measures the good servers in a gateway of their own.
async fn alone(mark: &Mark, over: Duration) -> Fared {
    let gateway = start(good(Setup::new(), mark)).await;
    let fared = Good::start(&Caller::new(&gateway), GOOD).run(over).await;
    assert!(stop(gateway).await, "a gateway without bad servers stops");
    fared
}

/// Starts a gateway and waits until the good servers are connected.
async fn start(setup: Setup) -> Gateway {
    let setup = setup.set("/mcp/tool_manager_config/tool_execution_timeout", TIMEOUT);
    let gateway = setup.serve().await;
    for number in 0..GOOD {
        gateway.connected(&callers::good_name(number)).await;
    }
    gateway
}

fn good(setup: Setup, mark: &Mark) -> Setup {
    (0..GOOD).fold(setup, |setup, number| {
        let server = Client::stdio(&callers::good_name(number), binary("chaos-server"), ["good"]);
        setup.client(server.envs(&[mark.variable()]))
    })
}

fn wild(seed: u64, mark: &Mark, lives: &Path) -> Client {
    let name = callers::wild_name(seed);
    let lives = format!("CHAOS_LIVES={}", lives.display());
    Client::stdio(&name, binary("chaos-server"), [seed.to_string()])
        .envs(&[mark.variable(), lives.as_str()])
}

/// Stops a gateway with SIGTERM. Returns whether it ended in time and without an error.
async fn stop(gateway: Gateway) -> bool {
    gateway.terminate();
    // Dropping it panics unless it has ended well.
    tokio::spawn(async { gateway.ended().await }).await.is_ok()
}

/// Returns how many times the servers that misbehave were started.
fn count_lives(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).expect("it was created above");
    let counts = files.filter_map(|file| fs::read_to_string(file.ok()?.path()).ok());
    counts.filter_map(|count| count.parse::<u64>().ok()).sum()
}
