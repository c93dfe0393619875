//! What the sandbox costs: the same work in a fresh sandbox through the door, and natively, side by side in one process.
//!
//! `make bench` runs it. Without the program for native scripts (`NATIVE_SCRIPT`) that column stays empty.

use std::{
    env, fs,
    hint::black_box,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use airlock::{
    Gateway,
    config::Config,
    door::{Budget, Caller, Origin, View},
};
use airlock_guest::{Context, Tool};
use airlock_tests::{Client, Setup, guests};
use serde_json::json;

/// Times of one kind of work, sorted.
struct Times(Vec<Duration>);

impl Times {
    fn at(&self, percent: usize) -> Duration {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

fn main() {
    // `cargo test` runs benchmarks too, to see that they do not break; it passes no `--bench`.
    let is_bench = env::args().any(|argument| argument == "--bench");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(if is_bench { 1 } else { 100 }));
}

/// Measures everything, each kind of work so many times divided by `hurry`.
async fn measure(hurry: usize) {
    let setup = setup();
    // Once before, so that everything is compiled.
    start(&setup).await.stop().await;
    let began = Instant::now();
    let gateway = start(&setup).await;
    let start = began.elapsed();

    println!("{:34} {:>10} {:>10} {:>10} {:>10} {:>7}", "", "fuel", "p50", "p99", "native", "ratio");
    let text = "word ".repeat(13_000);
    let arguments = json!({"text": text}).to_string();
    let times = |times: usize| (times / hurry).max(1);
    row(&gateway, "plugin call that does nothing", "hostile-ok", "{}", times(20_000), Some(native_ok(times(20_000)))).await;
    row(
        &gateway,
        "plugin counts words in 64 KiB",
        "text-word_count",
        &arguments,
        times(1_000),
        Some(native_words(&arguments, times(1_000))),
    )
    .await;
    for (what, source, count) in SCRIPTS {
        let native = native_script(&setup, source, times(count));
        let arguments = json!({"code": source}).to_string();
        row(&gateway, what, "executeToolCode", &arguments, times(count), native).await;
    }
    println!();
    println!("start with compiled plugins       {start:>10.1?}");
    println!(
        "a hostile loop with 50 ms runs on {:>10.1?}  beyond them, at worst of {}",
        overrun(&gateway, times(40)).await,
        times(40)
    );
    gateway.stop().await;
}

const SCRIPTS: [(&str, &str, usize); 4] = [
    ("script that does nothing", "pass", 5_000),
    ("script with one sum", "result = 1 + 1", 5_000),
    ("script with 10 tool calls", "for _ in range(10): hostile.ok()\nresult = 1", 2_000),
    ("script with 100,000 turns of a loop", "t = 0\nfor i in range(100000):\n    t = t + i % 7\nresult = t", 40),
];

fn setup() -> Setup {
    Setup::new()
        .client(Client::wasm("hostile", guests::HOSTILE).auto(&["ok"]).code_mode())
        .client(Client::wasm("text", guests::TEXT))
        .client(
            Client::wasm("spinning", guests::HOSTILE)
                .limit("fuel", 900_000_000_000_u64)
                .limit("cpu_time", "10s")
                .limit("deadline", "50ms"),
        )
}

async fn start(setup: &Setup) -> Gateway {
    let config = Config::load(&setup.write()).expect("the configuration is valid");
    Gateway::builder(config).start().await.expect("the gateway starts")
}

/// Runs one call again and again, each time as a request of its own would, and prints a line.
async fn row(gateway: &Gateway, what: &str, tool: &str, arguments: &str, times: usize, native: Option<Duration>) {
    let view = gateway.caller(Origin::Caller).view().clone();
    let work = repeat(view, tool.to_owned(), arguments.to_owned(), times);
    // On a worker, where requests are answered too.
    let (sandboxed, fuel) = tokio::spawn(work).await.expect("no panic in it");
    let (p50, p99) = (sandboxed.at(50), sandboxed.at(99));
    let (native, ratio) = match native {
        Some(native) => (format!("{native:.1?}"), format!("{:.1}", p50.as_secs_f64() / native.as_secs_f64())),
        None => Default::default(),
    };
    let (p50, p99) = (format!("{p50:.1?}"), format!("{p99:.1?}"));
    println!("{what:34} {fuel:>10} {p50:>10} {p99:>10} {native:>10} {ratio:>7}");
}

/// Times of a call, and the fuel that it burns, which is the same each time.
async fn repeat(view: View, tool: String, arguments: String, times: usize) -> (Times, u64) {
    let mut elapsed = Vec::with_capacity(times);
    let mut fuel = 0;
    for _ in 0..times {
        let caller = Caller::new(view.clone(), Origin::Caller, BUDGET);
        let began = Instant::now();
        let answer = caller.admit(&tool, &arguments).expect("it is allowed").run().await;
        elapsed.push(began.elapsed());
        black_box(answer.expect("it works"));
        fuel = caller.ledger().records()[0].fuel.unwrap_or(0);
    }
    elapsed.sort_unstable();
    (Times(elapsed), fuel)
}

/// What an operator who says nothing gives a call.
const BUDGET: Budget = Budget { deadline: Duration::from_secs(30), nested_calls: 64, depth: 4, in_flight: 8 };

fn native_ok(times: usize) -> Duration {
    median(times, || drop(black_box(airlock_hostile::ok::invoke("{}", &Context::detached()))))
}

fn native_words(arguments: &str, times: usize) -> Duration {
    median(times, || drop(black_box(airlock_text::words::word_count::invoke(arguments, &Context::detached()))))
}

fn median(times: usize, mut work: impl FnMut()) -> Duration {
    let mut took: Vec<_> = (0..times)
        .map(|_| {
            let began = Instant::now();
            work();
            began.elapsed()
        })
        .collect();
    took.sort_unstable();
    Times(took).at(50)
}

/// The interpreter without a sandbox is another program, because its features of `serde_json` must not reach this one.
fn native_script(setup: &Setup, source: &str, times: usize) -> Option<Duration> {
    let program = env::var_os("NATIVE_SCRIPT")?;
    let file = setup.directory().join("native.star");
    fs::write(&file, source).expect("a file");
    let output = Command::new(Path::new(&program)).arg(&file).arg(times.to_string()).output().expect("it can be started");
    let nanoseconds = String::from_utf8_lossy(&output.stdout).trim().parse();
    let said = String::from_utf8_lossy(&output.stderr);
    Some(Duration::from_nanos(nanoseconds.unwrap_or_else(|_| panic!("the native interpreter failed: {said}"))))
}

/// How long after its deadline a guest that never stops was stopped, at worst.
async fn overrun(gateway: &Gateway, times: usize) -> Duration {
    let mut worst = Duration::ZERO;
    for _ in 0..times {
        let caller = gateway.caller(Origin::Caller);
        let began = Instant::now();
        let spun = caller.admit("spinning-spin", "{}").expect("it is allowed").run().await;
        assert_eq!(spun.map_err(|error| error.code()).err(), Some("deadline"));
        worst = worst.max(began.elapsed().saturating_sub(Duration::from_millis(50)));
    }
    worst
}
