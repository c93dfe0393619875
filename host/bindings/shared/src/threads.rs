//! Threads of the runtime for plain functions of the program, which may block and may never return.

use std::sync::Arc;

use tokio::{sync::Semaphore, task::spawn_blocking};

/// Places for functions of the program on threads of the runtime, which has more threads: functions that never
/// return take none from compilers and stores.
#[derive(Clone)]
pub struct FunctionThreads(Arc<Semaphore>);

impl FunctionThreads {
    pub(crate) fn new(places: usize) -> Self {
        Self(Arc::new(Semaphore::new(places)))
    }

    /// Calls a function on a thread, once there is a place; `None` if it panics, or if the runtime stops first. It
    /// must be polled within the runtime.
    ///
    /// If the future is dropped while it waits for a place, the function is not called. If it is dropped later, the
    /// function goes on, and keeps its place until it returns.
    pub async fn call<T: Send + 'static>(
        &self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = self.0.clone().acquire_owned().await.ok()?;
        let called = spawn_blocking(move || {
            let _place = place;
            function()
        });
        called.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        task::{Context, Poll, Waker},
    };

    use super::*;

    #[tokio::test]
    async fn a_call_that_is_dropped_before_it_has_a_place_is_not_made() {
        let threads = FunctionThreads::new(1);
        let (release, released) = mpsc::channel::<()>();
        let first = tokio::spawn({
            let threads = threads.clone();
            async move { threads.call(move || released.recv().is_ok()).await }
        });
        while threads.0.available_permits() == 1 {
            tokio::task::yield_now().await;
        }
        let is_made = Arc::new(AtomicBool::new(false));
        let mark = is_made.clone();
        let mut late = Box::pin(threads.call(move || mark.store(true, Ordering::Release)));
        let polled = late.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Pending);
        drop(late);
        release.send(()).expect("the first function waits");
        assert_eq!(first.await.expect("it ends"), Some(true));
        assert_eq!(threads.call(|| 3).await, Some(3));
        assert!(!is_made.load(Ordering::Acquire));
    }

    #[tokio::test]
    async fn a_function_keeps_its_place_until_it_returns() {
        let threads = FunctionThreads::new(1);
        let (release, released) = mpsc::channel::<()>();
        let mut left = Box::pin(threads.call(move || released.recv().is_ok()));
        let polled = left.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(polled, Poll::Pending);
        drop(left);
        assert_eq!(threads.0.available_permits(), 0);
        release.send(()).expect("the function waits");
        assert_eq!(threads.call(|| 3).await, Some(3));
    }

    #[tokio::test]
    async fn a_function_that_panics_gives_its_place_back() {
        let threads = FunctionThreads::new(1);
        let panicked = threads.call(|| -> u8 { panic!("the function has failed") }).await;
        assert_eq!(panicked, None);
        assert_eq!(threads.call(|| 3).await, Some(3));
    }
}
