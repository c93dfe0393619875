//! Leaves out the wake-up of an HTTP/1 connection by the end of a body.
//!
//! hyper hands a body over part by part, and wakes the task of the connection for each part that is taken, so that it
//! reads the next one. It does so for the last part too, when the connection has nothing to read. A server polls
//! its handlers in the task of the connection: that wake-up polled the connection and all futures of its request once more,
//! and because a task that wakes itself goes to the queue that all workers share, it woke another worker for that.
//!
//! ```text
//! connection ─ConnectionWaker::poll─▶ hyper ─▶ handler ─poll_body─▶ body, taken: wake-up held
//!                                                                   ├─ more follows: delivered
//!                                                                   └─ the end: left out
//! ```
//!
//! Only wake-ups of the thread that polls a body are held, while it does. A connection of HTTP/2 must be polled with the
//! waker of its task: the end of a body there opens its window.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use hyper::body::{Body, Frame};

use super::next_request::NextRequest;
use airlock_core::wake::{WakeUps, hold};

/// Waker of one connection, whose wake-ups [`poll_body`] can leave out.
#[derive(Default)]
pub(super) struct ConnectionWaker {
    wakes: WakeUps,
    next: NextRequest,
}

impl ConnectionWaker {
    /// Polls the connection. Its wake-ups go to the task of `context`.
    pub(super) fn poll<F: Future>(
        &self,
        mut connection: Pin<&mut F>,
        context: &mut Context<'_>,
    ) -> Poll<F::Output> {
        self.wakes.poll(context, |context| self.next.poll(|| connection.as_mut().poll(context)))
    }
}

/// The next frame of a body; `None` after the last one.
type NextFrame<B> = Option<Result<Frame<<B as Body>::Data>, <B as Body>::Error>>;

/// Polls a body for its next frame. Its connection is woken afterwards if the body woke it, and is not if the body has
/// ended.
pub(super) fn poll_body<B: Body + Unpin>(
    body: &mut B,
    context: &mut Context<'_>,
) -> Poll<NextFrame<B>> {
    hold(|held| {
        let polled = Pin::new(&mut *body).poll_frame(context);
        if body.is_end_stream() {
            held.discard();
        }
        polled
    })
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::poll_fn, pin::pin, sync::Arc, task::Waker};

    use bytes::Bytes;

    use super::*;
    use airlock_core::wake::CountedWakes;

    /// A body that wakes its connection.
    struct WakingBody {
        has_ended: bool,
    }

    impl Body for WakingBody {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            context.waker().wake_by_ref();
            Poll::Pending
        }

        fn is_end_stream(&self) -> bool {
            self.has_ended
        }
    }

    #[test]
    fn a_body_wakes_its_connection_unless_it_has_ended() {
        for has_ended in [false, true] {
            let counted = Arc::new(CountedWakes::default());
            let task = Waker::from(counted.clone());
            let waker = ConnectionWaker::default();
            let connection = poll_fn(|context| {
                let polled = poll_body(&mut WakingBody { has_ended }, context);
                assert!(polled.is_pending());
                Poll::<()>::Pending
            });
            let polled = waker.poll(pin!(connection), &mut Context::from_waker(&task));
            assert!(polled.is_pending());
            assert_eq!(counted.taken(), usize::from(!has_ended));
        }
    }
}
