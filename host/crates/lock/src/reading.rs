//! Readings of files that may never end: a network file system that does not respond keeps its readers for
//! ever.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

/// Longest time that a reading is waited for, its place included.
pub const READING_PATIENCE: Duration = Duration::from_secs(5);

/// Places for readings of files. A reading that does not end keeps its place and its thread, and no other one
/// begins until it has ended.
pub struct FileReadings {
    places: Arc<Semaphore>,
    /// Number of readings that were not waited for to the end and go on.
    overdue: Arc<AtomicUsize>,
    patience: Duration,
}

impl FileReadings {
    /// Creates places for so many readings at a time.
    pub fn new(places: usize) -> Self {
        Self {
            places: Arc::new(Semaphore::new(places)),
            overdue: Arc::default(),
            patience: READING_PATIENCE,
        }
    }

    /// Returns whether a reading has not ended in time, so that no other one begins.
    pub fn is_overdue(&self) -> bool {
        self.overdue.load(Ordering::SeqCst) > 0
    }

    /// Runs a reading on a blocking thread. Returns `None` after [`READING_PATIENCE`], and at once while an
    /// earlier reading is overdue. Dropping the future does not end the reading.
    pub async fn read<T: Send + 'static>(
        &self,
        reading: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if self.is_overdue() {
            return None;
        }
        let is_settled = Arc::new(AtomicBool::new(false));
        let running =
            RunningReading { overdue: self.overdue.clone(), is_settled: is_settled.clone() };
        let waiting = async {
            // The semaphore is never closed.
            let place = self.places.clone().acquire_owned().await.ok();
            let reading = spawn_blocking(move || {
                let _running = running;
                let _place = place;
                reading()
            });
            reading.await.unwrap_or_else(|lost| std::panic::resume_unwind(lost.into_panic()))
        };
        let read = timeout(self.patience, waiting).await.ok();
        if read.is_none() {
            self.overdue.fetch_add(1, Ordering::SeqCst);
            settle(&self.overdue, &is_settled);
        }
        read
    }
}

/// A reading, until it has ended or will never begin.
struct RunningReading {
    overdue: Arc<AtomicUsize>,
    /// True once the reading has ended, or is counted as overdue.
    is_settled: Arc<AtomicBool>,
}

impl Drop for RunningReading {
    fn drop(&mut self) {
        settle(&self.overdue, &self.is_settled);
    }
}

/// Settles a reading for one of both sides. The second one takes it off the overdue ones.
fn settle(overdue: &AtomicUsize, is_settled: &AtomicBool) {
    if is_settled.swap(true, Ordering::SeqCst) {
        overdue.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn while_a_reading_does_not_end_no_other_one_begins() {
        let readings = FileReadings::new(1);
        assert_eq!(readings.read(|| 1).await, Some(1));
        let readings = FileReadings { patience: Duration::ZERO, ..readings };
        let (end, ended) = mpsc::channel::<()>();
        let hung = readings.read(move || ended.recv().is_ok());
        assert_eq!(hung.await, None, "it is given up");
        assert!(readings.is_overdue());
        assert_eq!(readings.read(|| 2).await, None, "it does not begin");
        end.send(()).expect("the reading waits for it");
        let readings = FileReadings { patience: READING_PATIENCE, ..readings };
        let read = async {
            loop {
                match readings.read(|| 3).await {
                    Some(read) => break read,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        assert_eq!(read.await, 3, "the other one has ended");
    }
}
