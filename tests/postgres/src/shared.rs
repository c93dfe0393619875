//! The server that all tests of a user share.
//!
//! Test runners start a process for each test, so no process knows whether it is the last one. Each
//! holds a shared lock on `users.lock` until it ends. A script that the first one leaves behind stops
//! the server, and removes its files, once it can take that lock alone for some seconds.

use std::{
    env,
    fs::{self, DirBuilder, File, OpenOptions},
    os::unix::{fs::DirBuilderExt as _, net::UnixStream, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use crate::{
    database::url,
    programs::{DEFAULT_PORT, Programs, server_arguments, socket},
};

/// Stops the server in the directory `$1` by the command `$2`, once no test has used it for some
/// seconds. Nothing waits for this script.
const SUPERVISE: &str = r#"
cd "$1" || exit
idle=0
while sleep 3; do
    if flock --nonblock --exclusive users.lock true; then idle=$((idle + 1)); else idle=0; fi
    if [ "$idle" -ge 4 ]; then
        flock --nonblock --exclusive users.lock sh -c "$2"' stop -D data -m immediate; rm -rf data log' && exit
    fi
done
"#;

/// The shared server, while this process uses it.
#[derive(Debug)]
pub(crate) struct SharedServer {
    directory: PathBuf,
    /// Locked until this process ends.
    _users: File,
}

impl SharedServer {
    /// Returns the server, which is started if it is not running; `None` without an installation.
    pub(crate) fn get() -> Option<&'static Self> {
        static SERVER: OnceLock<Option<SharedServer>> = OnceLock::new();
        SERVER
            .get_or_init(|| Programs::find().map(|programs| Self::use_or_start(&programs)))
            .as_ref()
    }

    /// Returns the URL of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        url(&self.directory, DEFAULT_PORT, database)
    }

    /// Returns the directory of the server's socket.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the name of a database that no test has, and the lock of the one that has it from now
    /// on. The database may not exist yet.
    pub(crate) fn free_database(&self) -> (String, File) {
        let locks = (0_u32..).map(|number| {
            let name = format!("test_{number}");
            (open_lock(&self.directory, &format!("{name}.lock")), name)
        });
        let mut free = locks.filter_map(|(lock, name)| lock.try_lock().ok().map(|()| (name, lock)));
        free.next().expect("there are more numbers than tests")
    }

    fn use_or_start(programs: &Programs) -> Self {
        let user = rustix::process::geteuid().as_raw();
        let directory = env::temp_dir().join(format!("airlock-postgres-{user}"));
        DirBuilder::new().recursive(true).mode(0o755).create(&directory).expect("a directory");
        programs.give(&directory);
        let users = open_lock(&directory, "users.lock");
        users.lock_shared().expect("the lock");
        let starting = open_lock(&directory, "start.lock");
        starting.lock().expect("the lock");
        if UnixStream::connect(socket(&directory, DEFAULT_PORT)).is_err() {
            start(programs, &directory);
        }
        Self { directory, _users: users }
    }
}

fn open_lock(directory: &Path, name: &str) -> File {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    options.open(directory.join(name)).expect("a file")
}

fn start(programs: &Programs, directory: &Path) {
    programs.init(directory);
    if !try_start(programs, directory) {
        // The machine has crashed, and the files of the last server are damaged.
        fs::remove_dir_all(directory.join("data")).expect("removed");
        programs.init(directory);
        let is_started = try_start(programs, directory);
        let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
        assert!(is_started, "the server does not start: {log}");
    }
    supervise(programs, directory);
}

fn try_start(programs: &Programs, directory: &Path) -> bool {
    let started = programs
        .command("pg_ctl", directory)
        .args(["start", "--wait", "-D", "data", "-l", "log", "-o"])
        .arg(server_arguments(directory)[2..].join(" "))
        // Its output would keep that of the test open.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    started.expect("pg_ctl runs").success()
}

/// Starts the script that stops the server.
fn supervise(programs: &Programs, directory: &Path) {
    let pg_ctl = programs.command("pg_ctl", directory);
    // Forked once more, so that the test has no child that it would have to wait for.
    let supervisor = programs
        .as_server_user(Command::new("sh"))
        .args(["-c", &format!("({SUPERVISE}) &"), "sh"])
        .arg(directory)
        .arg(pg_ctl.get_program())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Not one of the processes that a test runner ends with the test.
        .process_group(0)
        .status()
        .expect("sh runs");
    assert!(supervisor.success(), "nothing would stop the server");
}
