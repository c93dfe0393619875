//! Pins the definitions of tools: a definition that has changed since it was accepted is held in
//! quarantine, and the accepted one stays in use.
//!
//! [`ClientPins::screen`] is the only way from a server's list to the catalog. The accepted
//! definitions of a client are those of `airlock.lock` if the file lists the client, else those of
//! the first list, which the store keeps. The gateway writes `airlock.lock` only when an operator accepts changes
//! that it was shown ([`ClientPins::accept`]): the file may be read-only, shared by replicas and under version
//! control. This module does not know how a definition is sent to a model or shown to an operator.

mod accept;
mod decide;
mod definition;
mod diff;
mod keep;
mod review;
mod sets;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, MissedTickBehavior, interval};
use tracing::{info, warn};

pub(super) use self::definition::Listing;
pub use self::{
    accept::{AcceptError, Acceptance},
    decide::{Change, ChangeKind},
    definition::Definition,
    diff::{Shown, shown},
    review::{NoSuchChange, Quarantined, Review, documents},
};
use self::{
    decide::{PinDecision, Pinned, decide},
    definition::on_blocking_thread,
    keep::{Keep, PinError, definitions},
};
use airlock_catalog::MAX_TOOLS_PER_CLIENT;
use airlock_core::{
    file_version::FileVersion,
    tool::{ClientName, ToolDefinition, ToolName},
};
use airlock_lock::{Lock, WATCH_PERIOD};
use airlock_mcp_client::{Pinning, Settings};
use airlock_store::LazyDatabase;
use airlock_strings::{MAX_LISTED, visible_line, with_causes};

/// Interval between two lists while the accepted definitions cannot be read.
const RETRY: Duration = Duration::from_secs(30);

/// The pins of all servers of a gateway. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub struct Pins(Arc<PinTable>);

#[derive(Debug)]
struct PinTable {
    keep: Arc<Keep>,
    clients: Mutex<BTreeMap<ClientName, Arc<ClientPins>>>,
}

impl Pins {
    /// Creates the pins of a gateway without servers. `lock` is the path of `airlock.lock`; `None` if
    /// the configuration has no place for one. `store` is the database. Nothing is read yet.
    pub fn new(lock: Option<PathBuf>, store: LazyDatabase) -> Self {
        let keep = Arc::new(Keep::new(lock, store));
        Self(Arc::new(PinTable { keep, clients: Mutex::default() }))
    }

    /// Adds a server that has not been listed yet, or puts it in the place of the one with its name. The
    /// accepted definitions in the lock file and in the store stay those of the name.
    pub fn add(&self, settings: &Settings) -> Arc<ClientPins> {
        let client = settings.name.clone();
        let pinning = settings.pin;
        let keep = self.0.keep.clone();
        let pins = Arc::new(ClientPins { client, pinning, keep, state: Mutex::default() });
        self.0.clients.lock().insert(settings.name.clone(), pins.clone());
        pins
    }

    /// Removes a server. What was accepted stays, for a server that is added under the same name.
    pub fn remove(&self, name: &str) {
        self.0.clients.lock().remove(name);
    }

    /// Returns the pins of one server; `None` if no server has this name.
    pub fn client(&self, name: &str) -> Option<Arc<ClientPins>> {
        self.0.clients.lock().get(name).cloned()
    }
}

/// Returns the reason that the definitions of a server in a lock file cannot be used; `None` if they
/// can, or if the file does not list the server.
pub fn defect(lock: &Lock, client: &ClientName) -> Option<String> {
    definitions(lock.upstream(client)?).err().map(|error| visible_line(&with_causes(&error)))
}

/// The pins of one server.
#[derive(Debug)]
pub struct ClientPins {
    client: ClientName,
    pinning: Pinning,
    keep: Arc<Keep>,
    state: Mutex<PinState>,
}

