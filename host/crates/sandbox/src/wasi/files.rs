//! `wasi:filesystem`: the implementation of wasmtime-wasi, restricted further. Directories that
//! guests may write to keep to their quotas, special files are not opened, and the open files and
//! listings of one call are bounded.
//!
//! Guests cannot make links. The host keeps a guest that follows a symlink inside its directory,
//! but any other program would follow it anywhere, with rights that no guest has. A hard link gives
//! one file two names: a quota counts it twice, and removing one name frees no disk space.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    vec,
};

use airlock_core::tenant::{Held as HeldMemory, Pool, Tenant};
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::{
    FsPerms, OpenMode,
    filesystem::{Descriptor, Dir, File, WasiFilesystemCtxView},
    p2::{
        DynInputStream, DynOutputStream, FsError, FsResult,
        bindings::filesystem::{
            preopens,
            types::{
                self, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
                DirectoryEntryStream, ErrorCode, Filesize, HostDescriptor,
                HostDirectoryEntryStream, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
            },
        },
    },
    runtime::spawn_blocking,
};

use super::{
    Wasi,
    descriptors::Place,
    directory, inside, listing,
    mount::{Held, Mount, OverQuota},
    scratch::Base,
    streams::{Reader, Writer},
};
use crate::{
    Quota,
    run::{instance::State, meter::Meter},
};

/// Files, directories and file streams that one call may have open. Each takes a descriptor of the
/// process, or buffers.
pub(super) const MAX_OPEN: usize = 128;
/// Host memory for the open listings of one call, in bytes.
pub(super) const MAX_LISTED_BYTES: usize = 16 << 20;
/// Host memory for one entry of a listing in addition to its name, in bytes.
pub(super) const ENTRY_BYTES: usize = 64;
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

/// A listing that the guest has open.
struct Listing {
    entries: vec::IntoIter<DirectoryEntry>,
    bytes: usize,
    _memory: HeldMemory,
    _token: Token,
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

/// Files of one call while its guest uses them.
pub(super) struct View<'a> {
    wasi: WasiFilesystemCtxView<'a>,
    files: &'a mut Files,
    meter: &'a mut Meter,
}

/// Links the two interfaces over those of wasmtime-wasi.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    types::add_to_linker::<State, Filesystem>(linker, view)?;
    preopens::add_to_linker::<State, Filesystem>(linker, view)
}

fn view(state: &mut State) -> View<'_> {
    View::new(&mut state.call.wasi, &mut state.table, &mut state.meter)
}

/// Marks the host's side of the generated traits.
struct Filesystem;

impl HasData for Filesystem {
    type Data<'a> = View<'a>;
}

impl<'a> View<'a> {
    pub(super) fn new(
        wasi: &'a mut Wasi,
        table: &'a mut ResourceTable,
        meter: &'a mut Meter,
    ) -> Self {
        Self {
            wasi: WasiFilesystemCtxView { ctx: wasi.context.filesystem(), table },
            files: &mut wasi.files,
            meter,
        }
    }

    /// Charges fuel for a call to the file system and for `bytes`.
    fn charge(&mut self, bytes: usize) {
        self.meter.add(FUEL + bytes as u64);
    }

    fn opened(&self, descriptor: &Resource<Descriptor>) -> FsResult<&Opened> {
        // Every descriptor that a guest holds was recorded here when it was opened.
        self.files.open.get(&descriptor.rep()).ok_or_else(|| ErrorCode::BadDescriptor.into())
    }

