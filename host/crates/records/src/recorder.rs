//! The controls that record calls and requests to models.

mod calls;
mod models;

use std::{
    convert::Infallible,
    io,
    sync::Arc,
    thread,
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
    event::{Event, TimedAct},
    metrics::RecordMetrics,
    queue::{LIMITS, NoRoom, Queue, QueueLimits, Written},
    settings::{OnFailure, RecordSettings},
    sink::{OpenAudit, PostCheckpoint, RowSink, StoredRows, open_audit},
    writer::Writer,
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

/// Prices of calls of tools. Those of requests to models are known to the limits.
pub trait ToolPrices: Send + Sync + 'static {
    /// Returns the cost of a call in millionths of a US dollar; `None` if there is no price. `tool` is the full
    /// name.
    fn of_tool(&self, tool: &str) -> Option<u64>;
}

/// Records what happens on a gateway. See the header of the crate.
pub struct Recorder {
    queue: Arc<Queue>,
    settings: RecordSettings,
    /// Identifier of this gateway among the writers of the call log.
    writer: String,
    database: LazyDatabase,
    prices: Arc<ArcSwapOption<Box<dyn ToolPrices>>>,
    public_key: Arc<ArcSwapOption<String>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    /// Time of the last message about calls that are not recorded.
    reported: Mutex<Option<Instant>>,
}

/// The logs of a recorder.
struct Sinks {
    audit: Option<OpenAudit>,
    rows: Option<Box<dyn RowSink>>,
}

impl Recorder {
    /// Starts the thread that writes. `database` has the call log. The logs are opened by the thread; until they
    /// are open, and whenever they cannot be written, [`RecordSettings::on_failure`] applies. `post` publishes
    /// checkpoints at URLs. Fails if the system starts no thread.
    pub fn start(
        settings: RecordSettings,
        database: LazyDatabase,
        post: PostCheckpoint,
    ) -> io::Result<Arc<Self>> {
        let writer = Uuid::now_v7().to_string();
        let rows = match &settings.call_log {
            Some(_) => {
                let rows = StoredRows::new(database.clone(), writer.clone())?;
                Some(Box::new(rows) as Box<dyn RowSink>)
            }
            None => None,
        };
        let audit = settings.audit.clone();
        let audit = audit.map(|place| Box::new(move || open_audit(&place, &post)) as OpenAudit);
        Self::start_with(settings, database, writer, Sinks { audit, rows }, LIMITS)
    }

    fn start_with(
        settings: RecordSettings,
        database: LazyDatabase,
        writer: String,
        sinks: Sinks,
        limits: QueueLimits,
    ) -> io::Result<Arc<Self>> {
        let queue = Arc::new(Queue::new(limits, RecordMetrics::default()));
        let prices = Arc::new(ArcSwapOption::empty());
        let public_key = Arc::new(ArcSwapOption::empty());
        let interval = settings.audit.as_ref().map(|audit| audit.checkpoint_interval);
        let work = Writer {
            queue: queue.clone(),
            open_audit: sinks.audit,
            rows: sinks.rows,
            keeps_contents: settings.call_log.is_some_and(|log| log.contents),
            checkpoint_interval: interval.unwrap_or(REPORT_INTERVAL),
            prices: prices.clone(),
            public_key: public_key.clone(),
        };
        let thread = thread::Builder::new().name("records".to_owned()).spawn(|| work.run())?;
        Ok(Arc::new(Self {
            queue,
            settings,
            writer,
            database,
            prices,
            public_key,
            thread: Mutex::new(Some(thread)),
            reported: Mutex::default(),
        }))
    }

    /// Settings of the records.
    pub fn settings(&self) -> &RecordSettings {
        &self.settings
    }

    /// Returns the public key of the audit log; `None` if there is no log, or if it is not open yet.
    pub fn public_key(&self) -> Option<String> {
        self.public_key.load().as_deref().cloned()
    }

    /// Sets the prices of calls that end from now on.
    pub fn set_prices(&self, prices: impl ToolPrices) {
        let prices: Box<dyn ToolPrices> = Box::new(prices);
        self.prices.store(Some(Arc::new(prices)));
    }

    /// Registers the metrics of the records.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.queue.metrics.register(registry);
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
    /// it cannot be written now. While the logs fail it does not record the act at all, so that it can be tried
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
        if self.queue.is_failing() {
            return false;
        }
        let event = Event::Act(Box::new(TimedAct { at: SystemTime::now(), act }));
        match self.queue.push_awaited(event) {
            Ok(written) => self.is_written(written, patience).await,
            Err(NoRoom) => false,
        }
    }

    /// Waits until an event is written. Returns false if it cannot be, or if it takes too long. In that case, the
    /// logs count as failing until an event is written, so that further calls do not wait as long.
    async fn is_written(&self, written: Written, patience: Duration) -> bool {
        let Ok(written) = tokio::time::timeout(patience, written).await else {
            self.queue.set_stalled();
            return false;
        };
        written.unwrap_or(false)
    }

    /// Writes what is there and ends the thread. Later events are lost. Waits for a bounded time.
    pub async fn stop(&self) {
        self.queue.close();
        let Some(thread) = self.thread.lock().take() else { return };
        let joining = tokio::task::spawn_blocking(move || thread.join());
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
    /// Lets the thread end once it has written what is there.
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl ActRecord for Recorder {
    fn record(&self, act: Act) {
        let timed = TimedAct { at: SystemTime::now(), act };
        // One that has no room is counted as lost.
        let _ = self.queue.push(Event::Act(Box::new(timed)));
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
