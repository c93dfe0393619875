//! The thread that forks a child and outlives it.
//!
//! Linux ties a child's life to the thread that forked it, and threads of an async runtime come and
//! go. Each child therefore has a thread of its own, which mostly sleeps. A child whose program
//! hangs while it is loaded delays no other.

use std::{io, sync::mpsc, thread};

use tokio::{runtime::Handle, sync::oneshot};

use crate::{
    child::{Child, Pipes},
    command::Command,
    error::SpawnError,
    platform::{self, ProcessReach},
    tag::Tag,
};

/// Stack of a guard. It only reads small files.
const STACK_BYTES: usize = 256 << 10;

/// Handle of the owner of a child. Dropping it has the guard kill all processes of the child.
pub(crate) struct GuardHandle(mpsc::Sender<GuardCommand>);

/// Command to a guard.
enum GuardCommand {
    /// Remember the present descendants.
    Remember,
    /// Kill everything, then drop the sender.
    Kill(oneshot::Sender<()>),
}

impl GuardHandle {
    /// Has the guard remember the present descendants of the child.
    pub(crate) fn remember(&self) {
        // The guard waits for orders as long as this handle exists.
        let _ = self.0.send(GuardCommand::Remember);
    }

    /// Kills all processes of the child that can be found, and waits for it. The child must not be
    /// reaped unless the system cannot tell its exit otherwise.
    pub(crate) async fn kill_all(&self) {
        let (done, is_done) = oneshot::channel();
        if self.0.send(GuardCommand::Kill(done)).is_ok() {
            // The sender is dropped at the latest when the guard ends.
            let _ = is_done.await;
        }
    }
}

/// Starts a child on a thread of its own. Must be called within a tokio runtime.
pub(crate) async fn spawn(command: Command) -> Result<(Child, Pipes), SpawnError> {
    let (started, start) = oneshot::channel();
    let (orders, received) = mpsc::channel();
    let runtime = Handle::current();
    thread::Builder::new()
        .name("airlock-child".into())
        .stack_size(STACK_BYTES)
        .spawn(move || guard(&command, &runtime, GuardHandle(orders), &received, started))
        .map_err(SpawnError::Start)?;
    start.await.unwrap_or_else(|_| {
        Err(SpawnError::Start(io::Error::other("the thread that starts it has ended")))
    })
}

/// Starts the child, sends it to its owner, and waits until it is to be killed.
fn guard(
    command: &Command,
    runtime: &Handle,
    handle: GuardHandle,
    orders: &mpsc::Receiver<GuardCommand>,
    started: oneshot::Sender<Result<(Child, Pipes), SpawnError>>,
) {
    platform::kill_strays();
    let mut reach = ProcessReach::new(Tag::new());
    let child = {
        let _within = runtime.enter();
        Child::start(command, &reach, handle)
    };
    if let Ok((child, _)) = &child {
        reach.watch(child.leader());
    }
    // If the owner is gone, the child is dropped here and thereby killed.
    let _ = started.send(child);
    let done = loop {
        match orders.recv() {
            Ok(GuardCommand::Remember) => reach.remember(),
            Ok(GuardCommand::Kill(done)) => break Some(done),
            // The owner was dropped: it has killed the group, and the runtime may have reaped it.
            Err(_) => break None,
        }
    };
    reach.kill(done.is_none());
    drop(done);
}
