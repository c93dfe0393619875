//! Threads of the runtime for plain functions of the program, which may block and may never return.
//!
//! A function may wait for another one: it runs a script, or sends a request to its gateway, whose functions need threads, too.
//! If functions that wait held all threads, the functions that they wait for would get none. So each level of functions within
//! others has some places of its own. A function waits for a place of its level only as long as other functions of that level run,
//! which wait for deeper levels alone, and the functions of the deepest level wait for none.

use std::{iter, sync::Arc};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};

/// Levels of functions within each other: as many as scripts in each other, at the highest limit `nesting`.
const LEVELS: usize = 16;

/// Places for functions of the program on threads of the runtime, which has more threads: functions that never
/// return take none from compilers and stores.
#[derive(Clone)]
pub struct FunctionThreads(Arc<FunctionPlaces>);

struct FunctionPlaces {
    /// Places for functions of all levels.
    shared: Arc<Semaphore>,
    /// Places for functions of one level, for each level from that of functions within one other.
    nested: Vec<Arc<Semaphore>>,
}

/// Reason that a function has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FunctionLost {
    /// It would run within too many others.
    #[error(
        "a function that needs a thread was called within {around} other calls, of which each waits for the next; the limit is {}: \
         end the recursion, or declare the function with `async def`",
        LEVELS - 1
    )]
    TooNested {
        /// Calls around it.
        around: u32,
    },
    /// It has panicked, or the runtime has stopped.
    #[error("the thread of the function has stopped")]
    Stopped,
}

impl FunctionThreads {
    /// Creates places: `shared` ones for all functions, and `nested` ones for each level of functions within others.
    pub(crate) fn new(shared: usize, nested: usize) -> Self {
        let nested = iter::repeat_with(|| Arc::new(Semaphore::new(nested))).take(LEVELS - 1);
        let shared = Arc::new(Semaphore::new(shared));
        Self(Arc::new(FunctionPlaces { shared, nested: nested.collect() }))
    }

    /// Returns the number of all places of [`Self::new`].
    pub(crate) const fn total(shared: usize, nested: usize) -> usize {
        shared + nested * (LEVELS - 1)
    }

    /// Calls a function on a thread, once there is a place. `around` is the number of calls that may wait for it, in each other.
    /// Fails if they are too many, if the function panics, or if the runtime stops first. It must be polled within the runtime.
    ///
    /// If the future is dropped while it waits for a place, the function is not called. If it is dropped later, the
    /// function goes on, and keeps its place until it returns.
    pub async fn call<T: Send + 'static>(
        &self,
        around: u32,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, FunctionLost> {
        let place = self.place(around).await?;
        let called = spawn_blocking(move || {
            let _place = place;
            function()
        });
        called.await.map_err(|_| FunctionLost::Stopped)
    }

    /// Waits for a place: a shared one, or one of the level of the function.
    async fn place(&self, around: u32) -> Result<OwnedSemaphorePermit, FunctionLost> {
        let shared = self.0.shared.clone().acquire_owned();
        let place = if let Some(level) = around.checked_sub(1) {
            let level = usize::try_from(level).unwrap_or(usize::MAX);
            let nested = self.0.nested.get(level).ok_or(FunctionLost::TooNested { around })?;
            tokio::select! {
                biased;
                place = shared => place,
                place = nested.clone().acquire_owned() => place,
            }
        } else {
            shared.await
        };
        // They are never closed.
        place.map_err(|_| FunctionLost::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        sync::{
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        task::{Context, Poll, Waker},
    };

    use tokio::runtime::Handle;

    use super::*;

    fn polled<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Calls a function that calls the next one and waits for it, until the last call fails. Returns its failure.
    fn deepest(threads: &FunctionThreads, around: u32) -> FunctionLost {
        let within = threads.clone();
        let called = threads.call(around, move || deepest(&within, around + 1));
        match Handle::current().block_on(called) {
            Ok(lost) | Err(lost) => lost,
        }
    }

    #[tokio::test]
    async fn a_call_that_is_dropped_before_it_has_a_place_is_not_made() {
        let threads = FunctionThreads::new(1, 1);
        let (release, released) = mpsc::channel::<()>();
        let first = tokio::spawn({
            let threads = threads.clone();
            async move { threads.call(0, move || released.recv().is_ok()).await }
        });
        while threads.0.shared.available_permits() == 1 {
            tokio::task::yield_now().await;
        }
        let is_made = Arc::new(AtomicBool::new(false));
        let mark = is_made.clone();
        let mut late = Box::pin(threads.call(0, move || mark.store(true, Ordering::Release)));
        assert_eq!(polled(&mut late), Poll::Pending);
        drop(late);
        release.send(()).expect("the first function waits");
        assert_eq!(first.await.expect("it ends"), Ok(true));
        assert_eq!(threads.call(0, || 3).await, Ok(3));
        assert!(!is_made.load(Ordering::Acquire));
    }

    #[tokio::test]
    async fn a_function_keeps_its_place_until_it_returns() {
        let threads = FunctionThreads::new(1, 1);
        let (release, released) = mpsc::channel::<()>();
        let mut left = Box::pin(threads.call(0, move || released.recv().is_ok()));
        assert_eq!(polled(&mut left), Poll::Pending);
        drop(left);
        assert_eq!(threads.0.shared.available_permits(), 0);
        release.send(()).expect("the function waits");
        assert_eq!(threads.call(0, || 3).await, Ok(3));
    }

    #[tokio::test]
    async fn a_function_that_panics_gives_its_place_back() {
        let threads = FunctionThreads::new(1, 1);
        let panicked = threads.call(0, || -> u8 { panic!("the function has failed") }).await;
        assert_eq!(panicked, Err(FunctionLost::Stopped));
        assert_eq!(threads.call(0, || 3).await, Ok(3));
    }

    #[tokio::test]
    async fn functions_within_each_other_get_places_until_they_are_too_deep() {
        let threads = FunctionThreads::new(1, 1);
        let within = threads.clone();
        let lost = threads.call(0, move || deepest(&within, 1)).await;
        assert_eq!(lost, Ok(FunctionLost::TooNested { around: 16 }));
        let message = lost.expect("it was called").to_string();
        assert!(message.contains("within 16 other calls"), "{message}");
        assert!(message.contains("the limit is 15"), "{message}");
    }

    #[tokio::test]
    async fn functions_of_one_level_wait_for_each_other_and_not_for_another_level() {
        let threads = FunctionThreads::new(1, 1);
        let (release, released) = mpsc::channel::<()>();
        let (free_within, nested_ends) = mpsc::channel::<()>();
        let mut outer = Box::pin(threads.call(0, move || released.recv().is_ok()));
        let mut nested = Box::pin(threads.call(1, move || nested_ends.recv().is_ok()));
        let mut late = Box::pin(threads.call(1, || 3));
        assert_eq!(polled(&mut outer), Poll::Pending);
        assert_eq!(polled(&mut nested), Poll::Pending);
        assert_eq!(polled(&mut late), Poll::Pending);
        assert_eq!(threads.call(2, || 4).await, Ok(4));
        // The shared place is free then.
        release.send(()).expect("the function waits");
        assert_eq!((outer.await, late.await), (Ok(true), Ok(3)));
        free_within.send(()).expect("the function waits");
        assert_eq!(nested.await, Ok(true));
    }
}
