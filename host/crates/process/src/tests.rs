//! Tests with real processes.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use super::*;

/// Time limit for every wait, longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);
/// Grace of a child that is expected to ignore it.
const SHORT: Duration = Duration::from_millis(50);

/// Returns whether a process ends within [`PATIENCE`]. One that is not reaped counts as ended.
pub(crate) fn is_gone(pid: u32) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"));
        if status.is_err() || status.is_ok_and(|status| status.contains("State:\tZ")) {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

fn command(program: &str, args: &[&str]) -> Command {
    Command {
        program: PathBuf::from(program),
        args: args.iter().map(OsString::from).collect(),
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin:/usr/sbin".into())],
        ..Command::default()
    }
}

fn shell(script: &str) -> Command {
    command("/bin/sh", &["-c", script])
}

fn python(script: &str) -> Command {
    command("/usr/bin/env", &["python3", "-c", script])
}

/// Runs a command to its end, and returns its exit with its two outputs.
async fn run(command: Command) -> (Exit, String, String) {
    let (child, pipes) = command.spawn().await.expect("it starts");
    drop(pipes.stdin);
    let mut stdout = pipes.stdout;
    let mut stderr = pipes.stderr;
    let mut out = String::new();
    let mut err = String::new();
    let read = tokio::join!(stdout.read_to_string(&mut out), stderr.read_to_string(&mut err));
    assert!(read.0.is_ok() && read.1.is_ok());
    (child.stop(PATIENCE).await, out, err)
}

async fn output(command: Command) -> String {
    let (exit, out, err) = run(command).await;
    assert!(exit.status.is_some_and(|status| status.success()), "{exit:?}: {out}{err}");
    out
}

/// Starts a command that prints a number and keeps running.
async fn printing(command: Command) -> (Child, Pipes, u32) {
    let (child, mut pipes) = command.spawn().await.expect("it starts");
    let mut line = String::new();
    BufReader::new(&mut pipes.stdout).read_line(&mut line).await.expect("a line");
    (child, pipes, line.trim().parse().expect("a number"))
}

#[tokio::test]
async fn the_environment_is_the_configured_one_and_the_mark() {
    let mut command = command("/usr/bin/env", &[]);
    command.env = vec![("A".into(), "1".into())];
    let out = output(command).await;
    let lines: Vec<_> = out.lines().collect();
    assert!(lines.len() == 2 && lines.contains(&"A=1"), "{out}");
    assert!(lines.iter().any(|line| line.starts_with("AIRLOCK_UPSTREAM=")), "{out}");
}

#[tokio::test]
async fn a_child_starts_in_its_directory_and_a_missing_one_is_named() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().canonicalize().expect("it exists");
    let there = output(Command { directory: Some(path.clone()), ..shell("pwd") }).await;
    assert_eq!(Path::new(there.trim()), path);
    let missing = Command { directory: Some(path.join("none")), ..shell("pwd") };
    let error = missing.spawn().await.expect_err("no directory").to_string();
    assert!(error.ends_with("cannot be used; create it, or correct `cwd`"), "{error}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_child_inherits_no_open_file_that_the_gateway_was_started_with() {
    use std::os::fd::AsRawFd as _;

    use rustix::io::{FdFlags, fcntl_setfd};

    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    fcntl_setfd(&file, FdFlags::empty()).expect("it stays open in programs");
    let script = format!("readlink /proc/self/fd/{} || true", file.as_file().as_raw_fd());
    let path = file.path().canonicalize().expect("it exists").to_string_lossy().into_owned();
    let plain = std::process::Command::new("/bin/sh").args(["-c", &script]).output();
    let plain = String::from_utf8(plain.expect("it starts").stdout).expect("a path");
    assert_eq!(plain.trim(), path, "another child has it");
    let out = output(shell(&script)).await;
    assert!(!out.contains(&path), "{out}");
}

#[tokio::test]
async fn no_child_gains_privileges() {
    let status = output(shell("cat /proc/self/status")).await;
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
}

#[tokio::test]
async fn no_child_can_read_protected_processes() {
    const TRACING: u64 = 1 << 19 | 1 << 21 | 1 << 38;
    let status = output(shell("cat /proc/self/status")).await;
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        let line = status.lines().find_map(|line| line.strip_prefix(set)).expect("a set");
        let bits = u64::from_str_radix(line.trim(), 16).expect("hexadecimal");
        assert!(bits & TRACING == 0 || (set == "CapBnd:" && !is_root()), "{set} {line}");
    }
}

