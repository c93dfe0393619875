//! MCP servers in containers, against a real Docker daemon with a private socket.
//!
//! The image has nothing but busybox and a server of a few lines of shell. Where no daemon can run,
//! each test prints `skipped` with the reason, or fails if `AIRLOCK_REQUIRE_DOCKER` is set, as
//! `.ci/run` does.

mod daemon;

use std::env;

use airlock_tests::{Client, Gateway, Setup, wait};
use serde_json::{Value, json};

use self::daemon::{Daemon, IMAGE};

/// Starts a daemon, or returns from the test where that is impossible.
macro_rules! daemon {
    () => {
        match Daemon::start().await {
            Ok(daemon) => daemon,
            Err(reason) => return skip(&reason, env::var_os("AIRLOCK_REQUIRE_DOCKER").is_some()),
        }
    };
}

/// Reports that a test cannot run here. Panics if it has to.
fn skip(reason: &str, is_required: bool) {
    assert!(!is_required, "AIRLOCK_REQUIRE_DOCKER is set, and {reason}");
    println!("skipped: {reason}");
}

#[test]
#[should_panic(expected = "AIRLOCK_REQUIRE_DOCKER is set, and dockerd is not installed")]
fn a_test_that_cannot_run_fails_where_it_has_to_run() {
    skip("dockerd is not installed", false);
    skip("dockerd is not installed", true);
}

/// Returns the server in a container of the gateway's own, with more settings.
fn boxed(daemon: &Daemon, more: &Value) -> Client {
    let mut config = json!({"host": daemon.host(), "image": IMAGE, "command": ["/server"]});
    for (key, value) in more.as_object().expect("an object") {
        config[key] = value.clone();
    }
    Client::docker("box", config)
}

async fn run(gateway: &Gateway, tool: &str) -> String {
    gateway.execute(&format!("box-{tool}"), &json!({})).await.content()
}

