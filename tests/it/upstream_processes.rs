//! MCP servers that are child processes: their environment, limits and confinement, and their end.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use airlock_tests::{Client, Setup, binary, wait};
use rustix::process::{Pid, test_kill_process};
use serde_json::json;

/// Returns a server that runs `script` in a shell, and then becomes a good server.
fn after(name: &str, script: &str) -> Client {
    let server = binary("misbehaving-server").display().to_string();
    Client::stdio(name, "/bin/sh", ["-c", &format!("{script}; exec \"$0\""), &server])
}

/// Waits until a script has written a file, and returns its text without the line end.
async fn written(path: &Path) -> String {
    let what = format!("{} to be written", path.display());
    wait::until(&what, async || {
        let text = std::fs::read_to_string(path).ok()?;
        text.ends_with('\n').then(|| text.trim_end().to_owned())
    })
    .await
}

/// Waits until a script has written the number of a living process.
async fn living(path: &Path) -> Pid {
    let number = written(path).await.parse().expect("a number");
    let pid = Pid::from_raw(number).expect("not zero");
    assert!(test_kill_process(pid).is_ok(), "it was never there");
    pid
}

/// Waits until a process has ended. One that is not reaped counts as ended.
async fn gone(pid: Pid) {
    let status = PathBuf::from(format!("/proc/{}/status", pid.as_raw_nonzero()));
    wait::until("a process to end", async || match std::fs::read_to_string(&status) {
        Ok(status) => status.contains("State:\tZ").then_some(()),
        Err(_) => Some(()),
    })
    .await;
}

/// A gateway that is killed with SIGKILL when it is dropped.
struct Doomed(Child);

