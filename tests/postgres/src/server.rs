//! A server of one test, which the test may stop.

use std::{
    env, fs,
    io::{self, Write as _},
    net::TcpListener,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    database::{execute, url},
    programs::{DEFAULT_PORT, Programs, server_arguments, socket},
};

/// Longest time that a server takes to start, or to end once it was killed, on a slow machine.
const START: Duration = Duration::from_mins(2);
/// Interval between two attempts to connect to a server that starts.
const RETRY: Duration = Duration::from_millis(10);
/// Variable that makes a missing right to mount a disk a failure.
const REQUIRED_MOUNT: &str = "AIRLOCK_REQUIRE_MOUNT";

/// A server of its own. It is stopped, and its files are removed, when this is dropped.
#[derive(Debug)]
pub struct TestServer {
    programs: Programs,
    /// Before `directory`, which cannot be removed while a disk is mounted in it.
    disk: Option<SmallDisk>,
    directory: TempDir,
    settings: Vec<String>,
    port: u16,
    running: Option<Child>,
}

/// A directory on a disk of its own. It is unmounted when this is dropped, also while files are open.
#[derive(Debug)]
struct SmallDisk(PathBuf);

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
        Self::start_at(DEFAULT_PORT, settings, prepare)
    }

    /// Starts a server that accepts connections at a port of 127.0.0.1 too; with TLS if there is a
    /// certificate with its key.
    ///
    /// # Panics
    ///
    /// If it does not start.
    pub fn start_tcp(tls: Option<(&str, &str)>) -> Option<Self> {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port").port();
        let owner = Programs::find()?;
        let Some((certificate, key)) = tls else {
            return Self::start_at(port, &["listen_addresses=127.0.0.1"], |_| {});
        };
        let settings = ["listen_addresses=127.0.0.1", "ssl=on"];
        Self::start_at(port, &settings, |directory| {
            for (name, text) in [("server.crt", certificate), ("server.key", key)] {
                let path = directory.join("data").join(name);
                fs::write(&path, text).expect("written");
                let private = fs::Permissions::from_mode(0o600);
                fs::set_permissions(&path, private).expect("its own file");
                owner.give(&path);
            }
        })
    }

    fn start_at(port: u16, settings: &[&str], prepare: impl FnOnce(&Path)) -> Option<Self> {
        let programs = Programs::find()?;
        let directory = tempfile::tempdir().expect("a directory");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(directory.path(), mode).expect("its own directory");
        programs.give(directory.path());
        programs.init(directory.path());
        prepare(directory.path());
        let settings = settings.iter().map(|setting| (*setting).to_owned());
        let settings = settings.chain([format!("port={port}")]).collect();
        let mut server = Self { programs, disk: None, directory, settings, port, running: None };
        server.resume();
        Some(server)
    }

    /// URL of the server's database, for a user who may do everything.
    pub fn url(&self) -> String {
        url(self.directory.path(), self.port, "postgres")
    }

    /// Port of the server, of [`Self::start_tcp`].
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Executes statements. Blocks. Panics if one fails.
    pub fn execute(&self, statements: &str) {
        execute(&self.url(), statements);
    }

    /// Stops the server as a crash would, so that it has to recover.
    pub fn crash(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        // An immediate shutdown: all its processes end at once.
        signal(running.id(), Signal::QUIT);
        // Not a panic: this runs while a test that has failed unwinds.
        let _ = running.wait();
    }

    /// Kills all processes of the server, and waits until they have ended.
    ///
    /// # Panics
    ///
    /// If they cannot be listed, or do not end.
    pub fn kill(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let id = running.id();
        // One that is stopped starts no further ones.
        signal(id, Signal::STOP);
        wait_until("the server does not stop", || !matches!(state(id), Some('R' | 'S' | 'D')));
        let processes = with_children(id).expect("a list of children");
        for process in &processes {
            signal(*process, Signal::KILL);
        }
        let _ = running.wait();
        // The next server is refused while one of them has the memory that they share.
        wait_until("the server does not end", || {
            processes.iter().all(|process| matches!(state(*process), None | Some('Z' | 'X')))
        });
    }

    /// Starts the server again after [`Self::crash`] or [`Self::kill`], and waits for it.
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

    /// Puts the tables that are made from now on onto a disk of `megabytes`. If this user may not mount
    /// one, prints a line and returns false, or panics if the right is required.
    ///
    /// # Panics
    ///
    /// If the server does not use the disk.
    pub fn use_small_disk(&mut self, megabytes: u32) -> bool {
        let path = self.directory.path().join("small");
        self.disk = SmallDisk::mount(&path, megabytes);
        if self.disk.is_none() {
            return false;
        }
        self.programs.give(&path);
        let location = path.display();
        self.execute(&format!("CREATE TABLESPACE small LOCATION '{location}'"));
        self.execute("ALTER ROLE ALL SET default_tablespace = small");
        true
    }

    /// Makes the disk of [`Self::use_small_disk`] larger.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn grow_disk(&self, megabytes: u32) {
        let SmallDisk(path) = self.disk.as_ref().expect("a small disk");
        assert!(mount(&["-o", &format!("remount,size={megabytes}m")], path), "it is mounted");
    }

    /// Fills the disk of [`Self::use_small_disk`], so that no table can grow.
    ///
    /// # Panics
    ///
    /// If there is none.
    pub fn fill_disk(&self) {
        let mut file = fs::File::create(self.filler()).expect("a file");
        let mut block = vec![0; 1 << 20];
        // The last blocks are smaller, so that not one page is left.
        while !block.is_empty() {
            if file.write_all(&block).is_err() {
                block.truncate(block.len() / 2);
            }
        }
    }

    /// Ends [`Self::fill_disk`].
    ///
    /// # Panics
    ///
    /// If the disk was not filled.
    pub fn free_disk(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }

    fn filler(&self) -> PathBuf {
        self.disk.as_ref().expect("a small disk").0.join("filler")
    }

    fn is_ready(&self) -> bool {
        let Some(running) = &self.running else { return false };
        let status = fs::read_to_string(self.directory.path().join("data/postmaster.pid"));
        // One that was killed has left its file, with another identifier in the first line.
        let id = running.id().to_string();
        let is_ready = status.is_ok_and(|status| {
            status.lines().next() == Some(id.as_str()) && status.contains("ready")
        });
        is_ready && UnixStream::connect(socket(self.directory.path(), self.port)).is_ok()
    }

    /// Stops all processes of the server where they are: connections stay open, and nothing is
    /// received or sent.
    ///
    /// # Panics
    ///
    /// If they cannot be listed.
    pub fn freeze(&self) {
        let processes = self.processes().expect("a list of children");
        for process in processes {
            signal(process, Signal::STOP);
        }
    }

    /// Ends [`Self::freeze`].
    pub fn thaw(&self) {
        let processes = self.processes().unwrap_or_default();
        for process in processes {
            signal(process, Signal::CONT);
        }
    }

    /// Returns the server's process and its children.
    fn processes(&self) -> io::Result<Vec<u32>> {
        self.running.as_ref().map_or_else(|| Ok(Vec::new()), |running| with_children(running.id()))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.thaw();
        self.crash();
    }
}

