//! Calls that are dropped at any point leave nothing behind.

use std::{future::poll_fn, pin::pin, task::Poll};

use airlock_tests::{Client, Embedded, Setup, guests, wat::Text};
use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::{Config, TestRunner},
};

/// Computes and calls a tool in turn, so that it yields in its own code as well as in host calls.
const BUSY: Text = Text {
    items: r#"(data (i32.const 256) "busy-run{}good-word_count{\22text\22:\22a b\22}")"#,
    ..Text::run(
        "(loop $again
           (local.set $j (i32.const 0))
           (loop $compute (br_if $compute (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 1))) (i32.const 300000))))
           (call $call (i32.const 266) (i32.const 15) (i32.const 281) (i32.const 14) (i32.const 0) (i64.const 0) (i32.const 1024))
           (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 20))))
         (call $ok)",
    )
};

async fn gateway() -> Embedded {
    let setup = Setup::new();
    let busy = Client::text(&setup, "busy", &BUSY).tools(&["good-word_count"]);
    Embedded::start(setup.client(busy).client(Client::wasm("good", guests::TEXT))).await
}

/// Polls a call at most `polls` times, then drops it. Returns whether the call ended before.
async fn poll_times(gateway: &Embedded, polls: u32) -> bool {
    let mut call = pin!(gateway.admit("busy-run", "{}").run());
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(answer) => {
                assert!(answer.is_ok(), "{answer:?}");
                Poll::Ready(true)
            }
            Poll::Pending => {
                // The task that the call waits for gets a turn before the next poll, though not
                // always a long enough one.
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_after_any_number_of_polls_leaves_nothing_behind() {
    let gateway = gateway().await;
    assert!(poll_times(&gateway, u32::MAX).await, "left alone, it ends");
    // By hand and not with the macro, which does not support `async`.
    let mut runner = TestRunner::new(Config::default());
    let polls = proptest::collection::vec(0_u32..400, 1..8);
    for _ in 0..16 {
        let polls = polls.new_tree(&mut runner).expect("a strategy without conditions").current();
        println!("dropped after so many polls: {polls:?}");
        futures_util::future::join_all(polls.iter().map(|polls| poll_times(&gateway, *polls)))
            .await;
        gateway.emptied().await;
    }
    // Memory, handles and places in the queue were released too: as many calls as there are slots
    // work at once.
    let calls = (0..64).map(|_| gateway.call("good-word_count", r#"{"text":"a b"}"#));
    for ended in futures_util::future::join_all(calls).await {
        assert!(ended.answer.is_ok(), "{ended:?}");
    }
    gateway.stop().await;
}