    fn directory(&self, descriptor: &Resource<Descriptor>) -> FsResult<(Dir, Option<Arc<Mount>>)> {
        match self.wasi.table.get(descriptor)? {
            Descriptor::Dir(directory) => {
                Ok((directory.clone(), self.opened(descriptor)?.mount.clone()))
            }
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// Returns a directory and its mount. Fails if the directory is read-only.
    fn writable_directory(&self, descriptor: &Resource<Descriptor>) -> FsResult<(Dir, Arc<Mount>)> {
        let (directory, mount) = self.directory(descriptor)?;
        Ok((directory, mount.ok_or(ErrorCode::NotPermitted)?))
    }

    /// Returns a file and its mount. Fails if the file is in a read-only directory.
    fn writable_file(
        &self,
        descriptor: &Resource<Descriptor>,
    ) -> FsResult<(File, Arc<Mount>, Option<Arc<Held>>)> {
        let Descriptor::File(file) = self.wasi.table.get(descriptor)? else {
            return Err(ErrorCode::BadDescriptor.into());
        };
        let Opened { mount, held, .. } = self.opened(descriptor)?.clone();
        Ok((file.clone(), mount.ok_or(ErrorCode::NotPermitted)?, held))
    }

    fn push(&mut self, descriptor: Descriptor, opened: Opened) -> FsResult<Resource<Descriptor>> {
        let descriptor = self.wasi.table.push(descriptor)?;
        self.files.open.insert(descriptor.rep(), opened);
        Ok(descriptor)
    }

    fn writer(
        &mut self,
        descriptor: &Resource<Descriptor>,
        position: Option<u64>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let (file, mount, held) = self.writable_file(descriptor)?;
        let writer = Writer::open(
            mount,
            &file,
            position,
            held,
            self.files.token()?,
            self.files.late_debt.clone(),
        )?;
        Ok(self.wasi.table.push(writer)?)
    }
}

impl preopens::Host for View<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let mut directories = self.wasi.get_directories()?;
        for ((descriptor, _), mount) in directories.iter().zip(&self.files.mounts) {
            let opened = Opened { mount: mount.clone(), held: None, _token: None };
            self.files.open.insert(descriptor.rep(), opened);
        }
        if let Some((directory, mount)) = self.files.scratch()? {
            let opened = Opened { mount: Some(mount), held: None, _token: None };
            directories.push((self.push(Descriptor::Dir(directory), opened)?, "/tmp".to_owned()));
        }
        Ok(directories)
    }
}

impl types::Host for View<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<ErrorCode>> {
        if self.wasi.table.get(&error)?.is::<OverQuota>() {
            return Ok(Some(ErrorCode::Quota));
        }
        self.wasi.filesystem_error_code(error)
    }
}

/// Passes calls to wasmtime-wasi. The flags with which the descriptor was opened decide about them.
macro_rules! leave_to_wasi {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(async fn $name(&mut self, descriptor: Resource<Descriptor>, $($argument: $kind),*) -> FsResult<$answer> {
            self.charge(0);
            self.wasi.$name(descriptor, $($argument),*).await
        })*
    };
}

