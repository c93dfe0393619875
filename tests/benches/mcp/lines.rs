//! The benchmark's own client over stdio: a line is written for each response that is read.

use std::{
    collections::HashMap,
    process::Stdio,
    time::{Duration, Instant},
};

use airlock_tests::bench::{
    message::{self, Era, INITIALIZED, Response, Work},
    process::Process,
    run::{Meter, Run},
};
use rustix::process::Pid;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
};

/// Bytes that are read at a time.
const READ_BYTES: usize = 64 << 10;

/// A server over stdio, which ends with the value.
pub(crate) struct Lines {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    era: Era,
    next_id: u64,
}

impl Lines {
    /// Starts a server, and opens a session with it in the legacy era.
    pub(crate) async fn start(mut command: Command, era: Era) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("it can be started");
        let input = child.stdin.take().expect("piped above");
        let output = child.stdout.take().expect("piped above");
        let output = BufReader::with_capacity(READ_BYTES, output);
        let mut lines = Self { child, input, output, line: Vec::new(), era, next_id: 1 };
        if era == Era::Legacy {
            lines.send(message::initialize()).await;
            lines.receive().await;
            lines.send(INITIALIZED.to_owned()).await;
        }
        lines
    }

    pub(crate) fn process(&self) -> Process {
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        Process::new(id.expect("it lives"))
    }

    /// Sends one request. Returns its response.
    pub(crate) async fn one(&mut self, work: Work) -> Vec<u8> {
        let id = self.request(work).await;
        loop {
            let response = self.receive().await;
            if response.id == id {
                return self.line.clone();
            }
        }
    }

    /// Sends requests for some time, with `in_flight` of them at any time.
    pub(crate) async fn run(&mut self, work: Work, in_flight: usize, over: Duration) -> Run {
        let process = self.process();
        let cpu = process.cpu();
        let mut meter = Meter::start(over);
        let mut sent = HashMap::with_capacity(in_flight);
        for _ in 0..in_flight {
            let now = Instant::now();
            sent.insert(self.request(work).await, now);
        }
        while !sent.is_empty() {
            let response = self.receive().await;
            let Some(began) = sent.remove(&response.id) else { continue };
            if response.is_success {
                meter.success(began);
            } else {
                meter.failure(|| String::from_utf8_lossy(&self.line).trim_end().to_owned());
            }
            if meter.goes_on() {
                let now = Instant::now();
                sent.insert(self.request(work).await, now);
            }
        }
        meter.end(|| process.cpu().saturating_sub(cpu))
    }

    /// Sends a request. Returns its identifier.
    async fn request(&mut self, work: Work) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.send(work.request(self.era, id)).await;
        id
    }

    async fn send(&mut self, mut text: String) {
        text.push('\n');
        self.input.write_all(text.as_bytes()).await.expect("the server reads");
    }

    /// Reads a response to `line`. Skips notifications.
    async fn receive(&mut self) -> Response {
        loop {
            self.line.clear();
            let read = self.output.read_until(b'\n', &mut self.line).await;
            assert!(read.is_ok_and(|bytes| bytes > 0), "the server has ended");
            if let Some(response) = Response::read(&self.line) {
                return response;
            }
        }
    }
}