impl Doomed {
    fn start(setup: &Setup) -> Self {
        let mut command = Command::new(binary("airlock-under-test"));
        command.args(["serve", "--config"]).arg(setup.write());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the gateway can be started"))
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn a_grandchild_in_a_session_of_its_own_ends_with_its_server() {
    let setup = Setup::new();
    let file = setup.directory().join("pid");
    let script = format!("setsid sleep 1000 >/dev/null 2>&1 & echo $! > {}", file.display());
    let gateway = setup.client(after("up", &script)).serve_connected().await;
    let grandchild = living(&file).await;
    gateway.terminate();
    gone(grandchild).await;
    gateway.ended().await;
}

#[tokio::test]
async fn children_of_a_killed_gateway_end_with_it_and_the_rest_with_the_next_gateway() {
    let setup = Setup::new();
    let child = setup.directory().join("child");
    let stray = setup.directory().join("stray");
    // It ignores the end of its stdin.
    let script = format!(
        "setsid sleep 1000 >/dev/null 2>&1 & echo $! > {}; echo $$ > {}; exec sleep 1000",
        stray.display(),
        child.display()
    );
    let setup = setup.client(after("up", &script));
    let gateway = Doomed::start(&setup);
    let child = living(&child).await;
    let stray = living(&stray).await;
    drop(gateway);
    gone(child).await;
    // The kernel cannot be asked to end a process of another session, so it may still be there.
    let next = Setup::new().client(after("up", "true")).serve_connected().await;
    gone(stray).await;
    drop(next);
}

#[tokio::test]
async fn a_server_inherits_basic_variables_and_no_other() {
    let setup = Setup::new();
    let file = setup.directory().join("env");
    let client = after("up", &format!("env | sed 's/=.*//' > {}", file.display())).envs(&["A=1"]);
    let setup = setup.client(client);
    let list = setup.airlock("tools").env("SECRET_OF_THE_GATEWAY", "hush").env("LC_TIME", "C");
    let _ = list.run().await.ok();
    let text = written(&file).await;
    let names: Vec<_> = text.lines().collect();
    for name in ["A", "AIRLOCK_UPSTREAM", "LC_TIME", "PATH"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    // A shell sets some variables itself.
    let shell = ["OLDPWD", "PWD", "SHLVL", "_"];
    let basic = ["HOME", "LANG", "LANGUAGE", "LOGNAME", "TMPDIR", "TZ", "USER"];
    for name in names {
        let is_known = name.starts_with("LC_") || shell.contains(&name) || basic.contains(&name);
        assert!(is_known || ["A", "AIRLOCK_UPSTREAM", "PATH"].contains(&name), "{name}");
    }
}

#[tokio::test]
async fn a_server_can_read_neither_environment_nor_memory_of_the_gateway() {
    for command in ["serve", "tools"] {
        let setup = Setup::new();
        let file = setup.directory().join("outcome");
        // The shell is the server's process, so its parent is the gateway.
        let script = format!(
            "(cat /proc/$PPID/environ; head -c 1 /proc/$PPID/mem; readlink /proc/$PPID/fd/0) > {0}.text 2>/dev/null; \
             wc -c < {0}.text > {0}",
            file.display()
        );
        let setup = setup.client(after("up", &script));
        if command == "serve" {
            let gateway = setup.serve_connected().await;
            assert_eq!(written(&file).await, "0", "{command}");
            drop(gateway);
        } else {
            let _ = setup.airlock(command).env("SECRET_OF_THE_GATEWAY", "hush").run().await.ok();
            assert_eq!(written(&file).await, "0", "{command}");
        }
    }
}

#[tokio::test]
async fn directory_and_limits_of_a_server_are_those_of_its_configuration() {
    let setup = Setup::new();
    let work = setup.directory().join("work");
    std::fs::create_dir(&work).expect("a directory");
    let client = after("up", "pwd > where; cat /proc/self/limits > limits")
        .set("/stdio_config/cwd", "work")
        .set("/stdio_config/limits", json!({"memory": "8GiB", "open_files": 99}));
    let gateway = setup.client(client).serve_connected().await;
    let place = work.canonicalize().expect("it exists");
    assert_eq!(Path::new(&written(&work.join("where")).await), place);
    let limits = written(&work.join("limits")).await;
    for row in ["Max address space 8589934592 8589934592", "Max open files 99 99"] {
        let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(limits.lines().any(|line| squeezed(line).starts_with(row)), "{limits}");
    }
    drop(gateway);
}

#[tokio::test]
async fn a_directory_that_is_missing_is_named_to_the_operator() {
    let client = after("up", "true").set("/stdio_config/cwd", "nowhere");
    let gateway = Setup::new().client(client).serve().await;
    let client = gateway.in_state("up", "disconnected").await;
    let message = client["last_failure"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("nowhere\" cannot be used; create it, or correct `cwd`"), "{message}");
}

#[tokio::test]
async fn a_confined_server_uses_only_the_named_paths() {
    let setup = Setup::new();
    let open = setup.directory().join("open");
    let shut = setup.directory().join("shut");
    for path in [&open, &shut] {
        std::fs::create_dir(path).expect("a directory");
    }
    std::fs::write(shut.join("secret"), "hush").expect("a file");
    let script = format!(
        "(cat {0}/secret; echo x > {0}/new) 2>/dev/null && echo got || echo refused > {1}/outcome",
        shut.display(),
        open.display()
    );
    let binaries = binary("misbehaving-server");
    let binaries = binaries.parent().expect("it lies in a directory");
    let client = after("up", &script)
        .set("/stdio_config/confine", json!({"read": [binaries], "write": ["open"]}));
    let gateway = setup.client(client).serve().await;
    let state = wait::until("an outcome", async || {
        let client = gateway.client("up").await?;
        (client["state"] != "connecting").then_some(client)
    })
    .await;
    let message = state["last_failure"]["message"].as_str().unwrap_or_default();
    if message.contains("no Landlock") {
        println!("skipped: this kernel has no Landlock");
        return;
    }
    assert_eq!(written(&open.join("outcome")).await, "refused");
    assert!(!shut.join("new").exists());
    gateway.connected("up").await;
}

/// Tries to reach `address` over TCP, writes the outcome into a file, and becomes a good server.
const REACHING: &str = "\
import os, socket, sys
address, file, server = sys.argv[1:]
host, port = address.split(':')
try:
    socket.create_connection((host, int(port))).sendall(b'x')
    outcome = 'reached'
except OSError as error:
    outcome = os.strerror(error.errno)
with open(file, 'w') as out:
    out.write(outcome + '\\n')
os.execv(server, [server])";

#[tokio::test]
async fn a_server_without_a_network_reaches_no_port_of_this_machine_and_works() {
    for (network, expected) in [("host", "reached"), ("none", "Permission denied")] {
        let setup = Setup::new();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let file = setup.directory().join("outcome");
        let server = binary("misbehaving-server").display().to_string();
        let args = ["-c", REACHING, &address, &file.display().to_string(), &server];
        let client =
            Client::stdio("up", "python3", args).set("/stdio_config/network", json!(network));
        let gateway = setup.client(client).serve_connected().await;
        assert_eq!(written(&file).await, expected, "{network}");
        drop(gateway);
    }
}
