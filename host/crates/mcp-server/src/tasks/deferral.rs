//! Makes a task of a running call.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use tokio::sync::oneshot;

use super::{store::Tasks, task::Task};
use airlock_core::tenant::Tenant;

/// A call that may become a task.
pub(crate) struct Deferral {
    tasks: Arc<Tasks>,
    tenant: Tenant,
    timeout: Duration,
    /// True if the client asks for a task.
    pub(crate) is_requested: bool,
    task: Arc<OnceLock<Arc<Task>>>,
    /// Receives the task; `None` once there was an attempt to make one.
    deferred: Option<oneshot::Sender<Arc<Task>>>,
}

/// The task that a call may become, for those who wait for the call.
pub(crate) struct Deferred {
    /// The task, as soon as the call is one.
    pub(crate) task: Arc<OnceLock<Arc<Task>>>,
    /// Receives the task.
    pub(crate) became: oneshot::Receiver<Arc<Task>>,
}

impl Deferral {
    /// Creates the deferral of a call of a tenant that may take `timeout`.
    pub(crate) fn new(
        tasks: Arc<Tasks>,
        tenant: Tenant,
        timeout: Duration,
        is_requested: bool,
    ) -> (Self, Deferred) {
        let (sender, became) = oneshot::channel();
        let task = Arc::new(OnceLock::new());
        let deferred = Deferred { task: task.clone(), became };
        let deferral = Self { tasks, tenant, timeout, is_requested, task, deferred: Some(sender) };
        (deferral, deferred)
    }

    /// Makes a task of the call, unless it is one. Without room for a task, the call stays as it is.
    pub(crate) fn defer(&mut self) {
        let Some(deferred) = self.deferred.take() else { return };
        let created = self.tasks.create(self.tenant.clone(), self.timeout);
        if let Some(task) = created
            && self.task.set(task.clone()).is_ok()
        {
            // The client may be gone; its call is cancelled then.
            let _ = deferred.send(task);
        }
    }

    /// Returns the task; `None` if the call is none.
    pub(crate) fn task(&self) -> Option<&Arc<Task>> {
        self.task.get()
    }
}