/// Returns whether the tests run as root. Another user cannot change the bounding set, and need not.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[tokio::test]
async fn the_limits_are_set_soft_and_hard() {
    let limits = ProcessLimits {
        memory_bytes: Some(1 << 30),
        cpu_time: Some(Duration::from_millis(2_500)),
        open_files: Some(40),
        processes: Some(50),
    };
    let shown = output(Command { limits, ..shell("cat /proc/self/limits") }).await;
    assert_eq!(row(&shown, "Max address space"), "1073741824 1073741824");
    assert_eq!(row(&shown, "Max cpu time"), "3 4");
    assert_eq!(row(&shown, "Max open files"), "40 40");
    assert_eq!(row(&shown, "Max processes"), "50 50");
}

fn row(shown: &str, name: &str) -> String {
    let line = shown.lines().find(|line| line.starts_with(name)).expect("a row");
    line[name.len()..].split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn a_limit_above_the_own_hard_limit_is_lowered_to_it() {
    let limits = ProcessLimits { open_files: Some(u64::MAX - 1), ..ProcessLimits::default() };
    output(Command { limits, ..shell("true") }).await;
}

#[tokio::test]
async fn a_limited_child_cannot_raise_its_limits() {
    let limits = ProcessLimits { open_files: Some(40), ..ProcessLimits::default() };
    let script = "ulimit -n 41 2>/dev/null && echo raised || echo kept";
    assert_eq!(output(Command { limits, ..shell(script) }).await.trim(), "kept");
}

#[tokio::test]
async fn memory_and_files_fail_beyond_their_limits_alone() {
    let script = "\
import sys
def works(use):
    try:
        use()
        return True
    except (MemoryError, OSError):
        return False
opened = []
while len(opened) < 100 and works(lambda: opened.append(open('/dev/null'))):
    pass
top = max(file.fileno() for file in opened)
opened.clear()
print(top, works(lambda: bytearray(64 << 20)), works(lambda: bytearray(1 << 30)))";
    let limits = ProcessLimits {
        memory_bytes: Some(512 << 20),
        open_files: Some(32),
        ..ProcessLimits::default()
    };
    let out = output(Command { limits, ..python(script) }).await;
    // Numbers of files begin at 0.
    assert_eq!(out.trim(), "31 True False");
}

#[tokio::test]
async fn a_child_past_its_cpu_time_is_ended() {
    use std::os::unix::process::ExitStatusExt as _;
    let limits =
        ProcessLimits { cpu_time: Some(Duration::from_secs(1)), ..ProcessLimits::default() };
    let (exit, ..) = run(Command { limits, ..shell("while :; do :; done") }).await;
    let signal = exit.status.and_then(|status| status.signal());
    assert_eq!(signal, Some(rustix::process::Signal::XCPU.as_raw()));
    assert!(exit.before_signal);
}

#[tokio::test]
async fn a_child_that_ends_with_its_stdin_is_sent_no_signal() {
    let (child, pipes) = shell("cat; exit 7").spawn().await.expect("it starts");
    drop(pipes);
    let exit = child.stop(PATIENCE).await;
    assert_eq!(exit.status.and_then(|status| status.code()), Some(7));
    assert!(exit.before_signal);
}

#[tokio::test]
async fn a_child_that_ignores_sigterm_is_killed_with_its_group() {
    let script = "trap '' TERM; sleep 1000 >&2 & echo $!; while :; do wait; done";
    let (child, pipes, grandchild) = printing(shell(script)).await;
    drop(pipes);
    let exit = child.stop(SHORT).await;
    assert!(!exit.before_signal && exit.status.is_some_and(|status| status.code().is_none()));
    assert!(is_gone(grandchild));
}

#[tokio::test]
async fn a_grandchild_in_a_session_of_its_own_is_killed() {
    let (child, pipes, grandchild) =
        printing(shell("setsid sleep 1000 >&2 & echo $!; cat >&2")).await;
    drop(pipes);
    child.stop(PATIENCE).await;
    assert!(is_gone(grandchild));
}

#[tokio::test]
async fn dropping_a_child_kills_all_its_processes() {
    let (child, pipes, grandchild) =
        printing(shell("trap '' TERM; setsid sleep 1000 >&2 & echo $!; cat >&2")).await;
    let leader = child.id();
    assert!(Child::memory_bytes(leader).is_some_and(|bytes| bytes > 4096));
    let usage = Child::usage(&[u32::MAX, leader]);
    assert!(usage[0].is_none() && usage[1].is_some_and(|usage| usage.memory_bytes > 4096));
    drop(child);
    assert!(is_gone(leader) && is_gone(grandchild));
    drop(pipes);
}

#[tokio::test]
async fn a_program_that_cannot_run_is_an_error() {
    let error = command("/etc/passwd", &[]).spawn().await.expect_err("no program");
    assert!(matches!(error, SpawnError::Start(_)), "{error:?}");
}

/// Returns the outcome of a script under a required confinement; `None` where the kernel has no
/// Landlock.
async fn confined(script: &str, read: &[&Path], write: &[&Path]) -> Option<String> {
    let confinement = Confinement { read: owned(read), write: owned(write), required: true };
    if matches!(confined_shell(script, &confinement).spawn().await, Err(SpawnError::NoLandlock)) {
        println!("skipped: this kernel has no Landlock");
        return None;
    }
    let (_, out, err) = run(confined_shell(script, &confinement)).await;
    Some(out + &err)
}

fn confined_shell(script: &str, confinement: &Confinement) -> Command {
    Command { confinement: Some(confinement.clone()), ..shell(script) }
}

fn owned(paths: &[&Path]) -> Vec<PathBuf> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

#[tokio::test]
async fn a_confined_child_reads_and_writes_only_the_named_paths() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [read, write, other] = ["read", "write", "other"].map(|name| directory.path().join(name));
    for path in [&read, &write, &other] {
        std::fs::create_dir(path).expect("a directory");
        std::fs::write(path.join("file"), "text").expect("a file");
    }
    let script = [&read, &write, &other]
        .map(|path| {
            let path = path.display();
            attempt(&format!("cat {path}/file")) + &attempt(&format!("echo x > {path}/new"))
        })
        .concat();
    let Some(out) = confined(&script, &[&read], &[&write]).await else { return };
    assert_eq!(out.lines().collect::<Vec<_>>(), ["yes", "no", "yes", "yes", "no", "no"]);
    assert!(write.join("new").exists() && !read.join("new").exists());
}

