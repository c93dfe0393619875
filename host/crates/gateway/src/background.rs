//! The background tasks of a gateway: every task that it starts ends and is joined here.

use std::{future::Future, time::Duration};

use tokio::{runtime::Handle, task::JoinHandle};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tracing::warn;

/// Time for all tasks to end. Each step of stopping an MCP server has its own limit, and all steps
/// together take less.
const STOP: Duration = Duration::from_secs(15);

/// Owns the background tasks of a gateway. Dropping it cancels them without waiting.
pub(super) struct Background(Tasks);

/// Starts background tasks. Cheap to clone; the tasks belong to the [`Background`] that it comes from.
#[derive(Clone)]
pub(super) struct Tasks {
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl Tasks {
    /// Returns the token that is cancelled when the tasks must end.
    pub(super) fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Starts a task, whose future is dropped when the gateway stops. The handle then returns `None`.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        let stopping = self.stopping.clone();
        self.tasks.spawn(async move { stopping.run_until_cancelled(task).await })
    }

    /// Starts a task on another runtime. It must end by itself once [`Self::stopping`] is cancelled.
    pub(super) fn spawn_on(
        &self,
        runtime: &Handle,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.tasks.spawn_on(task, runtime);
    }
}

impl Background {
    pub(super) fn new() -> Self {
        Self(Tasks { tasks: TaskTracker::new(), stopping: CancellationToken::new() })
    }

    /// Returns the handle that starts further tasks.
    pub(super) fn tasks(&self) -> &Tasks {
        &self.0
    }

    /// Starts a task as [`Tasks::spawn`] does.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<Option<T>> {
        self.0.spawn(task)
    }

    /// Ends all tasks and waits for them, for at most [`STOP`].
    pub(super) async fn stop(&self) {
        let Tasks { tasks, stopping } = &self.0;
        stopping.cancel();
        tasks.close();
        if tokio::time::timeout(STOP, tasks.wait()).await.is_err() {
            let left = tasks.len();
            warn!(left, "background tasks did not end in time; MCP servers that run are killed");
        }
    }
}

impl Drop for Background {
    /// Cancels the tasks of a gateway that is dropped without [`Background::stop`].
    fn drop(&mut self) {
        self.0.stopping.cancel();
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::time::Instant;

    use super::*;

    #[tokio::test]
    async fn a_stop_drops_the_tasks_and_joins_them() {
        let background = Background::new();
        let endless = background.spawn(pending::<()>());
        let short = background.spawn(async { 7 });
        assert_eq!(short.await.expect("it does not panic"), Some(7));
        background.stop().await;
        assert!(endless.is_finished());
        assert_eq!(endless.await.expect("it does not panic"), None);
    }

    #[tokio::test]
    async fn dropping_the_owner_cancels_the_tasks() {
        let background = Background::new();
        let endless = background.spawn(pending::<()>());
        drop(background);
        assert_eq!(endless.await.expect("it does not panic"), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_a_task_that_does_not_end_only_so_long() {
        let background = Background::new();
        background.tasks().spawn_on(&Handle::current(), pending());
        let begun = Instant::now();
        background.stop().await;
        assert!(begun.elapsed() >= STOP);
    }
}
