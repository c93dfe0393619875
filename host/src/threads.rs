//! Blocking threads for work that would keep a worker of the runtime from other requests.
//!
//! A text of some MiB takes tens of milliseconds to be read. On a worker, that is the latency of every
//! other request.

use std::{
    collections::HashMap,
    future::pending,
    panic::resume_unwind,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread::available_parallelism,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::spawn_blocking,
};

use crate::tenant::Tenant;

/// Texts above this size, in bytes, are read on a blocking thread. The worst text of this size
/// occupies a worker for a few milliseconds.
pub(crate) const INLINE_BYTES: usize = 32 * 1024;

/// Blocking threads: as many at a time as there are cores, and two at least. One tenant leaves one to
/// the others.
pub(crate) struct Threads {
    all: Arc<Semaphore>,
    /// Threads that one tenant may have.
    of_one: usize,
    by_tenant: Mutex<HashMap<Tenant, Weak<Semaphore>>>,
}

impl Default for Threads {
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, usize::from))
    }
}

impl Threads {
    fn new(cores: usize) -> Self {
        let all = cores.max(2);
        Self { all: Arc::new(Semaphore::new(all)), of_one: all - 1, by_tenant: Mutex::default() }
    }

    /// Runs work on a blocking thread. It runs to its end even if the future is dropped. Panics if the
    /// work does.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        tenant: &Tenant,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let permits = self.take(tenant).await;
        let working = spawn_blocking(move || {
            let _permits = permits;
            work()
        });
        match working.await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The runtime ends.
                Err(_) => pending().await,
            },
        }
    }

    /// Waits for a thread: first for one of the tenant's, so that requests of one tenant do not stand
    /// in the queue of all.
    async fn take(&self, tenant: &Tenant) -> [OwnedSemaphorePermit; 2] {
        let own = take(self.of(tenant)).await;
        [own, take(self.all.clone()).await]
    }

    fn of(&self, tenant: &Tenant) -> Arc<Semaphore> {
        // The map is consistent after every statement.
        let mut by_tenant = self.by_tenant.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = by_tenant.get(tenant).and_then(Weak::upgrade) {
            return own;
        }
        by_tenant.retain(|_, own| own.strong_count() > 0);
        let own = Arc::new(Semaphore::new(self.of_one));
        by_tenant.insert(tenant.clone(), Arc::downgrade(&own));
        own
    }
}

async fn take(semaphore: Arc<Semaphore>) -> OwnedSemaphorePermit {
    semaphore.acquire_owned().await.expect("the semaphore is never closed")
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn one_tenant_leaves_a_thread_to_the_others() {
        for (cores, of_one) in [(1, 1), (2, 1), (8, 7)] {
            let threads = Threads::new(cores);
            let ann = Tenant::of_key([1; 32], "ann");
            let bob = Tenant::of_key([2; 32], "bob");
            let held: Vec<_> = (0..9).map_while(|_| threads.take(&ann).now_or_never()).collect();
            assert_eq!(held.len(), of_one, "{cores}");
            let waiting = threads.take(&ann);
            drop(threads.take(&bob).now_or_never().expect("a thread is left"));
            drop(held);
            drop(waiting.now_or_never().expect("they are free again"));
            threads.of(&bob);
            assert_eq!(threads.by_tenant.lock().expect("not poisoned").len(), 1);
        }
    }

    #[tokio::test]
    #[should_panic(expected = "as it is tested")]
    async fn a_panic_of_the_work_is_passed_on() {
        Threads::new(1).run(&Tenant::ANONYMOUS, || panic!("as it is tested")).await;
    }
}
