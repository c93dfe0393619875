//! Cost of the sandbox: the same work in a fresh sandbox through the door, and natively,
//! alternating in one process.
//!
//! `make bench` runs it; `--json` prints one document instead of tables. The benchmark `code_mode`
//! measures scripts.
//!
//! It has its own harness because it prints ratios: each round runs every variant once, so that
//! other load on the machine affects all of them alike. Criterion and divan time one function after
//! the other and print times, which on a shared machine compare one minute with another. A target
//! is printed next to its value where the project has set one.

mod bare;
mod crowd;
mod guards;
mod space;

use std::{
    hint::black_box,
    process::ExitCode,
    time::{Duration, Instant},
};

use airlock::{
    Gateway,
    config::Config,
    door::{Budget, Caller, Origin, View},
};
use airlock_guest::{Tool, testing::Host};
use airlock_tests::{
    Client, Setup,
    bench::{
        self,
        latency::{Latencies, median},
        micros,
        report::{Aim, Cell, Report, Table},
    },
    guests,
};
use serde_json::json;

pub(super) fn main() -> ExitCode {
    bench::runtime().block_on(measure(if bench::is_full() { 1 } else { 100 })).finish()
}

/// Measures everything; the number of runs of each kind of work is divided by `hurry`.
async fn measure(hurry: usize) -> Report {
    let mut report = Report::new("medians of rounds in which every variant has its turn");
    let setup = setup();
    // A first start compiles everything.
    start(&setup).await.stop().await;
    let began = Instant::now();
    let gateway = start(&setup).await;
    let started = began.elapsed();

    let times = |times: usize| (times / hurry).max(1);
    report.table(variants(&gateway, times).await);
    report.table(calls_at_once(&gateway, times(20_000)).await);
    report.table(on_two_threads(&gateway, times(20_000)).await);
    report.table(inside(&gateway, times(2_000)).await);
    report.table(guards::calls(times(4_000)).await);
    report.table(guards::chats(times(2_000)).await);
    let mut plugins = Table::new("plugins", &["time"]);
    let (first, again) = space::load().await;
    // The aim is that of five plugins.
    plugins
        .row("start, plugins compiled before", [Cell::Time(micros(started))])
        .aim("time", Aim::AtMost(50_000.0));
    plugins.row("load a plugin from its source", [Cell::Time(micros(first))]);
    plugins.row("load it from the native cache", [Cell::Time(micros(again))]);
    let overrun = micros(overrun(&gateway, times(40)).await);
    plugins
        .row(format!("loop past its 50 ms, worst of {}", times(40)), [Cell::Time(overrun)])
        .aim("time", Aim::AtMost(5_000.0));
    report.table(plugins);
    let mut memory = Table::new("memory", &["each"]);
    memory.row("an idle plugin", [Cell::Kib(space::per_plugin(times_u32(times(50))).await)]);
    memory.row("a waiting call", [Cell::Kib(space::per_call(times_u32(times(48))).await)]);
    report.table(memory);
    gateway.stop().await;
    report
}

/// Returns the work of plugins, in every variant.
async fn variants(gateway: &Gateway, times: impl Fn(usize) -> usize) -> Table {
    let columns = ["fuel", "p50", "p99", "bare p50", "native", "ratio"];
    let mut table = Table::new("", &columns);
    let empty = rounds(gateway, &NOOP, "{}", times(20_000)).await;
    table.row("plugin call that does nothing", empty).aim("p50", Aim::AtMost(10.0));
    let empty = rounds(gateway, &NOOP_WITH_WASI, "{}", times(20_000)).await;
    table.row("the same, built with WASI", empty);
    for (what, words, count) in [
        ("plugin counts words in 1 KiB", 200, 10_000),
        ("plugin counts words in 64 KiB", 13_000, 1_000),
    ] {
        let arguments = json!({"text": "word ".repeat(words)}).to_string();
        table.row(what, rounds(gateway, &TEXT, &arguments, times(count)).await);
    }
    table
}

