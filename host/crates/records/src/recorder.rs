//! The controls that record calls and requests to models.

mod calls;
mod models;

use std::{
    convert::Infallible,
    io, mem,
    sync::Arc,
    thread::JoinHandle,
    time::{Duration, Instant, SystemTime},
};

use arc_swap::ArcSwapOption;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::time::sleep;
use tracing::warn;
use uuid::Uuid;

use crate::{
    audit_log::{self, OpenAudit, PostCheckpoint, SignedLines},
    call_log::StoredRows,
    event::{RecordEvent, TimedAct},
    metrics::RecordMetrics,
    queue::{EventQueue, LIMITS, QueueLimits},
    queues::LogQueues,
    settings::{OnFailure, RecordSettings},
    writer::{self, LogSink},
};
use airlock_core::act::{Act, ActRecord};
use airlock_store::LazyDatabase;

/// Longest time that a call waits for its admission to be recorded.
const ADMISSION: Duration = Duration::from_secs(10);
/// Longest time for the audit log to be opened when the gateway starts: its newest file and all its checkpoints are
/// read.
const OPENING: Duration = Duration::from_mins(5);
/// Longest time for the last events to be written when the gateway stops.
const STOP: Duration = Duration::from_secs(10);
/// Time between two sweeps of the call log, and after one that has left rows.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
const NEXT_SWEEP: Duration = Duration::from_millis(200);
/// Time between two messages about calls that are not recorded.
const REPORT_INTERVAL: Duration = Duration::from_mins(1);

/// Returns the price of a call of a tool, by the full name of that, in millionths of a US dollar; `None` if it
/// has none. Those of requests to models are known to the limits.
pub type CallPrice = Arc<dyn Fn(&str) -> Option<u64> + Send + Sync>;

/// Records what happens on a gateway. See the header of the crate.
pub struct Recorder {
    logs: Arc<LogQueues>,
    metrics: RecordMetrics,
    settings: RecordSettings,
    /// Identifier of this gateway among the writers of the call log.
    writer: String,
    database: LazyDatabase,
    price: CallPrice,
    public_key: Arc<ArcSwapOption<String>>,
    /// The writers of the logs.
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Time of the last message about calls that are not recorded.
    reported: Mutex<Option<Instant>>,
}

/// The logs of a recorder, and the prices that they have.
struct RecordSinks<R> {
    audit: Option<OpenAudit>,
    rows: Option<R>,
    price: CallPrice,
}

impl Recorder {
    /// Starts the threads that write, one for each log. `database` has the call log. The logs are opened by the
    /// threads; until they are open, and whenever one cannot be written, [`RecordSettings::on_failure`] applies.
    /// `post` publishes checkpoints at URLs. Fails if the system starts no thread.
    pub fn start(
        settings: RecordSettings,
        database: LazyDatabase,
        post: PostCheckpoint,
        price: CallPrice,
    ) -> io::Result<Arc<Self>> {
        let writer = Uuid::now_v7().to_string();
        let rows = settings
            .call_log
            .map(|log| StoredRows::new(database.clone(), writer.clone(), log.contents))
            .transpose()?;
        let audit = settings.audit.clone();
        let audit =
            audit.map(|place| Box::new(move || audit_log::open(&place, &post)) as OpenAudit);
        Self::start_with(settings, database, writer, RecordSinks { audit, rows, price }, LIMITS)
    }