/// Outcome of the last list. Everything in it is bounded by the bounds of a list, because a change
/// holds the latest definition only. Clones share it.
#[derive(Debug, Default, Clone)]
struct PinState {
    /// Accepted definitions; `None` before the first list, and if they could never be read.
    pinned: Option<Arc<Pinned>>,
    changes: Arc<[Change]>,
    /// Reason that the accepted definitions cannot be read.
    problem: Option<String>,
    is_screened: bool,
    /// Version of the lock file that the list was compared with.
    lock: Option<FileVersion>,
    /// Differences of the lists of all instances that are held out, one for each tool, and at most
    /// [`MAX_TOOLS_PER_CLIENT`].
    held_out: Arc<[Change]>,
    /// Number of further tools of such lists that differ.
    more_held_out: usize,
}

impl PinState {
    /// Returns the differences of the list that is offered, and those that only instances have that are
    /// held out. They are not masked by the list that is offered: an operator sees them, and may accept
    /// them.
    fn all_changes(&self) -> Vec<Change> {
        // Whether the offered list lacks a tool says nothing about its definition at other instances.
        let (removed, others): (Vec<_>, Vec<_>) =
            self.changes.iter().partition(|change| change.kind == ChangeKind::Removed);
        let mut all = BTreeMap::new();
        for change in others.into_iter().chain(&*self.held_out).chain(removed) {
            all.entry(change.tool.as_str()).or_insert(change);
        }
        all.into_values().cloned().collect()
    }
}

/// The part of a list that may be published.
#[derive(Debug, Default)]
pub(super) struct Screened {
    /// The definitions to publish: accepted ones first, so that no other tool can take their names.
    pub(super) tools: Vec<ToolDefinition>,
    /// Names of those that need an approval, because they are not accepted yet.
    pub(super) unaccepted: BTreeSet<String>,
    /// Reasons that other tools of the list cannot be used.
    pub(super) left_out: Vec<String>,
}

impl ClientPins {
    /// Compares a list with the accepted definitions, and returns the tools to publish. The first list
    /// of a server is pinned. If the accepted definitions cannot be read, the ones that were read
    /// last are used, and without those no tool is published.
    pub(super) async fn screen(&self, list: Vec<ToolDefinition>) -> Screened {
        if self.pinning == Pinning::Off {
            return Screened { tools: list, ..Screened::default() };
        }
        self.screen_listing(Listing::new(list).await).await
    }

    /// Does the same as [`Self::screen`] with a list whose digests are known.
    pub(super) async fn screen_listing(&self, listing: Listing) -> Screened {
        let Listing { tools, left_out, .. } = listing;
        if self.pinning == Pinning::Off {
            let tools = tools.into_iter().map(|(tool, _)| tool).collect();
            return Screened { tools, left_out, ..Screened::default() };
        }
        let lock = self.keep.lock_version().await;
        let (pinned, problem) = match self.pinned(&tools).await {
            Ok(pinned) => (Some(Arc::new(pinned)), None),
            Err(error) => (self.state().pinned.clone(), Some(with_causes(&error))),
        };
        let pinning = self.pinning;
        let compared = pinned.clone().unwrap_or_default();
        let decided = on_blocking_thread(move || decide(pinning, &compared, tools)).await;
        let Some(PinDecision { tools, unaccepted, changes }) = decided else {
            return Screened::default();
        };
        self.log(&changes, problem.as_deref());
        let mut state = self.state();
        let held_out = state.held_out.clone();
        let more_held_out = state.more_held_out;
        let changes = changes.into();
        let is_screened = true;
        *state = PinState { pinned, changes, problem, is_screened, lock, held_out, more_held_out };
        drop(state);
        Screened { tools, unaccepted, left_out }
    }

