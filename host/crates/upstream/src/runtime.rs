//! Threads for all work with upstream servers.
//!
//! All work that a server causes (reading, parsing, answering) runs on these threads, and not on
//! those that serve HTTP and wait for signals. A server that keeps all of them busy therefore
//! delays only the calls of other servers: a response of 3.9 MB with 300,000 objects, which costs the
//! server nothing, took 14 ms of these threads, and the threads of its caller 4 ms with all else that they did.
//! Writing is part of it: a process that reads its pipe into memory that is slow to be mapped keeps
//! the writer in the kernel.
//!
//! The price is two hand-overs between threads a call, to these threads and back. A call at `/mcp` of a tool that does
//! nothing switched threads 8.5 times if a server had the tool, and 2.7 times if a plugin had it.

use std::{
    io,
    sync::mpsc,
    thread::{self, JoinHandle, available_parallelism},
};

use tokio::runtime::{Builder, Handle};

use crate::limits::{RUNTIME_SHUTDOWN, THREADS};

/// A tokio runtime for all upstream servers of a gateway.
///
/// Dropping it ends its tasks and kills the child processes that they own. The drop waits for this,
/// at most one second. Unlike tokio's own runtime, it may be dropped inside another runtime,
/// because a thread of its own owns it.
#[derive(Debug)]
pub struct Runtime {
    handle: Handle,
    /// Dropped to stop the owner thread.
    stop: Option<mpsc::Sender<()>>,
    owner: Option<JoinHandle<()>>,
}

impl Runtime {
    /// Starts the threads: one for each CPU, from two to eight. Fails if the system cannot start
    /// them.
    pub fn new() -> io::Result<Self> {
        let (started, start) = mpsc::channel();
        let (stop, stopped) = mpsc::channel::<()>();
        let owner = thread::Builder::new()
            .name("airlock-upstreams".into())
            .spawn(move || own(&started, &stopped))?;
        let handle = start.recv().map_err(io::Error::other)??;
        Ok(Self { handle, stop: Some(stop), owner: Some(owner) })
    }

    /// Returns the handle on which to spawn tasks that work with servers.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(owner) = self.owner.take() {
            // The thread returns no value. If it panicked, the runtime is gone too.
            let _ = owner.join();
        }
    }
}

/// Builds the runtime, sends its handle, and keeps it until the sender of `stopped` is dropped.
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
    async fn dropping_a_runtime_inside_another_drops_its_tasks() {
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
