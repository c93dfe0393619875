//! Cost of the gateway to a chat: the same requests from one client, straight to a model server and
//! through the gateway, in alternating rounds.
//!
//! `make bench` runs it; `--json` prints one document instead of a table. Client and model server
//! are two threads of this process, the gateway is the real program in its own, and so is a bare proxy,
//! the limit of its design. Times count as differences between the ways, and as ratios: all share the
//! machine. `chat.md` describes the rows.
//!
//! `--traced` measures the cost of telemetry alone, which is the last table.
//!
//! For work on the gateway: `--load plain|streamed|paced` loads a gateway for 20 seconds and prints
//! the id of its process, for a profiler. `--against PROGRAM` compares it with another build, in
//! turns of half a second.

mod against;
mod client;
mod load;
mod model;
mod proxy;
mod report;
mod traced;

use std::{process::ExitCode, time::Duration};

use airlock_tests::{
    Gateway, Setup,
    bench::{
        self, address,
        latency::{Latencies, Schedule},
        process::Process,
        report::{Cell, Report, Table},
    },
};

use self::{
    client::{Client, Form},
    load::{Crowd, Run, Saturated},
    model::Model,
    proxy::BareProxy,
};

/// Prefix of the model's name that selects the provider.
const PREFIX: &str = "model/";
/// Largest part of a core that client and model server may use at a rate, so that two cores have
/// room for the gateway.
const MAX_OWN_CORES: f64 = 0.5;
/// Lowest rate that is tried, in requests a second.
const MIN_RATE: u32 = 100;
/// Form of a stream whose chunks follow each other at once.
const STREAMED: Form = Form::Streamed { texts: 8, pace: Duration::ZERO };
/// Time between two chunks of a stream.
const CHUNK_PACE: Duration = Duration::from_millis(20);
/// Time between two chunks of each of many streams.
const CROWD_PACE: Duration = Duration::from_millis(200);

/// Serves as the bare proxy until it is killed if a run has started this program for it; returns false if none has.
pub(super) fn is_proxy() -> bool {
    proxy::run_if_asked()
}

pub(super) fn main() -> ExitCode {
    let model = model::start();
    let runtime = bench::runtime_of_one_thread();
    if let Some(program) = bench::option("--against") {
        return runtime.block_on(against::compare(&model, program.as_ref())).finish();
    }
    if let Some(form) = bench::option("--load") {
        return runtime.block_on(load_for_profiler(&model, &form)).finish();
    }
    let effort = if bench::is_full() { Effort::FULL } else { Effort::LITTLE };
    if bench::has_option("--traced") {
        let mut report = new_report(effort);
        runtime.block_on(traced::measure(&model, effort, &mut report));
        return report.finish();
    }
    runtime.block_on(measure(&model, effort)).finish()
}

/// Extent of the measurements.
#[derive(Clone, Copy)]
struct Effort {
    rounds: u32,
    /// Time of each run.
    over: Duration,
    /// Requests a second, if the machine carries them.
    per_second: u32,
    /// Streams a second whose chunks are timed. Not a multiple of their pace, so that their chunks are
    /// spread evenly.
    streams: u32,
    /// Connections that send as fast as they can.
    lanes: usize,
    /// Streams at once.
    crowd: u32,
    crowd_rounds: u32,
    /// Chunks of each of these streams.
    crowd_chunks: u32,
}

impl Effort {
    const FULL: Self = Self {
        rounds: 7,
        over: Duration::from_secs(2),
        per_second: 3_000,
        streams: 51,
        lanes: 32,
        crowd: 1_000,
        crowd_rounds: 3,
        crowd_chunks: 25,
    };
    const LITTLE: Self = Self {
        rounds: 1,
        over: Duration::from_millis(200),
        per_second: 50,
        streams: 4,
        lanes: 2,
        crowd: 8,
        crowd_rounds: 1,
        crowd_chunks: 10,
    };
}

/// The ways to the model in one round.
struct Ways<T> {
    direct: T,
    /// Through the bare proxy.
    bare: T,
    /// Through the gateway.
    through: T,
}

