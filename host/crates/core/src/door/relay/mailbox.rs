//! Notifications of changed resources that wait for their receiver.

use std::{any::Any, collections::BTreeSet, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Labels of changed resources that wait to be taken. A label that waits already is not added
/// again, so a source that reports changes all the time fills no memory: there are at most as many
/// labels as subscriptions.
#[derive(Debug, Default)]
pub struct Mailbox {
    waiting: Mutex<BTreeSet<Arc<str>>>,
    arrived: Notify,
}

impl Mailbox {
    /// Adds a label.
    pub fn put(&self, label: &Arc<str>) {
        self.waiting.lock().insert(label.clone());
        self.arrived.notify_one();
    }

    /// Takes the next label, and waits for one if there is none. Dropping the future loses none.
    pub async fn next(&self) -> Arc<str> {
        loop {
            if let Some(label) = self.take() {
                return label;
            }
            // A label that was added since has left a permit.
            self.arrived.notified().await;
        }
    }

    fn take(&self) -> Option<Arc<str>> {
        let mut waiting = self.waiting.lock();
        let label = waiting.pop_first();
        if !waiting.is_empty() {
            self.arrived.notify_one();
        }
        label
    }
}

/// A subscription to the changes of one resource. Dropping it ends the subscription.
pub struct Subscription {
    _held: Box<dyn Any + Send + Sync>,
}

impl Subscription {
    /// Creates a subscription that ends when `held` is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self { _held: Box::new(held) }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_label_that_waits_is_not_added_again_and_none_is_lost() {
        let mailbox = Mailbox::default();
        let one: Arc<str> = "a".into();
        let two: Arc<str> = "b".into();
        for _ in 0..1_000 {
            mailbox.put(&one);
            mailbox.put(&two);
        }
        assert_eq!([mailbox.next().await, mailbox.next().await], [one.clone(), two]);
        let mut waiting = Box::pin(mailbox.next());
        assert!(waiting.as_mut().now_or_never().is_none());
        mailbox.put(&one);
        drop(waiting);
        assert_eq!(mailbox.next().await, one);
    }
}