    /// Compares the lists of instances with the accepted definitions, and pins nothing. Returns the
    /// differences of each. There are none before the first list of the client, and if nothing is pinned.
    pub(super) async fn compare(&self, listings: Vec<Arc<Listing>>) -> Vec<Vec<Change>> {
        if self.pinning == Pinning::Off {
            return listings.iter().map(|_| Vec::new()).collect();
        }
        let (pinned, problem) = match self.accepted().await {
            Ok(Some(pinned)) => (Arc::new(pinned), None),
            Ok(None) => {
                self.state().problem = None;
                return listings.iter().map(|_| Vec::new()).collect();
            }
            Err(error) => {
                let known = self.state().pinned.clone().unwrap_or_default();
                (known, Some(with_causes(&error)))
            }
        };
        self.log_problem(problem.as_deref());
        // A review is about these, whether or not a list is offered.
        {
            let mut state = self.state();
            state.pinned = Some(pinned.clone());
            state.problem = problem;
        }
        let pinning = self.pinning;
        let compared = on_blocking_thread(move || {
            let decided = listings
                .iter()
                .map(|listing| decide(pinning, &pinned, listing.tools.clone()).changes);
            decided.collect()
        });
        compared.await.unwrap_or_default()
    }

    /// Returns whether nothing is accepted, so that the first list that is offered is pinned.
    pub(super) async fn is_first_use(&self) -> bool {
        self.pinning == Pinning::TrustOnFirstUse && matches!(self.accepted().await, Ok(None))
    }

    /// Records the differences of the lists of instances that are held out.
    pub(super) fn set_held_out(&self, held_out: &[&[Change]]) {
        let mut kept = BTreeMap::new();
        // An instance that lacks a tool is held out for that, but others have the tool.
        let changes = held_out.iter().flat_map(|changes| changes.iter());
        for change in changes.filter(|change| change.kind != ChangeKind::Removed) {
            kept.entry(change.tool.as_str()).or_insert(change);
        }
        let more = kept.len().saturating_sub(MAX_TOOLS_PER_CLIENT);
        let kept = kept.into_values().take(MAX_TOOLS_PER_CLIENT).cloned().collect();
        let mut state = self.state();
        state.is_screened |= held_out.iter().any(|changes| !changes.is_empty());
        state.held_out = kept;
        let known = std::mem::replace(&mut state.more_held_out, more);
        drop(state);
        if more > 0 && more != known {
            warn!(client = %self.client, more, "more tools of instances that are held out differ");
        }
    }

    /// Returns the differences between the last list and the accepted definitions.
    pub fn quarantine(&self) -> Vec<Quarantined> {
        self.all_changes().iter().map(Quarantined::new).collect()
    }

    fn all_changes(&self) -> Vec<Change> {
        // Calls and lists do not wait for a large comparison.
        let state = self.state().clone();
        state.all_changes()
    }

    /// Returns the names at the server of the tools in its last list that the operator has not
    /// accepted as they are there, with their invisible characters made visible.
    pub fn held(&self) -> Vec<String> {
        let changes = self.all_changes();
        let listed = changes.iter().filter(|change| change.kind != ChangeKind::Removed);
        listed.map(|change| visible_line(&Quarantined::new(change).tool)).collect()
    }

    /// Returns the reason that the accepted definitions cannot be read; `None` if they were read.
    pub fn problem(&self) -> Option<String> {
        self.state().problem.clone()
    }

    /// Returns the definitions that are used; the configuration sets them.
    pub fn pinning(&self) -> Pinning {
        self.pinning
    }

    /// Returns the last list for a decision of the operator; `None` before the first list, and for a
    /// server whose definitions are not pinned.
    pub fn review(&self) -> Option<Review> {
        let state = self.state().clone();
        state.is_screened.then(|| {
            let pinned = state.pinned.clone().unwrap_or_default();
            Review {
                pinning: self.pinning,
                is_locked: pinned.is_locked,
                accepted: pinned.accepted.clone(),
                changes: state.all_changes(),
                problem: state.problem.clone(),
            }
        })
    }

