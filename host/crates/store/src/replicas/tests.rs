use super::*;
use crate::tests::home::{TestHome, on_both};

const ALIVE: Duration = Duration::from_secs(15);

fn named(id: &str) -> StoredReplica {
    StoredReplica { id: id.to_owned(), url: format!("http://{id}.test:8080") }
}

async fn announce(database: &Database, id: &str) -> Vec<String> {
    let all = database.announce_replica(named(id), ALIVE).await.expect("written");
    all.into_iter().map(|replica| replica.id).collect()
}

on_both! {
    a_gateway_is_known_to_all_until_it_was_not_seen_for_too_long,
    a_gateway_that_stops_is_forgotten_at_once,
}

async fn a_gateway_is_known_to_all_until_it_was_not_seen_for_too_long(home: TestHome) {
    let first = home.open().await;
    let second = home.open().await;
    assert_eq!(first.replicas(ALIVE).await.expect("read"), []);
    assert_eq!(announce(&first, "a").await, ["a"]);
    home.clock.pass(Duration::from_secs(10));
    assert_eq!(announce(&second, "b").await, ["b", "a"]);
    assert_eq!(first.replicas(ALIVE).await.expect("read"), [named("b"), named("a")]);
    home.clock.pass(Duration::from_secs(5));
    assert_eq!(first.replicas(ALIVE).await.expect("read").len(), 2, "exactly as long");
    home.clock.pass(Duration::from_millis(1));
    assert_eq!(first.replicas(ALIVE).await.expect("read"), [named("b")]);
    let moved = StoredReplica { url: "https://elsewhere".to_owned(), ..named("a") };
    let all = first.announce_replica(moved.clone(), ALIVE).await.expect("written");
    assert_eq!(all, [moved, named("b")]);
}

async fn a_gateway_that_stops_is_forgotten_at_once(home: TestHome) {
    let database = home.open().await;
    announce(&database, "a").await;
    announce(&database, "b").await;
    database.forget_replica("a").await.expect("written");
    database.forget_replica("unknown").await.expect("written");
    assert_eq!(database.replicas(ALIVE).await.expect("read"), [named("b")]);
}
