//! Two builds of the gateway in one run.

use std::{
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use airlock_tests::bench::{
    address,
    process::Process,
    report::{Cell, Report, Table},
};
use rustix::process::Pid;

use super::{
    CROWD_PACE, Effort, PREFIX, STREAMED,
    client::{Client, Form},
    load,
    model::Model,
    setup, start,
};

/// Turns of each build, for each form of request. One turn of CPU time is counted in hundredths of
/// a second, all of them together are precise enough.
const TURNS: u32 = 30;
const TURN: Duration = Duration::from_millis(500);

/// Another build. Dropping it ends it.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// CPU time of one build.
struct Side {
    client: Client,
    process: Process,
    requests: f64,
    cpu: f64,
}

impl Side {
    fn new(address: SocketAddr, pid: Pid) -> Self {
        let client = Client::new(address, PREFIX);
        Self { client, process: Process::new(pid), requests: 0.0, cpu: 0.0 }
    }

    async fn turn(&mut self, form: Form, lanes: usize) {
        let turn = load::saturate(&self.client, form, &self.process, lanes, TURN).await;
        assert_eq!(turn.failed, 0, "every request is answered");
        self.requests += turn.answered;
        self.cpu += turn.cpu;
    }

    /// Returns the CPU time of a request in microseconds, and begins anew.
    fn take(&mut self) -> f64 {
        let requests = std::mem::take(&mut self.requests);
        std::mem::take(&mut self.cpu) * 1e6 / requests
    }
}

/// Reports the CPU time of a request in this build and in `program`, for each form of request.
pub(crate) async fn compare(model: &Model, program: &Path) -> Report {
    let mut report = Report::new(format!("{TURNS} turns of each build"));
    let mut table =
        Table::new("CPU time of a request", &["this build", "the other build", "ratio"]);
    let gateway = start(model).await;
    let mut this = Side::new(address(&gateway), gateway.pid());
    let setup = setup(model);
    let mut child = Command::new(program)
        .args(["serve", "--config"])
        .arg(setup.write())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the other build can be started");
    let pid = Pid::from_child(&child);
    let stdout = child.stdout.take().expect("piped above");
    let _other = Other(child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).expect("it announces its address");
    let announced = line.trim().strip_prefix("listening on http://").unwrap_or_default();
    let mut other = Side::new(announced.parse().expect("an address"), pid);
    for (name, form, lanes) in [
        ("plain", Form::Plain, Effort::FULL.lanes),
        ("streamed", STREAMED, Effort::FULL.lanes),
        ("paced", Form::Streamed { texts: 20, pace: CROWD_PACE / 10 }, 100),
    ] {
        for turn in 0..=TURNS {
            this.turn(form, lanes).await;
            other.turn(form, lanes).await;
            if turn == 0 {
                // The first turn opens the connections.
                this.take();
                other.take();
            }
        }
        let this = this.take();
        let other = other.take();
        table.row(name, [Cell::Time(this), Cell::Time(other), Cell::Ratio(this / other)]);
    }
    report.table(table);
    report
}
