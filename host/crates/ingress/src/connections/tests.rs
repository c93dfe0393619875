//! Tests of the places of connections: limits, shares of tenants, eviction and the reserve.

use std::time::Duration;

use tokio::time::advance;

use super::{super::activity::RunningRequest, *};

fn peer(last: u8) -> Peer {
    Peer::new(Some([10, 0, 0, last].into()))
}

fn tenant(number: u8) -> Tenant {
    Tenant::of_key([number; 32], number.to_string())
}

/// Takes a place that is not reserved.
fn admit(connections: &Arc<Connections>, last: u8) -> ConnectionSlot {
    let slot = connections.admit(peer(last)).expect("there is room");
    assert!(!slot.is_reserved(), "it is a usual place");
    slot
}

fn is_evicted(slot: &ConnectionSlot) -> bool {
    slot.activity.rank().is_none()
}

fn is_reserved(connections: &Arc<Connections>, last: u8) -> bool {
    connections.admit(peer(last)).expect("there is a reserve").is_reserved()
}

/// Begins a request of a tenant on a connection.
fn request(slot: &ConnectionSlot, tenant: &Tenant) -> (RunningRequest, Seat) {
    let running = slot.activity.begin();
    let seat = slot.seats().seat();
    seat.claim(tenant, false).expect("the tenant has a share left");
    (running, seat)
}

#[tokio::test(start_paused = true)]
async fn a_peer_at_its_cap_loses_an_idle_connection_and_gets_the_reserve_if_all_are_in_use() {
    let connections = Connections::new(10, 2);
    let first = admit(&connections, 1);
    let second = admit(&connections, 1);
    let other = admit(&connections, 2);
    let _running = second.activity.begin();
    let third = admit(&connections, 1);
    assert!(is_evicted(&first) && !is_evicted(&other), "the other's is not closed");
    drop(first);
    let _also_running = third.activity.begin();
    assert!(is_reserved(&connections, 1));
    drop(second);
    admit(&connections, 1);
}

#[tokio::test]
async fn a_lower_limit_for_each_peer_evicts_what_that_peer_has_beyond_it() {
    let connections = Connections::new(100, 100);
    let peers = [1, 1, 1, 1, 1, 1, 2, 2, 2, 3];
    let slots = peers.map(|peer| admit(&connections, peer));
    connections.set_limits(100, 2);
    let evicted = [&slots[..6], &slots[6..9], &slots[9..]]
        .map(|of_peer| of_peer.iter().filter(|slot| is_evicted(slot)).count());
    assert_eq!(evicted, [4, 1, 0]);
}

#[tokio::test]
async fn lower_limits_evict_what_may_be_interrupted_and_later_what_was_in_use() {
    let connections = Connections::new(100, 100);
    let mut idle: Vec<_> = (0..16).map(|_| admit(&connections, 1)).collect();
    connections.set_limits(100, 100);
    assert!(!idle.iter().any(is_evicted));
    connections.set_limits(4, 4);
    assert_eq!(idle.iter().filter(|slot| is_evicted(slot)).count(), 12);
    idle.retain(|slot| !is_evicted(slot));
    admit(&connections, 1);
    drop(idle);

    let connections = Connections::new(100, 100);
    let slots: Vec<_> = (0..16).map(|_| admit(&connections, 1)).collect();
    let running: Vec<_> = slots.iter().map(|slot| slot.activity.begin()).collect();
    connections.set_limits(100, 4);
    assert_eq!(connections.table().count(|place| place.is_evicted).held, 0, "all are in use");
    assert!(is_reserved(&connections, 1));
    drop(running);
    assert!(is_reserved(&connections, 1), "they are not closed yet");
    assert_eq!(connections.table().count(|place| place.is_evicted).held, 12);
    drop(slots);
    admit(&connections, 1);
}

#[tokio::test]
async fn a_peer_gets_no_place_while_a_quarter_of_its_cap_is_evicted_and_not_closed() {
    for (max_per_peer, max_held) in [(1, 2), (3, 4), (8, 10)] {
        let connections = Connections::new(100, max_per_peer);
        let mut slots: Vec<_> = (0..max_held).map(|_| admit(&connections, 1)).collect();
        assert!(is_reserved(&connections, 1), "{max_held} are not closed");
        let _other = admit(&connections, 2);
        // When an evicted connection ends, exactly one new one fits.
        drop(slots.remove(0));
        slots.push(admit(&connections, 1));
        assert!(is_reserved(&connections, 1), "{max_held} are not closed again");
        drop(slots);
        assert_eq!(connections.table().places.len(), 1, "the other's");
    }
}

