//! Tests of a server that takes the place of another one under the same name.

use super::*;

/// Time for running calls, longer than any of them takes.
const DRAIN: Duration = PATIENCE;

/// A server in the place of another one.
struct Successor {
    stop: CancellationToken,
    control: Control,
    task: JoinHandle<()>,
}

impl Successor {
    /// Starts a server beside `old`, in the same catalog.
    fn start(old: &Supervised, settings: &Settings) -> Self {
        let logins = Logins::new(airlock_store::Settings::new("unused").into());
        let pins = pins::Pins::new(None, airlock_store::Settings::new("unused").into());
        let stop = CancellationToken::new();
        let (control, supervising) = supervise(
            settings,
            &pins.add(settings),
            &Accounts::new(logins),
            old.catalog.clone(),
            Some(&old.control),
            &stop,
            &Handle::current(),
        );
        Self { stop, control, task: tokio::spawn(supervising) }
    }

    async fn stop(self) {
        self.stop.cancel();
        timeout(PATIENCE, self.task).await.expect("it stops").expect("without a panic");
    }
}

async fn started(control: &Control) {
    timeout(PATIENCE, control.started()).await.expect("it starts or fails");
}

/// Waits until so many calls run.
async fn until_running(server: &Supervised, calls: i64) {
    let is_so = || server.control.status()["in_flight"] == calls;
    eventually(|| is_so().then_some(())).await.expect("they run");
}

#[tokio::test]
async fn a_successor_takes_the_entry_once_it_has_listed_its_tools_and_the_old_server_ends_in_peace()
{
    let old = Supervised::connected("well").await;
    let process = old.answer("pid").await;
    let arguments = json!({"text": "late", "after_a_cancellation": true}).to_string();
    let running = tokio::spawn(old.admit("echo", &arguments, PATIENCE).run());
    let hanging = tokio::spawn(old.admit("hang", "{}", PATIENCE).run());
    until_running(&old, 2).await;
    let new = Successor::start(&old, &settings(fake("well")));
    assert!(!new.control.has_started());
    started(&new.control).await;
    assert_ne!(old.answer("pid").await, process, "calls reach the successor");
    assert!(!running.is_finished());
    // The server answers the one when the other is cancelled.
    hanging.abort();
    old.control.drain(DRAIN).await;
    let ended = running.await.expect("no panic").expect("it ends well");
    assert_eq!(ended.to_text(), "late");
    let Supervised { catalog, stop, task, .. } = old;
    stop.cancel();
    timeout(PATIENCE, task).await.expect("it stops").expect("without a panic");
    assert!(is_gone(&process).await);
    let snapshot = catalog.snapshot();
    let entry = snapshot.clients().next().expect("one client");
    assert_eq!(entry.state, SourceState::Connected, "the old server has no say");
    new.stop().await;
}

#[tokio::test]
async fn a_successor_that_fails_has_the_entry_with_the_tools_of_the_old_server() {
    let old = Supervised::connected("well").await;
    let tools = old.client().tools.len();
    let process = Process { command: "/nowhere/server".to_owned(), ..Process::default() };
    let new = Successor::start(&old, &settings(process));
    started(&new.control).await;
    let entry = old.client();
    assert!(matches!(entry.state, SourceState::Failed { .. }), "{:?}", entry.state);
    assert_eq!(entry.tools.len(), tools);
    let error = old.call("pid").await.expect_err("it is not connected");
    assert_eq!(error.code(), HostCode::Unavailable);
    new.stop().await;
    old.stop().await;
}

#[tokio::test]
async fn draining_waits_no_longer_than_its_limit_and_later_calls_fail() {
    let server = Supervised::connected("well").await;
    let running = tokio::spawn(server.admit("hang", "{}", PATIENCE).run());
    until_running(&server, 1).await;
    server.control.drain(Duration::from_millis(50)).await;
    assert!(!running.is_finished());
    let error = server.call("pid").await.expect_err("it is to be stopped");
    assert_eq!(error.code(), HostCode::Unavailable);
    server.stop().await;
    assert!(running.await.expect("no panic").is_err());
}