impl SmallDisk {
    /// Makes a directory and mounts a disk of `megabytes` there; `None` if this user may not.
    fn mount(path: &Path, megabytes: u32) -> Option<Self> {
        fs::create_dir(path).expect("a directory");
        let size = format!("size={megabytes}m");
        if mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], path) {
            return Some(Self(path.to_owned()));
        }
        let missing = "this user may not mount a disk";
        assert!(env::var_os(REQUIRED_MOUNT).is_none_or(|value| value != "1"), "{missing}");
        eprintln!("skipped: {missing}; set {REQUIRED_MOUNT}=1 to fail");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

fn mount(arguments: &[&str], path: &Path) -> bool {
    let mut command = Command::new("mount");
    command.args(arguments).arg(path).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns a process and its children.
fn with_children(id: u32) -> io::Result<Vec<u32>> {
    let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
    let children = children.split_whitespace().filter_map(|process| process.parse().ok());
    // The server's own process first, so that it starts no further ones.
    Ok([id].into_iter().chain(children).collect())
}

/// Returns the letter of the state of a process, as Linux names it; `None` if there is no such process.
fn state(process: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name of the program, in parentheses, may contain blanks.
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Polls until a condition holds. Panics with `failure` if that takes too long.
fn wait_until(failure: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + START;
    while !holds() {
        assert!(Instant::now() < deadline, "{failure}");
        thread::sleep(RETRY);
    }
}

/// Sends a signal to a process of this server. One that has ended meanwhile is no matter.
fn signal(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    if let Some(process) = process {
        let _ = kill_process(process, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_killed_starts_again_with_what_it_has_stored() {
        let Some(mut server) = TestServer::start() else { return };
        server.execute("SET synchronous_commit = on; CREATE TABLE kept (n bigint)");
        server.kill();
        server.resume();
        server.execute("DROP TABLE kept");
    }

    #[test]
    fn a_small_disk_is_unmounted_when_it_is_dropped_although_a_file_is_open() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("small");
        let Some(disk) = SmallDisk::mount(&path, 1) else { return };
        let open = fs::File::create(path.join("file")).expect("a file");
        drop(disk);
        assert_eq!(fs::read_dir(&path).expect("a directory").count(), 0);
        drop(open);
    }
}