/// All measurements, by round.
#[derive(Default)]
struct Measured {
    /// Rate of `plain`.
    plain_rate: Rate,
    /// Rate of `streamed`.
    streamed_rate: Rate,
    plain: Vec<Ways<Run>>,
    streamed: Vec<Ways<Run>>,
    paced: Vec<Ways<Run>>,
    /// One request after the other.
    alone: Vec<Ways<Latencies>>,
    saturated: Vec<Ways<Saturated>>,
    /// Many streams, by the CPU time of their chunks.
    streaming: Vec<Ways<Saturated>>,
    crowds: Vec<Ways<Crowd>>,
}

async fn measure(model: &Model, effort: Effort) -> Report {
    let mut report = new_report(effort);
    let mut measured = Measured::default();
    let gateway = start(model).await;
    let proxy = BareProxy::start(model.address);
    let ways = Ways {
        direct: Client::new(model.address, ""),
        bare: Client::new(proxy.address, ""),
        through: Client::new(address(&gateway), PREFIX),
    };
    let processes = Ways {
        direct: model.thread.clone(),
        bare: proxy.process(),
        through: Process::new(gateway.pid()),
    };
    measured.plain_rate = Rate::find(&ways, Form::Plain, effort).await;
    measured.streamed_rate = Rate::find(&ways, STREAMED, effort).await;
    for round in 0..effort.rounds {
        let schedule = Schedule::new(measured.plain_rate.sent, effort.over);
        let work = async |client: &Client| load::at_rate(client, Form::Plain, schedule).await;
        measured.plain.push(each(&ways, round, work).await);
        let schedule = Schedule::new(measured.streamed_rate.sent, effort.over);
        let work = async |client: &Client| load::at_rate(client, STREAMED, schedule).await;
        measured.streamed.push(each(&ways, round, work).await);
        let work = async |client: &Client| paced(client, effort).await;
        measured.paced.push(each(&ways, round, work).await);
        let work = async |client: &Client| load::alone(client, Form::Plain, effort.over).await;
        measured.alone.push(each(&ways, round, work).await);
        measured.saturated.push(saturate_each(&ways, &processes, Form::Plain, effort).await);
        let form = Form::Streamed { texts: effort.crowd_chunks, pace: CHUNK_PACE };
        measured.streaming.push(saturate_each(&ways, &processes, form, effort).await);
    }
    drop((gateway, proxy));
    for _ in 0..effort.crowd_rounds {
        measured.crowds.push(crowds(&ways.direct, model, effort).await);
    }
    report::fill(&mut report, &measured, effort);
    Box::pin(traced::measure(model, effort, &mut report)).await;
    report
}

fn new_report(effort: Effort) -> Report {
    Report::new(format!("medians of {} rounds", effort.rounds))
}

/// Does the same work all ways, in an order that changes from round to round.
async fn each<T>(ways: &Ways<Client>, round: u32, work: impl AsyncFn(&Client) -> T) -> Ways<T> {
    if round.is_multiple_of(2) {
        let direct = work(&ways.direct).await;
        let bare = work(&ways.bare).await;
        Ways { direct, bare, through: work(&ways.through).await }
    } else {
        let through = work(&ways.through).await;
        let bare = work(&ways.bare).await;
        Ways { direct: work(&ways.direct).await, bare, through }
    }
}

/// Rate of requests of one form.
#[derive(Clone, Copy, Default)]
struct Rate {
    /// Requests a second at which client and model server leave enough of the machine to the
    /// gateway.
    direct: u32,
    /// Requests a second that are sent: what the machine carries with the gateway, and no more than
    /// `direct`.
    sent: u32,
}

impl Rate {
    /// Finds the rate: the one that is aimed at, or a lower one.
    async fn find(ways: &Ways<Client>, form: Form, effort: Effort) -> Self {
        let direct = direct_rate(&ways.direct, form, effort).await;
        let mut sent = direct;
        while sent > MIN_RATE {
            let run = load::at_rate(&ways.through, form, Schedule::new(sent, effort.over)).await;
            if run.keeps_up(sent) {
                break;
            }
            sent = hundreds(sent * 2 / 3);
        }
        // At the very limit, the latencies are those of a queue.
        Self { direct, sent: if sent < direct { hundreds(sent * 4 / 5) } else { sent } }
    }
}

