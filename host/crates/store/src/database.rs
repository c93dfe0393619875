//! The open database: changes and reads, each in its lane.

use std::{
    convert::Infallible,
    hash::Hash,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};

use airlock_database::{
    connection::OpenDatabase,
    error::{OpenError, Unavailable},
    inspection::{self, Inspection},
    lane::{Lane, Party},
    metrics::{LaneKind, StoreMetrics},
    open,
    schema::SchemaState,
    seal::Sealer,
    settings::Settings,
    sql::{Sql, SqlResult, Subject},
    watcher::Watcher,
};

/// Pause between two attempts to empty the log of a file, in which changes of others run. Reads take milliseconds.
const LOG_PAUSE: Duration = Duration::from_millis(20);

/// The open database. Cheap to clone. It is closed when the last clone is dropped and no operation is
/// running.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Connections>,
    /// Party whose operations this clone runs.
    party: Party,
}

struct Connections {
    /// Lane for changes. On a file, they run one at a time, which `SQLite` would enforce anyway.
    writer: Lane,
    /// Lane for the rows of the call log, so that one that hangs delays no limit; `None` for a file.
    log_writer: Option<Lane>,
    /// Lane for reads. They do not wait for changes, least of all for those of other processes.
    reader: Lane,
    /// Lane for operators who read the call log, whose queries may take seconds; `None` if `reader` has
    /// connections that they leave to others.
    log_reader: Option<Lane>,
    /// Number of runs that have stopped in this process.
    stopped_runs: AtomicU32,
    settings: Settings,
    /// The thread that notices changes, once there is a reader of them.
    watcher: OnceLock<Arc<Watcher>>,
}

