//! The databases that tests run on: a file, and a server.

use std::time::Duration;

use airlock_test_postgres::TestDatabase;
use tempfile::TempDir;

use crate::{Database, Location, SealKey, Seals, Settings, tests::clock::TestClock};
use airlock_database::{lane::PARTY_CONNECTIONS, sql::first};

/// A database of one test, with a clock that moves only when the test moves it. It may be opened
/// several times.
pub(crate) struct TestHome {
    pub(crate) clock: TestClock,
    location: Location,
    /// Directory of the file; for a server, a directory that the test may use.
    pub(crate) directory: TempDir,
    pub(crate) server: Option<TestDatabase>,
    seal: Option<Seals>,
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
            seal: None,
        }
    }

    /// Creates the home of a database on a server, which is empty; `None` without a server.
    pub(crate) fn postgres() -> Option<Self> {
        let server = TestDatabase::create()?;
        let location = server.url().parse().expect("a URL");
        let clock = TestClock::new(Duration::from_secs(1_000));
        let directory = tempfile::tempdir().expect("a directory");
        Some(Self { clock, location, directory, server: Some(server), seal: None })
    }

    /// Sets the keys of secrets: the current one, and those that can still be read. The names of keys
    /// are numbers.
    pub(crate) fn set_keys(&mut self, current: u8, older: &[u8]) {
        let older = older.iter().map(|key| SealKey::new(&[*key; 32])).collect();
        self.seal = Some(Seals::new(SealKey::new(&[current; 32]), older));
    }

    /// Returns whether the file, or one beside it, has these bytes.
    pub(crate) fn has_bytes(&self, wanted: &[u8]) -> bool {
        let files = std::fs::read_dir(self.directory.path()).expect("a directory");
        let mut contents = files.map(|file| std::fs::read(file.expect("a file").path()));
        contents.any(|bytes| {
            bytes.expect("readable").windows(wanted.len()).any(|window| window == wanted)
        })
    }

    /// Returns the location as a setting has it.
    pub(crate) fn place(&self) -> String {
        self.server.as_ref().map_or_else(|| self.location.to_string(), TestDatabase::url)
    }

    /// Returns settings with the clock of the test.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            clock: self.clock.shown(),
            seal: self.seal.clone(),
            ..Settings::at(self.location.clone())
        }
    }

    /// Returns the number of connections that one party can take.
    pub(crate) fn connections(&self) -> usize {
        self.server.as_ref().map_or(1, |_| PARTY_CONNECTIONS)
    }

    pub(crate) async fn open(&self) -> Database {
        Database::open(self.settings()).await.expect("it is opened")
    }
}

/// Waits until a transaction of a server waits for the lock of a subject.
pub(crate) async fn until_one_waits(database: &Database) {
    let count = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                 WHERE d.datname = current_database() AND locktype = 'advisory' AND NOT granted";
    while database.read(|sql| sql.one(count, &[], first::<i64>)).await.expect("read") == 0 {}
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
