//! The thread that reads the revisions.

use std::{
    fmt, io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    runtime::{self, Runtime},
    sync::{Notify, watch},
    time::timeout,
};
use tracing::{error, warn};

use crate::{
    open::{self, RevisionSource},
    revision::{self, Revisions},
    settings::Settings,
    sql::SqlError,
};

/// Interval at which the revisions are read.
const INTERVAL: Duration = Duration::from_secs(1);
/// Least time between two reads, however many notifications a server sends.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// The thread, as its readers see it. It ends when the last of them is dropped.
pub(crate) struct Watcher {
    published: watch::Receiver<Revisions>,
    state: Arc<WatchState>,
}

/// State that the thread and its readers share.
struct WatchState {
    stop: Notify,
    read_at: Mutex<Instant>,
}

impl Watcher {
    /// Starts the thread.
    pub(crate) fn start(settings: Settings) -> Self {
        let (publish, published) = watch::channel(Revisions::new());
        let state =
            Arc::new(WatchState { stop: Notify::new(), read_at: Mutex::new(Instant::now()) });
        let thread = WatchThread { settings, publish, state: state.clone() };
        let named = thread::Builder::new().name("airlock-changes".to_owned());
        // Without a thread, the readers find the channel closed.
        if let Err(error) = named.spawn(move || thread.run()) {
            error!(%error, "changes of other processes are not noticed");
        }
        Self { published, state }
    }

    pub(crate) fn published(&self) -> watch::Receiver<Revisions> {
        self.published.clone()
    }

    pub(crate) fn age(&self) -> Duration {
        self.state.read_at.lock().elapsed()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.state.stop.notify_one();
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").finish_non_exhaustive()
    }
}

struct WatchThread {
    settings: Settings,
    publish: watch::Sender<Revisions>,
    state: Arc<WatchState>,
}

impl WatchThread {
    fn run(self) {
        let store = self.settings.location.to_string();
        let opened = pause_runtime().and_then(|pauses| Ok((pauses, self.open()?)));
        match opened {
            Ok((pauses, mut source)) => self.watch(&mut source, &pauses),
            Err(error) => error!(%store, %error, "changes of other processes are not noticed"),
        }
    }

    fn open(&self) -> io::Result<RevisionSource> {
        open::revisions(&self.settings).map_err(io::Error::other)
    }

    /// Reads the revisions until the readers are gone, or the database is.
    fn watch(&self, source: &mut RevisionSource, pauses: &Runtime) {
        let mut is_failing = false;
        while !source.is_gone() {
            let found = source.read(revision::read);
            self.note(&found, &mut is_failing);
            if let Ok(Some(revisions)) = found {
                self.publish.send_if_modified(|published| {
                    let is_new = *published != revisions;
                    *published = revisions;
                    is_new
                });
            }
            if self.wait(source, pauses) {
                return;
            }
        }
    }

    /// Waits until the revisions are to be read again. Returns whether the readers are gone instead.
    fn wait(&self, source: &RevisionSource, pauses: &Runtime) -> bool {
        if self.pause(LEAST_INTERVAL, pauses) {
            return true;
        }
        let rest = INTERVAL.saturating_sub(LEAST_INTERVAL);
        match source.wait(self.state.stop.notified(), rest) {
            Ok(is_stopped) => is_stopped,
            Err(_) => self.pause(rest, pauses),
        }
    }

    /// Waits for `time`. Returns whether the readers are gone.
    fn pause(&self, time: Duration, pauses: &Runtime) -> bool {
        pauses.block_on(async { timeout(time, self.state.stop.notified()).await.is_ok() })
    }

    /// Logs the first of several failures, and keeps the time of a success.
    fn note(&self, found: &Result<Option<Revisions>, SqlError>, is_failing: &mut bool) {
        match found {
            Ok(_) => *self.state.read_at.lock() = Instant::now(),
            Err(error) if !*is_failing => {
                let store = &self.settings.location;
                warn!(%store, %error, "changes of other processes cannot be noticed right now");
            }
            Err(_) => {}
        }
        *is_failing = found.is_err();
    }
}

/// Creates a runtime for pauses without a connection.
fn pause_runtime() -> io::Result<Runtime> {
    runtime::Builder::new_current_thread().enable_time().build()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::home::TestHome;

    #[test]
    fn notifications_that_follow_each_other_do_not_shorten_the_least_time_between_two_reads() {
        let Some(home) = TestHome::postgres() else { return };
        let settings = home.settings();
        open::open(&settings).expect("it is opened");
        let (publish, _published) = watch::channel(Revisions::new());
        let state =
            Arc::new(WatchState { stop: Notify::new(), read_at: Mutex::new(Instant::now()) });
        let thread = WatchThread { settings, publish, state: state.clone() };
        let mut source = thread.open().expect("it is opened");
        source.read(revision::read).expect("read");
        let pauses = pause_runtime().expect("a runtime");
        for _ in 0..3 {
            home.server.as_ref().expect("a server").execute("NOTIFY airlock, 'x'");
            let begun = Instant::now();
            assert!(!thread.wait(&source, &pauses));
            assert!(begun.elapsed() >= LEAST_INTERVAL, "{:?}", begun.elapsed());
        }
        state.stop.notify_one();
        assert!(thread.wait(&source, &pauses));
    }
}