impl Database {
    /// Opens the database. Makes it if it does not exist, and migrates one of an older version.
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        Self::open_measured(settings, StoreMetrics::default()).await
    }

    /// Opens the database as [`Self::open`], whose operations count in `metrics`.
    pub(crate) async fn open_measured(
        settings: Settings,
        metrics: StoreMetrics,
    ) -> Result<Self, OpenError> {
        let store = settings.location.to_string();
        let opening = tokio::task::spawn_blocking(move || Self::open_blocking(&settings, &metrics));
        match opening.await {
            Ok(opened) => opened,
            Err(lost) => Err(OpenError::Unusable { store, cause: lost.into() }),
        }
    }

    /// Reads the state of a database without changing it. Fails as [`Self::open`] does if the database
    /// cannot be read, is not Airlock's, or is too new.
    pub async fn schema_state(settings: Settings) -> Result<SchemaState, OpenError> {
        let store = settings.location.to_string();
        match tokio::task::spawn_blocking(move || open::schema_state(&settings)).await {
            Ok(state) => state,
            Err(lost) => Err(OpenError::Unusable { store, cause: lost.into() }),
        }
    }

    /// Looks at a database without changing it: its tables, damages of a file, the version and the clock of a
    /// server. Fails as [`Self::schema_state`] does.
    pub async fn inspect(settings: Settings) -> Result<Inspection, OpenError> {
        let store = settings.location.to_string();
        match tokio::task::spawn_blocking(move || inspection::inspect(&settings)).await {
            Ok(inspected) => inspected,
            Err(lost) => Err(OpenError::Unusable { store, cause: lost.into() }),
        }
    }

    fn open_blocking(settings: &Settings, metrics: &StoreMetrics) -> Result<Self, OpenError> {
        let OpenDatabase { writers, log_writers, readers, log_readers } = open::open(settings)?;
        let location = &settings.location;
        let has_log_writers = !log_writers.is_empty();
        let has_log_readers = !log_readers.is_empty();
        let shared = Connections {
            writer: Lane::new(location, writers, metrics.lane(LaneKind::Write)),
            log_writer: has_log_writers
                .then(|| Lane::new(location, log_writers, metrics.lane(LaneKind::Write))),
            reader: Lane::new(location, readers, metrics.lane(LaneKind::Read)),
            log_reader: has_log_readers
                .then(|| Lane::new(location, log_readers, metrics.lane(LaneKind::Log))),
            stopped_runs: AtomicU32::new(0),
            settings: settings.clone(),
            watcher: OnceLock::new(),
        };
        Ok(Self { shared: Arc::new(shared), party: Party::GATEWAY })
    }

    /// Returns the database for operations of one tenant or plugin, which then delay each other and
    /// not those of others.
    pub(crate) fn of_party(&self, identity: impl Hash) -> Self {
        Self { shared: self.shared.clone(), party: Party::new(identity) }
    }

    /// Runs a read. It sees every change that was made before this call. Of several statements, each
    /// sees the changes before it.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T> + Send + 'static,
    ) -> Result<T, Unavailable> {
        self.shared.reader.run(self.party, move |connection| connection.read(false, job)).await
    }

    /// Runs a read as [`Self::read`], of which all statements see the same state.
    pub(crate) async fn read_snapshot<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T> + Send + 'static,
    ) -> Result<T, Unavailable> {
        self.shared.reader.run(self.party, move |connection| connection.read(true, job)).await
    }

    /// Runs a read of the call log as [`Self::read_snapshot`], which may take long and delays no other reads.
    pub(crate) async fn read_log<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let lane = self.shared.log_reader.as_ref().unwrap_or(&self.shared.reader);
        let party = Party::new("readers of the call log");
        lane.run(party, move |connection| connection.read_log(job)).await
    }

    /// Runs a change of a subject in one transaction: an error of `job` rolls it back. If the future
    /// is dropped, the change is made completely or not at all.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        subject: Subject,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let done = self.attempt(vec![subject], |sql| job(sql).map(Ok::<T, Infallible>)).await?;
        Ok(match done {
            Ok(done) => done,
        })
    }

    /// Runs a change of the call log as [`Self::write`], which delays no other changes on a server.
    pub(crate) async fn write_log<T: Send + 'static>(
        &self,
        subject: Subject,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let lane = self.shared.log_writer.as_ref().unwrap_or(&self.shared.writer);
        let done = lane.run(self.party, move |connection| {
            connection.write(&[subject], |sql| job(sql).map(Ok::<T, Infallible>))
        });
        let Ok(done) = done.await?;
        Ok(done)
    }

    /// Runs a change of subjects as [`Self::write`], which a refusal of `job` rolls back too.
    pub(crate) async fn attempt<T: Send + 'static, E: Send + 'static>(
        &self,
        subjects: Vec<Subject>,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<Result<T, E>> + Send + 'static,
    ) -> Result<Result<T, E>, Unavailable> {
        let done =
            self.shared.writer.run(self.party, move |connection| connection.write(&subjects, job));
        done.await
    }

    /// Attempts a change as [`Self::attempt`], which waits for each subject at most for `lock_wait`.
    pub(crate) async fn attempt_soon<T: Send + 'static, E: Send + 'static>(
        &self,
        lock_wait: Duration,
        subjects: Vec<Subject>,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<Result<T, E>> + Send + 'static,
    ) -> Result<Result<T, E>, Unavailable> {
        let done = self
            .shared
            .writer
            .run(self.party, move |connection| connection.write_soon(lock_wait, &subjects, job));
        done.await
    }

    /// Makes the traces of deleted rows leave the log of a file. A reader may prevent that, which is waited for as long as
    /// for another process. Changes run meanwhile.
    pub(crate) async fn truncate_log(&self) -> Result<(), Unavailable> {
        let end = Instant::now() + self.shared.settings.busy_timeout;
        let writer = &self.shared.writer;
        while !writer.run(self.party, |connection| connection.truncate_log()).await?
            && Instant::now() < end
        {
            sleep(LOG_PAUSE).await;
        }
        Ok(())
    }

    /// Returns the means to seal and open secrets.
    pub(crate) fn sealer(&self) -> Sealer {
        Sealer::new(self.shared.settings.seal.clone())
    }

    /// Returns the thread that notices changes.
    pub(crate) fn watcher(&self) -> Arc<Watcher> {
        let shared = &self.shared;
        shared.watcher.get_or_init(|| Arc::new(Watcher::start(shared.settings.clone()))).clone()
    }

    /// Counts a run that stops in this process. Returns the number of those before it.
    pub(crate) fn count_stopped_run(&self) -> u32 {
        self.shared.stopped_runs.fetch_add(1, Ordering::Relaxed)
    }
}

airlock_strings::debug_fields!(Database {});
