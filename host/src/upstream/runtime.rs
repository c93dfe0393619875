//! The threads on which servers are talked to.
//!
//! Whatever a server makes the gateway do - read, parse, answer - happens on these and not on those
//! that serve HTTP and wait for signals, so a server that keeps all of them busy delays other
//! servers' calls and nothing else.

use std::{
    io,
    sync::mpsc,
    thread::{self, JoinHandle, available_parallelism},
};

use tokio::runtime::{Builder, Handle};

use super::limits::{RUNTIME_SHUTDOWN, THREADS};

/// A tokio runtime for all upstream servers of a gateway.
///
/// Dropping it ends its tasks and kills the child processes that they own; it waits for that, at
/// most a second. It may be dropped inside another runtime, which tokio's own may not: a thread
/// that does nothing else owns it.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    /// Dropped to end the owner.
    stop: Option<mpsc::Sender<()>>,
    owner: Option<JoinHandle<()>>,
}

impl Runtime {
    /// Starts the threads: one for each CPU, from two to eight. Fails if the system gives no more.
    pub fn new() -> io::Result<Self> {
        let (started, start) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let owner = thread::Builder::new()
            .name("airlock-upstreams".into())
            .spawn(move || own(&started, &stopped))?;
        let handle = start.recv().map_err(io::Error::other)??;
        Ok(Self { handle, stop: Some(stop), owner: Some(owner) })
    }

    /// Where to spawn what talks to servers.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(owner) = self.owner.take() {
            // It has nothing to say; had it panicked, the runtime would be gone all the same.
            let _ = owner.join();
        }
    }
}

/// Builds the runtime, tells how to reach it, and keeps it until nobody can say that it is to stop.
fn own(started: &mpsc::Sender<io::Result<Handle>>, stopped: &mpsc::Receiver<()>) {
    let cpus = available_parallelism().map_or(*THREADS.start(), usize::from);
    let threads = cpus.clamp(*THREADS.start(), *THREADS.end());
    match Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("airlock-upstream")
        .enable_all()
        .build()
    {
        Ok(runtime) => {
            let _ = started.send(Ok(runtime.handle().clone()));
            let _ = stopped.recv();
            runtime.shutdown_timeout(RUNTIME_SHUTDOWN);
        }
        Err(error) => {
            let _ = started.send(Err(error));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_runtime_that_is_dropped_inside_another_has_dropped_its_tasks() {
        let runtime = Runtime::new().expect("threads");
        let held = Arc::new(());
        let weak = Arc::downgrade(&held);
        runtime.handle().spawn(async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        drop(runtime);
        assert!(weak.upgrade().is_none());
    }
}
