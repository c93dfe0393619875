//! The queues of all logs. Each log has a queue and a writer of its own, so that one that fails or hangs delays no
//! other.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use crate::{
    event::RecordEvent,
    queue::{EventQueue, NoRoom, WriteReceipt},
};

/// The queues of the logs that there are. Dropping them closes them.
#[derive(Default)]
pub(crate) struct LogQueues {
    /// `None` without an audit log.
    audit: Option<Arc<EventQueue>>,
    /// `None` without a call log.
    calls: Option<Arc<EventQueue>>,
}

/// An event on its way into each log.
pub(crate) struct PendingEvent {
    receipts: Vec<(Arc<EventQueue>, WriteReceipt)>,
    /// True if a log had no room for it.
    is_refused: bool,
}

impl LogQueues {
    /// Adds the queue of the audit log.
    pub(crate) fn add_audit(&mut self, queue: EventQueue) -> Arc<EventQueue> {
        self.audit.insert(Arc::new(queue)).clone()
    }

    /// Adds the queue of the call log.
    pub(crate) fn add_calls(&mut self, queue: EventQueue) -> Arc<EventQueue> {
        self.calls.insert(Arc::new(queue)).clone()
    }

    /// Returns the queues of the logs that have an event. The call log has no acts.
    fn for_event(&self, event: &RecordEvent) -> impl Iterator<Item = &Arc<EventQueue>> {
        let is_act = matches!(event, RecordEvent::Act(_));
        self.audit.iter().chain(self.calls.iter().filter(move |_| !is_act))
    }

    fn all(&self) -> impl Iterator<Item = &Arc<EventQueue>> {
        self.audit.iter().chain(&self.calls)
    }

    /// Returns whether the last attempt to write to a log has failed, or does not end.
    pub(crate) fn is_failing(&self) -> bool {
        self.all().any(|queue| queue.is_failing())
    }

    /// Returns whether the audit log, if there is one, fails as [`Self::is_failing`] says.
    pub(crate) fn is_audit_failing(&self) -> bool {
        self.audit.as_ref().is_some_and(|queue| queue.is_failing())
    }

    /// Returns whether the result of a call, which has this size, has room in a log now.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.all().any(|queue| queue.has_room(bytes))
    }

    /// Adds an event that no one waits for. Each log that has no room for it counts it as lost. A log that has no room
    /// for the result of a call gets the end of the call without it.
    pub(crate) fn push(&self, event: RecordEvent) -> Result<(), NoRoom> {
        let event = Arc::new(event);
        let mut pushed = Ok(());
        for queue in self.for_event(&event) {
            let event = match &*event {
                RecordEvent::Ended(end)
                    if end.result.is_some() && !queue.has_room(end.result_bytes()) =>
                {
                    Arc::new(RecordEvent::Ended(Box::new(end.without_result())))
                }
                _ => event.clone(),
            };
            pushed = queue.push(event).and(pushed);
        }
        pushed
    }

    /// Adds an event. A log without room for it does not count it: the caller learns of it.
    pub(crate) fn push_awaited(&self, event: RecordEvent) -> PendingEvent {
        let event = Arc::new(event);
        let mut pending = PendingEvent { receipts: Vec::new(), is_refused: false };
        for queue in self.for_event(&event) {
            let Ok(receipt) = queue.push_awaited(event.clone()) else {
                pending.is_refused = true;
                break;
            };
            pending.receipts.push((queue.clone(), receipt));
        }
        pending
    }

    /// Takes no more events. Those that are there are still written.
    pub(crate) fn close(&self) {
        self.all().for_each(|queue| queue.close());
    }
}

impl Drop for LogQueues {
    fn drop(&mut self) {
        self.close();
    }
}

impl PendingEvent {
    /// Returns whether no log has the event, and none gets it.
    pub(crate) fn is_in_none(&self) -> bool {
        self.is_refused && self.receipts.is_empty()
    }

    /// Waits until the event is in each log. Returns false if it cannot be in one, or if that takes too long. In that
    /// case, the log counts as failing until it has written an event, so that further calls do not wait as long.
    pub(crate) async fn written(self, patience: Duration) -> bool {
        if self.is_refused {
            return false;
        }
        let deadline = Instant::now() + patience;
        let mut is_written = true;
        for (queue, receipt) in self.receipts {
            match timeout_at(deadline, receipt).await {
                Ok(Ok(true)) => {}
                Ok(_) => return false,
                Err(_) => {
                    queue.set_stalled();
                    is_written = false;
                }
            }
        }
        is_written
    }
}

#[cfg(test)]
mod tests;