    fn start_with<R: LogSink + 'static>(
        settings: RecordSettings,
        database: LazyDatabase,
        writer: String,
        sinks: RecordSinks<R>,
        limits: QueueLimits,
    ) -> io::Result<Arc<Self>> {
        let metrics = RecordMetrics::default();
        let public_key = Arc::new(ArcSwapOption::empty());
        let mut logs = LogQueues::default();
        let mut threads = Vec::new();
        if let Some(opener) = sinks.audit {
            let interval = settings.audit.as_ref().map(|audit| audit.checkpoint_interval);
            let lines = SignedLines::new(
                opener,
                interval.unwrap_or(REPORT_INTERVAL),
                metrics.checkpoints.clone(),
                public_key.clone(),
            );
            let queue = EventQueue::new(limits, metrics.of_log(SignedLines::NAME));
            threads.push(writer::start(logs.add_audit(queue), lines)?);
        }
        if let Some(rows) = sinks.rows {
            let queue = EventQueue::new(limits, metrics.of_log(R::NAME));
            threads.push(writer::start(logs.add_calls(queue), rows)?);
        }
        Ok(Arc::new(Self {
            logs: Arc::new(logs),
            metrics,
            settings,
            writer,
            database,
            price: sinks.price,
            public_key,
            threads: Mutex::new(threads),
            reported: Mutex::default(),
        }))
    }

    /// Returns the public key of the audit log; `None` if there is no log, or if it is not open yet.
    pub fn public_key(&self) -> Option<String> {
        self.public_key.load().as_deref().cloned()
    }

    /// Registers the metrics of the records.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.metrics.register(registry);
    }

    /// Removes old rows of the call log, in small batches. One gateway of a store does it at a time. Never
    /// returns; dropping the future ends it.
    pub async fn sweep(&self) -> Infallible {
        loop {
            let has_more = self.sweep_once().await;
            sleep(if has_more { NEXT_SWEEP } else { SWEEP_INTERVAL }).await;
        }
    }

    /// Returns whether there is more to remove.
    async fn sweep_once(&self) -> bool {
        let Some(log) = &self.settings.call_log else { return false };
        // A store that does not exist has nothing to remove, and is made by its first row.
        if self.database.location().is_missing_file() {
            return false;
        }
        let Ok(database) = self.database.available().await else { return false };
        match database.sweep_call_log(&self.writer, log.retention).await {
            Ok(swept) => swept.is_some_and(|swept| swept.has_more),
            Err(error) => {
                warn!(%error, "old rows of the call log cannot be removed; the gateway tries again");
                false
            }
        }
    }

    /// Records an act, and waits for a bounded time until it is in the audit log, if there is one. Returns false if
    /// it cannot be written now. While the audit log fails it does not record the act at all, so that it can be tried
    /// again.
    pub async fn record_awaited(&self, act: Act) -> bool {
        self.record_within(act, ADMISSION).await
    }

    /// Records the first act as [`Self::record_awaited`] does. If calls would be refused until the audit log is open,
    /// it gives the log the time to be opened.
    pub async fn record_first(&self, act: Act) -> bool {
        let patience = if self.is_strict() { OPENING } else { ADMISSION };
        self.record_within(act, patience).await
    }

    async fn record_within(&self, act: Act, patience: Duration) -> bool {
        if self.logs.is_audit_failing() {
            return false;
        }
        let event = RecordEvent::Act(Box::new(TimedAct { at: SystemTime::now(), act }));
        self.logs.push_awaited(event).written(patience).await
    }

    /// Writes what is there and ends the threads. Later events are lost. Waits for a bounded time.
    pub async fn stop(&self) {
        self.logs.close();
        let threads = mem::take(&mut *self.threads.lock());
        let joining = tokio::task::spawn_blocking(move || {
            for thread in threads {
                // A panic was reported by its thread.
                let _ = thread.join();
            }
        });
        if tokio::time::timeout(STOP, joining).await.is_err() {
            warn!("the last records are not written in time");
        }
    }

    /// Reports calls that are not recorded, once a minute.
    fn report_unrecorded(&self) {
        let mut reported = self.reported.lock();
        if reported.is_none_or(|reported| reported.elapsed() >= REPORT_INTERVAL) {
            *reported = Some(Instant::now());
            warn!("calls with effects run although their records cannot be written");
        }
    }

    /// Returns whether calls with effects wait until their admission is recorded.
    pub fn is_strict(&self) -> bool {
        self.settings.on_failure == OnFailure::Refuse && self.settings.is_on()
    }
}

impl Drop for Recorder {
    /// Lets the threads end once they have written what is there.
    fn drop(&mut self) {
        self.logs.close();
    }
}

impl ActRecord for Recorder {
    fn record(&self, act: Act) {
        let timed = TimedAct { at: SystemTime::now(), act };
        // One that has no room is counted as lost.
        let _ = self.logs.push(RecordEvent::Act(Box::new(timed)));
    }

    fn record_before(&self, act: Act) -> BoxFuture<'_, bool> {
        Box::pin(async move {
            if self.is_strict() {
                return self.record_awaited(act).await;
            }
            self.record(act);
            true
        })
    }
}

#[cfg(test)]
mod tests;