async fn direct_rate(direct: &Client, form: Form, effort: Effort) -> u32 {
    let mut rate = effort.per_second;
    // The first run is the warm-up of the second.
    for _ in 0..4 {
        let run = load::at_rate(direct, form, Schedule::new(rate, effort.over)).await;
        if run.own_cores <= MAX_OWN_CORES {
            break;
        }
        let apart = Duration::from_secs(1).mul_f64(run.own_cores / MAX_OWN_CORES) / rate;
        let lower = Duration::from_secs(1).as_nanos() / apart.as_nanos().max(1);
        rate = hundreds(u32::try_from(lower).unwrap_or(rate));
    }
    rate
}

/// Returns a rate rounded down to hundreds.
fn hundreds(rate: u32) -> u32 {
    (rate / 100 * 100).max(MIN_RATE)
}

/// Sends as much as each way carries, and measures the CPU time of its process.
async fn saturate_each(
    ways: &Ways<Client>,
    processes: &Ways<Process>,
    form: Form,
    effort: Effort,
) -> Ways<Saturated> {
    let saturate = async |client: &Client, process: &Process| {
        load::saturate(client, form, process, effort.lanes, effort.over).await
    };
    Ways {
        direct: saturate(&ways.direct, &processes.direct).await,
        bare: saturate(&ways.bare, &processes.bare).await,
        through: saturate(&ways.through, &processes.through).await,
    }
}

/// Streams with a chunk every 20 ms, at a constant number of streams.
async fn paced(client: &Client, effort: Effort) -> Run {
    let texts = u32::try_from(effort.over.as_millis() / 2 / CHUNK_PACE.as_millis()).unwrap_or(1);
    let form = Form::Streamed { texts, pace: CHUNK_PACE };
    load::at_rate(client, form, Schedule::new(effort.streams, effort.over)).await
}

/// Measures many streams at once, through a gateway that has done nothing else: memory that an
/// allocator keeps from other work would hide theirs.
async fn crowds(direct: &Client, model: &Model, effort: Effort) -> Ways<Crowd> {
    let gateway = start(model).await;
    let proxy = BareProxy::start(model.address);
    let bare = Client::new(proxy.address, "");
    let through = Client::new(address(&gateway), PREFIX);
    for client in [&bare, &through] {
        let first = load::at_rate(client, STREAMED, Schedule::new(10, Duration::from_millis(100)));
        assert_eq!(first.await.failed, 0, "{}", gateway.said());
    }
    let crowd = async |client: &Client, process: Process| {
        load::crowd(client, &process, effort.crowd, CROWD_PACE, effort.crowd_chunks).await
    };
    Ways {
        direct: crowd(direct, Process::own()).await,
        bare: crowd(&bare, proxy.process()).await,
        through: crowd(&through, Process::new(gateway.pid())).await,
    }
}

/// Loads a gateway with requests of one form, and reports how many it answers.
async fn load_for_profiler(model: &Model, name: &str) -> Report {
    let form = match name {
        "plain" => Form::Plain,
        "streamed" => STREAMED,
        "paced" => Form::Streamed { texts: 50, pace: CROWD_PACE },
        other => panic!("found --load {other}, expected plain, streamed or paced"),
    };
    let lanes = if let Form::Plain = form { Effort::FULL.lanes } else { 100 };
    let gateway = start(model).await;
    eprintln!("the gateway is process {}", gateway.pid().as_raw_nonzero());
    let through = Client::new(address(&gateway), PREFIX);
    let process = Process::new(gateway.pid());
    let run = load::saturate(&through, form, &process, lanes, Duration::from_secs(20)).await;
    let mut report = Report::new("20 seconds of load");
    let mut table = Table::new("requests", &["per second", "per second of CPU time"]);
    table.row(name, [Cell::Number(run.per_second), Cell::Number(run.per_core)]);
    report.table(table);
    report
}

async fn start(model: &Model) -> Gateway {
    setup(model).serve().await
}

/// Configures one provider and no tools.
fn setup(model: &Model) -> Setup {
    Setup::new()
        .openai("model", &format!("http://{}/v1", model.address))
        .set("/server/max_connections", 8_192)
        .set("/server/max_connections_per_peer", 8_192)
}
