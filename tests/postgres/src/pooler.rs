//! A pooler in front of the databases of the shared server.

use std::{
    env, fs,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::{
    database::{TestDatabase, url},
    programs::{DEFAULT_PORT, Programs, REQUIRED, ROLE, socket},
};

const PROGRAM: &str = "/usr/sbin/pgbouncer";
/// Longest time that the pooler takes to start, on a slow machine.
const START: Duration = Duration::from_mins(1);
/// Interval between two attempts to connect to a pooler that starts.
const RETRY: Duration = Duration::from_millis(10);

/// `PgBouncer`, which gives each transaction one of a few connections to the server. It is stopped when
/// this is dropped.
#[derive(Debug)]
pub struct TestPooler {
    directory: TempDir,
    running: Child,
    database: String,
}

impl TestPooler {
    /// Starts a pooler for a database; `None` if `PgBouncer` is not installed.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start(database: &TestDatabase) -> Option<Self> {
        let programs = Programs::find()?;
        if !Path::new(PROGRAM).exists() {
            let missing = format!("no PgBouncer at {PROGRAM}; install pgbouncer");
            assert!(env::var_os(REQUIRED).is_none_or(|value| value != "1"), "{missing}");
            eprintln!("skipped: {missing}, or set {REQUIRED}=1 to fail");
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("its own directory");
        programs.give(path);
        let server = database.socket_directory();
        let settings = format!(
            "[databases]\n* = host={} port={DEFAULT_PORT} user={ROLE}\n[pgbouncer]\n\
             pool_mode = transaction\ndefault_pool_size = 3\nauth_type = any\nlisten_addr =\n\
             listen_port = {DEFAULT_PORT}\nunix_socket_dir = {}\n",
            server.display(),
            path.display(),
        );
        fs::write(path.join("pgbouncer.ini"), settings).expect("a file");
        let log = fs::File::create(path.join("log")).expect("a file");
        let running = programs
            .as_server_user(Command::new(PROGRAM))
            .arg("pgbouncer.ini")
            .current_dir(path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("pgbouncer runs");
        let pooler = Self { directory, running, database: database.name().to_owned() };
        let deadline = Instant::now() + START;
        while UnixStream::connect(socket(pooler.directory.path(), DEFAULT_PORT)).is_err() {
            let log = fs::read_to_string(pooler.directory.path().join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "the pooler does not start: {log}");
            thread::sleep(RETRY);
        }
        Some(pooler)
    }

    /// URL of the database through the pooler.
    pub fn url(&self) -> String {
        url(self.directory.path(), DEFAULT_PORT, &self.database)
    }
}

impl Drop for TestPooler {
    fn drop(&mut self) {
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}