#[tokio::test(start_paused = true)]
async fn connections_are_evicted_in_the_order_idle_unsent_reading_waiting() {
    let connections = Connections::new(6, 6);
    let slots: Vec<_> = (1..=6).map(|last| admit(&connections, last)).collect();
    let [new, old, idle, in_use, reading, waiting] = &slots[..] else { panic!("six") };
    let _running = in_use.activity.begin();
    let _stream = (waiting.activity.begin(), waiting.activity.park(Parking::Waiting));
    let _body = (reading.activity.begin(), reading.activity.park(Parking::Reading));
    let _unsent = old.activity.begin().answer();
    advance(Duration::from_secs(1)).await;
    let _also_unsent = new.activity.begin().answer();
    advance(Duration::from_secs(1)).await;
    drop(idle.activity.begin().answer());
    for next in [idle, old, new, reading, waiting] {
        assert!(!is_evicted(next));
        assert_eq!(connections.table().evict(1, |_| true), 1);
        assert!(is_evicted(next));
    }
    assert_eq!(connections.table().evict(1, |_| true), 0, "a request is running on the last");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_not_evicted_while_one_of_its_requests_may_not_be_interrupted() {
    let connections = Connections::new(1, 1);
    let slot = admit(&connections, 1);
    let _waiting = (slot.activity.begin(), slot.activity.park(Parking::Waiting));
    let running = slot.activity.begin();
    assert!(is_reserved(&connections, 2));
    drop(running);
    admit(&connections, 2);
    assert!(is_evicted(&slot));
}

#[tokio::test(start_paused = true)]
async fn streams_of_the_tenant_with_most_are_evicted_first_whatever_their_age() {
    let connections = Connections::new(4, 4);
    let bob = admit(&connections, 1);
    let _of_bob = (request(&bob, &tenant(2)), bob.activity.park(Parking::Waiting));
    advance(Duration::from_secs(1)).await;
    let anns: Vec<_> = (0..3).map(|_| admit(&connections, 1)).collect();
    let _of_ann: Vec<_> = anns
        .iter()
        .map(|slot| (request(slot, &tenant(1)), slot.activity.park(Parking::Waiting)))
        .collect();
    for _ in 0..2 {
        admit(&connections, 1);
    }
    assert!(!is_evicted(&bob));
    assert!(anns.iter().any(is_evicted));
}

#[tokio::test]
async fn a_tenant_has_requests_on_three_quarters_of_the_places_and_others_get_the_rest() {
    for (max, max_per_peer, share) in [(100, 8, 6), (8, 100, 6), (100, 2, 2), (1, 1, 1)] {
        let connections = Connections::new(max, max_per_peer);
        let ann = tenant(1);
        let bob = tenant(2);
        let slots: Vec<_> = (0..share).map(|_| admit(&connections, 1)).collect();
        let requests: Vec<_> = slots.iter().map(|slot| request(slot, &ann)).collect();
        let _same_connection = request(&slots[0], &ann);
        if share < max.min(max_per_peer) {
            let next = admit(&connections, 1);
            let seat = next.seats().seat();
            assert_eq!(seat.claim(&ann, false), Err(ShareInUse), "it has its share");
            seat.claim(&bob, false).expect("the other has some left");
        }
        drop(requests);
        drop(slots);
        let table = connections.table();
        assert!(table.counts.is_empty(), "{max}");
    }
}

#[tokio::test]
async fn a_connection_counts_for_a_tenant_while_requests_of_it_run_there() {
    let connections = Connections::new(4, 4);
    let ann = tenant(1);
    let bob = tenant(2);
    let slots: Vec<_> = (0..4).map(|_| admit(&connections, 1)).collect();
    let mut requests: Vec<_> = slots[..3].iter().map(|slot| request(slot, &ann)).collect();
    let seat = slots[3].seats().seat();
    assert!(seat.claim(&ann, false).is_err(), "ann has a share of three");
    requests.remove(0);
    seat.claim(&ann, false).expect("the first connection is idle");
    drop(seat);
    let of_bob = request(&slots[0], &bob);
    let _also_of_ann = request(&slots[3], &ann);
    drop(of_bob);
    let seat = slots[0].seats().seat();
    assert!(seat.claim(&ann, false).is_err(), "ann has three again");
    seat.claim(&bob, false).expect("bob has none");
}

#[tokio::test]
async fn a_tenant_at_its_share_loses_a_waiting_stream_for_a_request_but_not_for_another_stream() {
    let connections = Connections::new(4, 4);
    let ann = tenant(1);
    let slots: Vec<_> = (0..3).map(|_| admit(&connections, 1)).collect();
    let _streams: Vec<_> = slots
        .iter()
        .map(|slot| (request(slot, &ann), slot.activity.park(Parking::Waiting)))
        .collect();
    let fourth = admit(&connections, 1);
    let seat = fourth.seats().seat();
    assert!(seat.claim(&ann, true).is_err(), "a fourth stream");
    assert!(!slots.iter().any(is_evicted));
    seat.claim(&ann, false).expect("a stream gives way");
    assert_eq!(slots.iter().filter(|slot| is_evicted(slot)).count(), 1);
}

#[tokio::test]
async fn the_reserve_is_divided_between_peers_and_its_connections_are_evicted_for_new_ones() {
    let connections = Connections::new(2, 1);
    let in_use = [admit(&connections, 1), admit(&connections, 2)];
    let _running: Vec<_> = in_use.iter().map(|slot| slot.activity.begin()).collect();
    let ones: Vec<_> =
        (0..RESERVED / 2).map(|_| connections.admit(peer(1)).expect("a place")).collect();
    assert!(ones.iter().all(|slot| slot.is_reserved() && !is_evicted(slot)));
    let next = connections.admit(peer(1)).expect("an idle one gives way");
    assert_eq!(ones.iter().filter(|slot| is_evicted(slot)).count(), 1);
    let closing: Vec<_> = std::iter::from_fn(|| connections.admit(peer(1))).take(1_000).collect();
    assert!(closing.len() < 1_000, "evicted ones that are not closed are bounded");
    let other = connections.admit(peer(3)).expect("another peer has places left");
    assert!(other.is_reserved() && !is_evicted(&other));
    drop((ones, next, closing));
    connections.admit(peer(1)).expect("they are closed");
}

#[tokio::test(start_paused = true)]
async fn peers_that_do_not_read_their_answers_do_not_shut_out_others() {
    let connections = Connections::new(2, 1);
    let slots = [admit(&connections, 1), admit(&connections, 2)];
    let _unsent: Vec<_> = slots.iter().map(|slot| slot.activity.begin().answer()).collect();
    let _third = admit(&connections, 3);
    assert!(is_evicted(&slots[0]) && !is_evicted(&slots[1]));
}

#[tokio::test(start_paused = true)]
async fn a_sixteenth_of_all_connections_is_evicted_at_a_time_the_idle_for_longest_first() {
    let connections = Connections::new(2 * EVICTED_PART, 2 * EVICTED_PART);
    let mut places = Vec::new();
    for _ in 0..2 * EVICTED_PART {
        places.push(admit(&connections, 1));
        advance(Duration::from_secs(1)).await;
    }
    let _running = places[0].activity.begin();
    let _other = admit(&connections, 2);
    let evicted: Vec<_> = places.iter().map(is_evicted).collect();
    let expected = [vec![true; 3], vec![false; 2 * EVICTED_PART - 3]].concat();
    // The first has no rank because its request is running.
    assert_eq!(evicted, expected);
    assert_eq!(connections.table().count(|place| place.is_evicted).open, 0);
    assert_eq!(connections.table().count(|place| place.is_evicted).held, 2);
}

#[test]
fn refused_connections_are_logged_once_a_second_with_their_number() {
    let mut table = ConnectionTable::default();
    let start = Instant::now();
    let logged = [0, 1, 999, 1_000, 1_001, 5_000]
        .map(|millis| table.count_refusal(start + Duration::from_millis(millis)));
    assert_eq!(logged, [Some(1), None, None, Some(3), None, Some(2)]);
}
