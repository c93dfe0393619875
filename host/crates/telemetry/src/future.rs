//! The current span: a value of the thread, which a future sets while it is polled.

use std::{
    cell::RefCell,
    future::Future,
    mem,
    pin::Pin,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;

use crate::{Span, span::is_on};

thread_local! {
    static CURRENT: RefCell<Span> = const { RefCell::new(Span::none()) };
}

/// Returns the current span; an empty one outside of every span, and while the thread ends.
pub(crate) fn current() -> Span {
    CURRENT.try_with(|current| current.borrow().clone()).unwrap_or_default()
}

fn replace(span: Span) -> Span {
    CURRENT.try_with(|current| mem::replace(&mut *current.borrow_mut(), span)).unwrap_or_default()
}

/// Runs futures in spans.
pub trait TraceFuture: Future + Sized {
    /// Makes `span` the current one whenever the future is polled. A task that the future spawns has no current
    /// span: its own future takes one in the same way.
    fn in_span(self, span: &Span) -> InSpan<Self> {
        InSpan { future: self, span: span.clone() }
    }
}

impl<F: Future> TraceFuture for F {}

pin_project! {
    /// A future in a span.
    #[must_use = "futures do nothing unless polled"]
    pub struct InSpan<F> {
        #[pin]
        future: F,
        span: Span,
    }
}

impl<F: Future> Future for InSpan<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let _entered = is_on().then(|| EnteredSpan::new(this.span));
        this.future.poll(context)
    }
}

/// Restores the previous span when it is dropped, also by a panic.
struct EnteredSpan(Span);

impl EnteredSpan {
    fn new(span: &Span) -> Self {
        Self(replace(span.clone()))
    }
}

impl Drop for EnteredSpan {
    fn drop(&mut self) {
        // Dropped outside of the cell: the end of a span may read the current one.
        drop(replace(mem::take(&mut self.0)));
    }
}
