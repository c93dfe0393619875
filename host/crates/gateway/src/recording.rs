//! The records of a gateway: starts them, and records the changes of settings in the store, made by any process.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::{runtime::Builder, time::sleep};
use tracing::warn;

use super::GatewayError;
use airlock_config::Config;
use airlock_core::{
    act::{Act, ActKind, ActRecord as _, Actor},
    money::Money,
    tool::Cause,
    unix_time::unix_milliseconds,
};
use airlock_egress::tls;
use airlock_limits::Limiter;
use airlock_records::{CallPrice, PostCheckpoint, Recorder};
use airlock_store::{
    Database, LazyDatabase, Unavailable,
    entries::{MAX_RECORDED, RecordedChange},
};

/// Interval at which a store that does not exist is looked for, and between two attempts to read it.
const LOOK: Duration = Duration::from_secs(1);
/// Longest time for a checkpoint to be posted.
const POST: Duration = Duration::from_secs(10);
/// Changes that are read at once.
const PAGE: u32 = 100;
/// Largest difference of the clocks of two gateways. Changes that were made this long before the start are
/// recorded too, perhaps for a second time.
const CLOCK_DIFFERENCE: Duration = Duration::from_mins(1);

/// Starts the records of a configuration, which have the prices of its limits; `None` if it has none. Fails if
/// the system starts no thread.
pub(super) fn start(
    config: &Config,
    database: &LazyDatabase,
    limiter: &Arc<Limiter>,
) -> Result<Option<Arc<Recorder>>, GatewayError> {
    if !config.records.is_on() {
        return Ok(None);
    }
    let limiter = limiter.clone();
    let price: CallPrice =
        Arc::new(move |tool: &str| limiter.prices().call(tool).map(Money::millionths));
    let settings = config.records.clone();
    let recorder = Recorder::start(settings, database.clone(), post_checkpoint(), price);
    recorder.map(Some).map_err(GatewayError::configuration("`records` cannot be written"))
}

/// Returns what posts checkpoints to URLs, on the threads of the audit log.
fn post_checkpoint() -> PostCheckpoint {
    Arc::new(|url: &str, checkpoint: &str| -> Result<(), Cause> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = tls::client_without_redirects().timeout(POST).build()?;
        let request = client.post(url).header("content-type", "text/plain; charset=utf-8");
        let request = request.body(checkpoint.to_owned());
        match runtime.block_on(async { request.send().await?.error_for_status() }) {
            Ok(response) if response.status().is_success() => Ok(()),
            Ok(response) => {
                Err(format!("its response has the status {}", response.status()).into())
            }
            // The URL may have a secret.
            Err(error) => Err(error.without_url().into()),
        }
    })
}

/// Records the start of the gateway. Fails if the audit log cannot be written and calls would be refused for
/// that.
pub(super) async fn record_start(recorder: Option<&Arc<Recorder>>) -> Result<(), GatewayError> {
    let Some(recorder) = recorder else { return Ok(()) };
    if recorder.record_first(life(ActKind::GatewayStarted)).await || !recorder.is_strict() {
        return Ok(());
    }
    let reason = "the log of the gateway has the reason";
    Err(GatewayError::configuration("the audit log cannot be written")(reason))
}

/// Records the stop of the gateway, and writes the last records.
pub(super) async fn record_stop(recorder: Option<&Arc<Recorder>>) {
    let Some(recorder) = recorder else { return };
    recorder.record(life(ActKind::GatewayStopped));
    recorder.stop().await;
}

fn life(kind: ActKind) -> Act {
    Act::new(kind, Actor::Gateway, "gateway").with("version", env!("CARGO_PKG_VERSION"))
}

/// The changes of a store that need no record.
#[derive(Debug, Clone, Copy)]
enum Settled {
    /// Those up to this number: they are recorded.
    Until(i64),
    /// Those before this time, in milliseconds since 1970: they were made before the gateway.
    Before(i64),
}

impl Settled {
    fn has(self, change: &RecordedChange) -> bool {
        match self {
            Self::Until(id) => change.id <= id,
            Self::Before(time_ms) => change.at_ms < time_ms,
        }
    }
}

/// Records each change of an element or an operator in the store that is made from now on, by any process.
/// Never returns; dropping the future ends it.
pub(super) async fn follow_changes(database: LazyDatabase, recorder: Arc<Recorder>) -> Infallible {
    let mut settled = if database.location().is_missing_file() {
        // All changes of a store that is made later are new.
        Settled::Until(0)
    } else {
        // The first look may come much later, if the store cannot be read.
        let start = database.now().checked_sub(CLOCK_DIFFERENCE);
        Settled::Before(start.map_or(0, unix_milliseconds))
    };
    while database.location().is_missing_file() {
        sleep(LOOK).await;
    }
    loop {
        if let Ok(opened) = database.open().await {
            let mut changes = opened.changes();
            loop {
                match record_new(opened, &recorder, &mut settled).await {
                    Ok(true) => {}
                    // The logs cannot be written now.
                    Ok(false) => break,
                    Err(error) => {
                        warn!(%error, "changes of settings cannot be read, to be recorded; the gateway tries again");
                        break;
                    }
                }
                if changes.next().await.is_none() {
                    break;
                }
            }
        }
        sleep(LOOK).await;
    }
}

/// Records the changes that are not settled, the earliest first. Each is settled once it is in the audit log.
/// Returns false if one cannot be recorded now.
async fn record_new(
    database: &Database,
    recorder: &Recorder,
    settled: &mut Settled,
) -> Result<bool, Unavailable> {
    let mut found = Vec::new();
    let mut before = None;
    while found.len() < MAX_RECORDED as usize {
        let page = database.recorded_changes(before, PAGE).await?;
        let Some(oldest) = page.last() else { break };
        before = Some(oldest.id);
        let is_last = settled.has(oldest);
        // Without their documents, which may be long.
        let new = page.iter().filter(|change| !settled.has(change));
        found.extend(new.map(|change| (change.id, changed(change))));
        if is_last {
            break;
        }
    }
    for (id, act) in found.into_iter().rev() {
        if !recorder.record_awaited(act).await {
            return Ok(false);
        }
        *settled = Settled::Until(id);
    }
    Ok(true)
}

fn changed(change: &RecordedChange) -> Act {
    Act::new(ActKind::ConfigChanged, Actor::Stored(change.actor.clone()), &change.name)
        .with("action", &change.action)
        .with("setting", change.kind_name())
        .with("change", change.id.to_string())
}

#[cfg(test)]
mod tests;