/// One kind of work in three variants.
struct Work {
    tool: &'static str,
    component: &'static str,
    native: fn(&str),
}

const NOOP: Work = Work {
    tool: "noop-ok",
    component: guests::NOOP,
    native: |_| drop(black_box(airlock_noop::ok::invoke("{}", &Host::new().context()))),
};
const NOOP_WITH_WASI: Work =
    Work { tool: "noop_with_wasi-ok", component: guests::NOOP_WITH_WASI, ..NOOP };
static TEXT: Work = Work {
    tool: "text-word_count",
    component: guests::TEXT,
    native: |arguments| {
        drop(black_box(airlock_text::words::word_count::invoke(arguments, &Host::new().context())));
    },
};

/// Measures the work through the door, as a bare instance, and natively: once per round, so that
/// all three run under the same load. Returns the cells of its row.
async fn rounds(
    gateway: &Gateway,
    work: &'static Work,
    arguments: &str,
    times: usize,
) -> [Cell; 6] {
    let view = gateway.caller(Origin::Caller).view().clone();
    let arguments = arguments.to_owned();
    // Runs on a worker, as requests do.
    let measured = tokio::spawn(async move {
        let bare = bare::Bare::new(work.component);
        let mut door = Vec::new();
        let mut alone = Vec::new();
        let mut native = Vec::new();
        let mut fuel = 0;
        for _ in 0..times {
            let (took, burnt) = one(&view, work.tool, &arguments).await;
            door.push(took);
            fuel = burnt;
            alone.push(bare.instantiate().await);
            let began = Instant::now();
            (work.native)(&arguments);
            native.push(began.elapsed());
        }
        ([door, alone, native].map(Latencies::new), fuel)
    });
    let ([door, alone, native], fuel) = measured.await.expect("no panic in it");
    [
        Cell::Count(fuel),
        Cell::Time(door.micros(50)),
        Cell::Time(door.micros(99)),
        Cell::Time(alone.micros(50)),
        Cell::Time(native.micros(50)),
        Cell::Ratio(door.micros(50) / native.micros(50)),
    ]
}

/// Measures how calls share the machine.
async fn calls_at_once(gateway: &Gateway, times: usize) -> Table {
    let view = gateway.caller(Origin::Caller).view().clone();
    let mut table = Table::new("calls", &["per second", "p50", "p99"]);
    for (in_flight, least) in [(1, 1), (64, 64), (1_000, 1_000)] {
        let done = crowd::calls(&view, in_flight, times_u32(times.max(least))).await;
        let times = [50, 99].map(|percent| Cell::Time(done.times.micros(percent)));
        let cells = [Cell::Number(done.per_second)].into_iter().chain(times);
        table.row(format!("{in_flight} in flight"), cells);
    }
    table
}

/// Measures calls on two threads against those on one.
async fn on_two_threads(gateway: &Gateway, times: usize) -> Table {
    let view = gateway.caller(Origin::Caller).view().clone();
    let times = times_u32(times);
    // Separate runtimes, which must not be waited for on a worker of this one.
    let ratio = tokio::task::spawn_blocking(move || {
        median(
            (0..5).map(|_| crowd::on_threads(&view, 2, times) / crowd::on_threads(&view, 1, times)),
        )
    });
    let ratio = ratio.await.expect("no panic in it");
    let mut table = Table::new("calls on two threads", &["ratio"]);
    table.row("against one", [Cell::Ratio(ratio)]).aim("ratio", Aim::AtLeast(1.8));
    table
}