impl HostDescriptor for View<'_> {
    leave_to_wasi! {
        advise(offset: Filesize, length: Filesize, advice: Advice) -> ();
        get_flags() -> DescriptorFlags;
        get_type() -> DescriptorType;
        metadata_hash() -> MetadataHashValue;
        metadata_hash_at(follow: PathFlags, path: String) -> MetadataHashValue;
        readlink_at(path: String) -> String;
        set_times(accessed: NewTimestamp, modified: NewTimestamp) -> ();
        set_times_at(follow: PathFlags, path: String, accessed: NewTimestamp, modified: NewTimestamp) -> ();
        stat() -> DescriptorStat;
        stat_at(follow: PathFlags, path: String) -> DescriptorStat;
        sync() -> ();
        sync_data() -> ();
    }

    async fn is_same_object(
        &mut self,
        one: Resource<Descriptor>,
        other: Resource<Descriptor>,
    ) -> wasmtime::Result<bool> {
        self.charge(0);
        self.wasi.is_same_object(one, other).await
    }

    async fn read(
        &mut self,
        descriptor: Resource<Descriptor>,
        length: Filesize,
        offset: Filesize,
    ) -> FsResult<(Vec<u8>, bool)> {
        let read = self.wasi.read(descriptor, length, offset).await;
        self.charge(read.as_ref().map_or(0, |(bytes, _)| bytes.len()));
        read
    }

    async fn write(
        &mut self,
        descriptor: Resource<Descriptor>,
        bytes: Vec<u8>,
        offset: Filesize,
    ) -> FsResult<Filesize> {
        self.charge(bytes.len());
        let (file, mount, _held) = self.writable_file(&descriptor)?;
        mount.change(move |turn| directory::write(turn, &file, &bytes, offset)).await
    }

    async fn set_size(&mut self, descriptor: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        self.charge(0);
        let (file, mount, _held) = self.writable_file(&descriptor)?;
        mount.change(move |turn| directory::set_size(turn, &file, size)).await
    }

    fn read_via_stream(
        &mut self,
        descriptor: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        self.charge(0);
        let (token, held) = (self.files.token()?, self.opened(&descriptor)?.held.clone());
        let stream = self.wasi.read_via_stream(descriptor, offset)?;
        let stream = self.wasi.table.delete(stream)?;
        Ok(self.wasi.table.push(Reader::open(stream, held, token, self.files.late_debt.clone()))?)
    }

    fn write_via_stream(
        &mut self,
        descriptor: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.charge(0);
        self.writer(&descriptor, Some(offset))
    }

    fn append_via_stream(
        &mut self,
        descriptor: Resource<Descriptor>,
    ) -> FsResult<Resource<DynOutputStream>> {
        self.charge(0);
        self.writer(&descriptor, None)
    }

    async fn open_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        follow: PathFlags,
        path: String,
        open: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Descriptor>> {
        self.charge(path.len());
        let (directory, mount) = self.directory(&descriptor)?;
        let token = self.files.token()?;
        let (opened, held) = match mount.clone() {
            Some(mount) => {
                mount
                    .change(move |turn| {
                        directory::open_in_mount(turn, &directory, follow, &path, open, flags)
                    })
                    .await?
            }
            None => (
                spawn_blocking(move || directory::open(&directory, follow, &path, open, flags))
                    .await?,
                None,
            ),
        };
        self.push(opened, Opened { mount, held: held.map(Arc::new), _token: Some(token) })
    }

    async fn read_directory(
        &mut self,
        descriptor: Resource<Descriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        let (directory, _) = self.directory(&descriptor)?;
        let token = self.files.token()?;
        let room = MAX_LISTED_BYTES.saturating_sub(self.files.listed_bytes);
        let listed = spawn_blocking(move || listing::read(&directory, room)).await;
        self.charge(match &listed {
            Ok((_, bytes)) => *bytes,
            // The directory was read up to that amount.
            Err(error) if inside::is(error, ErrorCode::InsufficientMemory) => room,
            Err(_) => 0,
        });
        let (entries, bytes) = listed?;
        let memory = self
            .files
            .memory
            .take(&self.files.tenant, bytes)
            .ok_or(ErrorCode::InsufficientMemory)?;
        let listing = self.wasi.table.push(Listing {
            entries: entries.into_iter(),
            bytes,
            _memory: memory,
            _token: token,
        })?;
        self.files.listed_bytes += bytes;
        // Only this interface takes such resources, so the type of the entry in the table is known.
        Ok(Resource::new_own(listing.rep()))
    }

    async fn create_directory_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        self.charge(path.len());
        let (directory, mount) = self.writable_directory(&descriptor)?;
        mount.change(move |turn| directory::create_directory(turn, &directory, &path)).await
    }

    async fn remove_directory_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        self.charge(path.len());
        let (directory, mount) = self.writable_directory(&descriptor)?;
        mount.change(move |turn| directory::remove_directory(turn, &directory, &path)).await
    }

    async fn unlink_file_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        self.charge(path.len());
        let (directory, mount) = self.writable_directory(&descriptor)?;
        mount.change(move |turn| directory::unlink(turn, &directory, &path)).await
    }

    async fn rename_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        path: String,
        new_descriptor: Resource<Descriptor>,
        new_path: String,
    ) -> FsResult<()> {
        self.charge(path.len() + new_path.len());
        let (directory, mount) = self.writable_directory(&descriptor)?;
        let (to, other) = self.writable_directory(&new_descriptor)?;
        if !Arc::ptr_eq(&mount, &other) {
            // The error that a rename between two file systems returns; programs that move files
            // then copy.
            return Err(ErrorCode::CrossDevice.into());
        }
        mount.change(move |turn| directory::rename(turn, &directory, &path, &to, &new_path)).await
    }

    async fn link_at(
        &mut self,
        _: Resource<Descriptor>,
        _: PathFlags,
        _: String,
        _: Resource<Descriptor>,
        _: String,
    ) -> FsResult<()> {
        // POSIX specifies this error for a file system that does not support hard links.
        Err(ErrorCode::NotPermitted.into())
    }

    async fn symlink_at(&mut self, _: Resource<Descriptor>, _: String, _: String) -> FsResult<()> {
        Err(ErrorCode::NotPermitted.into())
    }

    fn drop(&mut self, descriptor: Resource<Descriptor>) -> wasmtime::Result<()> {
        self.files.open.remove(&descriptor.rep());
        HostDescriptor::drop(&mut self.wasi, descriptor)
    }
}

impl HostDirectoryEntryStream for View<'_> {
    async fn read_directory_entry(
        &mut self,
        listing: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing = self.wasi.table.get_mut(&Resource::<Listing>::new_borrow(listing.rep()))?;
        Ok(listing.entries.next())
    }

    fn drop(&mut self, listing: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let listing = self.wasi.table.delete(Resource::<Listing>::new_own(listing.rep()))?;
        self.files.listed_bytes -= listing.bytes;
        Ok(())
    }
}
