use std::{pin::Pin, task::Context};

use futures_util::FutureExt as _;

use super::*;
use airlock_core::wake::CountedWakes;

const WAITS: ConnectionTimeouts = ConnectionTimeouts {
    first_head: Duration::from_secs(1),
    idle: Duration::from_secs(10),
    write: Duration::from_secs(100),
};

/// Returns the seconds until the connection is closed, and the reason.
async fn end(activity: &Activity) -> (u64, CloseReason) {
    let started = Instant::now();
    let reason = activity.end(&WAITS).await;
    (started.elapsed().as_secs(), reason)
}

#[tokio::test(start_paused = true)]
async fn each_state_has_its_timeout_and_a_running_request_has_none() {
    let activity = Activity::new();
    assert_eq!(end(&activity).await, (1, CloseReason::Silent));
    let running = activity.begin();
    assert!(tokio::time::timeout(Duration::from_hours(1), end(&activity)).await.is_err());
    let sending = running.answer();
    assert_eq!(end(&activity).await, (100, CloseReason::Unread));
    drop(sending);
    assert_eq!(end(&activity).await, (10, CloseReason::Idle));
}

#[tokio::test(start_paused = true)]
async fn the_oldest_unsent_response_sets_the_deadline() {
    let activity = Activity::new();
    let _old = activity.begin().answer();
    tokio::time::advance(Duration::from_mins(1)).await;
    drop(activity.begin().answer());
    let _new = activity.begin().answer();
    let _running = activity.begin();
    assert_eq!(end(&activity).await, (40, CloseReason::Unread));
}

#[tokio::test(start_paused = true)]
async fn a_pending_wait_for_the_end_follows_every_change() {
    let activity = Activity::new();
    let (watch, ()) = tokio::join!(end(&activity), async {
        tokio::task::yield_now().await;
        drop(activity.begin().answer());
    });
    assert_eq!(watch, (10, CloseReason::Idle));
}

/// Polls a future that stays pending, and forgets the wake-ups until then.
fn settle(pending: Pin<&mut impl Future>, context: &mut Context<'_>, woken: &CountedWakes) {
    assert!(pending.poll(context).is_pending());
    woken.taken();
}

#[tokio::test(start_paused = true)]
async fn a_change_wakes_the_connection_only_if_its_end_is_due_earlier() {
    let activity = Activity::new();
    let woken = Arc::new(CountedWakes::default());
    let waits = ConnectionTimeouts { write: Duration::from_secs(5), ..WAITS };
    let waker = woken.clone().into();
    let mut context = Context::from_waker(&waker);
    let mut ending = Box::pin(activity.end(&waits));
    settle(ending.as_mut(), &mut context, &woken);
    let running = activity.begin();
    assert_eq!(woken.taken(), 0, "it was due in 1 s");
    settle(ending.as_mut(), &mut context, &woken);
    drop(running.answer());
    assert_eq!(woken.taken(), 0, "now in 10 s");
    tokio::time::advance(Duration::from_secs(2)).await;
    settle(ending.as_mut(), &mut context, &woken);
    let running = activity.begin();
    assert_eq!(woken.taken(), 0);
    settle(ending.as_mut(), &mut context, &woken);
    let sending = running.answer();
    assert_eq!(woken.taken(), 1, "in 5 s");
    settle(ending.as_mut(), &mut context, &woken);
    drop(sending);
    assert_eq!(woken.taken(), 0);
    settle(ending.as_mut(), &mut context, &woken);
    assert!(activity.evict());
    assert_eq!(woken.taken(), 1, "now");
}

