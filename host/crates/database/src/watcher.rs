//! The thread that reads the revisions.

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use airlock_strings::with_causes;
use parking_lot::Mutex;
use tokio::{
    runtime::{self, Runtime},
    sync::{Notify, watch},
    time::timeout,
};
use tracing::{error, warn};

use crate::{
    location::Location,
    open::{self, RevisionSource},
    revision::{self, Revisions},
    settings::Settings,
    sql::SqlResult,
};

/// Interval at which the revisions are read.
const INTERVAL: Duration = Duration::from_secs(1);
/// Least time between two reads, however many notifications a server sends.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// The revisions, as they were last read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchedRevisions {
    /// Revision of each kind that was ever changed.
    pub revisions: Revisions,
    /// Number of failures after which they could be read again. A database that was restored meanwhile, or replaced
    /// by a standby, may have counted the same revisions for other changes.
    pub outages: u64,
}

/// The thread, as its readers see it. It ends when the last of them is dropped.
pub struct Watcher {
    published: watch::Receiver<WatchedRevisions>,
    state: Arc<WatchState>,
}

/// State that the thread and its readers share.
struct WatchState {
    stop: Notify,
    read_at: Mutex<Instant>,
}

impl Watcher {
    /// Starts the thread.
    pub fn start(settings: Settings) -> Self {
        let (publish, published) = watch::channel(WatchedRevisions::default());
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

    /// Returns the revisions as they were last read.
    pub fn published(&self) -> watch::Receiver<WatchedRevisions> {
        self.published.clone()
    }

    /// Returns the time since they were last read.
    pub fn age(&self) -> Duration {
        self.state.read_at.lock().elapsed()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.state.stop.notify_one();
    }
}

airlock_strings::debug_fields!(Watcher {});

struct WatchThread {
    settings: Settings,
    publish: watch::Sender<WatchedRevisions>,
    state: Arc<WatchState>,
}

impl WatchThread {
    fn run(self) {
        let store = &self.settings.location;
        match pause_runtime() {
            Ok(pauses) => {
                if let Some(mut source) = self.open(&pauses) {
                    self.watch(&mut source, &pauses);
                }
            }
            Err(error) => error!(%store, %error, "changes of other processes are not noticed"),
        }
    }

    /// Opens the connection. That to a server is tried again and again: the files of its certificates may be
    /// away for a moment, because they are renewed. `None` if the readers are gone meanwhile, or if the file
    /// of the database cannot be opened.
    fn open(&self, pauses: &Runtime) -> Option<RevisionSource> {
        let store = &self.settings.location;
        let mut is_failing = false;
        loop {
            match open::revisions(&self.settings) {
                Ok(source) => return Some(source),
                Err(_) if is_failing => {}
                Err(error) => {
                    let error = with_causes(&error);
                    error!(%store, error, "changes of other processes are not noticed");
                    is_failing = true;
                }
            }
            if matches!(store, Location::File(_)) || self.pause(INTERVAL, pauses) {
                return None;
            }
        }
    }

    /// Reads the revisions until the readers are gone, or the database is.
    fn watch(&self, source: &mut RevisionSource, pauses: &Runtime) {
        let mut is_failing = false;
        while !source.is_gone() {
            self.read(source, &mut is_failing);
            if self.wait(source, pauses) {
                return;
            }
        }
    }

    /// Reads the revisions, and publishes them if they are new or if the last read has failed.
    fn read(&self, source: &mut RevisionSource, is_failing: &mut bool) {
        let has_failed = *is_failing;
        let found = source.read(revision::read);
        self.note(&found, is_failing);
        let Ok(found) = found else { return };
        self.publish.send_if_modified(|published| {
            let is_new = found.as_ref().is_some_and(|found| *found != published.revisions);
            if let Some(found) = found {
                published.revisions = found;
            }
            published.outages += u64::from(has_failed);
            is_new || has_failed
        });
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
    fn note(&self, found: &SqlResult<Option<Revisions>>, is_failing: &mut bool) {
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
    use airlock_test_postgres::TestDatabase;
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn notifications_that_follow_each_other_do_not_shorten_the_least_time_between_two_reads() {
        let Some(server) = TestDatabase::create() else { return };
        let settings = Settings::at(server.url().parse().expect("a URL"));
        open::open(&settings).expect("it is opened");
        let (publish, _published) = watch::channel(WatchedRevisions::default());
        let state =
            Arc::new(WatchState { stop: Notify::new(), read_at: Mutex::new(Instant::now()) });
        let thread = WatchThread { settings, publish, state: state.clone() };
        let pauses = pause_runtime().expect("a runtime");
        let mut source = thread.open(&pauses).expect("it is opened");
        source.read(revision::read).expect("read");
        for _ in 0..3 {
            server.execute("NOTIFY airlock, 'x'");
            let begun = Instant::now();
            assert!(!thread.wait(&source, &pauses));
            assert!(begun.elapsed() >= LEAST_INTERVAL, "{:?}", begun.elapsed());
        }
        state.stop.notify_one();
        assert!(thread.wait(&source, &pauses));
    }

    #[test]
    fn revisions_that_can_be_read_again_after_a_failure_are_published_also_if_they_are_the_same() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("airlock.db");
        let settings = Settings::new(&path);
        open::open(&settings).expect("it is made");
        let (publish, mut published) = watch::channel(WatchedRevisions::default());
        let state =
            Arc::new(WatchState { stop: Notify::new(), read_at: Mutex::new(Instant::now()) });
        let thread = WatchThread { settings, publish, state };
        let pauses = pause_runtime().expect("a runtime");
        let mut source = thread.open(&pauses).expect("it is opened");
        let mut is_failing = false;
        thread.read(&mut source, &mut is_failing);
        assert_eq!((is_failing, published.borrow_and_update().outages), (false, 0));
        let other = rusqlite::Connection::open(&path).expect("it is opened");
        other.execute_batch("ALTER TABLE airlock_revision RENAME TO away").expect("renamed");
        thread.read(&mut source, &mut is_failing);
        assert!(is_failing && !published.has_changed().expect("the thread is there"));
        other.execute_batch("ALTER TABLE away RENAME TO airlock_revision").expect("renamed");
        thread.read(&mut source, &mut is_failing);
        assert!(!is_failing && published.has_changed().expect("the thread is there"));
        assert_eq!(published.borrow_and_update().outages, 1);
        thread.read(&mut source, &mut is_failing);
        assert!(!published.has_changed().expect("the thread is there"), "nothing is new");
    }

    #[test]
    fn a_server_whose_authorities_are_away_is_tried_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let authorities = directory.path().join("ca.pem");
        let query = format!("sslmode=require&sslrootcert={}", authorities.display());
        let location = format!("postgres://airlock@127.0.0.1:1/x?{query}").parse().expect("a URL");
        let (publish, _published) = watch::channel(WatchedRevisions::default());
        let state =
            Arc::new(WatchState { stop: Notify::new(), read_at: Mutex::new(Instant::now()) });
        let settings = Settings::at(location);
        let thread = WatchThread { settings, publish, state: state.clone() };
        let pauses = pause_runtime().expect("a runtime");
        state.stop.notify_one();
        assert!(thread.open(&pauses).is_none(), "its readers are gone");
        assert!(state.stop.notified().now_or_never().is_none(), "it has waited for them");
        let key = rcgen::KeyPair::generate().expect("a key");
        let signed = rcgen::CertificateParams::new([]).and_then(|params| params.self_signed(&key));
        std::fs::write(&authorities, signed.expect("a certificate").pem()).expect("written");
        assert!(thread.open(&pauses).is_some());
    }
}
