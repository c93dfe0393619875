//! Printed lines on their way to the event loop of a program.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// Lines of a batch. A script may print a million empty lines, and each batch is an entry of the event loop's queue, which has
/// no bound.
const MAX_BATCH_LINES: usize = 1_000;

/// Lines that wait for the thread of the program, in batches. The bound on the printed text of a run is also theirs.
#[derive(Debug, Default)]
pub struct PrintedBatches(Mutex<VecDeque<Vec<String>>>);

impl PrintedBatches {
    /// Adds a line. Returns whether it begins a batch: the caller then schedules the delivery of one.
    #[must_use]
    pub fn push(&self, line: &str) -> bool {
        let mut batches = self.0.lock();
        match batches.back_mut() {
            Some(last) if last.len() < MAX_BATCH_LINES => {
                last.push(line.to_owned());
                false
            }
            _ => {
                batches.push_back(vec![line.to_owned()]);
                true
            }
        }
    }

    /// Takes the first batch; it is empty if none waits.
    pub fn take(&self) -> Vec<String> {
        self.0.lock().pop_front().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_keep_their_order_and_a_delivery_is_scheduled_for_each_batch() {
        let batches = PrintedBatches::default();
        let begun = (0..=MAX_BATCH_LINES).filter(|n| batches.push(&n.to_string())).count();
        assert_eq!(begun, 2);
        let first = batches.take();
        assert_eq!(first.len(), MAX_BATCH_LINES);
        assert_eq!(first[MAX_BATCH_LINES - 1], (MAX_BATCH_LINES - 1).to_string());
        assert_eq!(batches.take(), [MAX_BATCH_LINES.to_string()]);
        assert!(batches.take().is_empty());
        assert!(batches.push("a"), "a line after the last delivery needs another one");
    }
}