/// Measures the parts of a call: the door's decision, and a nested call.
async fn inside(gateway: &Gateway, times: usize) -> Table {
    let view = gateway.caller(Origin::Caller).view().clone();
    let admit = (0..times).map(|_| {
        let began = Instant::now();
        let caller = Caller::new(view.clone(), Origin::Caller, BUDGET);
        drop(black_box(caller.admit("hostile-ok", "{}")));
        micros(began.elapsed())
    });
    let mut table = Table::new("parts of a call", &["p50"]);
    table.row("the door's decision", [Cell::Time(median(admit))]);
    // Runs on a worker, as requests do: elsewhere each call would have to wake one.
    let nested = tokio::spawn(async move {
        let flood = |calls: u32| json!({"tool": "nested-ok", "times": calls}).to_string();
        let mut none = Vec::new();
        let mut fifty = Vec::new();
        let mut direct = Vec::new();
        for _ in 0..times.div_ceil(10) {
            none.push(one(&view, "nested-flood_calls", &flood(0)).await.0);
            fifty.push(one(&view, "nested-flood_calls", &flood(50)).await.0);
            direct.push(one(&view, "nested-ok", "{}").await.0);
        }
        let [none, fifty, direct] =
            [none, fifty, direct].map(|times| Latencies::new(times).micros(50));
        ((fifty - none) / 50.0, direct)
    });
    let (nested, direct) = nested.await.expect("no panic in it");
    table.row("a call from plugin to plugin", [Cell::Time(nested)]);
    // The aim is that beyond the tool itself.
    table
        .row("the same, beyond a call of the tool by its caller", [Cell::Added(nested - direct)])
        .aim("p50", Aim::AtMost(5.0));
    table
}

fn times_u32(times: usize) -> u32 {
    u32::try_from(times).expect("fewer than four billion")
}

fn setup() -> Setup {
    Setup::new()
        .client(Client::wasm("hostile", guests::HOSTILE).auto(&["ok"]))
        .client(Client::wasm("noop", guests::NOOP))
        .client(Client::wasm("noop_with_wasi", guests::NOOP_WITH_WASI))
        .client(Client::wasm("text", guests::TEXT))
        .client(Client::wasm("nested", guests::HOSTILE).tools(&["nested-ok"]))
        .client(
            Client::wasm("spinning", guests::HOSTILE)
                .trusted()
                .limit("fuel", 900_000_000_000_u64)
                .limit("cpu_time", "10s"),
        )
}

async fn start(setup: &Setup) -> Gateway {
    let config = Config::load(&setup.write()).expect("the configuration is valid");
    Gateway::builder(config).start().await.expect("the gateway starts")
}

/// Runs one call as its own request. Returns its time and its fuel.
async fn one(view: &View, tool: &str, arguments: &str) -> (Duration, u64) {
    let caller = Caller::new(view.clone(), Origin::Caller, BUDGET);
    let began = Instant::now();
    let answer = caller.admit(tool, arguments).expect("it is allowed").run().await;
    let elapsed = began.elapsed();
    black_box(answer.expect("it works"));
    (elapsed, caller.ledger().records()[0].fuel.unwrap_or(0))
}

/// Limits of a call if the operator sets none.
const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(30),
    script: Duration::from_mins(5),
    nested_calls: 64,
    depth: 4,
    in_flight: 8,
};

/// Returns the longest time between the deadline and the end of a guest that never stops. The
/// deadline is the caller's: after a few deadlines of the plugin's own its circuit would open.
async fn overrun(gateway: &Gateway, times: usize) -> Duration {
    let deadline = Duration::from_millis(50);
    let view = gateway.caller(Origin::Caller).view().clone();
    let mut worst = Duration::ZERO;
    for _ in 0..times {
        let began = Instant::now();
        let caller = Caller::new(view.clone(), Origin::Caller, Budget { deadline, ..BUDGET });
        let spun = caller.admit("spinning-spin", "{}").expect("it is allowed").run().await;
        assert_eq!(spun.map_err(|error| error.code().as_str()).err(), Some("deadline"));
        worst = worst.max(began.elapsed().saturating_sub(deadline));
    }
    worst
}
