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
    sync::{Arc, OnceLock},
};

use airlock_core::tenant::{Pool, Tenant};
use wasmtime_wasi::{
    FsPerms, OpenMode,
    filesystem::Dir,
    p2::{FsResult, bindings::filesystem::types::ErrorCode},
};

pub(super) use self::host::{FilesystemHost, link};
use super::{
    descriptors::DescriptorPermit,
    mount::{Mount, OpenFile},
    scratch::ScratchRoot,
};
use crate::{
    Quota,
    plugin::{late_fuel::LateFuel, uses::DirectoryRecorder},
};

/// Files, directories and file streams that one call may have open. Each takes a descriptor of the
/// process, or buffers. The limit on handles is no bound on them: it is 1,024 by default, as many
/// as the descriptors of a process on some systems.
pub(super) const MAX_OPEN: usize = 128;
/// Host memory for the open listings of one call, in bytes: a quarter of a million short names. It
/// bounds the walk of a directory, which takes its memory from the budget of all guests only at its
/// end.
pub(super) const MAX_LISTED_BYTES: usize = 16 << 20;
/// Fuel that a file system call costs in addition to the exit to the host. The call runs on another
/// thread, which takes about ten times as long as the exit.
pub(super) const FUEL: u64 = 9_000;

/// Counts one open file or stream until dropped: for its call, and for all guests of the process.
pub(super) struct OpenPermit {
    _of_call: Arc<()>,
    _of_process: DescriptorPermit,
}

/// Files of one call.
pub(super) struct Files {
    /// Tenant that descriptors and listings are accounted to.
    tenant: Tenant,
    /// Memory from which listings take theirs.
    memory: Pool,
    /// Directories that wasmtime-wasi opened for the guest, in the same order.
    granted: Vec<GrantedDirectory>,
    scratch: ScratchState,
    scratch_recorder: Option<DirectoryRecorder>,
    /// Open descriptors, by the number of the resource.
    open: HashMap<u32, OpenDescriptor>,
    /// Shared with every [`OpenPermit`] of the call, so that its references count them. Made with the first one.
    permits: OnceLock<Arc<()>>,
    listed_bytes: usize,
    /// True if the guest tried to change a directory that it may only read.
    denied_a_change: bool,
    has_changed: bool,
    /// Fuel that file streams cost. They are used where the store cannot be accessed.
    late_fuel: LateFuel,
}

/// A directory that the guest starts from.
struct GrantedDirectory {
    /// `None` for a read-only directory.
    mount: Option<Arc<Mount>>,
    recorder: Option<DirectoryRecorder>,
}

enum ScratchState {
    Denied,
    Granted(Arc<ScratchRoot>, Quota),
    /// Made when the guest first lists its directories.
    Made(Dir, Arc<Mount>),
}

/// The host's record of an open descriptor.
#[derive(Clone)]
struct OpenDescriptor {
    mount: Option<Arc<Mount>>,
    open_file: Option<Arc<OpenFile>>,
    /// Recorder of the directory that it lies in; `None` if uses are not recorded.
    recorder: Option<DirectoryRecorder>,
    /// `None` for a granted directory, which the host opened and not the guest.
    _permit: Option<Arc<OpenPermit>>,
}

impl OpenDescriptor {
    /// Creates the record of a directory that the guest starts from.
    fn granted(mount: Option<Arc<Mount>>, recorder: Option<DirectoryRecorder>) -> Self {
        Self { mount, open_file: None, recorder, _permit: None }
    }
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
            granted: Vec::new(),
            scratch: ScratchState::Denied,
            scratch_recorder: None,
            open: HashMap::new(),
            permits: OnceLock::new(),
            listed_bytes: 0,
            denied_a_change: false,
            has_changed: false,
            late_fuel: LateFuel::default(),
        }
    }

    /// Adds the next directory that wasmtime-wasi opens, with its mount; `None` if it is read-only.
    pub(super) fn add(&mut self, mount: Option<Arc<Mount>>, recorder: Option<DirectoryRecorder>) {
        self.granted.push(GrantedDirectory { mount, recorder });
    }

    pub(super) fn add_scratch(
        &mut self,
        root: Arc<ScratchRoot>,
        quota: Quota,
        recorder: Option<DirectoryRecorder>,
    ) {
        self.scratch = ScratchState::Granted(root, quota);
        self.scratch_recorder = recorder;
    }

    /// Counts one more open file or stream. Fails if the call or the tenant has too many.
    fn permit(&self) -> FsResult<Arc<OpenPermit>> {
        let permits = self.permits.get_or_init(Arc::default);
        if Arc::strong_count(permits) > MAX_OPEN {
            return Err(ErrorCode::InsufficientMemory.into());
        }
        let descriptor =
            DescriptorPermit::take(&self.tenant).ok_or(ErrorCode::InsufficientMemory)?;
        Ok(Arc::new(OpenPermit { _of_call: permits.clone(), _of_process: descriptor }))
    }

    pub(super) fn late_fuel(&self) -> &LateFuel {
        &self.late_fuel
    }

    pub(super) fn denied_a_change(&self) -> bool {
        self.denied_a_change
    }

    pub(super) fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Returns the mount to change. Records the attempt. Fails if the directory is read-only.
    fn writable(&mut self, mount: Option<Arc<Mount>>) -> FsResult<Arc<Mount>> {
        self.record_change(mount.as_deref());
        Ok(mount.ok_or(ErrorCode::NotPermitted)?)
    }

    /// Records an attempt to change something in a mount; a read-only directory has none. What a
    /// scratch directory has ends with the call.
    fn record_change(&mut self, mount: Option<&Mount>) {
        self.denied_a_change |= mount.is_none();
        self.has_changed |= mount.is_some_and(|mount| !mount.is_scratch());
    }

    /// Returns the scratch directory, and makes it at the first call; `None` if it was not granted.
    fn scratch(&mut self) -> wasmtime::Result<Option<(Dir, Arc<Mount>)>> {
        if let ScratchState::Granted(root, quota) = &self.scratch {
            let scratch = root.create().map_err(NoScratch)?;
            let directory = std::fs::File::open(scratch.path()).map_err(NoScratch)?;
            let directory =
                Dir::new(directory, FsPerms::ReadWrite, OpenMode::READ | OpenMode::WRITE, false);
            self.scratch = ScratchState::Made(directory, Mount::of_scratch(scratch, *quota));
        }
        Ok(match &self.scratch {
            ScratchState::Made(directory, mount) => Some((directory.clone(), mount.clone())),
            _ => None,
        })
    }
}
