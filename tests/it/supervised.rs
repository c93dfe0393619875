//! `airlock serve` under a service manager such as systemd: a passed listener, notifications, health checks; and code that
//! is compiled before the first start.

use std::{net::TcpListener, os::fd::OwnedFd, process::Stdio};

use airlock_tests::{Airlock, Setup, binary, guests, wait};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::UnixDatagram,
    process::{Child, Command},
    time::timeout,
};

/// Returns the command of a gateway that has `input` as its standard input.
fn serve(setup: &Setup, input: impl Into<Stdio>) -> Command {
    let mut command = Command::new(binary("airlock-under-test"));
    command.args(["serve", "--config"]).arg(setup.write());
    command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

fn send(gateway: &Child, signal: Signal) {
    let id = gateway.id().expect("it runs").try_into().expect("a process id");
    kill_process(Pid::from_raw(id).expect("not zero"), signal).expect("it runs");
}

/// Receives the next state.
async fn next(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let received = timeout(wait::SOON, manager.recv(&mut buffer)).await;
    let length = received.expect("a message").expect("a socket");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// Runs `airlock health` for an address.
fn health(address: &str) -> Airlock {
    Airlock::new().arg("health").arg("--url").arg(address).arg("--json")
}

#[tokio::test]
async fn a_passed_listener_is_served_and_the_manager_is_told_of_the_life_of_the_gateway() {
    let setup = Setup::new();
    let socket = setup.directory().join("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let mut command = serve(&setup, OwnedFd::from(listener));
    command.env("NOTIFY_SOCKET", &socket).env("WATCHDOG_USEC", "60000000");
    let mut gateway = command.spawn().expect("it can be started");
    drop(command);
    let mut lines = BufReader::new(gateway.stdout.take().expect("piped above")).lines();
    let first = lines.next_line().await.expect("UTF-8").expect("a line");
    assert_eq!(first, format!("listening on {address}"));
    // The first sign of life is sent at once, the next one after half a minute.
    let mut states = [next(&manager).await, next(&manager).await];
    states.sort();
    assert_eq!(states, ["READY=1", "WATCHDOG=1"]);
    let healthy = health(&address).run().await.ok().json();
    assert_eq!(healthy["status"], "ready", "{healthy}");

    send(&gateway, Signal::HUP);
    assert!(next(&manager).await.starts_with("RELOADING=1\nMONOTONIC_USEC="));
    assert_eq!(next(&manager).await, "READY=1");

    send(&gateway, Signal::TERM);
    assert_eq!(next(&manager).await, "STOPPING=1");
    let ended = timeout(wait::SOON, gateway.wait()).await.expect("it ends").expect("a child");
    assert!(ended.success(), "{ended}");
    let unreachable = health(&address).run().await.failed();
    assert!(unreachable.stdout.contains("no gateway responds"), "{unreachable}");
}

#[tokio::test]
async fn a_passed_listener_that_other_machines_reach_needs_virtual_keys() {
    let listener = TcpListener::bind("0.0.0.0:0").expect("a port");
    let setup = Setup::new();
    let mut command = serve(&setup, OwnedFd::from(listener));
    let output = timeout(wait::SOON, command.output()).await.expect("it ends").expect("a child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("require_virtual_key"), "{said}");
}

#[tokio::test]
async fn descriptors_that_are_passed_by_number_are_refused_with_the_setting_that_works() {
    let setup = Setup::new();
    let mut command = Command::new("sh");
    command.args(["-c", r#"LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" serve --config "$1""#]);
    command.arg(binary("airlock-under-test")).arg(setup.write());
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(wait::SOON, command.output()).await.expect("it ends").expect("a child");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("StandardInput=socket"), "{said}");
}

#[tokio::test]
async fn health_of_a_gateway_that_does_not_respond_fails_in_time() {
    // Connections wait in its queue.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", silent.local_addr().expect("an address"));
    let failed = health(&address).arg("--timeout").arg("200ms").run().await.failed();
    let message = failed.json()["error"]["message"].clone();
    assert_eq!(message, "the gateway has not responded within 200ms");
}

#[tokio::test]
async fn executors_and_plugins_are_compiled_before_the_first_start() {
    let names = ["the executor of starlark", "the executor of python", guests::TEXT];
    let first = Airlock::new().arg("precompile").arg(guests::TEXT).run().await.ok();
    assert!(names.iter().all(|name| first.stdout.contains(name)), "{first}");
    let second = Airlock::new().arg("precompile").arg(guests::TEXT).run().await.ok();
    let lines: Vec<_> = second.stdout.lines().collect();
    let known = names.map(|name| format!("in the cache already: {name}"));
    assert!(known.iter().all(|line| lines.contains(&line.as_str())), "{second}");
    let inspected = Airlock::new().arg("plugin").arg("inspect").arg(guests::TEXT).arg("--json");
    assert!(inspected.run().await.ok().json()["compile_ms"].is_null());

    let absent = Airlock::new().arg("precompile").arg("nowhere.wasm");
    let refused = absent.run().await.failed();
    assert!(refused.stderr.contains("nowhere.wasm"), "{refused}");
}
