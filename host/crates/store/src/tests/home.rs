//! The databases that tests run on: a file, and a server.

use std::time::Duration;

use airlock_test_postgres::TestDatabase;
use tempfile::TempDir;

use crate::{Database, Location, Settings, lane::PARTY_CONNECTIONS, tests::clock::TestClock};

/// A database of one test, with a clock that moves only when the test moves it. It may be opened
/// several times.
pub(crate) struct TestHome {
    pub(crate) clock: TestClock,
    location: Location,
    /// Directory of the file; for a server, a directory that the test may use.
    pub(crate) directory: TempDir,
    pub(crate) server: Option<TestDatabase>,
}

impl TestHome {
    /// Creates the home of a file, which does not exist yet.
    pub(crate) fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let location = Location::File(directory.path().join("airlock.db"));
        Self {
            clock: TestClock::new(Duration::from_secs(1_000)),
            location,
            directory,
            server: None,
        }
    }

    /// Creates the home of a database on a server, which is empty; `None` without a server.
    pub(crate) fn postgres() -> Option<Self> {
        let server = TestDatabase::create()?;
        let location = server.url().parse().expect("a URL");
        let clock = TestClock::new(Duration::from_secs(1_000));
        let directory = tempfile::tempdir().expect("a directory");
        Some(Self { clock, location, directory, server: Some(server) })
    }

    /// Returns the location as a setting has it.
    pub(crate) fn place(&self) -> String {
        self.server.as_ref().map_or_else(|| self.location.to_string(), TestDatabase::url)
    }

    /// Returns settings with the clock of the test.
    pub(crate) fn settings(&self) -> Settings {
        Settings { clock: self.clock.shown(), ..Settings::at(self.location.clone()) }
    }

    /// Returns the number of connections that one party can take.
    pub(crate) fn connections(&self) -> usize {
        self.server.as_ref().map_or(1, |_| PARTY_CONNECTIONS)
    }

    pub(crate) async fn open(&self) -> Database {
        Database::open(self.settings()).await.expect("it is opened")
    }
}

/// Makes a test on each kind of database of each of these functions, which take a [`TestHome`]. With
/// `threads`, they run on a runtime of several threads.
macro_rules! on_both {
    (threads: $($name:ident),* $(,)?) => {
        $crate::tests::home::on_both!(@flavor "multi_thread", sqlite_threads, postgres_threads, $($name),*);
    };
    (@flavor $flavor:literal, $sqlite:ident, $postgres:ident, $($name:ident),*) => {
        mod $sqlite {
            $(
                #[tokio::test(flavor = $flavor)]
                async fn $name() {
                    super::$name($crate::tests::home::TestHome::sqlite()).await;
                }
            )*
        }

        mod $postgres {
            $(
                #[tokio::test(flavor = $flavor)]
                async fn $name() {
                    if let Some(home) = $crate::tests::home::TestHome::postgres() {
                        super::$name(home).await;
                    }
                }
            )*
        }
    };
    ($($name:ident),* $(,)?) => {
        $crate::tests::home::on_both!(@flavor "current_thread", sqlite, postgres, $($name),*);
    };
}
pub(crate) use on_both;