fn attempt(what: &str) -> String {
    format!("({what}) >/dev/null 2>&1 && echo yes || echo no; ")
}

#[tokio::test]
async fn a_confined_child_sees_no_environment_of_others_and_signals_none() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let own = std::process::id();
    let script = format!("cat /proc/{own}/environ | wc -c; kill -0 {own} && echo signalled; true");
    let Some(out) = confined(&script, &[directory.path()], &[]).await else { return };
    assert!(out.lines().any(|line| line == "0") && !out.contains("signalled"), "{out}");
}

#[tokio::test]
async fn a_path_to_confine_to_must_exist() {
    let confinement =
        Confinement { read: vec!["/none/such".into()], write: vec![], required: false };
    let command = Command { confinement: Some(confinement), ..shell("true") };
    let error = command.spawn().await.expect_err("no such path").to_string();
    assert_eq!(
        error,
        "\"/none/such\" of `confine.read` cannot be opened; create it, or remove it from the configuration"
    );
}

/// Prints the kinds of sockets that can be used: a TCP connection to a port, a datagram to it, a
/// connection to an abstract Unix socket, and one to a Unix socket with a path.
const SOCKETS: &str = "\
import socket, sys
port, name, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
def works(kind, use):
    try:
        use()
        print(kind)
    except OSError:
        pass
