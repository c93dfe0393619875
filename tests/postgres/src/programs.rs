//! The programs of `PostgreSQL`, and the user who runs them.

use std::{
    env, fs,
    os::unix::{fs::chown, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// Directory with one directory for each installed version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Variable that makes a missing installation a failure.
pub(crate) const REQUIRED: &str = "AIRLOCK_REQUIRE_POSTGRES";
/// Name of the user of the database, who may do everything.
pub(crate) const ROLE: &str = "airlock";
/// Port in the name of a socket.
pub(crate) const DEFAULT_PORT: u16 = 5432;
/// Users that may run a server if the tests are run by root, whom it refuses.
const USERS: [&str; 2] = ["postgres", "nobody"];

/// The programs of one version.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    directory: PathBuf,
    /// User and group that run the server; `None` for those of this process.
    user: Option<(u32, u32)>,
}

impl Programs {
    /// Finds the programs. Without them, prints a line and returns `None`, or panics if they are
    /// required.
    pub(crate) fn find() -> Option<Self> {
        let found = newest(Path::new(VERSIONS));
        if found.is_none() {
            let missing = format!("no PostgreSQL in {VERSIONS}; install postgresql-15");
            assert!(env::var_os(REQUIRED).is_none_or(|value| value != "1"), "{missing}");
            eprintln!("skipped: {missing}, or set {REQUIRED}=1 to fail");
        }
        let user = rustix::process::geteuid().is_root().then(server_user);
        Some(Self { directory: found?, user })
    }

    /// Returns a command that runs a program in `directory`, as the user of the server.
    pub(crate) fn command(&self, program: &str, directory: &Path) -> Command {
        let mut command = self.as_server_user(Command::new(self.directory.join(program)));
        command.current_dir(directory).stdin(Stdio::null());
        command
    }

    /// Makes a command run as the user of the server.
    pub(crate) fn as_server_user(&self, mut command: Command) -> Command {
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Makes a directory belong to the user of the server.
    pub(crate) fn give(&self, directory: &Path) {
        if let Some((user, group)) = self.user {
            chown(directory, Some(user), Some(group)).expect("root may give directories away");
        }
    }

    /// Makes the files of a server in `data` below `directory`, unless they are there.
    pub(crate) fn init(&self, directory: &Path) {
        if directory.join("data/PG_VERSION").exists() {
            return;
        }
        let made = self
            .command("initdb", directory)
            .args(["--no-sync", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-U", ROLE])
            .args(["-D", "data"])
            .output()
            .expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
    }
}

/// Returns the arguments of a server whose files are in `data` below `directory`, and whose socket is
/// in `directory` itself.
pub(crate) fn server_arguments(directory: &Path) -> Vec<String> {
    let settings = [
        "fsync=off".to_owned(),
        "synchronous_commit=off".to_owned(),
        "full_page_writes=off".to_owned(),
        "listen_addresses=".to_owned(),
        format!("unix_socket_directories={}", directory.display()),
        "max_connections=400".to_owned(),
    ];
    let data = ["-D".to_owned(), directory.join("data").display().to_string()];
    let settings = settings.into_iter().flat_map(|setting| ["-c".to_owned(), setting]);
    data.into_iter().chain(settings).collect()
}

/// Returns the path of the socket of a server.
pub(crate) fn socket(directory: &Path, port: u16) -> PathBuf {
    directory.join(format!(".s.PGSQL.{port}"))
}

fn newest(versions: &Path) -> Option<PathBuf> {
    let found = fs::read_dir(versions).ok()?.flatten();
    let found = found.filter(|entry| entry.path().join("bin/initdb").exists());
    let newest = found.max_by_key(|entry| {
        entry.file_name().to_string_lossy().parse::<u32>().unwrap_or_default()
    })?;
    Some(newest.path().join("bin"))
}

/// Returns the user and the group that a server runs as for root.
fn server_user() -> (u32, u32) {
    let users = fs::read_to_string("/etc/passwd").expect("a list of users");
    let found = USERS.iter().find_map(|name| {
        let user = users.lines().find(|line| line.starts_with(&format!("{name}:")))?;
        let mut fields = user.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    found.expect("a user other than root, whom PostgreSQL refuses")
}
