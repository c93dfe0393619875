use std::time::Duration;

use futures_util::{FutureExt as _, future::join_all};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, time::sleep};

mod pipe;

use self::pipe::{Server, complete, connect};
use super::*;
use crate::{
    agreed::Capability,
    connection::check_connection,
    error::ConnectionError,
    handshake::Handshake,
    inbox::Party,
    limits::{MAX_REQUESTS_IN_FLIGHT, PING_RETRY, PING_TIMEOUT, PROBE_PATIENCE},
};
use airlock_core::{tenant::Tenant, tool::QuestionKinds};

impl Server {
    async fn refuse(&mut self, request: &Value) {
        let error = json!({"code": -32601, "message": "unknown method"});
        self.say(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    }

    /// Answers `initialize`.
    async fn initialize(&mut self, version: &str) {
        let initialize = self.read().await;
        assert_eq!(initialize["method"], "initialize");
        let result = json!({"protocolVersion": version, "capabilities": {"tools": {"listChanged": true}, "logging": {}}, "serverInfo": {"name": "a\nb", "version": "1"}});
        self.respond(&initialize, result).await;
    }
}

/// Records methods with their errors, and the ends of connections without a method.
#[derive(Default)]
struct Observed(Mutex<Vec<(&'static str, Option<&'static str>)>>);

impl LinkObserver for Observed {
    fn request_ended(&self, method: &'static str, _: Duration, error: Option<&'static str>) {
        self.0.lock().push((method, error));
    }

    fn session_ended(&self, _: Duration, error: Option<&'static str>) {
        self.0.lock().push(("", error));
    }
}

#[tokio::test]
async fn requests_are_observed_with_their_errors_and_so_is_the_end_of_the_connection() {
    let (link, mut server, rest) = connect(1 << 16);
    let observed = Arc::new(Observed::default());
    link.observe(observed.clone());
    for is_failed in [false, true] {
        let asking = link.ask(Request::new(method::TOOLS_CALL)).result();
        let serving = async {
            let request = server.read().await;
            server.respond(&request, json!({"isError": is_failed})).await;
        };
        let (asked, ()) = tokio::join!(asking, serving);
        asked.expect("a result");
    }
    let refusing = async {
        let request = server.read().await;
        server.refuse(&request).await;
    };
    let (asked, ()) = tokio::join!(link.ask(Request::new(method::PING)).text(), refusing);
    asked.expect("a text");
    let left = link.ask(Request::new(method::PING)).result().now_or_never();
    assert!(left.is_none());
    link.record_failure();
    drop((link, rest));
    let expected = [
        (method::TOOLS_CALL, None),
        (method::TOOLS_CALL, Some("tool_error")),
        (method::PING, Some("-32601")),
        (method::PING, Some("cancelled")),
        ("", Some("connection_lost")),
    ];
    assert_eq!(*observed.0.lock(), expected);
}

#[tokio::test]
async fn a_modern_server_is_asked_with_the_revision_in_every_request() {
    let (link, mut server, _rest) = connect(1 << 16);
    let serving = async {
        let probe = server.read().await;
        let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {}, "instructions": "be kind",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "2"}}});
        server.respond(&probe, result).await;
        let list = server.read().await;
        server.respond(&list, json!({})).await;
        (probe, list)
    };
    let asking = async {
        complete(&link, Handshake::ModernFirst).await.expect("agreed");
        link.ask(Request::new("tools/list").with_progress()).result().await.expect("a result")
    };
    let ((probe, list), _) = tokio::join!(serving, asking);
    assert_eq!(probe["method"], "server/discover");
    for request in [&probe, &list] {
        let meta = &request["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
        assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "Airlock-up");
        assert!(meta["io.modelcontextprotocol/clientCapabilities"].is_object());
    }
    assert_eq!(list["params"]["_meta"]["progressToken"], list["id"]);
    let agreed = link.agreed().expect("agreed");
    assert_eq!((&*agreed.software, agreed.instructions.as_deref()), ("modern 2", Some("be kind")));
}

