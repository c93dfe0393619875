//! Runs of scripts: their journals, decisions about their calls, and how they are resumed.
//!
//! A run stops where a call needs a decision of a person, and is resumed when the decision is there:
//! the same script runs again, and calls that were answered get their stored answer. The protocol is
//! [`airlock_core::run`], the tables are [`store::runs`].
//!
//! | file | purpose |
//! |---|---|
//! | `journal` | the journal of one run in this process: its known entries, and those still to be stored |
//! | `held` | plans a script, and holds its calls to the manifest that a person has approved |
//! | `calls` | makes the calls of a script: known answers, decisions at the door, intents, answers |
//! | `ahead` | looks at the calls of a script before the first is made |
//! | `arguments` | obvious errors of a call's arguments, found before a person is asked about it |
//! | `answer` | the answer of a call, as the script receives it and as it is stored |
//! | `known` | the parts of tool definitions that the calls of a script need, read once for a loop |
//! | `flow` | the sources that the arguments of calls may have |
//! | `codes` | codes of errors, for callers |
//! | `outcome` | the end of a run, as it is stored |
//! | `describe` | runs as JSON, for callers and operators |
//! | `owner` | the runs of one caller: list, show, approve, deny, resolve, cancel |
//! | `manifest` | the calls that a person approves at once |
//! | `expected` | the arguments that a plan expects of calls, constant in all parts, in some or in none |
//! | `plan` | plans of scripts: the calls that a script makes, without making any |
//! | `resume` | resumes a run: how a request names it, and which errors do not change it |

mod ahead;
mod answer;
mod arguments;
mod calls;
mod codes;
mod describe;
mod expected;
mod flow;
mod held;
mod journal;
mod known;
mod manifest;
mod outcome;
mod owner;
mod plan;
mod resume;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

pub use self::{
    answer::{CallAnswer, denial},
    calls::RunCalls,
    codes::code,
    describe::{document, document_text, end, run_call, summary},
    expected::{ExpectedArguments, PartialValue, ShownArgument},
    journal::Journal,
    manifest::{EffectManifest, ManifestCall, argument_name},
    outcome::{EndDifference, RunEnding, RunOutcome},
    owner::{Decisions, SkippedTooLarge},
    plan::{CallTreatment, DescribedAnswers, NotPlanned, PlanEnd, PlannedCall, ScriptPlan},
    resume::{RunToken, can_wait, decides_what_was_shown, resume},
};
pub(crate) use self::{codes::EXECUTOR_LOADING, owner::CarriedDecision};
use airlock_core::{
    act::Acts,
    tenant::{Pool, Reservation, Tenant},
    unix_time::unix_milliseconds,
};
use airlock_store::{self as store, Database, LazyDatabase, OwnerId, Unavailable, runs::RunBounds};

/// Name of the tool that runs scripts.
pub const EXECUTE: &str = "executeToolCode";
/// Start of the identifier of a run.
const PREFIX: &str = "run_";
/// Maximum bytes of the stored runs that are resumed at the same time, and of steps that wait for the store after their
/// scripts have ended. All calls and answers of a run are in memory, for longer than the request that resumes it.
const MAX_RESUMED_BYTES: usize = 256 << 20;
/// Weight that divides them among tenants, see [`Shares`](airlock_core::tenant::Shares). The largest run, of about
/// 33 MiB, finds room while four fifths are taken.
const RESUMED_WEIGHT: usize = 3;

/// Settings of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSettings {
    /// False to keep no journal: a script that needs an approval then ends there, and cannot be
    /// resumed.
    pub journal: bool,
    /// Bounds on stored runs.
    pub bounds: RunBounds,
    /// CPU time of a script. The time in which it waits for tools does not count.
    pub cpu_time: Duration,
    /// True if a caller that executes a script approves every call of the script with it.
    pub approves_whole_scripts: bool,
    /// True if scripts see the time at which their run began.
    pub clock: bool,
    /// The calls that a person approves at once.
    pub approval: ScriptApproval,
}

/// The calls of a script that a person approves at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptApproval {
    /// Those at which the script has stopped.
    Calls,
    /// All of them, before the first: the script is planned, and held to the manifest that is approved. A script whose
    /// calls cannot be bounded stops at its calls.
    Manifest,
}

/// The runs of all owners. Cheap to clone. The database is opened when it is first needed.
#[derive(Clone)]
pub struct Runs(Arc<RunsState>);

#[derive(Clone)]
struct RunsState {
    settings: RunSettings,
    database: LazyDatabase,
    /// Record of decisions about calls.
    acts: Acts,
    /// Runs whose scripts run in this process, by their identifiers. The number is that of the epoch.
    live: Arc<Mutex<HashMap<String, (i64, CancellationToken)>>>,
    observer: Arc<OnceLock<RunObserver>>,
    /// Memory of the runs that are resumed, and of steps that wait for the store.
    resumed: Pool,
}

