//! Tests with misbehaving servers that are real processes.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};
use serde_json::json;
use tokio::{
    task::JoinHandle,
    time::{interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{supervise::supervise_redacted, *};
use crate::{
    catalog::{Catalog, Client, State},
    door::{Admitted, Budget, Caller, Filter, Origin, VirtualKey},
    secret::{BadSecret, Scrubber},
    tool::{CallError, Policy, Whitelist},
};

/// Time limit for every wait, longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A supervised server and the catalog that it publishes into.
struct Supervised {
    catalog: Arc<Catalog>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Supervised {
    fn start(transport: Transport, connect_timeout: Duration) -> Self {
        let scrubber = secrets::scrubber(&transport);
        Self::start_redacted(transport, scrubber, connect_timeout)
    }

    fn start_redacted(
        transport: Transport,
        scrubber: Result<Scrubber, BadSecret>,
        connect_timeout: Duration,
    ) -> Self {
        let name = ClientName::parse("up").expect("a good name");
        let catalog = Catalog::new();
        let policy = Policy { execute: Whitelist::All, ..Policy::default() };
        catalog.add_client(&name, transport.connection_type(), policy);
        let stop = CancellationToken::new();
        let settings = Settings { name, transport, connect_timeout };
        let task =
            tokio::spawn(supervise_redacted(settings, scrubber, catalog.clone(), stop.clone()));
        Self { catalog, stop, task }
    }

    fn fake(how: &str) -> Self {
        Self::start(fake(how), PATIENCE)
    }

    async fn connected(how: &str) -> Self {
        let server = Self::fake(how);
        server.until(|client| client.state == State::Connected).await;
        server
    }

    fn client(&self) -> Arc<Client> {
        self.catalog.snapshot().clients().next().expect("one client").clone()
    }

    async fn until(&self, is_so: impl Fn(&Client) -> bool) -> Arc<Client> {
        let found = eventually(|| Some(self.client()).filter(|client| is_so(client))).await;
        found.unwrap_or_else(|| panic!("still {:?}", self.client().state))
    }

    async fn reason(&self) -> String {
        let client = self.until(|client| client.state.reason().is_some()).await;
        client.state.reason().unwrap_or_default().to_owned()
    }

    fn admit(&self, tool: &str, arguments: &str, deadline: Duration) -> Admitted {
        self.admit_for(None, tool, arguments, deadline)
    }

    fn admit_for(
        &self,
        key: Option<&VirtualKey>,
        tool: &str,
        arguments: &str,
        deadline: Duration,
    ) -> Admitted {
        let view = self.catalog.snapshot().view(&Filter::none(), key);
        let caller = Caller::new(
            view,
            Origin::Caller,
            Budget { deadline, nested_calls: 0, depth: 1, in_flight: 1 },
        );
        caller.admit(&format!("up-{tool}"), arguments).expect("an offered tool")
    }

    async fn call(&self, tool: &str) -> Result<String, CallError> {
        self.admit(tool, "{}", PATIENCE).run().await.map(|output| output.to_text())
    }

    async fn answer(&self, tool: &str) -> String {
        self.call(tool).await.expect("an answer")
    }

    async fn stop(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.expect("it stops").expect("without a panic");
    }
}

fn fake(how: &str) -> Transport {
    python(&[include_str!("tests/server.py"), how])
}

fn python(args: &[&str]) -> Transport {
    let args = ["-c"].iter().chain(args).map(|arg| (*arg).to_owned()).collect();
    let env = BTreeMap::from([("TOKEN".to_owned(), Secret::new("open-sesame"))]);
    Transport::Stdio { command: "python3".into(), args, env }
}

/// Polls `look` until it returns a value; `None` after [`PATIENCE`].
async fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let search = async {
        let mut tick = interval(Duration::from_millis(2));
        loop {
            tick.tick().await;
            if let Some(found) = look() {
                return found;
            }
        }
    };
    timeout(PATIENCE, search).await.ok()
}

async fn is_gone(pid: &str) -> bool {
    // A killed process without a parent may stay as a zombie if no process reaps it.
    let status = format!("/proc/{pid}/status");
    let look = || match std::fs::read_to_string(Path::new(&status)) {
        Ok(status) => status.contains("State:\tZ").then_some(()),
        Err(_) => Some(()),
    };
    eventually(look).await.is_some()
}

#[tokio::test]
async fn a_child_has_only_its_configured_environment() {
    let server = Supervised::connected("well").await;
    let names = server.answer("env").await;
    assert!(names.split(' ').any(|name| name == "TOKEN"), "{names}");
    // Variables that Python's launcher sets itself may be there, but none that only the gateway
    // could have passed on.
    assert!(names.split(' ').all(|name| name != "HOME" && !name.starts_with("CARGO")), "{names}");
    server.stop().await;
}

#[tokio::test]
async fn garbage_output_and_a_malformed_tool_do_not_disturb_a_session() {
    let server = Supervised::connected("noisy").await;
    assert_eq!(server.client().tools.len(), 10);
    let echoed = server
        .admit("echo", &json!({"text": "häh"}).to_string(), PATIENCE)
        .run()
        .await
        .expect("an answer");
    assert_eq!(echoed.to_text(), "häh");
    server.stop().await;
}

#[tokio::test]
async fn a_server_that_dies_fails_its_call_and_is_restarted() {
    let server = Supervised::connected("well").await;
    let first = server.answer("pid").await;
    let dead = server.call("die").await.expect_err("no answer from the dead");
    insta::assert_snapshot!(dead, @"the source of tool up-die is unavailable");
    let restarted = |client: &Client| client.state == State::Connected;
    server.until(restarted).await;
    let again = loop {
        // Until the loss is noticed, calls still use the old connection.
        if let Ok(pid) = server.call("pid").await {
            break pid;
        }
        tokio::task::yield_now().await;
    };
    assert_ne!(first, again);
    server.stop().await;
}

#[tokio::test]
async fn the_stderr_of_a_server_that_exits_is_reported_without_secrets() {
    let dying = r#"import os, sys; sys.stderr.write("no \x1b[1mcheese, only " + os.environ["TOKEN"]); sys.exit(3)"#;
    let server = Supervised::start(python(&[dying]), PATIENCE);
    insta::assert_snapshot!(
        server.reason().await,
        @"the handshake failed: connection closed: discover response; it ended with exit status: 3; its stderr ends with: no �[1mcheese, only [secret TOKEN]"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_silent_server_fails_at_the_connect_timeout() {
    let server = Supervised::start(fake("silent"), Duration::from_millis(200));
    insta::assert_snapshot!(server.reason().await, @"not connected within 200ms");
    server.stop().await;
}

#[tokio::test]
async fn a_missing_command_fails_at_once() {
    let env = BTreeMap::from([("PATH".to_owned(), Secret::new("/nowhere"))]);
    let server = Supervised::start(
        Transport::Stdio { command: "nonesuch".into(), args: vec![], env },
        PATIENCE,
    );
    let client = server.until(|client| matches!(client.state, State::Failed { .. })).await;
    insta::assert_snapshot!(
        client.state.reason().unwrap_or_default(),
        @r#"command "nonesuch" is not found in the PATH of its envs"#
    );
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn settings_that_can_never_work_fail_once_and_are_not_retried() {
    let http = Transport::Http { url: "ftp://host/".into(), headers: BTreeMap::new() };
    let bad_url = Supervised::start(http, PATIENCE);
    let bad_secret = Supervised::start_redacted(
        fake("well"),
        Err(BadSecret::TooShort { name: "TOKEN".into() }),
        PATIENCE,
    );
    for (server, reason) in [
        (bad_url, "the URL must begin with http:// or https://, found ftp://"),
        (bad_secret, "the secret TOKEN has fewer than 4 bytes"),
    ] {
        let failed = State::Failed { reason: reason.into() };
        server.until(|client| client.state == failed).await;
        let mut changes = server.catalog.changes();
        changes.mark_unchanged();
        // The clock is paused and advances at once.
        let retried = timeout(10 * limits::LAST_RETRY, changes.changed()).await;
        assert!(retried.is_err(), "{:?}", server.client().state);
        let catalog = server.catalog.clone();
        server.stop().await;
        let stopped = State::Disconnected { reason: "stopped".into() };
        assert_eq!(catalog.snapshot().clients().next().map(|client| &client.state), Some(&stopped));
    }
}

#[tokio::test]
async fn a_call_past_its_deadline_or_dropped_is_cancelled_at_the_server() {
    let server = Supervised::connected("well").await;
    let late =
        server.admit("hang", "{}", Duration::from_millis(50)).run().await.expect_err("it hangs");
    insta::assert_snapshot!(late, @"tool up-hang ran past its 50ms deadline");

    let mut dropped = Box::pin(server.admit("hang", "{}", PATIENCE).run());
    assert!((&mut dropped).now_or_never().is_none());
    // A further response means that the request before it was sent.
    server.answer("pid").await;
    assert!((&mut dropped).now_or_never().is_none());
    drop(dropped);
    let told = async {
        while server.answer("cancelled").await != "2" {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, told).await.expect("the server is told of both");
    server.stop().await;
}

#[tokio::test]
async fn calls_beyond_the_waiting_limit_are_refused_at_once() {
    let server = Supervised::connected("well").await;
    let slots = limits::MAX_RUNNING + limits::MAX_WAITING;
    let mut calls: Vec<_> =
        (0..slots).map(|_| Box::pin(server.admit("hang", "{}", PATIENCE).run())).collect();
    assert!(join_all(&mut calls).now_or_never().is_none());
    assert!(matches!(server.call("pid").await, Err(CallError::Busy)));
    drop(calls);
    server.answer("pid").await;
    server.stop().await;
}

#[tokio::test]
async fn calls_of_one_tenant_leave_permits_and_slots_to_another() {
    let server = Supervised::connected("well").await;
    let [greedy, other] = ["greedy", "other"].map(|name| {
        let rows = BTreeMap::from([(server.client().name.clone(), Whitelist::All)]);
        VirtualKey::new(name, &format!("sk-bf-{name}"), rows)
    });
    let slots = limits::MAX_RUNNING + limits::MAX_WAITING;
    let hanging = || Box::pin(server.admit_for(Some(&greedy), "hang", "{}", PATIENCE).run());
    let mut calls: Vec<_> = (0..slots).map(|_| hanging()).collect();
    let ended: Vec<_> =
        calls.iter_mut().filter_map(futures_util::FutureExt::now_or_never).collect();
    assert_eq!(ended.len(), slots / 4);
    assert!(ended.iter().all(|call| matches!(call, Err(CallError::Busy))));
    let pid = server.admit_for(Some(&other), "pid", "{}", PATIENCE).run().await;
    assert!(pid.is_ok(), "{pid:?}");
    drop(calls);
    server.stop().await;
}

#[tokio::test]
async fn calls_to_a_server_that_stops_reading_fail_as_busy_and_keep_the_connection() {
    let server = Supervised::connected("well").await;
    let short = Duration::from_millis(20);
    let late = server.admit("stall", "{}", short).run().await;
    assert!(matches!(late, Err(CallError::Deadline { .. })), "{late:?}");
    // Each call fills the pipe, or stays in the outbox after its caller is gone.
    let large = json!({"text": "x".repeat(64 << 10)}).to_string();
    let mut ended = CallError::Cancelled;
    for _ in 0..=limits::MAX_REQUESTS_IN_FLIGHT + 1 {
        ended = server.admit("echo", &large, short).run().await.expect_err("nothing is read");
        if !matches!(ended, CallError::Deadline { .. }) {
            break;
        }
    }
    assert!(matches!(ended, CallError::Busy), "{ended:?}");
    assert_eq!(server.client().state, State::Connected);
    server.stop().await;
}

#[tokio::test]
async fn a_list_that_changes_is_read_again() {
    let server = Supervised::connected("well").await;
    server.answer("grow").await;
    server.until(|client| client.tools.iter().any(|tool| tool.original == "grown")).await;
    server.stop().await;
}

#[tokio::test]
async fn stopping_ends_the_server_and_all_that_it_started() {
    for how in ["well", "stubborn"] {
        let server = Supervised::connected(how).await;
        let (pid, grandchild) = (server.answer("pid").await, server.answer("child").await);
        server.stop().await;
        assert!(is_gone(&pid).await, "{how}");
        assert!(is_gone(&grandchild).await, "{how}");
    }
}

#[tokio::test]
async fn a_call_to_a_stopped_server_is_not_sent() {
    let server = Supervised::connected("well").await;
    let call = server.admit("pid", "{}", PATIENCE);
    server.stop().await;
    let error = call.run().await.expect_err("nobody is there");
    let cause = std::error::Error::source(&error).expect("a cause").to_string();
    insta::assert_snapshot!(cause, @"it is not connected; nothing was sent");
}
