//! `wasi:filesystem`: the implementation of wasmtime-wasi, restricted further. Directories that
//! guests may write to keep to their quotas, special files are not opened, and the open files and
//! listings of one call are bounded.
//!
//! Guests cannot make links. The host keeps a guest that follows a symlink inside its directory,
//! but any other program would follow it anywhere, with rights that no guest has. A hard link gives
//! one file two names: a quota counts it twice, and removing one name frees no disk space.

mod descriptor;
mod host;
mod listings;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use airlock_core::tenant::{Pool, Tenant};
use wasmtime_wasi::{
    FsPerms, OpenMode,
    filesystem::Dir,
    p2::{FsResult, bindings::filesystem::types::ErrorCode},
};

pub(super) use self::host::{View, link};
use super::{
    descriptors::Place,
    mount::{Held, Mount},
    scratch::Base,
};
use crate::Quota;

/// Files, directories and file streams that one call may have open. Each takes a descriptor of the
/// process, or buffers.
pub(super) const MAX_OPEN: usize = 128;
/// Host memory for the open listings of one call, in bytes.
pub(super) const MAX_LISTED_BYTES: usize = 16 << 20;
/// Fuel that a file system call costs in addition to the exit to the host. The call runs on another
/// thread, which takes about ten times as long as the exit.
pub(super) const FUEL: u64 = 9_000;

/// Counts one open file or stream while it is alive: for its call, and for all guests of the
/// process.
pub(super) type Token = Arc<(Arc<()>, Place)>;

/// Files of one call.
pub(super) struct Files {
    /// Tenant that descriptors and listings are accounted to.
    tenant: Tenant,
    /// Memory from which listings take theirs.
    memory: Pool,
    /// Mounts of the directories that wasmtime-wasi opened for the guest, in the same order; `None`
    /// for a read-only directory.
    mounts: Vec<Option<Arc<Mount>>>,
    scratch: Scratch,
    /// Open descriptors, by the number of the resource.
    open: HashMap<u32, Opened>,
    tokens: Arc<()>,
    listed_bytes: usize,
    /// Fuel that file streams cost. They are used where the store cannot be accessed.
    late_debt: Arc<AtomicU64>,
}

enum Scratch {
    Denied,
    Granted(Arc<Base>, Quota),
    /// Made when the guest first lists its directories.
    Made(Dir, Arc<Mount>),
}

/// The host's record of an open descriptor.
#[derive(Clone)]
struct Opened {
    mount: Option<Arc<Mount>>,
    held: Option<Arc<Held>>,
    /// `None` for a granted directory, which the host opened and not the guest.
    _token: Option<Token>,
}

/// The scratch directory could not be made.
#[derive(Debug, thiserror::Error)]
#[error("no scratch directory")]
pub(crate) struct NoScratch(#[source] std::io::Error);

impl Files {
    /// Creates the state with no files at all.
    pub(super) fn new(tenant: Tenant, memory: Pool) -> Self {
        Self {
            tenant,
            memory,
            mounts: Vec::new(),
            scratch: Scratch::Denied,
            open: HashMap::new(),
            tokens: Arc::default(),
            listed_bytes: 0,
            late_debt: Arc::default(),
        }
    }

    /// Adds the mount of the next directory that wasmtime-wasi opens; `None` if it is read-only.
    pub(super) fn add(&mut self, mount: Option<Arc<Mount>>) {
        self.mounts.push(mount);
    }

    pub(super) fn add_scratch(&mut self, base: Arc<Base>, quota: Quota) {
        self.scratch = Scratch::Granted(base, quota);
    }

    /// Counts one more open file or stream. Fails if the call or the tenant has too many.
    fn token(&self) -> FsResult<Token> {
        if Arc::strong_count(&self.tokens) > MAX_OPEN {
            return Err(ErrorCode::InsufficientMemory.into());
        }
        let place = Place::take(&self.tenant).ok_or(ErrorCode::InsufficientMemory)?;
        Ok(Arc::new((self.tokens.clone(), place)))
    }

    pub(super) fn take_fuel_debt(&self) -> u64 {
        // Called at every exit of every guest, and nearly always zero.
        if self.late_debt.load(Ordering::Relaxed) == 0 {
            0
        } else {
            self.late_debt.swap(0, Ordering::Relaxed)
        }
    }

    /// Returns the scratch directory, and makes it at the first call; `None` if it was not granted.
    fn scratch(&mut self) -> wasmtime::Result<Option<(Dir, Arc<Mount>)>> {
        if let Scratch::Granted(base, quota) = &self.scratch {
            let scratch = base.make().map_err(NoScratch)?;
            let directory = std::fs::File::open(scratch.path()).map_err(NoScratch)?;
            let directory =
                Dir::new(directory, FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE, false);
            self.scratch = Scratch::Made(directory, Mount::of_scratch(scratch, *quota));
        }
        Ok(match &self.scratch {
            Scratch::Made(directory, mount) => Some((directory.clone(), mount.clone())),
            _ => None,
        })
    }
}
