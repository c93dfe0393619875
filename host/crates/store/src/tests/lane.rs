//! Tests of lanes: the places and the turns of parties.

use std::sync::{Arc, mpsc};

use futures_util::future::{BoxFuture, join_all};

use crate::{
    Database, Unavailable,
    limits::CountSelection,
    tests::home::{TestHome, on_both},
};
use airlock_database::{
    lane::{GATEWAY_PLACES, MAX_PLACES},
    sql::Subject,
};

on_both! {
    a_party_has_half_of_the_places_and_operations_beyond_them_fail_as_busy,
    a_new_party_has_places_beside_four_that_take_all_they_can_get,
    the_gateway_has_places_however_many_parties_take_all_they_can_get,
    a_long_read_of_the_call_log_delays_no_other_reads,
}

type Held<'d> = Vec<BoxFuture<'d, Result<bool, Unavailable>>>;

/// Returns reads that take all connections that a party can get, and keep them until the channels are dropped.
fn hold<'d>(home: &TestHome, database: &'d Database) -> (Vec<mpsc::Sender<()>>, Held<'d>) {
    let held = (0..home.connections()).map(|_| -> (_, BoxFuture<'d, _>) {
        let (go, wait) = mpsc::channel::<()>();
        (go, Box::pin(database.read(move |_| Ok(wait.recv().is_err()))))
    });
    held.unzip()
}

async fn a_party_has_half_of_the_places_and_operations_beyond_them_fail_as_busy(home: TestHome) {
    let database = home.open().await;
    let (go, mut waiting) = hold(&home, &database);
    waiting.extend(
        (waiting.len()..MAX_PLACES / 2)
            .map(|_| -> BoxFuture<'_, _> { Box::pin(database.read(|_| Ok(true))) }),
    );
    for operation in &mut waiting {
        assert!(futures_util::poll!(operation).is_pending(), "it has a place");
    }
    assert!(matches!(database.read(|_| Ok(())).await, Err(Unavailable::Busy)));
    drop(go);
    for answer in join_all(waiting).await {
        assert!(answer.expect("its turn came"));
    }
    database.read(|_| Ok(())).await.expect("there is room again");
}

#[tokio::test]
async fn parties_take_turns_and_one_without_places_does_not_delay_another() {
    // Several connections begin operations in order, and end them in any.
    let home = TestHome::sqlite();
    let database = home.open().await;
    let ann = database.of_party("ann");
    let bob = database.of_party("bob");
    let served = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let mut first = Box::pin(ann.read(move |_| Ok(wait.recv().is_err())));
    assert!(futures_util::poll!(&mut first).is_pending(), "it has the connection");
    let half = (MAX_PLACES - GATEWAY_PLACES) / 2;
    let mut waiting: Vec<_> = (1..half).map(|_| serve(&served, &ann, "ann")).collect();
    for operation in &mut waiting {
        assert!(futures_util::poll!(operation).is_pending(), "it has a place");
    }
    assert!(matches!(ann.read(|_| Ok(())).await, Err(Unavailable::Busy)));
    for _ in 0..2 {
        let mut operation = serve(&served, &bob, "bob");
        assert!(futures_util::poll!(&mut operation).is_pending(), "another party has places");
        waiting.push(operation);
    }
    drop(go);
    first.await.expect("its turn came");
    for answer in join_all(waiting).await {
        answer.expect("its turn came");
    }
    let served = served.lock();
    let bobs: Vec<_> = (0..served.len()).filter(|at| served[*at] == "bob").collect();
    assert_eq!(bobs, [1, 3], "of {} operations", served.len());
}

fn serve(
    served: &Arc<parking_lot::Mutex<Vec<&'static str>>>,
    database: &Database,
    name: &'static str,
) -> BoxFuture<'static, Result<(), Unavailable>> {
    let database = database.clone();
    let served = served.clone();
    Box::pin(async move {
        let read = database.read(move |_| {
            served.lock().push(name);
            Ok(())
        });
        read.await
    })
}

