//! Keeps the accepted definitions: reads `airlock.lock`, and reads and writes the store. Writes `airlock.lock` when an
//! operator accepts changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use tokio::sync::OnceCell;
use tracing::warn;

use super::{AcceptError, Definition, decide::Pinned, definition::on_blocking_thread};
use airlock_catalog::MAX_TOOLS_PER_CLIENT;
use airlock_core::{
    file_version::FileVersion,
    tool::{ClientName, ToolDefinition},
};
use airlock_lock::{Lock, LockError, LockedTool, file_version};
use airlock_store::{Database, LazyDatabase, OpenError, Unavailable, upstream::UpstreamPin};
use airlock_strings::with_causes;

/// Reason that the accepted definitions of a server are unknown.
#[derive(Debug, thiserror::Error)]
pub(super) enum PinError {
    /// The lock file cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The lock file was edited.
    #[error(
        "the definition of tool {tool:?} in airlock.lock does not have the digest beside it; restore the file from version control, or delete the server's entry in it and accept the server again"
    )]
    Digest {
        /// Name of the tool.
        tool: String,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store cannot be read or written.
    #[error("the pins in the store are not available")]
    Store(#[from] Unavailable),
    /// The store has a text that is no definition.
    #[error("the pins in the store are damaged")]
    Damaged(#[source] serde_json::Error),
    /// The runtime is shutting down.
    #[error("reading the accepted definitions was interrupted")]
    Interrupted,
}

/// Definitions by the tools' names.
type Definitions = BTreeMap<String, Definition>;

/// The lock file and the store.
#[derive(Debug)]
pub(super) struct Keep {
    lock: Option<PathBuf>,
    /// The lock file as it was read last, so that many servers read it once.
    read: Mutex<Option<(FileVersion, Arc<Lock>)>>,
    /// True once the lock file was seen; it must not disappear after that.
    was_seen: AtomicBool,
    /// Held while the lock file is written, so that of two acceptances none is lost.
    writing: Mutex<()>,
    store: LazyDatabase,
    first_use: OnceCell<FirstUse>,
}

/// The place for definitions that were not accepted with `airlock upstream accept`.
#[derive(Debug)]
enum FirstUse {
    Store(Database),
    /// Of a gateway that cannot make a database.
    Memory(Mutex<BTreeMap<ClientName, Vec<UpstreamPin>>>),
}

impl Keep {
    pub(super) fn new(lock: Option<PathBuf>, store: LazyDatabase) -> Self {
        let read = Mutex::default();
        let was_seen = AtomicBool::new(false);
        let writing = Mutex::default();
        let first_use = OnceCell::new();
        Self { lock, read, was_seen, writing, store, first_use }
    }

    /// Returns the version of the lock file; `None` if there is none.
    pub(super) async fn lock_version(&self) -> Option<FileVersion> {
        file_version(self.lock.as_ref()?).await
    }

    /// Returns the definitions of a client in the lock file; `None` if the file does not list the
    /// client. Fails if the file existed before and is gone, or cannot be read.
    pub(super) async fn locked(
        &self,
        client: &ClientName,
    ) -> Result<Option<Definitions>, PinError> {
        let Some(lock) = self.current().await? else { return Ok(None) };
        let client = client.clone();
        let reading = tokio::task::spawn_blocking(move || {
            lock.upstream(&client).map(definitions).transpose()
        });
        reading.await.map_err(|_| PinError::Interrupted)?
    }

    async fn current(&self) -> Result<Option<Arc<Lock>>, PinError> {
        let Some(path) = self.lock.clone() else { return Ok(None) };
        // Before the file is read, so that a change meanwhile is found by the next version.
        let version = file_version(&path).await;
        let known = self.read.lock().clone();
        if let (Some((known, lock)), Some(version)) = (known, &version)
            && known == *version
        {
            return Ok(Some(lock));
        }
        let gone = LockError::Gone { path: path.clone() };
        let loaded = tokio::task::spawn_blocking(move || Lock::load(&path)).await;
        let loaded = loaded.map_err(|_| PinError::Interrupted)?;
        if !matches!(loaded, Ok(None)) {
            self.was_seen.store(true, Ordering::Relaxed);
        }
        let Some(lock) = loaded?.map(Arc::new) else {
            let was_seen = self.was_seen.load(Ordering::Relaxed);
            return if was_seen { Err(gone.into()) } else { Ok(None) };
        };
        let mut read = self.read.lock();
        *read = version.map(|version| (version, lock.clone()));
        Ok(Some(lock))
    }

    /// Writes the accepted definitions of a client to the lock file; all else in the file stays. Fails unless the file
    /// has `base` for the client, or does not list it if that is `None`. Blocks.
    pub(super) fn accept(
        &self,
        client: &ClientName,
        base: Option<&Definitions>,
        tools: Vec<LockedTool>,
    ) -> Result<(), AcceptError> {
        let path = self.lock.as_ref().ok_or(AcceptError::NoFile)?;
        let _writing = self.writing.lock();
        let read = Lock::load(path)?;
        let mut lock = match &read {
            Some(lock) => lock.clone(),
            None if self.was_seen.load(Ordering::Relaxed) => {
                return Err(LockError::Gone { path: path.clone() }.into());
            }
            None => Lock::default(),
        };
        if !is_as_locked(base, lock.upstream(client)) {
            return Err(AcceptError::Changed);
        }
        lock.accept_upstream(client, tools);
        Ok(lock.save_over(path, read.as_ref())?)
    }

    /// Returns the pins of a client that is trusted on first use as they are: the `locked` definitions, or
    /// else those of the first list; `None` if there was none yet.
    pub(super) async fn known(
        &self,
        client: &ClientName,
        locked: Option<Definitions>,
    ) -> Result<Option<Pinned>, PinError> {
        let place = self.first_use().await?;
        let kept = StoredPins::read(place.all(client).await?).await?;
        let is_locked = locked.is_some();
        let accepted = locked.unwrap_or(kept.trusted);
        let is_known = is_locked || !accepted.is_empty();
        let pinned = Pinned { accepted, later: kept.later, is_locked, is_first_use: false };
        Ok(is_known.then_some(pinned))
    }

    /// Returns the pins of a client that is trusted on first use: the `locked` definitions, or else
    /// those of the first list, which this `list` is if there was none; and the first definitions of
    /// the tools of the list that came later.
    pub(super) async fn used(
        &self,
        client: &ClientName,
        locked: Option<Definitions>,
        list: &[(ToolDefinition, Definition)],
    ) -> Result<Pinned, PinError> {
        let place = self.first_use().await?;
        let mut kept = StoredPins::read(place.all(client).await?).await?;
        let is_locked = locked.is_some();
        let mut is_first_use = false;
        let accepted = match locked {
            Some(locked) => locked,
            // An empty list says nothing about the tools of a server.
            None if kept.trusted.is_empty() && !list.is_empty() => {
                is_first_use = true;
                kept = StoredPins::read(place.pin_first(client, texts(list.iter())).await?).await?;
                std::mem::take(&mut kept.trusted)
            }
            None => std::mem::take(&mut kept.trusted),
        };
        let later = list.iter().filter(|(tool, _)| !accepted.contains_key(&tool.name));
        let later: Vec<_> = later.collect();
        let listed: BTreeSet<&str> = later.iter().map(|(tool, _)| tool.name.as_str()).collect();
        let gone = kept.later.keys().filter(|name| !listed.contains(name.as_str()));
        let forget: Vec<_> = gone.cloned().collect();
        let room = MAX_TOOLS_PER_CLIENT
            .saturating_sub(accepted.len() + kept.later.len().saturating_sub(forget.len()));
        let new = later.iter().filter(|(tool, _)| !kept.later.contains_key(&tool.name));
        let add = texts(new.take(room).copied());
        if !add.is_empty() || !forget.is_empty() {
            kept = StoredPins::read(place.pin_later(client, add, forget).await?).await?;
        }
        Ok(Pinned { accepted, later: kept.later, is_locked, is_first_use })
    }

    /// Opens the store. A gateway that cannot make the file keeps the pins in memory; one whose file
    /// cannot be opened fails.
    async fn first_use(&self) -> Result<&FirstUse, PinError> {
        let opened = self.first_use.get_or_try_init(|| async {
            match self.store.open().await {
                Ok(database) => Ok(FirstUse::Store(database.clone())),
                Err(error @ OpenError::Unusable { .. })
                    if self.store.location().is_missing_file() =>
                {
                    let reason = with_causes(&error);
                    warn!(
                        reason,
                        "pins are kept in memory, so that a restart trusts every server again; \
                         set `store` to a path that can be written, or accept the servers with \
                         `airlock upstream accept --all`"
                    );
                    Ok(FirstUse::Memory(Mutex::default()))
                }
                Err(error) => Err(PinError::from(error)),
            }
        });
        opened.await
    }
}

/// The pins of one client in the store.
struct StoredPins {
    trusted: Definitions,
    later: Definitions,
}

impl StoredPins {
    /// Parses pins on a blocking thread.
    async fn read(pins: Vec<UpstreamPin>) -> Result<Self, PinError> {
        on_blocking_thread(|| Self::parse(pins)).await.ok_or(PinError::Interrupted)?
    }

    fn parse(pins: Vec<UpstreamPin>) -> Result<Self, PinError> {
        let mut kept = Self { trusted: BTreeMap::new(), later: BTreeMap::new() };
        for pin in pins {
            let definition = Definition::parse(&pin.definition).map_err(PinError::Damaged)?;
            let place = if pin.is_trusted { &mut kept.trusted } else { &mut kept.later };
            place.insert(pin.tool, definition);
        }
        Ok(kept)
    }
}

impl FirstUse {
    async fn all(&self, client: &ClientName) -> Result<Vec<UpstreamPin>, Unavailable> {
        match self {
            Self::Store(database) => database.upstream_pins(client.as_str()).await,
            Self::Memory(pins) => Ok(change(pins, client, |_| {})),
        }
    }

    async fn pin_first(
        &self,
        client: &ClientName,
        tools: Vec<(String, String)>,
    ) -> Result<Vec<UpstreamPin>, Unavailable> {
        match self {
            Self::Store(database) => database.pin_first_list(client.as_str(), tools).await,
            Self::Memory(pins) => Ok(change(pins, client, |pins| *pins = made(tools, true))),
        }
    }

    async fn pin_later(
        &self,
        client: &ClientName,
        tools: Vec<(String, String)>,
        forget: Vec<String>,
    ) -> Result<Vec<UpstreamPin>, Unavailable> {
        match self {
            Self::Store(database) => database.pin_later_tools(client.as_str(), tools, forget).await,
            Self::Memory(pins) => Ok(change(pins, client, |pins| {
                pins.retain(|pin| pin.is_trusted || !forget.contains(&pin.tool));
                pins.extend(made(tools, false));
            })),
        }
    }
}

fn change(
    pins: &Mutex<BTreeMap<ClientName, Vec<UpstreamPin>>>,
    client: &ClientName,
    change: impl FnOnce(&mut Vec<UpstreamPin>),
) -> Vec<UpstreamPin> {
    let mut pins = pins.lock();
    let own = pins.entry(client.clone()).or_default();
    change(own);
    own.clone()
}

fn made(tools: Vec<(String, String)>, is_trusted: bool) -> Vec<UpstreamPin> {
    let tools = tools.into_iter();
    tools.map(|(tool, definition)| UpstreamPin { tool, is_trusted, definition }).collect()
}

fn texts<'l>(
    list: impl Iterator<Item = &'l (ToolDefinition, Definition)>,
) -> Vec<(String, String)> {
    list.take(MAX_TOOLS_PER_CLIENT)
        .map(|(tool, definition)| (tool.name.clone(), definition.text().to_owned()))
        .collect()
}

/// Returns whether the definitions of a client are those of the lock file.
fn is_as_locked(base: Option<&Definitions>, locked: Option<&[LockedTool]>) -> bool {
    match (base, locked) {
        (None, None) => true,
        (Some(base), Some(locked)) => {
            base.len() == locked.len()
                && locked.iter().all(|tool| {
                    base.get(&tool.name).is_some_and(|known| known.digest() == tool.digest)
                })
        }
        _ => false,
    }
}

/// Reads the definitions of the lock file. Fails if a digest is not that of the definition beside
/// it: a reader of the file compares the digests.
pub(super) fn definitions(tools: &[LockedTool]) -> Result<Definitions, PinError> {
    tools
        .iter()
        .map(|locked| match definition(locked) {
            Some(definition) => Ok((locked.name.clone(), definition)),
            None => Err(PinError::Digest { tool: locked.name.clone() }),
        })
        .collect()
}

/// Reads a definition of the lock file; `None` if its digest or name is another one.
fn definition(locked: &LockedTool) -> Option<Definition> {
    let definition = Definition::parse(&locked.definition).ok()?;
    let is_own = definition.digest() == locked.digest
        && definition.tool().is_some_and(|tool| tool.name == locked.name);
    is_own.then_some(definition)
}
