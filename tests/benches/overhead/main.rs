//! Cost of the sandbox: the same work in a fresh sandbox through the door, and natively,
//! alternating in one process.
//!
//! `make bench` runs it. The benchmark `code_mode` measures scripts.
//!
//! It has its own harness because it prints ratios: each round runs every variant once, so that
//! other load on the machine affects all of them alike. Criterion and divan time one function after
//! the other and print times, which on a shared machine compare one minute with another. A target
//! is printed next to its value where the project has set one.

mod bare;
mod crowd;
mod space;

use std::{
    env, fs,
    hint::black_box,
    time::{Duration, Instant},
};

use airlock::{
    Gateway,
    config::Config,
    door::{Budget, Caller, Origin, View},
};
use airlock_guest::{Tool, testing::Host};
use airlock_tests::{Client, Setup, guests};
use serde_json::json;

/// Times of one kind of work, sorted.
struct Times(Vec<Duration>);

impl Times {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    fn at(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

fn main() {
    // `cargo test` runs benchmarks too, to check that they work; it passes no `--bench`.
    let is_bench = env::args().any(|argument| argument == "--bench");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(if is_bench { 1 } else { 100 }));
}

/// Measures everything; the number of runs of each kind of work is divided by `hurry`.
async fn measure(hurry: usize) {
    let setup = setup();
    // A first start compiles everything.
    start(&setup).await.stop().await;
    let began = Instant::now();
    let gateway = start(&setup).await;
    let start = began.elapsed();

    let times = |times: usize| (times / hurry).max(1);
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load {load}");
    println!(
        "{:34} {:>10} {:>10} {:>10} {:>10} {:>10} {:>7}",
        "", "fuel", "p50", "p99", "bare p50", "native", "ratio"
    );
    rounds(&gateway, &NOOP, "plugin call that does nothing", "{}", times(20_000)).await;
    rounds(&gateway, &NOOP_WITH_WASI, "the same, built with WASI", "{}", times(20_000)).await;
    for (what, words, count) in [
        ("plugin counts words in 1 KiB", 200, 10_000),
        ("plugin counts words in 64 KiB", 13_000, 1_000),
    ] {
        let arguments = json!({"text": "word ".repeat(words)}).to_string();
        rounds(&gateway, &TEXT, what, &arguments, times(count)).await;
    }
    println!();
    calls_at_once(&gateway, times(20_000)).await;
    inside(&gateway, times(2_000)).await;
    let (first, again) = space::load().await;
    line("start, plugins compiled before", start, "50 ms for five");
    line("load a plugin from its source", first, "");
    line("load it from the native cache", again, "");
    println!("{:34} {:>10} KiB", "memory of an idle plugin", space::per_plugin(times(50)).await);
    println!("{:34} {:>10} KiB", "memory of a waiting call", space::per_call(times(48)).await);
    let what = format!("loop past its 50 ms, worst of {}", times(40));
    line(&what, overrun(&gateway, times(40)).await, "5 ms");
    gateway.stop().await;
}

fn line(what: &str, value: Duration, aim: &str) {
    let aim = if aim.is_empty() { String::new() } else { format!("  (aim: {aim})") };
    println!("{what:34} {:>10}{aim}", format!("{value:.1?}"));
}

/// One kind of work in three variants.
struct Work {
    tool: &'static str,
    component: &'static str,
    native: fn(&str),
    aim: &'static str,
}

const NOOP: Work = Work {
    tool: "noop-ok",
    component: guests::NOOP,
    native: |_| drop(black_box(airlock_noop::ok::invoke("{}", &Host::new().context()))),
    aim: "10 µs",
};
const NOOP_WITH_WASI: Work =
    Work { tool: "noop_with_wasi-ok", component: guests::NOOP_WITH_WASI, aim: "", ..NOOP };
static TEXT: Work = Work {
    tool: "text-word_count",
    component: guests::TEXT,
    native: |arguments| {
        drop(black_box(airlock_text::words::word_count::invoke(arguments, &Host::new().context())));
    },
    aim: "",
};

/// Measures the work through the door, as a bare instance, and natively: once per round, so that
/// all three run under the same load.
async fn rounds(gateway: &Gateway, work: &'static Work, what: &str, arguments: &str, times: usize) {
    let view = gateway.caller(Origin::Caller).view().clone();
    let arguments = arguments.to_owned();
    // Runs on a worker, as requests do.
    let measured = tokio::spawn(async move {
        let bare = bare::Bare::new(work.component);
        let (mut door, mut alone, mut native, mut fuel) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for _ in 0..times {
            let (took, burnt) = one(&view, work.tool, &arguments).await;
            door.push(took);
            fuel = burnt;
            alone.push(bare.instantiate().await);
            let began = Instant::now();
            (work.native)(&arguments);
            native.push(began.elapsed());
        }
        (Times::of(door), Times::of(alone), Times::of(native), fuel)
    });
    let (door, alone, native, fuel) = measured.await.expect("no panic in it");
    let ratio = door.at(50).as_secs_f64() / native.at(50).as_secs_f64();
    let [p50, p99, alone, native] =
        [door.at(50), door.at(99), alone.at(50), native.at(50)].map(|it| format!("{it:.1?}"));
    let aim =
        if work.aim.is_empty() { String::new() } else { format!("  (aim: p50 {})", work.aim) };
    println!("{what:34} {fuel:>10} {p50:>10} {p99:>10} {alone:>10} {native:>10} {ratio:>7.1}{aim}");
}

/// Measures how calls share the machine.
async fn calls_at_once(gateway: &Gateway, times: usize) {
    let times = u32::try_from(times).expect("fewer than four billion");
    let view = gateway.caller(Origin::Caller).view().clone();
    for (in_flight, least) in [(1, 1), (64, 64), (1_000, 1_000)] {
        let done = crowd::calls(&view, in_flight, times.max(least)).await;
        let (p50, p99) =
            (format!("{:.1?}", done.times.at(50)), format!("{:.1?}", done.times.at(99)));
        let what = format!("{in_flight} in flight");
        println!("{what:34} {:>10.0} calls/s, p50 {p50}, p99 {p99}", done.per_second);
    }
    // Separate runtimes, which must not be waited for on a worker of this one.
    let ratios = tokio::task::spawn_blocking(move || {
        let mut ratios: Vec<_> = (0..5)
            .map(|_| crowd::on_threads(&view, 2, times) / crowd::on_threads(&view, 1, times))
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        ratios
    });
    let ratios = ratios.await.expect("no panic in it");
    println!(
        "{:34} {:>10.2} times one, median of 5  (aim: 1.8)",
        "calls on two threads", ratios[2]
    );
}

/// Measures the parts of a call: the door's decision, and a nested call.
async fn inside(gateway: &Gateway, times: usize) {
    let view = gateway.caller(Origin::Caller).view().clone();
    let admit = median(times, || {
        let caller = Caller::new(view.clone(), Origin::Caller, BUDGET);
        drop(black_box(caller.admit("hostile-ok", "{}")));
    });
    line("the door's decision", admit, "");
    // Runs on a worker, as requests do: elsewhere each call would have to wake one.
    let nested = tokio::spawn(async move {
        let flood = |calls: u32| json!({"tool": "nested-ok", "times": calls}).to_string();
        let (mut none, mut fifty) = (Vec::new(), Vec::new());
        for _ in 0..times.div_ceil(10) {
            none.push(one(&view, "nested-flood_calls", &flood(0)).await.0);
            fifty.push(one(&view, "nested-flood_calls", &flood(50)).await.0);
        }
        Times::of(fifty).at(50).saturating_sub(Times::of(none).at(50)) / 50
    });
    let nested = nested.await.expect("no panic in it");
    line("a call from plugin to plugin", nested, "5 µs beyond the tool itself, from a script");
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

fn median(times: usize, mut work: impl FnMut()) -> Duration {
    let took = (0..times).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed()
    });
    Times::of(took.collect()).at(50)
}

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
        assert_eq!(spun.map_err(|error| error.code()).err(), Some("deadline"));
        worst = worst.max(began.elapsed().saturating_sub(deadline));
    }
    worst
}
