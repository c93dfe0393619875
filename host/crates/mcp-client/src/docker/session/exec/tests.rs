//! Sessions at a daemon that does not respond.

use airlock_core::tool::ClientName;
use airlock_test_http::{Answer, Server, ok, says};
use futures_util::FutureExt as _;
use tokio::task::yield_now;

use super::*;
use crate::docker::settings::Place;

#[tokio::test]
async fn a_session_that_is_cancelled_while_it_starts_is_killed() {
    let server = Server::start_by_request(respond).await;
    let settings = Docker {
        host: format!("tcp://{}", server.address),
        place: Place::Existing("tools".to_owned()),
        command: vec!["server".to_owned()],
        env: [].into(),
        directory: None,
        user: None,
    };
    let engine = Engine::connect(&settings.host).await.expect("the daemon agrees on a version");
    let client = ClientName::parse("c").expect("a name");
    let lease = Box::pin(ContainerLease::take(&engine, &settings, &client)).await;
    let lease = lease.expect("the container runs");
    let mut starting = Box::pin(start(&settings, lease, Arc::default()));
    while sent(&server, "/exec/17/start ").is_none() {
        assert!(starting.as_mut().now_or_never().is_none());
        yield_now().await;
    }
    assert_eq!(sent(&server, r#""KILL""#), None);
    drop(starting);
    let kill = loop {
        if let Some(kill) = sent(&server, r#""KILL""#) {
            break kill;
        }
        yield_now().await;
    };
    let created = sent(&server, r#""server""#).expect("it was created before");
    let mark = created.split('"').find(|text| text.starts_with(airlock_process::VARIABLE));
    assert!(kill.contains(mark.expect("it is marked")), "{kill}");
}

/// Responds as a daemon that starts a program and does not report it.
fn respond(request: &str) -> Answer {
    if request.contains("/version") {
        ok(r#"{"ApiVersion": "1.41"}"#)
    } else if request.contains("/start ") {
        Answer::IsSilent
    } else if request.starts_with("POST") {
        says("201 Created", "", r#"{"Id": "17"}"#)
    } else {
        ok(r#"{"Id": "17", "ID": "17", "Running": true, "State": {"Running": true}}"#)
    }
}

/// Returns the first request that contains `text`.
fn sent(server: &Server, text: &str) -> Option<String> {
    server.requests().into_iter().find(|request| request.contains(text))
}