    /// Calls `relist` whenever the lock file has changed since the last list, and at intervals while
    /// the accepted definitions cannot be read. Never returns.
    pub(super) async fn follow(&self, relist: impl Fn()) {
        if self.pinning == Pinning::Off {
            return std::future::pending().await;
        }
        let mut ticks = interval(WATCH_PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = None;
        let mut tried = Instant::now();
        loop {
            ticks.tick().await;
            let now = self.keep.lock_version().await;
            let is_settled = before.as_ref() == Some(&now);
            before = Some(now.clone());
            let is_due = {
                let mut state = self.state();
                let is_new = is_settled && state.lock != now;
                if is_new {
                    state.lock = now;
                }
                is_new || (state.problem.is_some() && tried.elapsed() >= RETRY)
            };
            if is_due {
                tried = Instant::now();
                relist();
            }
        }
    }

    /// Returns the accepted definitions, and pins nothing; `None` if the first list is still to come.
    async fn accepted(&self) -> Result<Option<Pinned>, PinError> {
        let locked = self.keep.locked(&self.client).await?;
        if self.pinning == Pinning::Strict {
            let is_locked = locked.is_some();
            let accepted = locked.unwrap_or_default();
            return Ok(Some(Pinned { accepted, is_locked, ..Pinned::default() }));
        }
        self.keep.known(&self.client, locked).await
    }

    /// Returns the accepted definitions. Pins those of the list if it is the first one.
    async fn pinned(&self, tools: &[(ToolDefinition, Definition)]) -> Result<Pinned, PinError> {
        let locked = self.keep.locked(&self.client).await?;
        if self.pinning == Pinning::Strict {
            let is_locked = locked.is_some();
            let accepted = locked.unwrap_or_default();
            return Ok(Pinned { accepted, is_locked, ..Pinned::default() });
        }
        let pinned = self.keep.used(&self.client, locked, tools).await?;
        if pinned.is_first_use {
            info!(client = %self.client, tools = tools.len(), "definitions pinned on first use");
        }
        Ok(pinned)
    }

    /// Logs the changes that the list before did not have, without a text of the server.
    fn log(&self, changes: &[Change], problem: Option<&str>) {
        let client = &self.client;
        self.log_problem(problem);
        let known = self.state().changes.clone();
        let known: BTreeSet<_> = known.iter().map(|known| (known.kind, &*known.tool)).collect();
        let new = changes.iter().filter(|change| !known.contains(&(change.kind, &*change.tool)));
        let new: Vec<_> = new.collect();
        for change in new.iter().take(MAX_LISTED) {
            let tool = ToolName::new(client, &change.tool);
            let kind = change.kind.name();
            match change.kind {
                ChangeKind::Removed => info!(%client, %tool, "accepted tool removed by its server"),
                ChangeKind::New | ChangeKind::Renamed if change.is_offered => warn!(
                    %client,
                    %tool,
                    kind,
                    "new tool needs an approval for every call until it is accepted"
                ),
                ChangeKind::Changed => {
                    warn!(%client, %tool, kind, "tool in quarantine, its accepted definition is used");
                }
                ChangeKind::New | ChangeKind::Renamed => {
                    warn!(%client, %tool, kind, "tool in quarantine, it is not offered");
                }
            }
        }
        if new.len() > MAX_LISTED {
            let more = new.len() - MAX_LISTED;
            warn!(%client, more, "more tools in quarantine");
        }
    }

    /// Logs the reason that the accepted definitions cannot be read, if it is not known yet.
    fn log_problem(&self, problem: Option<&str>) {
        let known = self.state().problem.clone();
        if let Some(reason) = problem.filter(|reason| known.as_deref() != Some(reason)) {
            let client = &self.client;
            warn!(%client, reason, "accepted definitions cannot be read; no other is used");
        }
    }

    fn state(&self) -> MutexGuard<'_, PinState> {
        // The state is replaced as a whole.
        self.state.lock()
    }
}

#[cfg(test)]
mod tests;
