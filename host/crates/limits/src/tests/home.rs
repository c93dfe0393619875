//! The stores that tests run on: a file, and a server, with a clock that tests move.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use airlock_store::{Clock, LazyDatabase, Location, Settings};
use airlock_test_postgres::TestDatabase;
use tempfile::TempDir;

use crate::{LimitState, Limiter, limit::Limit};

/// 2024-02-29 12:00 UTC, in milliseconds since 1970.
pub(super) const NOON: u64 = 1_709_208_000_000;

/// The store of one test, which several gateways may use.
pub(super) struct TestHome {
    clock: Arc<AtomicU64>,
    /// The path or URL of the store.
    pub(super) place: String,
    _directory: TempDir,
    _server: Option<TestDatabase>,
}

impl TestHome {
    pub(super) fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let place = directory.path().join("airlock.db").display().to_string();
        Self { clock: clock(), place, _directory: directory, _server: None }
    }

    /// Returns the home of a store on a server; `None` without a server.
    pub(super) fn postgres() -> Option<Self> {
        let server = TestDatabase::create()?;
        let directory = tempfile::tempdir().expect("a directory");
        let place = server.url();
        Some(Self { clock: clock(), place, _directory: directory, _server: Some(server) })
    }

    /// Returns a limiter of a gateway of its own.
    pub(super) fn limiter(&self, limits: &[Limit]) -> Arc<Limiter> {
        let shown = self.clock.clone();
        let clock: Clock = Arc::new(move || {
            SystemTime::UNIX_EPOCH + Duration::from_millis(shown.load(Ordering::Relaxed))
        });
        limiter(Settings { clock, ..Settings::at(location(&self.place)) }, limits)
    }

    pub(super) fn pass(&self, time: Duration) {
        self.clock.fetch_add(milliseconds(time), Ordering::Relaxed);
    }

    pub(super) fn step_back(&self, time: Duration) {
        self.clock.fetch_sub(milliseconds(time), Ordering::Relaxed);
    }
}

/// Returns a limiter with a store.
pub(super) fn limiter(settings: Settings, limits: &[Limit]) -> Arc<Limiter> {
    let limiter = Limiter::new(LazyDatabase::new(settings));
    limiter.set(limits);
    limiter
}

/// Parses the path or URL of a store.
pub(super) fn location(place: &str) -> Location {
    place.parse().expect("a location")
}

fn clock() -> Arc<AtomicU64> {
    Arc::new(AtomicU64::new(NOON))
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().expect("a short time")
}

/// Returns the state of a limit once everything before is settled.
pub(super) async fn state(limiter: &Limiter, id: &str) -> LimitState {
    limiter.flush().await;
    let states = limiter.states(&[id]).await.expect("read");
    states.into_iter().next().expect("it exists")
}

/// Makes a test on each kind of store of each of these functions, which take a [`TestHome`]. The time of
/// the runtime passes only while nothing is done; with `threads`, it passes, and there are several threads.
macro_rules! on_both {
    (threads: $($name:ident),* $(,)?) => {
        $crate::tests::home::on_both!(
            @(flavor = "multi_thread"), sqlite_threads, postgres_threads, $($name),*
        );
    };
    (@$runtime:tt, $sqlite:ident, $postgres:ident, $($name:ident),*) => {
        mod $sqlite {
            $(
                #[tokio::test $runtime]
                async fn $name() {
                    super::$name($crate::tests::home::TestHome::sqlite()).await;
                }
            )*
        }

        mod $postgres {
            $(
                #[tokio::test $runtime]
                async fn $name() {
                    if let Some(home) = $crate::tests::home::TestHome::postgres() {
                        super::$name(home).await;
                    }
                }
            )*
        }
    };
    ($($name:ident),* $(,)?) => {
        $crate::tests::home::on_both!(@(start_paused = true), sqlite, postgres, $($name),*);
    };
}
pub(super) use on_both;
