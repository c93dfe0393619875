//! wasmtime-wasi's files, used on a thread that may block. It resolves a guest's paths and keeps
//! them inside the directory they start from; this module only takes its calls to where several of
//! them can be made in one turn of a mount.

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

use super::mount::Identity;

/// A directory of a guest's.
pub(super) struct Inside {
    table: ResourceTable,
    context: WasiFilesystemCtx,
    directory: u32,
}

impl Inside {
    pub(super) fn new(directory: &Dir) -> FsResult<Self> {
        let mut inside = Self {
            table: ResourceTable::new(),
            context: WasiFilesystemCtx::default(),
            directory: 0,
        };
        inside.directory = inside.lay(directory)?;
        Ok(inside)
    }

    /// Puts another directory beside the first, for calls that take two.
    fn lay(&mut self, directory: &Dir) -> FsResult<u32> {
        let same = Dir::new(directory.dir.try_clone()?, directory.perms, directory.open_mode, true);
        Ok(self.table.push(Descriptor::Dir(same))?.rep())
    }

    /// One of wasmtime-wasi's calls.
    fn call<T>(
        &mut self,
        call: impl AsyncFnOnce(&mut WasiFilesystemCtxView<'_>, Resource<Descriptor>) -> FsResult<T>,
    ) -> FsResult<T> {
        let directory = Resource::new_borrow(self.directory);
        let mut view = WasiFilesystemCtxView { ctx: &mut self.context, table: &mut self.table };
        at_once(call(&mut view, directory))
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

    /// What is at a path, and which file it is; none if nothing is there.
    pub(super) fn look(
        &mut self,
        follow: PathFlags,
        path: &str,
    ) -> FsResult<Option<(DescriptorStat, Identity)>> {
        let stat = self
            .call(async |view, directory| view.stat_at(directory, follow, path.to_owned()).await);
        let stat = match stat {
            Err(error) if is(&error, ErrorCode::NoEntry) => return Ok(None),
            stat => stat?,
        };
        let hash = self.call(async |view, directory| {
            view.metadata_hash_at(directory, follow, path.to_owned()).await
        })?;
        Ok(Some((stat, Identity(hash.lower, hash.upper))))
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
        let to = self.lay(to)?;
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

/// Which file an open one is.
pub(super) fn identity(file: &std::fs::File) -> FsResult<Identity> {
    let (mut table, mut context) = (ResourceTable::new(), WasiFilesystemCtx::default());
    let file = table.push(Descriptor::File(blocking(file)?))?;
    let mut view = WasiFilesystemCtxView { ctx: &mut context, table: &mut table };
    let hash = at_once(view.metadata_hash(file))?;
    Ok(Identity(hash.lower, hash.upper))
}

/// A stream that writes where it is used: at a position, or to the end of the file.
pub(super) fn output(file: &File, position: Option<u64>) -> FsResult<DynOutputStream> {
    let (mut table, mut context) = (ResourceTable::new(), WasiFilesystemCtx::default());
    let same = File::new(file.file.try_clone()?, file.perms, file.open_mode, true);
    let file = table.push(Descriptor::File(same))?;
    let mut view = WasiFilesystemCtxView { ctx: &mut context, table: &mut table };
    let stream = match position {
        Some(position) => view.write_via_stream(file, position)?,
        None => view.append_via_stream(file)?,
    };
    Ok(table.delete(stream)?)
}

fn blocking(file: &std::fs::File) -> io::Result<File> {
    Ok(File::new(file.try_clone()?, FsPerms::ReadOnly, OpenMode::READ, true))
}

/// The outcome of a future that never waits: the last argument of [`Dir::new`] and [`File::new`]
/// makes wasmtime-wasi block instead.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("files that may block the thread do")
}

/// Whether an error is of this kind.
pub(super) fn is(error: &FsError, code: ErrorCode) -> bool {
    error.downcast_ref() == Some(&code)
}
