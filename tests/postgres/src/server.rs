//! A server of one test, which the test may stop.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    os::unix::net::UnixStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    database::{execute, url},
    programs::{Programs, server_arguments},
};

/// Longest time that a server takes to start.
const START: Duration = Duration::from_secs(30);
/// Interval between two attempts to connect to a server that starts.
const RETRY: Duration = Duration::from_millis(10);

/// A server of its own. It is stopped, and its files are removed, when this is dropped.
#[derive(Debug)]
pub struct TestServer {
    programs: Programs,
    directory: TempDir,
    settings: Vec<String>,
    running: Option<Child>,
}

impl TestServer {
    /// Starts a server; `None` if `PostgreSQL` is not installed.
    pub fn start() -> Option<Self> {
        Self::start_with(&[], |_| {})
    }

    /// Starts a server with further settings, each `NAME=VALUE`, after `prepare` has changed its
    /// directory, in which `data` has its files.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_with(settings: &[&str], prepare: impl FnOnce(&Path)) -> Option<Self> {
        let programs = Programs::find()?;
        let directory = tempfile::tempdir().expect("a directory");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory.path(), mode).expect("its own directory");
        programs.give(directory.path());
        programs.init(directory.path());
        prepare(directory.path());
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut server = Self { programs, directory, settings, running: None };
        server.resume();
        Some(server)
    }

    /// URL of the server's database, for a user who may do everything.
    pub fn url(&self) -> String {
        url(self.directory.path(), "postgres")
    }

    /// Executes statements. Blocks. Panics if one fails.
    pub fn execute(&self, statements: &str) {
        execute(self.directory.path(), "postgres", statements);
    }

    /// Stops the server as a crash would, so that it has to recover.
    ///
    /// # Panics
    ///
    /// If the server was not started by this process.
    pub fn crash(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        // An immediate shutdown: all its processes end at once.
        signal(running.id(), Signal::QUIT);
        running.wait().expect("a child");
    }

    /// Starts the server again after [`Self::crash`], and waits for it.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn resume(&mut self) {
        let log = fs::File::create(self.directory.path().join("log")).expect("a file");
        let mut command = self.programs.command("postgres", self.directory.path());
        command.args(server_arguments(self.directory.path()));
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        command.stdout(Stdio::null()).stderr(log);
        self.running = Some(command.spawn().expect("postgres runs"));
        let deadline = Instant::now() + START;
        while !self.is_ready() {
            let log = fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "the server does not start: {log}");
            thread::sleep(RETRY);
        }
    }

    fn is_ready(&self) -> bool {
        let status = fs::read_to_string(self.directory.path().join("data/postmaster.pid"));
        let is_ready = status.is_ok_and(|status| status.contains("ready"));
        is_ready && UnixStream::connect(self.directory.path().join(".s.PGSQL.5432")).is_ok()
    }

    /// Stops all processes of the server where they are: connections stay open, and nothing is
    /// received or sent.
    pub fn freeze(&self) {
        self.processes().into_iter().for_each(|process| signal(process, Signal::STOP));
    }

    /// Ends [`Self::freeze`].
    pub fn thaw(&self) {
        self.processes().into_iter().for_each(|process| signal(process, Signal::CONT));
    }

    /// Returns the server's process and its children.
    fn processes(&self) -> Vec<u32> {
        let Some(running) = &self.running else { return Vec::new() };
        let listed = Command::new("ps")
            .args(["-o", "pid=", "--ppid", &running.id().to_string()])
            .output()
            .expect("ps runs");
        let children = String::from_utf8_lossy(&listed.stdout);
        let children = children.split_whitespace().filter_map(|process| process.parse().ok());
        // The server's own process first, so that it starts no further ones.
        [running.id()].into_iter().chain(children).collect()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.thaw();
        self.crash();
    }
}

/// Sends a signal to a process of this server. One that has ended meanwhile is no matter.
fn signal(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    if let Some(process) = process {
        let _ = kill_process(process, signal);
    }
}