#[tokio::test]
async fn a_server_that_refuses_the_probe_is_initialized() {
    let (link, mut server, _rest) = connect(1 << 16);
    let serving = async {
        let probe = server.read().await;
        server.refuse(&probe).await;
        server.initialize("2025-06-18").await;
        server.read().await
    };
    let (initialized, agreed) = tokio::join!(serving, complete(&link, Handshake::ModernFirst));
    agreed.expect("agreed");
    assert_eq!(initialized["method"], "notifications/initialized");
    let agreed = link.agreed().expect("agreed");
    assert_eq!((agreed.version.as_str(), &*agreed.software), ("2025-06-18", "a b 1"));
    assert!(
        agreed.has(Capability::Logging)
            && agreed.has(Capability::ToolChanges)
            && !agreed.has(Capability::Resources)
    );
}

#[tokio::test]
async fn a_server_that_answers_the_probe_with_an_empty_result_is_initialized() {
    let (link, mut server, _rest) = connect(1 << 16);
    let serving = async {
        let probe = server.read().await;
        server.respond(&probe, json!({})).await;
        server.initialize("2025-11-25").await;
    };
    let (completed, ()) = tokio::join!(complete(&link, Handshake::ModernFirst), serving);
    completed.expect("agreed");
    assert!(!link.is_modern());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_late_is_waited_for_in_either_era() {
    // As `npx` does, which downloads the server first.
    for is_modern in [false, true] {
        let (link, mut server, _rest) = connect(1 << 16);
        let serving = async {
            sleep(5 * PROBE_PATIENCE).await;
            let probe = server.read().await;
            if is_modern {
                let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
                server.respond(&probe, result).await;
                let initialize = server.read().await;
                server.refuse(&initialize).await;
            } else {
                server.refuse(&probe).await;
                server.initialize("2025-11-25").await;
            }
        };
        let (completed, ()) = tokio::join!(complete(&link, Handshake::ModernFirst), serving);
        completed.expect("agreed");
        assert_eq!(link.is_modern(), is_modern);
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_refuses_initialize_first_is_still_waited_for() {
    let (link, mut server, _rest) = connect(1 << 16);
    let serving = async {
        let probe = server.read().await;
        let initialize = server.read().await;
        server.refuse(&initialize).await;
        sleep(PROBE_PATIENCE).await;
        let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
        server.respond(&probe, result).await;
    };
    let (completed, ()) = tokio::join!(complete(&link, Handshake::ModernFirst), serving);
    completed.expect("agreed");
    assert!(link.is_modern());
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_that_ignores_the_probe_is_initialized_after_a_while() {
    let (link, mut server, _rest) = connect(1 << 16);
    let serving = async {
        server.read().await;
        server.initialize("2024-11-05").await;
    };
    let (completed, ()) = tokio::join!(complete(&link, Handshake::ModernFirst), serving);
    completed.expect("agreed");
    assert!(!link.is_modern());
}

#[tokio::test]
async fn a_server_of_the_modern_era_alone_may_ask_questions_too() {
    let (link, mut server, _rest) = connect(1 << 16);
    let serving = async {
        let initialize = server.read().await;
        assert_eq!(initialize["method"], "initialize");
        server.refuse(&initialize).await;
        let probe = server.read().await;
        let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
        server.respond(&probe, result).await;
    };
    let (completed, ()) = tokio::join!(complete(&link, Handshake::LegacyFirst), serving);
    completed.expect("agreed");
    assert!(link.is_modern());
}

#[tokio::test]
async fn a_handshake_of_one_era_alone_does_not_try_the_other() {
    for (handshake, expected) in [
        (
            Handshake::Modern,
            r#"it does not speak MCP 2026-07-28, which `protocol` "modern" demands"#,
        ),
        (Handshake::Legacy, "it refused the handshake with code -32601: unknown method"),
    ] {
        let (link, mut server, _rest) = connect(1 << 16);
        let serving = async {
            let first = server.read().await;
            server.refuse(&first).await;
        };
        let (completed, ()) = tokio::join!(complete(&link, handshake), serving);
        assert_eq!(completed.expect_err("refused").to_string(), expected);
    }
}

#[test]
fn the_era_that_worked_is_tried_first_unless_the_operator_has_chosen_one() {
    use crate::Protocol;
    use airlock_core::tool::QuestionKind;
    let asks = QuestionKinds::NONE.with(QuestionKind::Roots, true);
    assert_eq!(auto(QuestionKinds::NONE), Handshake::ModernFirst);
    assert_eq!(auto(asks), Handshake::LegacyFirst);
    assert_eq!(auto(asks).other(), Handshake::ModernFirst);
    assert_eq!(auto(asks).after_connection(true), Handshake::ModernFirst);
    assert_eq!(auto(QuestionKinds::NONE).after_connection(false), Handshake::LegacyFirst);
    for (protocol, era) in
        [(Protocol::Modern, Handshake::Modern), (Protocol::Legacy, Handshake::Legacy)]
    {
        let first = Handshake::first(protocol, asks);
        assert_eq!(
            [first, first.other(), first.after_connection(true), first.after_connection(false)],
            [era; 4]
        );
    }
}

fn auto(questions: QuestionKinds) -> Handshake {
    Handshake::first(crate::Protocol::Auto, questions)
}

#[tokio::test]
async fn an_unknown_revision_is_refused_with_those_that_are_known() {
    let (link, mut server, _rest) = connect(1 << 16);
    let (completed, ()) =
        tokio::join!(complete(&link, Handshake::Legacy), server.initialize("1999-01-01\n"));
    insta::assert_snapshot!(
        completed.expect_err("refused"),
        @r#"it speaks MCP "1999-01-01"; this gateway speaks 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and 2026-07-28"#
    );
}

#[tokio::test]
async fn a_dropped_request_is_cancelled_and_one_that_must_not_be_is_not() {
    let (link, mut server, rest) = connect(1 << 16);
    for request in [Request::new("initialize").uncancellable(), Request::new("tools/list")] {
        let mut asking = Box::pin(link.ask(request).result());
        assert!((&mut asking).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    let mut told = Box::pin(link.cancel_abandoned(rest.abandoned));
    let reading = async { [server.read().await, server.read().await, server.read().await] };
    let messages = tokio::select! {
        messages = reading => messages,
        () = &mut told => unreachable!("the queue is open"),
    };
    assert_eq!(messages[2]["method"], "notifications/cancelled");
    assert_eq!(messages[2]["params"]["requestId"], messages[1]["id"]);
}

#[tokio::test]
async fn an_abandoned_request_holds_its_permits_until_the_server_has_read_the_cancellation() {
    let (link, mut server, rest) = connect(1 << 16);
    let permits: HeldPermits = Arc::new(());
    let party = Party { tenant: Tenant::ANONYMOUS, session: None };
    let request = Request::new("tools/call").with_caller(party).holding(Some(permits.clone()));
    let mut asking = Box::pin(link.ask(request).result());
    assert!((&mut asking).now_or_never().is_none());
    tokio::task::yield_now().await;
    drop(asking);
    assert_eq!(Arc::strong_count(&permits), 2, "the server may still work on it");
    let reading = async {
        let messages = [server.read().await, server.read().await, server.read().await];
        assert_eq!(messages[1]["method"], "notifications/cancelled");
        assert_eq!(messages[2]["method"], "ping");
        assert_eq!(Arc::strong_count(&permits), 2, "it has not answered the ping");
        server.respond(&messages[2], json!({})).await;
        while Arc::strong_count(&permits) > 1 {
            tokio::task::yield_now().await;
        }
    };
    let cancelling = link.cancel_abandoned(rest.abandoned);
    tokio::select! {
        () = reading => {}
        () = cancelling => unreachable!("the queue is open"),
    }
}

#[tokio::test(start_paused = true)]
async fn few_tasks_are_cancelled_at_a_time_at_a_server_that_does_not_answer() {
    let (link, mut server, rest) = connect(1 << 16);
    for number in 0..=MAX_TASK_CANCELLATIONS {
        link.abandon_task(number.to_string());
    }
    let reading = async {
        for _ in 0..MAX_TASK_CANCELLATIONS {
            assert_eq!(server.read().await["method"], "tasks/cancel");
        }
        let next = timeout(2 * CANCEL_TIMEOUT, server.read()).await;
        assert!(next.is_err(), "it is left out: {next:?}");
        link.abandon_task("later".to_owned());
        assert_eq!(server.read().await["params"]["taskId"], "later");
    };
    tokio::select! {
        () = reading => {}
        () = link.cancel_abandoned(rest.abandoned) => unreachable!("the queue is open"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_ping_that_finds_no_place_is_retried_until_its_time_limit() {
    let (link, mut server, _rest) = connect(64);
    let mut calls: Vec<_> = Vec::new();
    for _ in 0..=MAX_REQUESTS_IN_FLIGHT + 1 {
        let mut call = Box::pin(link.ask(Request::new("tools/list")).result());
        assert!((&mut call).now_or_never().is_none_or(|asked| asked.is_err()));
        tokio::task::yield_now().await;
        calls.push(call);
    }
    let full =
        link.ask(Request::new("tools/list")).result().await.expect_err("the server reads nothing");
    assert!(full.is_full() && full.is_unsent(), "{full}");
    let checked = check_connection(&link).await;
    assert!(matches!(checked, Err(ConnectionError::PingTimeout(PING_TIMEOUT))), "{checked:?}");
    let waiting = calls.len() - 1;
    let reading = async {
        sleep(2 * PING_RETRY).await;
        loop {
            let message = server.read().await;
            if message["method"] == "ping" {
                server.respond(&message, json!({})).await;
            }
        }
    };
    tokio::select! {
        checked = check_connection(&link) => assert!(checked.is_ok(), "{checked:?}"),
        () = reading => unreachable!("the server reads without end"),
        _ = join_all(calls.drain(..waiting)) => unreachable!("no list is sent"),
    }
}

#[tokio::test]
async fn a_lost_connection_ends_every_request() {
    let (link, server, _rest) = connect(1 << 16);
    let mut asking = Box::pin(link.ask(Request::new("tools/list")).result());
    assert!((&mut asking).now_or_never().is_none());
    drop(server);
    assert!(matches!(asking.await, Err(AskError::Lost | AskError::Send(SendError::Failed(_)))));
}

#[tokio::test]
async fn an_error_of_the_server_and_an_unreadable_response_end_a_request() {
    let (link, mut server, _rest) = connect(1 << 16);
    let serving = async {
        let first = server.read().await;
        server.refuse(&first).await;
        let second = server.read().await;
        let text = format!("{{\"id\":{},\"result\":1e999}}\n", second["id"]);
        server.0.write_all(text.as_bytes()).await.expect("written");
    };
    let asking = async {
        let refused = link.ask(Request::new("a")).result().await;
        assert!(matches!(refused, Err(AskError::Refused(error)) if error.code == -32_601));
        let unreadable = link.ask(Request::new("b")).result().await;
        assert!(matches!(unreadable, Err(AskError::Unreadable(_))), "{unreadable:?}");
    };
    tokio::join!(serving, asking);
}

#[tokio::test]
async fn a_check_is_a_ping_or_a_discovery_by_the_era_and_an_error_counts_as_a_response() {
    for (is_modern, method) in [(true, "server/discover"), (false, "ping")] {
        let (link, mut server, _rest) = connect(1 << 16);
        let serving = async {
            let probe = server.read().await;
            if is_modern {
                let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
                server.respond(&probe, result).await;
            } else {
                server.refuse(&probe).await;
                server.initialize("2025-11-25").await;
                server.read().await;
            }
            let check = server.read().await;
            server.refuse(&check).await;
            check
        };
        let checking = async {
            complete(&link, Handshake::ModernFirst).await.expect("agreed");
            check_connection(&link).await.expect("the server has answered");
        };
        let (check, ()) = tokio::join!(serving, checking);
        assert_eq!(check["method"], method);
    }
}
