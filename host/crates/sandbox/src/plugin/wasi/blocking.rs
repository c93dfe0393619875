//! Calls of wasmtime-wasi's files on a thread that may block. wasmtime-wasi resolves a guest's
//! paths and keeps them inside the directory they start from. This module only makes it possible to
//! run several of its calls under one lock of a mount.

use std::{future::Future, io};

use futures_util::FutureExt as _;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::{
    FsPerms, OpenMode,
    filesystem::{Descriptor, Dir, File, WasiFilesystemCtx, WasiFilesystemCtxView},
    p2::{
        DynOutputStream, FsError, FsResult,
        bindings::filesystem::types::{
            DescriptorFlags, DescriptorStat, ErrorCode, HostDescriptor as _, OpenFlags, PathFlags,
        },
    },
};

use super::identity::FileIdentity;

/// A guest's directory, for blocking calls.
pub(super) struct BlockingDir {
    table: ResourceTable,
    context: WasiFilesystemCtx,
    directory: u32,
}

impl BlockingDir {
    pub(super) fn new(directory: &Dir) -> FsResult<Self> {
        let mut blocking = Self {
            table: ResourceTable::new(),
            context: WasiFilesystemCtx::default(),
            directory: 0,
        };
        blocking.directory = blocking.insert(directory)?;
        Ok(blocking)
    }

    /// Adds a second directory to the table, for calls that take two.
    fn insert(&mut self, directory: &Dir) -> FsResult<u32> {
        let same = Dir::new(directory.dir.try_clone()?, directory.perms, directory.open_mode, true);
        Ok(self.table.push(Descriptor::Dir(same))?.rep())
    }

    /// Runs one call of wasmtime-wasi on the directory.
    fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut WasiFilesystemCtxView<'_>, Resource<Descriptor>) -> FsResult<T>,
    ) -> FsResult<T> {
        let directory = Resource::new_borrow(self.directory);
        let mut view = WasiFilesystemCtxView { ctx: &mut self.context, table: &mut self.table };
        expect_ready(call(&mut view, directory))
    }

    pub(super) fn open(
        &mut self,
        follow: PathFlags,
        path: &str,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Descriptor> {
        let opened = self.call(async |view, directory| {
            view.open_at(directory, follow, path.to_owned(), open, flags).await
        })?;
        Ok(self.table.delete(opened)?)
    }

    /// Returns the metadata and the identity of the file at a path; `None` if the path does not
    /// exist.
    pub(super) fn stat(
        &mut self,
        follow: PathFlags,
        path: &str,
    ) -> FsResult<Option<(DescriptorStat, FileIdentity)>> {
        let stat = self
            .call(async |view, directory| view.stat_at(directory, follow, path.to_owned()).await);
        let stat = match stat {
            Err(error) if has_code(&error, ErrorCode::NoEntry) => return Ok(None),
            stat => stat?,
        };
        let hash = self.call(async |view, directory| {
            view.metadata_hash_at(directory, follow, path.to_owned()).await
        })?;
        Ok(Some((stat, FileIdentity { lower: hash.lower, upper: hash.upper })))
    }

    pub(super) fn create_directory(&mut self, path: &str) -> FsResult<()> {
        self.call(async |view, directory| {
            view.create_directory_at(directory, path.to_owned()).await
        })
    }

    pub(super) fn remove_directory(&mut self, path: &str) -> FsResult<()> {
        self.call(async |view, directory| {
            view.remove_directory_at(directory, path.to_owned()).await
        })
    }

    pub(super) fn unlink(&mut self, path: &str) -> FsResult<()> {
        self.call(async |view, directory| view.unlink_file_at(directory, path.to_owned()).await)
    }

    pub(super) fn rename(&mut self, path: &str, to: &Dir, new_path: &str) -> FsResult<()> {
        let to = self.insert(to)?;
        self.call(async |view, directory| {
            view.rename_at(
                directory,
                path.to_owned(),
                Resource::new_borrow(to),
                new_path.to_owned(),
            )
            .await
        })
    }
}

/// Returns the identity of an open file.
pub(super) fn identity(file: &std::fs::File) -> FsResult<FileIdentity> {
    let mut table = ResourceTable::new();
    let mut context = WasiFilesystemCtx::default();
    let file = table.push(Descriptor::File(blocking_file(file)?))?;
    let mut view = WasiFilesystemCtxView { ctx: &mut context, table: &mut table };
    let hash = expect_ready(view.metadata_hash(file))?;
    Ok(FileIdentity { lower: hash.lower, upper: hash.upper })
}

/// Opens a blocking output stream: at `position`, or at the end of the file if `None`.
pub(super) fn output_stream(file: &File, position: Option<u64>) -> FsResult<DynOutputStream> {
    let mut table = ResourceTable::new();
    let mut context = WasiFilesystemCtx::default();
    let same = File::new(file.file.try_clone()?, file.perms, file.open_mode, true);
    let file = table.push(Descriptor::File(same))?;
    let mut view = WasiFilesystemCtxView { ctx: &mut context, table: &mut table };
    let stream = match position {
        Some(position) => view.write_via_stream(file, position)?,
        None => view.append_via_stream(file)?,
    };
    Ok(table.delete(stream)?)
}

fn blocking_file(file: &std::fs::File) -> io::Result<File> {
    Ok(File::new(file.try_clone()?, FsPerms::ReadOnly, OpenMode::READ, true))
}

/// Returns the outcome of a future that never waits. The last argument of [`Dir::new`] and
/// [`File::new`] makes wasmtime-wasi block the thread instead. Panics if the future is not ready.
pub(super) fn expect_ready<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("files that may block the thread do")
}

/// Returns whether `error` has this code.
pub(super) fn has_code(error: &FsError, code: ErrorCode) -> bool {
    error.downcast_ref() == Some(&code)
}