async fn a_new_party_has_places_beside_four_that_take_all_they_can_get(home: TestHome) {
    is_served_beside(home, 4, |database| database.of_party("new")).await;
}

async fn the_gateway_has_places_however_many_parties_take_all_they_can_get(home: TestHome) {
    is_served_beside(home, 20, Database::clone).await;
}

/// Fails if a lane in which so many parties have taken all the places that they can get has none for
/// another one.
async fn is_served_beside(home: TestHome, parties: u32, other: impl Fn(&Database) -> Database) {
    let database = home.open().await;
    let (go, mut first) = hold(&home, &database);
    for operation in &mut first {
        assert!(futures_util::poll!(operation).is_pending(), "it has a connection");
    }
    let parties: Vec<_> = (0..parties).map(|party| database.of_party(party)).collect();
    let mut waiting: Vec<BoxFuture<'_, _>> = Vec::new();
    for party in &parties {
        loop {
            let mut operation: BoxFuture<'_, _> = Box::pin(party.read(|_| Ok(())));
            match futures_util::poll!(&mut operation) {
                std::task::Poll::Pending => waiting.push(operation),
                std::task::Poll::Ready(refused) => {
                    assert!(matches!(refused, Err(Unavailable::Busy)));
                    break;
                }
            }
        }
    }
    let new = other(&database);
    let mut last = Box::pin(new.read(|_| Ok(())));
    assert!(futures_util::poll!(&mut last).is_pending(), "it has a place");
    drop((waiting, go));
    for held in join_all(first).await {
        held.expect("its turn came");
    }
    last.await.expect("its turn came");
    for party in &parties {
        party.read(|_| Ok(())).await.expect("the places of dropped operations are free");
    }
}

#[tokio::test]
async fn parties_that_take_all_connections_that_they_can_get_leave_one_to_the_gateway() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    let parties = ["ann", "bob", "eve"].map(|party| database.of_party(party));
    let mut goes = Vec::new();
    let mut held = Vec::new();
    for party in &parties {
        let (go, mut operations) = hold(&home, party);
        for operation in &mut operations {
            assert!(futures_util::poll!(operation).is_pending());
        }
        goes.extend(go);
        held.extend(operations);
    }
    database.read(|_| Ok(())).await.expect("a connection is left");
    drop(goes);
    for operation in join_all(held).await {
        operation.expect("its turn came");
    }
}

async fn a_long_read_of_the_call_log_delays_no_other_reads(home: TestHome) {
    let database = home.open().await;
    let (go, wait) = mpsc::channel::<()>();
    let mut long = Box::pin(database.read_log(move |_| Ok(wait.recv().is_err())));
    assert!(futures_util::poll!(&mut long).is_pending(), "it has a connection");
    database.read(|_| Ok(())).await.expect("it has another one");
    drop(go);
    assert!(long.await.expect("it ends"));
}

#[tokio::test]
async fn writes_of_the_call_log_that_hang_delay_no_limit_on_a_server() {
    let Some(home) = TestHome::postgres() else { return };
    let database = home.open().await;
    let (go, mut held): (Vec<_>, Held<'_>) = (0..home.connections())
        .map(|number| -> (_, BoxFuture<'_, _>) {
            let (go, wait) = mpsc::channel::<()>();
            let subject = Subject::call_log(&number.to_string());
            (go, Box::pin(database.write_log(subject, move |_| Ok(wait.recv().is_err()))))
        })
        .unzip();
    for operation in &mut held {
        assert!(
            futures_util::poll!(operation).is_pending(),
            "it hangs, or waits for one that does"
        );
    }
    let selection = CountSelection { limits: ["l".to_owned()].into(), ..CountSelection::default() };
    database.change_counts(selection, |_| ()).await.expect("it has another connection");
    drop(go);
    for operation in join_all(held).await {
        assert!(operation.expect("it ends"));
    }
}