#[tokio::test(start_paused = true)]
async fn responses_and_chunks_that_are_read_at_once_wake_the_connection_once() {
    let activity = Activity::new();
    let woken = Arc::new(CountedWakes::default());
    let waits = ConnectionTimeouts { write: Duration::from_secs(5), ..WAITS };
    let waker = woken.clone().into();
    let mut context = Context::from_waker(&waker);
    let started = Instant::now();
    drop(activity.begin().answer());
    let mut ending = Box::pin(activity.end(&waits));
    settle(ending.as_mut(), &mut context, &woken);
    drop(activity.begin().answer());
    assert_eq!(woken.taken(), 1, "it was due in 10 s, and for a moment in 5 s");
    settle(ending.as_mut(), &mut context, &woken);
    let mut running = activity.begin();
    running.begin_answer();
    for _ in 0..3 {
        drop(activity.begin().answer());
        drop(running.send_part_before_next());
        assert_eq!(woken.taken(), 0);
        settle(ending.as_mut(), &mut context, &woken);
    }
    tokio::time::advance(Duration::from_secs(4)).await;
    let _unread = running.send_part();
    assert_eq!(ending.await, CloseReason::Unread);
    assert_eq!(started.elapsed().as_secs(), 9, "the wait at 5 s goes on");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_evicted_unless_a_request_is_running() {
    let activity = Activity::new();
    let first = activity.begin();
    assert!(!activity.evict() && activity.rank().is_none());
    let _unsent = first.answer();
    let second = activity.begin();
    assert!(!activity.evict() && activity.rank().is_none(), "the second request is running");
    drop(second);
    assert!(activity.rank().is_some() && activity.evict() && activity.rank().is_none());
    assert_eq!(end(&activity).await, (0, CloseReason::Evicted));
    let idle = Activity::new();
    assert!(idle.rank().is_some() && idle.evict() && idle.rank().is_none());
    assert_eq!(end(&idle).await, (0, CloseReason::Evicted));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_ranks_before_one_with_unsent_responses() {
    let activity = Activity::new();
    let started = Instant::now();
    let old = activity.begin().answer();
    tokio::time::advance(Duration::from_secs(1)).await;
    let later = Instant::now();
    let new = activity.begin().answer();
    assert_eq!(activity.rank(), Some(EvictionRank::Unsent(started)));
    drop(old);
    assert_eq!(activity.rank(), Some(EvictionRank::Unsent(later)));
    drop(new);
    assert_eq!(activity.rank(), Some(EvictionRank::Idle(later)));
    let order = [
        EvictionRank::Idle(started),
        EvictionRank::Idle(later),
        EvictionRank::Unsent(started),
        EvictionRank::Unsent(later),
    ];
    assert!(order.is_sorted());
}

#[tokio::test(start_paused = true)]
async fn too_many_aborted_requests_end_the_connection_unless_as_many_are_answered() {
    let activity = Activity::new();
    for _ in 0..1_000 {
        drop(activity.begin());
        drop(activity.begin().answer());
    }
    for _ in 0..MAX_BROKEN_OFF {
        drop(activity.begin());
    }
    let _running = activity.begin();
    assert!(activity.end(&WAITS).now_or_never().is_none());
    drop(activity.begin());
    assert_eq!(end(&activity).await, (0, CloseReason::BrokenOff));
}

#[tokio::test(start_paused = true)]
async fn answered_waits_for_running_requests_and_not_for_unsent_responses() {
    let activity = Activity::new();
    let _unsent = activity.begin().answer();
    let running = activity.begin();
    assert!(activity.answered(WAITS.write).now_or_never().is_none());
    drop(running);
    activity.answered(WAITS.write).await;
}

#[tokio::test(start_paused = true)]
async fn answered_waits_for_streams_that_are_read_and_not_for_unread_ones() {
    let activity = Activity::new();
    let started = Instant::now();
    let mut unread = activity.begin();
    let mut read = activity.begin();
    unread.begin_answer();
    read.begin_answer();
    let _parts = [unread.send_part(), unread.send_part()];
    tokio::time::advance(Duration::from_secs(40)).await;
    let part = read.send_part();
    assert_eq!(end(&activity).await, (60, CloseReason::Unread));
    assert!(activity.answered(WAITS.write).now_or_never().is_none(), "the other is in time");
    drop(part);
    assert!(activity.answered(WAITS.write).now_or_never().is_none(), "the other is read");
    let _part = read.send_part();
    activity.answered(WAITS.write).await;
    assert_eq!(started.elapsed().as_secs(), 200, "neither is read");
}
