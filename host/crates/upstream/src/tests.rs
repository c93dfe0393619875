//! Tests with misbehaving servers that are real processes.

mod instances;
mod lifecycle;
mod renewal;
mod replace;

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};
use serde_json::json;
use tokio::{
    runtime::Handle,
    task::JoinHandle,
    time::{interval, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{supervise::supervise_with, users::Authority, *};
use airlock_catalog::{Catalog, SourceKind, SourceState, ToolSource};
use airlock_core::{
    door::{Admitted, Budget, Caller, Filter, Origin, VirtualKey},
    secret::{BadSecret, Secret},
    tool::{Allowlist, CallError, ClientName, HostCode, Policy},
};
use airlock_mcp_client::{
    Connector, Credentials, DEFAULT_RUNNING, DEFAULT_WAITING, Framing, HttpServer, HttpTransport,
    LAST_RETRY, Lifecycle, MAX_REQUESTS_IN_FLIGHT, OpenError, Pinning, Process, Renewal, Settings,
};
use airlock_mcp_oauth::{HttpSettings, Logins};

/// Time limit for every wait, longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A supervised server and the catalog that it publishes into.
struct Supervised {
    catalog: Arc<Catalog>,
    stop: CancellationToken,
    control: Control,
    task: JoinHandle<()>,
}

fn settings(transport: impl Connector) -> Settings {
    let mut settings = Settings::new(ClientName::parse("up").expect("a good name"), transport);
    settings.timeouts.startup = PATIENCE;
    settings.pin = Pinning::Off;
    settings
}

impl Supervised {
    #[allow(clippy::needless_pass_by_value, reason = "the callers make the settings on the spot")]
    fn start(settings: Settings) -> Self {
        let logins = Logins::new(airlock_store::Settings::new("unused").into());
        let instances = settings.instances();
        let credentials = instances.map(|settings| Credentials::new(&settings, &logins)).collect();
        Self::start_with(&settings, credentials)
    }

    fn start_with(settings: &Settings, credentials: Vec<Result<Credentials, OpenError>>) -> Self {
        let name = settings.name.clone();
        let catalog = Catalog::new();
        let policy = Policy { execute: Allowlist::All, ..Policy::default() };
        catalog.add_client(&name, SourceKind::Server(settings.transport.connection_type()), policy);
        let stop = CancellationToken::new();
        let runtime = Handle::current();
        let pins = pins::Pins::new(None, airlock_store::Settings::new("unused").into());
        let pins = pins.add(settings);
        let into = catalog.clone();
        let authority = Authority { credentials, users: None, config_option: Arc::default() };
        let (control, supervising) =
            supervise_with(settings, &pins, authority, into, None, &stop, &runtime);
        let task = tokio::spawn(supervising);
        Self { catalog, stop, control, task }
    }

    fn fake(how: &str) -> Self {
        Self::start(settings(fake(how)))
    }

    async fn connected(how: &str) -> Self {
        let server = Self::fake(how);
        server.until(|client| client.state == SourceState::Connected).await;
        server
    }

    fn client(&self) -> Arc<ToolSource> {
        self.catalog.snapshot().clients().next().expect("one client").clone()
    }

    async fn until(&self, is_so: impl Fn(&ToolSource) -> bool) -> Arc<ToolSource> {
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
            Budget { deadline, script: deadline, nested_calls: 0, depth: 1, in_flight: 1 },
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

/// Returns the reason that a server cannot be connected.
async fn failure(settings: Settings) -> String {
    let server = Supervised::start(settings);
    let reason = server.reason().await;
    server.stop().await;
    reason
}

fn fake(how: &str) -> Process {
    python(&[include_str!("tests/server.py"), how])
}

fn python(args: &[&str]) -> Process {
    let args = ["-c"].iter().chain(args).map(|arg| (*arg).to_owned()).collect();
    let env = BTreeMap::from([("TOKEN".to_owned(), Secret::new("open-sesame"))]);
    Process { command: "python3".into(), args, env, ..Process::default() }
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
    let gone = eventually(|| match std::fs::read_to_string(Path::new(&status)) {
        Ok(status) => status.contains("State:\tZ").then_some(()),
        Err(_) => Some(()),
    });
    gone.await.is_some()
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
    assert_eq!(server.client().tools.len(), 12);
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
    server.until(|client| client.state == SourceState::Connected).await;
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
    insta::assert_snapshot!(
        failure(settings(python(&[dying]))).await,
        @"the connection ended; it ended with exit status: 3; its stderr ends with: no �[1mcheese, only [secret TOKEN]"
    );
}

#[tokio::test]
async fn a_silent_server_fails_at_the_connect_timeout() {
    let mut settings = settings(fake("silent"));
    settings.timeouts.startup = Duration::from_millis(200);
    insta::assert_snapshot!(failure(settings).await, @"it was not ready within its startup timeout of 200ms");
}

#[tokio::test]
async fn the_first_list_counts_within_the_startup_timeout() {
    let mut settings = settings(fake("unlisted"));
    settings.timeouts.startup = Duration::from_millis(1_500);
    insta::assert_snapshot!(failure(settings).await, @"it was not ready within its startup timeout of 1.5s");
}

#[tokio::test]
async fn text_on_stdout_is_in_the_reason_of_a_failed_start_without_secrets() {
    let chatty = "import os; print('Listening with ' + os.environ['TOKEN']); print(); print('2')";
    insta::assert_snapshot!(
        failure(settings(python(&[chatty]))).await,
        @r#"the connection ended; it wrote 2 lines to stdout that are not MCP messages, the first: "Listening with [secret TOKEN]"; it ended with exit status: 0"#
    );
}

#[tokio::test]
async fn a_missing_command_fails_at_once() {
    let env = BTreeMap::from([("PATH".to_owned(), Secret::new("/nowhere"))]);
    let command = "nonesuch".into();
    let missing = Process { command, env, ..Process::default() };
    let server = Supervised::start(settings(missing));
    let client = server.until(|client| matches!(client.state, SourceState::Failed { .. })).await;
    insta::assert_snapshot!(
        client.state.reason().unwrap_or_default(),
        @r#"command "nonesuch" is not found in its PATH"#
    );
    server.stop().await;
}

#[tokio::test(start_paused = true)]
async fn settings_that_can_never_work_fail_once_and_are_not_retried() {
    let http = HttpServer {
        transport: HttpTransport::Streamable,
        settings: HttpSettings::new("ftp://host/"),
    };
    let bad_url = Supervised::start(settings(http));
    let bad_secret = Supervised::start_with(
        &settings(fake("well")),
        vec![Err(OpenError::Invalid(BadSecret::TooShort { name: "TOKEN".into() }.to_string()))],
    );
    for (server, reason) in [
        (bad_url, "the URL must begin with http:// or https://, found ftp://"),
        (bad_secret, "the secret TOKEN has fewer than 4 bytes"),
    ] {
        let failed = SourceState::Failed { reason: reason.into() };
        server.until(|client| client.state == failed).await;
        let mut changes = server.catalog.changes();
        changes.mark_unchanged();
        // The clock is paused and advances at once.
        let retried = timeout(10 * LAST_RETRY, changes.changed()).await;
        assert!(retried.is_err(), "{:?}", server.client().state);
        let catalog = server.catalog.clone();
        server.stop().await;
        let stopped = SourceState::Disconnected { reason: "stopped".into() };
        assert_eq!(catalog.snapshot().clients().next().map(|client| &client.state), Some(&stopped));
    }
}

#[tokio::test]
async fn a_call_past_its_deadline_or_dropped_is_cancelled_at_the_server() {
    let server = Supervised::connected("well").await;
    let late =
        server.admit("hang", "{}", Duration::from_millis(500)).run().await.expect_err("it hangs");
    insta::assert_snapshot!(late, @"tool up-hang ran past its 500ms deadline");

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
async fn the_end_of_a_caller_spares_the_call_of_another() {
    for lifecycle in [Lifecycle::Persistent, Lifecycle::Idle(Duration::from_millis(50))] {
        let mut settings = settings(fake("well"));
        settings.lifecycle = lifecycle;
        let server = Supervised::start(settings);
        server.until(|client| client.state == SourceState::Connected).await;
        let pid = server.answer("pid").await;
        let held = json!({"text": "still here", "after_a_cancellation": true}).to_string();
        let mut neighbour = Box::pin(server.admit("echo", &held, PATIENCE).run());
        let mut leaving = Box::pin(server.admit("hang", "{}", PATIENCE).run());
        assert!((&mut neighbour).now_or_never().is_none());
        assert!((&mut leaving).now_or_never().is_none());
        // A further response means that the requests before it were sent.
        assert_eq!(server.answer("pid").await, pid, "both are calls of one process");
        assert!((&mut neighbour).now_or_never().is_none());
        drop(leaving);
        let answered = neighbour.await.expect("the server answers after the cancellation");
        assert_eq!(answered.to_text(), "still here");
        server.stop().await;
    }
}

#[tokio::test]
async fn calls_beyond_the_waiting_limit_are_refused_at_once() {
    let server = Supervised::connected("well").await;
    let places = DEFAULT_RUNNING + DEFAULT_WAITING;
    let mut calls: Vec<_> =
        (0..places).map(|_| Box::pin(server.admit("hang", "{}", PATIENCE).run())).collect();
    assert!(join_all(&mut calls).now_or_never().is_none());
    assert_eq!(server.call("pid").await.expect_err("it is full").code(), HostCode::Busy);
    drop(calls);
    server.answer("pid").await;
    server.stop().await;
}

#[tokio::test]
async fn calls_of_one_tenant_leave_permits_and_places_to_another() {
    let server = Supervised::connected("well").await;
    let [greedy, other] = ["greedy", "other"].map(|name| {
        let rows = BTreeMap::from([(server.client().name.clone(), Allowlist::All)]);
        VirtualKey::new(name, &format!("sk-bf-{name}"), rows)
    });
    let places = DEFAULT_RUNNING + DEFAULT_WAITING;
    let mut calls: Vec<_> = (0..places)
        .map(|_| Box::pin(server.admit_for(Some(&greedy), "hang", "{}", PATIENCE).run()))
        .collect();
    let ended: Vec<_> =
        calls.iter_mut().filter_map(futures_util::FutureExt::now_or_never).collect();
    assert_eq!(ended.len(), places / 4);
    let is_busy = |error: &CallError| error.code() == HostCode::Busy;
    assert!(ended.iter().all(|call| call.as_ref().is_err_and(is_busy)));
    let pid = server.admit_for(Some(&other), "pid", "{}", PATIENCE).run().await;
    assert!(pid.is_ok(), "{pid:?}");
    drop(calls);
    server.stop().await;
}

#[tokio::test]
async fn calls_to_a_server_that_stops_reading_end_at_their_deadline_and_keep_the_connection() {
    let server = Supervised::connected("well").await;
    let short = Duration::from_millis(20);
    let late = server.admit("stall", "{}", short).run().await;
    assert_eq!(late.expect_err("it is stalled").code(), HostCode::Deadline);
    // Each call fills the pipe, or stays in the outbox after its caller is gone. It holds its permits, so
    // a tenant alone does not get that far.
    let large = json!({"text": "x".repeat(64 << 10)}).to_string();
    for _ in 0..=MAX_REQUESTS_IN_FLIGHT + 1 {
        let ended = server.admit("echo", &large, short).run().await;
        assert_eq!(ended.expect_err("it is stalled").code(), HostCode::Deadline);
    }
    assert_eq!(server.client().state, SourceState::Connected);
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
        let pid = server.answer("pid").await;
        let grandchild = server.answer("child").await;
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

fn phase(client: &ToolSource) -> String {
    let status = client.provider().map(|provider| provider.status()).unwrap_or_default();
    status.get("phase").and_then(|phase| phase.as_str()).unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_large_response_fails_its_call_at_once_and_the_connection_stays() {
    let server = Supervised::connected("well").await;
    let pid = server.answer("pid").await;
    let large = server.call("huge").await.expect_err("too large");
    assert_eq!(large.code(), HostCode::ResultTooLarge);
    assert_eq!(server.answer("pid").await, pid);
    server.stop().await;
}