works('tcp', lambda: socket.create_connection(('127.0.0.1', port)))
works('udp', lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', port)))
works('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
works('abstract', lambda: socket.socket(socket.AF_UNIX).connect('\\0' + name))
works('path', lambda: socket.socket(socket.AF_UNIX).connect(path))
works('pair', lambda: (lambda pair: pair[0].send(b'x'))(socket.socketpair()))";

/// Returns the kinds of sockets that a child with this network can use.
async fn usable_sockets(network: Network, confinement: Option<Confinement>) -> Vec<String> {
    use std::os::{linux::net::SocketAddrExt as _, unix::net};
    let directory = tempfile::tempdir().expect("a temporary directory");
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = tcp.local_addr().expect("an address").port();
    let name = format!("airlock-test-{}-{port}", std::process::id());
    let address = net::SocketAddr::from_abstract_name(&name).expect("a name");
    let _abstract = net::UnixListener::bind_addr(&address).expect("a socket");
    let path = directory.path().join("socket");
    let _path = net::UnixListener::bind(&path).expect("a socket");
    let mut command = python(SOCKETS);
    command.args.extend([port.to_string().into(), name.into(), path.into()]);
    let out = output(Command { confinement, network, ..command }).await;
    out.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_child_without_a_network_has_unix_sockets_alone() {
    let all = ["tcp", "udp", "netlink", "abstract", "path", "pair"];
    assert_eq!(usable_sockets(Network::Host, None).await, all);
    let expected: &[&str] = match NetworkIsolation::detect() {
        NetworkIsolation::Full => &["path", "pair"],
        NetworkIsolation::WithoutAbstractSockets => &["abstract", "path", "pair"],
        NetworkIsolation::Unavailable => {
            let command = Command { network: Network::None, ..shell("true") };
            let error = command.spawn().await.expect_err("it is not started");
            assert!(matches!(error, SpawnError::NoSocketFilter), "{error:?}");
            return;
        }
    };
    assert_eq!(usable_sockets(Network::None, None).await, expected);
    let confinement = Confinement { write: vec!["/".into()], ..Confinement::default() };
    assert_eq!(usable_sockets(Network::None, Some(confinement)).await, expected);
}

#[tokio::test]
async fn neither_a_grandchild_nor_io_uring_has_the_network_that_a_child_must_not_have() {
    if NetworkIsolation::detect() == NetworkIsolation::Unavailable {
        return;
    }
    let script = "\
import ctypes, os, socket, subprocess, sys
io_uring_setup = 425
made = ctypes.CDLL(None).syscall(io_uring_setup, 1, ctypes.create_string_buffer(120))
inner = 'import socket; socket.socket()'
ended = subprocess.run([sys.executable, '-c', inner], stderr=subprocess.DEVNULL, start_new_session=True)
print(made, ended.returncode)";
    let out = output(Command { network: Network::None, ..python(script) }).await;
    assert_eq!(out.trim(), "-1 1");
}

#[tokio::test]
async fn a_child_without_a_network_has_no_pairs_but_unix_ones_and_no_access_to_processes_or_keys() {
    if NetworkIsolation::detect() == NetworkIsolation::Unavailable {
        return;
    }
    let calls = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_add_key,
        libc::SYS_request_key,
        libc::SYS_keyctl,
    ];
    let pair = libc::SYS_socketpair;
    // Each of them fails in another way without the filter.
    let script = format!(
        "\
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def is_refused(number, *arguments):
    ctypes.set_errno(0)
    return libc.syscall(number, *arguments) == -1 and ctypes.get_errno() == errno.EACCES
print(*[call for call in {calls:?} if not is_refused(call, -1, 0, 0, 0, 0, 0)])
inet, tipc = 2, 30
print(is_refused({pair}, inet, 1, 0, 0), is_refused({pair}, tipc, 1, 0, 0))"
    );
    let out = output(Command { network: Network::None, ..python(&script) }).await;
    assert_eq!(out, "\nTrue True\n");
    let out = output(python(&script)).await;
    assert!(out.ends_with("False False\n"), "{out}");
}
