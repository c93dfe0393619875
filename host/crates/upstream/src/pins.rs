//! Pins the definitions of tools: a definition that has changed since it was accepted is held in
//! quarantine, and the accepted one stays in use.
//!
//! [`ClientPins::screen`] is the only way from a server's list to the catalog. The accepted
//! definitions of a client are those of `airlock.lock` if the file lists the client, else those of
//! the first list, which the store keeps. The gateway never writes `airlock.lock`: the file may be
//! read-only, shared by replicas and under version control. This module does not know how a
//! definition is sent to a model or shown to an operator.

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

pub use self::{
    decide::{Change, ChangeKind},
    definition::Definition,
    diff::{Shown, shown},
    review::{NoSuchChange, Quarantined, Review},
};
use self::{
    decide::{Decision, Pinned, decide},
    definition::{Listing, on_blocking_thread},
    keep::{Keep, PinError, definitions},
};
use airlock_core::tool::{ClientName, ToolDefinition, ToolName};
use airlock_lock::{FileVersion, Lock, WATCH_PERIOD};
pub use airlock_mcp_client::{Pinning, Settings};
use airlock_store::LazyDatabase;
use airlock_strings::{visible_line, with_causes};

/// Maximum quarantined tools of one list that are logged one by one; of the others, the log has
/// the number. A server that renames all of its tools has 2,000.
const MAX_LOGGED: usize = 20;
/// Interval between two lists while the accepted definitions cannot be read.
const RETRY: Duration = Duration::from_secs(30);

/// The pins of all servers of a gateway. Cheap to clone; clones share them.
#[derive(Debug, Clone)]
pub struct Pins(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    keep: Arc<Keep>,
    clients: Mutex<BTreeMap<ClientName, Arc<ClientPins>>>,
}

impl Pins {
    /// Creates the pins of a gateway without servers. `lock` is the path of `airlock.lock`; `None` if
    /// the configuration has no place for one. `store` is the database. Nothing is read yet.
    pub fn new(lock: Option<PathBuf>, store: LazyDatabase) -> Self {
        let keep = Arc::new(Keep::new(lock, store));
        Self(Arc::new(Inner { keep, clients: Mutex::default() }))
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
/// holds the latest definition only.
#[derive(Debug, Default)]
struct PinState {
    /// Accepted definitions; `None` before the first list, and if they could never be read.
    pinned: Option<Arc<Pinned>>,
    changes: Arc<[Change]>,
    /// Reason that the accepted definitions cannot be read.
    problem: Option<String>,
    is_screened: bool,
    /// Version of the lock file that the list was compared with.
    lock: Option<FileVersion>,
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
        let lock = self.keep.lock_version().await;
        let Listing { tools, left_out } = Listing::of(list).await;
        let (pinned, problem) = match self.pinned(&tools).await {
            Ok(pinned) => (Some(Arc::new(pinned)), None),
            Err(error) => (self.state().pinned.clone(), Some(with_causes(&error))),
        };
        let pinning = self.pinning;
        let compared = pinned.clone().unwrap_or_default();
        let decided = on_blocking_thread(move || decide(pinning, &compared, tools)).await;
        let Some(Decision { tools, unaccepted, changes }) = decided else {
            return Screened::default();
        };
        self.log(&changes, problem.as_deref());
        *self.state() =
            PinState { pinned, changes: changes.into(), problem, is_screened: true, lock };
        Screened { tools, unaccepted, left_out }
    }

    /// Returns the differences between the last list and the accepted definitions.
    pub fn quarantine(&self) -> Vec<Quarantined> {
        self.state().changes.iter().map(Quarantined::of).collect()
    }

    /// Returns the names at the server of the tools in its last list that the operator has not
    /// accepted as they are there, with their invisible characters made visible.
    pub fn held(&self) -> Vec<String> {
        let state = self.state();
        let listed = state.changes.iter().filter(|change| change.kind != ChangeKind::Removed);
        listed.map(|change| visible_line(&Quarantined::of(change).tool)).collect()
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
        let state = self.state();
        state.is_screened.then(|| {
            let pinned = state.pinned.clone().unwrap_or_default();
            Review {
                pinning: self.pinning,
                is_locked: pinned.is_locked,
                accepted: pinned.accepted.clone(),
                changes: state.changes.to_vec(),
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
        let (known, known_problem) = {
            let state = self.state();
            (state.changes.clone(), state.problem.clone())
        };
        if let Some(reason) = problem.filter(|reason| known_problem.as_deref() != Some(reason)) {
            warn!(%client, reason, "accepted definitions cannot be read; no other is used");
        }
        let known: BTreeSet<_> = known.iter().map(|known| (known.kind, &*known.tool)).collect();
        let new = changes.iter().filter(|change| !known.contains(&(change.kind, &*change.tool)));
        let new: Vec<_> = new.collect();
        for change in new.iter().take(MAX_LOGGED) {
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
        if new.len() > MAX_LOGGED {
            let more = new.len() - MAX_LOGGED;
            warn!(%client, more, "more tools in quarantine");
        }
    }

    fn state(&self) -> MutexGuard<'_, PinState> {
        // The state is replaced as a whole.
        self.state.lock()
    }
}

#[cfg(test)]
mod tests;
