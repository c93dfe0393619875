use futures_util::FutureExt as _;

use super::*;

const WAIT: Duration = Duration::from_secs(5);

fn tenant(number: u8) -> Tenant {
    Tenant::of_key([number; 32], number.to_string())
}

/// Waits for a slot at the first depth.
async fn enter(share: &Share, number: u8, deadline: Option<Instant>) -> Result<Slot<'_>, Full> {
    share.wait_for_slot(&tenant(number), 1, deadline).await
}

/// Takes all slots that a tenant gets of a share at the first depth without waiting.
fn take_all(share: &Share, number: u8) -> Vec<Slot<'_>> {
    let mut slots = Vec::new();
    while let Some(Ok(slot)) = enter(share, number, None).now_or_never() {
        slots.push(slot);
    }
    slots
}

#[tokio::test(start_paused = true)]
async fn calls_without_a_free_slot_wait_and_calls_beyond_the_queue_are_refused() {
    let share = Admission::new(2, 1, 1, WAIT).share();
    let first = enter_at(&share, 1, None).await.expect("room");
    let mut second = Box::pin(enter_at(&share, 1, None));
    assert!((&mut second).now_or_never().is_none(), "it waits");
    assert!(enter_at(&share, 1, None).await.is_err(), "the queue is full");
    assert!(enter_at(&share, 2, None).await.is_ok(), "other depths are not affected");
    assert!(enter_at(&share, 9, None).await.is_ok(), "and what is deeper still shares the last");
    drop(first);
    let second = second.await.expect("its turn came");
    assert!(enter_at(&share, 1, None).await.is_err(), "it waits no longer than it may");
    assert!(enter_at(&share, 1, Some(now())).await.is_err(), "nor past its deadline");
    drop(second);
    assert!(enter_at(&share, 1, None).await.is_ok(), "a caller that gave up left no trace");
}

async fn enter_at(share: &Share, depth: u32, deadline: Option<Instant>) -> Result<Slot<'_>, Full> {
    share.wait_for_slot(&Tenant::ANONYMOUS, depth, deadline).await
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_while_it_waits_or_after_it_got_a_slot_frees_its_place() {
    let share = Admission::new(1, 1, 8, WAIT).share();
    let first = enter(&share, 0, None).await.expect("room");
    let mut waiting: Vec<_> = (0..4).map(|number| Box::pin(enter(&share, number, None))).collect();
    for call in &mut waiting {
        assert!(call.now_or_never().is_none(), "it waits");
    }
    // The second call is dropped while it waits. The first gets the slot and is dropped before it
    // is polled.
    drop(waiting.remove(1));
    drop(first);
    drop(waiting.remove(0));
    let next = waiting.remove(0).await.expect("the slot went on to the next");
    drop(next);
    drop(waiting);
    assert!(
        enter(&share, 0, None).now_or_never().is_some_and(|entered| entered.is_ok()),
        "it is free"
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_beside_a_greedy_tenant_runs_at_once_and_is_next_when_it_waits() {
    let admission = Admission::new(1, 8, 10, WAIT);
    let one = admission.share();
    let other = admission.share();
    let greedy = take_all(&one, 0);
    assert_eq!(greedy.len(), 5);
    let mut behind: Vec<_> = (0..7).map(|_| Box::pin(enter(&one, 0, None))).collect();
    for call in &mut behind {
        assert!(call.now_or_never().is_none());
    }
    let held = [take_all(&one, 1), take_all(&other, 1)];
    assert_eq!(held.each_ref().map(Vec::len), [1, 2], "of its own guest and of another");
    let mut newcomer = Box::pin(enter(&one, 2, None));
    assert!((&mut newcomer).now_or_never().is_none(), "the share is taken");
    drop(greedy);
    assert!(
        newcomer.now_or_never().is_some_and(|entered| entered.is_ok()),
        "before all that came earlier"
    );
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_passed_over_waits_on_until_its_deadline() {
    let share = Admission::new(1, 4, 10, WAIT).share();
    let greedy = take_all(&share, 0);
    assert_eq!(greedy.len(), 3);
    let began = now();
    let own = enter(&share, 0, Some(began + 10 * WAIT)).await;
    assert!(own.is_err() && now() < began + 2 * WAIT, "a tenant waits for its own so long");
    let began = now();
    assert!(enter(&share, 1, Some(began + 10 * WAIT)).await.is_err());
    assert!(now() >= began + 10 * WAIT, "another until its deadline");
    let waits = enter(&share, 1, Some(now() + 10 * WAIT));
    let leaves = async {
        tokio::time::sleep(3 * WAIT).await;
        drop(greedy);
    };
    let (entered, ()) = tokio::join!(waits, leaves);
    assert!(entered.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_evicted_from_the_queue_fails_at_once() {
    let share = Admission::new(1, 1, 4, WAIT).share();
    let running = enter(&share, 0, None).await.expect("room");
    let mut waiting: Vec<_> = (0..3).map(|_| Box::pin(enter(&share, 0, None))).collect();
    for call in &mut waiting {
        assert!(call.now_or_never().is_none());
    }
    let mut others: Vec<_> = (0..2).map(|_| Box::pin(enter(&share, 1, None))).collect();
    for call in &mut others {
        assert!(call.now_or_never().is_none());
    }
    let ended: Vec<_> = waiting
        .iter_mut()
        .map(|call| call.now_or_never().map(|entered| entered.is_err()))
        .collect();
    assert_eq!(ended, [None, None, Some(true)]);
    drop(running);
    assert!(waiting.remove(0).now_or_never().is_some_and(|entered| entered.is_ok()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn after_many_tasks_took_or_dropped_slots_every_slot_is_free() {
    let admission = Arc::new(Admission::new(2, 4, 50, WAIT));
    let tasks = (0..40_u8).map(|number| {
        let admission = admission.clone();
        tokio::spawn(async move {
            let share = admission.share();
            for round in 0..50_u32 {
                let tenant = tenant(number % 5);
                let mut entering = Box::pin(share.wait_for_slot(&tenant, 1 + round % 2, None));
                // Some are dropped after one poll.
                let entered = if round % 3 == 0 {
                    (&mut entering).now_or_never()
                } else {
                    Some((&mut entering).await)
                };
                tokio::task::yield_now().await;
                drop(entered);
            }
        })
    });
    for ended in futures_util::future::join_all(tasks).await {
        ended.expect("no panic in it");
    }
    let share = admission.share();
    assert_eq!(take_all(&share, 0).len(), 3);
}
