//! Subscriptions at a modern server, at the other end of a pipe.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt as _;
use tokio::runtime::Handle;

use super::*;
use crate::pipe::{Rest, Server as Peer, complete, connect};
use airlock_core::{door::Mailbox, tenant::Tenant, tool::ClientName};
use airlock_mcp_client::{Handshake, Process};

/// Returns the link to a modern server with resources, which has answered the handshake.
async fn modern() -> (Arc<Link>, Peer, Rest) {
    let (link, mut peer, rest) = connect(1 << 20);
    let serving = async {
        let probe = peer.read().await;
        let capabilities = json!({"resources": {"subscribe": true}});
        let result = json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": capabilities,
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "2"}}});
        peer.respond(&probe, result).await;
    };
    let (completed, ()) = tokio::join!(complete(&link, Handshake::ModernFirst), serving);
    completed.expect("it is connected");
    (link, peer, rest)
}

/// Returns the resources that a request names.
fn named(request: &Value) -> Vec<&str> {
    assert_eq!(request["method"], "subscriptions/listen", "{request}");
    let uris = request["params"]["notifications"]["resourceSubscriptions"].as_array();
    uris.expect("a list").iter().filter_map(Value::as_str).collect()
}

#[tokio::test(start_paused = true)]
async fn many_changes_cost_one_request_and_the_one_before_stays_open_for_a_while() {
    let (link, mut peer, rest) = modern().await;
    let hub = Hub::default();
    let mailbox = Arc::new(Mailbox::default());
    let subscribe =
        |uri: &str| hub.subscribe(uri, &Tenant::ANONYMOUS, &mailbox, uri).expect("room");
    let serving = async {
        let first = subscribe("a:");
        let request = peer.read().await;
        assert_eq!(named(&request), ["a:"]);
        let begun = Instant::now();
        let others: Vec<_> = (0..100).map(|n| subscribe(&format!("b:{n}"))).collect();
        drop(others);
        let second = subscribe("c:");
        let next = peer.read().await;
        assert_eq!((named(&next), begun.elapsed() >= SUBSCRIPTION_PACE), (vec!["a:", "c:"], true));
        // The next message is the end of the first request: nothing was sent in between.
        let begun = Instant::now();
        let ended = peer.read().await;
        assert!(begun.elapsed() >= SUBSCRIPTION_OVERLAP);
        assert_eq!(ended["method"], "notifications/cancelled", "{ended}");
        assert_eq!(ended["params"]["requestId"], request["id"]);
        drop((first, second));
    };
    tokio::select! {
        () = listen(&hub, &link, || {}) => panic!("it is never refused"),
        () = link.cancel_abandoned(rest.abandoned) => panic!("the connection is open"),
        () = serving => {}
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_subscription_that_the_server_has_ended_everything_counts_as_changed() {
    let (link, mut peer, _rest) = modern().await;
    let hub = Hub::default();
    let mailbox = Arc::new(Mailbox::default());
    let missed = AtomicUsize::new(0);
    let _held = hub.subscribe("a:", &Tenant::ANONYMOUS, &mailbox, "x").expect("room");
    let serving = async {
        let request = peer.read().await;
        peer.respond(&request, json!({"resultType": "complete"})).await;
        assert_eq!(named(&peer.read().await), ["a:"]);
        assert_eq!((&*mailbox.next().await, missed.load(Ordering::Relaxed)), ("x", 1));
    };
    tokio::select! {
        () = listen(&hub, &link, || { missed.fetch_add(1, Ordering::Relaxed); }) => panic!("it is never refused"),
        () = serving => {}
    }
}

#[tokio::test]
async fn the_notifications_of_an_instance_that_is_held_out_are_dropped() {
    let name = ClientName::parse("up").expect("a good name");
    let settings = Settings::new(name, Process::default());
    let server = Server::new(&settings, Handle::current(), None, None);
    let instance = &server.instances()[0];
    let mailbox = Arc::new(Mailbox::default());
    let hub = &server.relaying().hub;
    let _held = hub.subscribe("a:", &Tenant::ANONYMOUS, &mailbox, "x").expect("room");
    let (sender, events) = mpsc::channel(1);
    let mut following = Box::pin(follow_events(&server, instance, events));
    for is_admitted in [false, true] {
        instance.set_admitted(is_admitted);
        let method = method::RESOURCE_UPDATED.to_owned();
        let text = br#"{"params":{"uri":"a:"}}"#.to_vec();
        sender.try_send(ServerEvent { method, text }).expect("room");
        assert!((&mut following).now_or_never().is_none(), "it never ends");
        assert_eq!(mailbox.next().now_or_never().is_some(), is_admitted);
    }
}

#[tokio::test(start_paused = true)]
async fn the_changes_of_a_resource_are_reported_at_a_pace() {
    let name = ClientName::parse("up").expect("a good name");
    let settings = Settings::new(name, Process::default());
    let server = Server::new(&settings, Handle::current(), None, None);
    let instance = &server.instances()[0];
    instance.set_admitted(true);
    let mailbox = Arc::new(Mailbox::default());
    let hub = &server.relaying().hub;
    let _held = hub.subscribe("a:", &Tenant::ANONYMOUS, &mailbox, "x").expect("room");
    let (sender, events) = mpsc::channel(1);
    let mut following = Box::pin(follow_events(&server, instance, events));
    for _ in 0..3 {
        let began = Instant::now();
        for is_first in [true, false] {
            let method = method::RESOURCE_UPDATED.to_owned();
            let text = br#"{"params":{"uri":"a:"}}"#.to_vec();
            sender.try_send(ServerEvent { method, text }).expect("it is read at once");
            assert!((&mut following).now_or_never().is_none(), "it never ends");
            assert_eq!(mailbox.next().now_or_never().is_some(), is_first, "{:?}", began.elapsed());
        }
        tokio::select! {
            () = &mut following => panic!("it never ends"),
            uri = mailbox.next() => assert_eq!(&*uri, "x"),
        }
        assert!((UPDATE_PACE..2 * UPDATE_PACE).contains(&began.elapsed()));
        tokio::time::advance(UPDATE_PACE).await;
    }
}
