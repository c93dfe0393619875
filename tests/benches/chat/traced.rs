//! The cost of telemetry: the same requests through a gateway without an export, through one that exports to a
//! collector, and through two whose collectors cannot be reached or never respond.

use std::net::TcpListener;

use airlock_tests::{
    Gateway,
    bench::{
        address,
        latency::{Schedule, median},
        process::Process,
        report::{Cell, Report, Table},
    },
};

use super::{
    Effort, PREFIX,
    client::{Client, Form},
    load::{self, Run, Saturated},
    model::Model,
    setup,
};

/// Collector of a gateway.
#[derive(Clone, Copy)]
enum Export {
    /// Nothing is exported.
    Off,
    /// A collector that takes everything: the model server.
    Taken,
    /// A port at which no collector listens.
    Unreachable,
    /// A collector that accepts connections and never responds.
    Silent,
}

impl Export {
    const ALL: [Self; 4] = [Self::Off, Self::Taken, Self::Unreachable, Self::Silent];

    fn name(self) -> &'static str {
        match self {
            Self::Off => "no export",
            Self::Taken => "a collector",
            Self::Unreachable => "an unreachable collector",
            Self::Silent => "a silent collector",
        }
    }
}

/// A gateway, and what was measured through it, by round.
struct ExportingGateway {
    export: Export,
    gateway: Gateway,
    client: Client,
    process: Process,
    /// Socket of the silent collector, which the system accepts connections for.
    _silent: Option<TcpListener>,
    /// Requests at a rate.
    plain: Vec<Run>,
    /// Requests as fast as they go.
    saturated: Vec<Saturated>,
}

impl ExportingGateway {
    async fn start(model: &Model, export: Export) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let own = listener.local_addr().expect("it is bound");
        // The port of the unreachable collector is free again.
        let silent = matches!(export, Export::Silent).then_some(listener);
        let collector = match export {
            Export::Off => None,
            Export::Taken => Some(model.address),
            Export::Unreachable | Export::Silent => Some(own),
        };
        let setup = match collector {
            None => setup(model),
            Some(collector) => {
                setup(model).set("/telemetry/otlp/endpoint", format!("http://{collector}"))
            }
        };
        let gateway = setup.serve().await;
        Self {
            export,
            client: Client::new(address(&gateway), PREFIX),
            process: Process::new(gateway.pid()),
            gateway,
            _silent: silent,
            plain: Vec::new(),
            saturated: Vec::new(),
        }
    }

    async fn run(&mut self, effort: Effort) {
        let schedule = Schedule::new(rate(effort), effort.over);
        self.plain.push(load::at_rate(&self.client, Form::Plain, schedule).await);
        let lanes = effort.lanes;
        let saturate = load::saturate(&self.client, Form::Plain, &self.process, lanes, effort.over);
        self.saturated.push(saturate.await);
    }

    fn failed(&self) -> u32 {
        let at_rate = self.plain.iter().map(|run| run.failed);
        at_rate.chain(self.saturated.iter().map(|saturated| saturated.failed)).sum()
    }

    /// Spans that were dropped; `None` without an export.
    async fn dropped(&self) -> Option<u64> {
        let page = self.gateway.metrics().await;
        let mut lines = page.lines();
        let line = lines.find(|line| {
            line.starts_with("airlock_telemetry_dropped_total") && line.contains("traces")
        })?;
        line.rsplit(' ').next()?.parse().ok()
    }

    /// Returns the measurements beside those of `off`.
    async fn cells(&self, off: &Self) -> Vec<Cell> {
        let times = [50, 99].map(|percent| {
            Cell::Time(median(self.plain.iter().map(|run| run.whole.micros(percent))))
        });
        let added = [50, 99].map(|percent| {
            let pairs = self.plain.iter().zip(&off.plain);
            let added =
                pairs.map(|(run, off)| run.whole.micros(percent) - off.whole.micros(percent));
            Cell::Added(median(added))
        });
        let cpu = median(self.saturated.iter().map(cpu_micros));
        let pairs = self.saturated.iter().zip(&off.saturated);
        let added_cpu = median(pairs.map(|(run, off)| cpu_micros(run) - cpu_micros(off)));
        let dropped = self.dropped().await.map_or(Cell::Empty, Cell::Count);
        let cpu = [Cell::Time(cpu), Cell::Added(added_cpu), dropped];
        times.into_iter().chain(added).chain(cpu).collect()
    }
}

/// Measures requests through each gateway, in an order that changes from round to round, and adds a table.
pub(crate) async fn measure(model: &Model, effort: Effort, report: &mut Report) {
    let mut gateways = Vec::new();
    for export in Export::ALL {
        gateways.push(Box::pin(ExportingGateway::start(model, export)).await);
    }
    for round in 0..effort.rounds as usize {
        for index in 0..gateways.len() {
            let at = (index + round) % gateways.len();
            gateways[at].run(effort).await;
        }
    }
    let columns = ["p50", "p99", "added p50", "added p99", "CPU", "added CPU", "spans dropped"];
    let mut table = Table::new("a plain request, traced", &columns);
    for gateway in &gateways {
        let cells = gateway.cells(&gateways[0]).await;
        let row = table.row(gateway.export.name(), cells);
        if !gateway.plain.iter().all(|run| run.keeps_up(rate(effort))) {
            row.remark("NOT ACHIEVED IN EVERY ROUND: some latencies are those of an overload");
        }
    }
    report.table(table);
    let failed: u32 = gateways.iter().map(ExportingGateway::failed).sum();
    report.check(
        format!("every traced request got a complete response ({failed} failed)"),
        failed == 0,
    );
}

/// Returns the requests a second: half of the rate that is aimed at, so that the machine carries them in any case.
fn rate(effort: Effort) -> u32 {
    effort.per_second / 2
}

/// Returns the CPU time of a request in microseconds.
fn cpu_micros(saturated: &Saturated) -> f64 {
    1e6 / saturated.per_core
}