/// Waits until the source has failed, and returns the reason.
async fn failure(gateway: &Gateway) -> String {
    let client = gateway.in_state("box", "disconnected").await;
    client["last_failure"]["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_server_runs_confined_in_a_container_that_is_removed_with_it() {
    let daemon = daemon!();
    let client = boxed(&daemon, &json!({"envs": ["TOKEN=open-sesame"], "cpus": 0.5}));
    let gateway = Setup::new().client(client).serve_connected().await;
    let facts = run(&gateway, "facts").await;
    for fact in [
        "NoNewPrivs: 1",
        "CapEff: 0000000000000000",
        "net: lo.",
        "root: read-only",
        "tmp: writable",
    ] {
        assert!(facts.contains(fact), "{fact} is not in {facts}");
    }
    // The value itself is redacted.
    assert!(facts.contains("TOKEN=[secret TOKEN]") && !facts.contains("CARGO"), "{facts}");
    let containers = daemon.containers();
    assert!(containers.len() == 1 && containers[0].starts_with("airlock-box-"), "{containers:?}");
    let limits = "{{.HostConfig.Memory}} {{.HostConfig.PidsLimit}} {{.HostConfig.NanoCpus}} {{.HostConfig.NetworkMode}}";
    assert_eq!(daemon.inspect(&containers[0], limits), "536870912 256 500000000 none");
    assert!(!daemon.inspect(&containers[0], "{{json .}}").contains("open-sesame"));
    gateway.terminate();
    gateway.ended().await;
    assert_eq!(daemon.containers(), [""; 0]);
}

#[tokio::test]
async fn a_server_that_ignores_all_signals_ends_with_its_container() {
    let daemon = daemon!();
    let client = boxed(&daemon, &json!({"command": ["/server", "stubborn"]}));
    let gateway = Setup::new().client(client).serve_connected().await;
    assert_eq!(run(&gateway, "linger").await, "lingering");
    gateway.terminate();
    gateway.ended().await;
    assert_eq!(daemon.containers(), [""; 0]);
}

#[tokio::test]
async fn only_the_processes_of_the_gateway_end_in_an_existing_container() {
    let daemon = daemon!();
    daemon.docker(&["run", "-d", "--network", "none", "--name", "mine", IMAGE, "sleep", "1000"]);
    let config = json!({"host": daemon.host(), "container": "mine", "command": ["/server", "stubborn"], "user": "1000:1000"});
    let gateway = Setup::new().client(Client::docker("box", config)).serve_connected().await;
    assert!(run(&gateway, "facts").await.contains("uid: 1000"));
    run(&gateway, "linger").await;
    assert!(daemon.docker(&["top", "mine"]).lines().count() > 3);
    gateway.terminate();
    gateway.ended().await;
    wait::until("only the main process to be left", async || {
        // The first line is the header.
        (daemon.docker(&["top", "mine"]).lines().count() == 2).then_some(())
    })
    .await;
    assert_eq!(daemon.containers(), ["mine"]);
}

#[tokio::test]
async fn a_container_is_reused_until_its_settings_change() {
    let daemon = daemon!();
    let kept = |pids: u64| boxed(&daemon, &json!({"keep": true, "pids_limit": pids}));
    let mut identifiers = Vec::new();
    for pids in [64, 64, 65] {
        let gateway = Setup::new().client(kept(pids)).serve_connected().await;
        run(&gateway, "facts").await;
        drop(gateway);
        let containers = daemon.containers();
        assert_eq!(containers.len(), 1, "{containers:?}");
        identifiers.push(daemon.inspect(&containers[0], "{{.Id}}"));
        // A stopped one is started again.
        daemon.docker(&["kill", &containers[0]]);
    }
    assert_eq!(identifiers[0], identifiers[1]);
    assert_ne!(identifiers[1], identifiers[2]);
}

#[tokio::test]
async fn each_call_has_a_process_of_its_own_if_the_life_cycle_says_so() {
    let daemon = daemon!();
    let client = boxed(&daemon, &json!({})).set("/lifecycle", "per_call");
    let gateway = Setup::new().client(client).serve_connected().await;
    let calls = (0..3).map(|_| run(&gateway, "facts"));
    let alone = run(&gateway, "facts").await;
    let facts = [futures_util::future::join_all(calls).await, vec![alone]].concat();
    for facts in facts {
        assert!(facts.contains("call: 1.") && facts.contains("NoNewPrivs: 1"), "{facts}");
    }
    // What a call leaves behind ends with its container.
    assert_eq!(run(&gateway, "linger").await, "lingering");
    wait::until("the containers of the calls to be removed", async || {
        daemon.containers().is_empty().then_some(())
    })
    .await;
    gateway.terminate();
    gateway.ended().await;
}

#[tokio::test]
async fn each_call_has_a_process_of_its_own_in_an_existing_container() {
    let daemon = daemon!();
    daemon.docker(&["run", "-d", "--network", "none", "--name", "mine", IMAGE, "sleep", "1000"]);
    let config = json!({"host": daemon.host(), "container": "mine", "command": ["/server"]});
    let client = Client::docker("box", config).set("/lifecycle", "per_call");
    let gateway = Setup::new().client(client).serve_connected().await;
    for _ in 0..2 {
        let facts = run(&gateway, "facts").await;
        assert!(facts.contains("call: 1."), "{facts}");
    }
    wait::until("only the main process to be left", async || {
        (daemon.docker(&["top", "mine"]).lines().count() == 2).then_some(())
    })
    .await;
    assert_eq!(daemon.containers(), ["mine"]);
}

#[tokio::test]
async fn two_sessions_share_a_container_and_the_last_one_removes_it() {
    let daemon = daemon!();
    let gateway = Setup::new().client(boxed(&daemon, &json!({}))).serve_connected().await;
    let other = Setup::new().client(boxed(&daemon, &json!({}))).serve_connected().await;
    assert_eq!(daemon.containers().len(), 1);
    drop(other);
    assert!(run(&gateway, "facts").await.contains("NoNewPrivs"));
    drop(gateway);
    assert_eq!(daemon.containers(), [""; 0]);
}

#[tokio::test]
async fn reasons_that_a_server_in_a_container_does_not_start_say_what_to_do() {
    let daemon = daemon!();
    daemon.docker(&["create", "--name", "stopped", IMAGE, "sleep", "1000"]);
    for (settings, reason) in [
        (
            json!({"image": "nonesuch:1"}),
            "the image \"nonesuch:1\" is not on the Docker host; pull or build it there",
        ),
        (
            json!({"main": ["true"]}),
            "ended at once with exit code 0; `docker_config.main` must name",
        ),
        (json!({"command": ["/nonesuch"]}), "no such file or directory"),
        (
            json!({"command": ["/server", "fail"]}),
            "it ended with exit status: 3; its stderr ends with: this line | and this one",
        ),
        (
            json!({"host": "unix:///nonesuch.sock"}),
            "no Docker daemon listens on unix:///nonesuch.sock",
        ),
        (
            json!({"image": null, "container": "nonesuch"}),
            "the container \"nonesuch\" does not exist",
        ),
        (json!({"image": null, "container": "stopped"}), "start it with `docker start stopped`"),
    ] {
        let mut message = String::new();
        for _ in 0..5 {
            let gateway = Setup::new().client(boxed(&daemon, &settings)).serve().await;
            message = failure(&gateway).await;
            // A container that ends while the session in it starts: the runtime has its own words.
            if message.contains(reason) {
                break;
            }
        }
        assert!(message.contains(reason), "{settings}: {message}");
    }
}