/// Called with the identifier of a run whose script begins or stops to run in this process, and whether it runs now.
/// Must not block.
pub type RunObserver = Arc<dyn Fn(&str, bool) + Send + Sync>;

impl Runs {
    /// Creates the runs that are kept in this database.
    pub fn new(settings: RunSettings, database: LazyDatabase) -> Self {
        let acts = Acts::default();
        let live = Arc::default();
        let observer = Arc::default();
        let resumed = Pool::new(MAX_RESUMED_BYTES, RESUMED_WEIGHT);
        Self(Arc::new(RunsState { settings, database, acts, live, observer, resumed }))
    }

    /// Returns the same runs with a record of the decisions about their calls.
    #[must_use]
    pub fn with_acts(&self, acts: Acts) -> Self {
        Self(Arc::new(RunsState { acts, ..(*self.0).clone() }))
    }

    /// Returns the same runs with other settings. Runs that began before keep theirs.
    #[must_use]
    pub fn with_settings(&self, settings: RunSettings) -> Self {
        Self(Arc::new(RunsState { settings, ..(*self.0).clone() }))
    }

    /// Sets the observer of these runs, and of those with other settings. The first one stays.
    pub fn observe(&self, observer: RunObserver) {
        // A gateway sets one.
        let _ = self.0.observer.set(observer);
    }

    fn tell(&self, id: &str, is_running: bool) {
        if let Some(observer) = self.0.observer.get() {
            observer(id, is_running);
        }
    }

    /// The settings.
    pub fn settings(&self) -> &RunSettings {
        &self.0.settings
    }

    /// Returns the stored runs of a tenant. Fails if the database cannot be opened; the next call
    /// tries again.
    async fn open(&self, tenant: &Tenant) -> Result<store::runs::Runs, Unavailable> {
        self.open_of(tenant.scope()).await
    }

    /// Returns the stored runs of an owner, as [`Self::open`] does.
    async fn open_of(&self, owner: OwnerId) -> Result<store::runs::Runs, Unavailable> {
        let database = self.database().await?;
        Ok(database.runs(owner, self.0.settings.bounds))
    }

    /// Returns the database, for the operator. Fails if it cannot be opened; the next call tries again.
    pub async fn database(&self) -> Result<&Database, Unavailable> {
        self.0.database.available().await
    }

    /// Registers a run whose script runs in this process. The token is cancelled if its owner
    /// cancels the run.
    fn enter(&self, id: &str, epoch: i64) -> LiveRun {
        let token = CancellationToken::new();
        self.0.live.lock().insert(id.to_owned(), (epoch, token.clone()));
        self.tell(id, true);
        LiveRun { runs: self.clone(), id: id.to_owned(), epoch, token }
    }

    /// Cancels a run, if its script runs in this process.
    fn interrupt(&self, id: &str) {
        if let Some((_, token)) = self.0.live.lock().get(id) {
            token.cancel();
        }
    }

    /// Takes memory for a stored run of `bytes` that is resumed, or for steps; `None` while others take it.
    pub(crate) fn hold(&self, tenant: &Tenant, bytes: u64) -> Option<Reservation> {
        self.0.resumed.take(tenant, usize::try_from(bytes).ok()?)
    }

    /// Returns the time of the store, in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        unix_milliseconds(self.0.database.now())
    }
}

/// A run whose script runs in this process.
struct LiveRun {
    runs: Runs,
    id: String,
    epoch: i64,
    token: CancellationToken,
}

impl Drop for LiveRun {
    fn drop(&mut self) {
        let mut live = self.runs.0.live.lock();
        // The script of a later epoch may run here by now.
        if live.get(&self.id).is_some_and(|(epoch, _)| *epoch == self.epoch) {
            live.remove(&self.id);
        }
        drop(live);
        self.runs.tell(&self.id, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_resumed_runs_is_bounded_and_one_caller_leaves_some_to_others() {
        let minute = Duration::from_mins(1);
        let bounds = RunBounds {
            expire_after: minute,
            owner_runs: 10,
            owner_bytes: 1 << 30,
            total_bytes: 1 << 30,
            lease: minute,
            approval: minute,
        };
        let settings = RunSettings {
            journal: true,
            bounds,
            cpu_time: minute,
            approves_whole_scripts: false,
            clock: false,
            approval: ScriptApproval::Calls,
        };
        let runs = Runs::new(settings, store::Settings::new("never-opened.db").into());
        let own = Tenant::of_key([1; 32], "own");
        let other = Tenant::of_key([2; 32], "other");
        let run = 33 << 20;
        let held: Vec<_> = std::iter::from_fn(|| runs.hold(&own, run)).collect();
        assert_eq!(held.len(), 5);
        assert!(runs.with_settings(settings).hold(&own, run).is_none(), "other settings share it");
        assert!(runs.hold(&other, run).is_some());
        drop(held);
        assert!(runs.hold(&own, run).is_some());
        assert!(runs.hold(&own, u64::MAX).is_none());
    }
}
