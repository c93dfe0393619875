//! The files of one call while its guest uses them: access for the host functions, and the
//! directories that the guest starts from.

use std::sync::Arc;

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::{
    filesystem::{Descriptor, Dir, File, WasiFilesystemCtxView},
    p2::{
        DynOutputStream, FsError, FsResult,
        bindings::filesystem::{
            preopens,
            types::{self, ErrorCode},
        },
    },
};

use super::{FUEL, Files, GrantedDirectory, OpenDescriptor};
use crate::{
    Access,
    plugin::wasi::{
        blocking,
        call::Wasi,
        mount::{Mount, MountGuard, OpenFile},
        over_quota::OverQuota,
        streams::FileWriter,
    },
    run::meter::Meter,
};

/// Files of one call while its guest uses them.
pub(in crate::plugin::wasi) struct FilesystemHost<'a> {
    pub(super) wasi: WasiFilesystemCtxView<'a>,
    pub(super) files: &'a mut Files,
    meter: &'a mut Meter,
}

/// Links the two interfaces over those of wasmtime-wasi. `view` returns the files of a store.
pub(in crate::plugin::wasi) fn link<T: Send + 'static>(
    linker: &mut Linker<T>,
    view: fn(&mut T) -> FilesystemHost<'_>,
) -> wasmtime::Result<()> {
    types::add_to_linker::<T, Filesystem>(linker, view)?;
    preopens::add_to_linker::<T, Filesystem>(linker, view)
}

/// Names the type that implements the generated traits.
struct Filesystem;

impl HasData for Filesystem {
    type Data<'a> = FilesystemHost<'a>;
}

impl<'a> FilesystemHost<'a> {
    pub(in crate::plugin::wasi) fn new(
        wasi: &'a mut Wasi,
        table: &'a mut ResourceTable,
        meter: &'a mut Meter,
    ) -> Self {
        Self {
            wasi: WasiFilesystemCtxView { ctx: wasi.context.get().filesystem(), table },
            files: &mut wasi.files,
            meter,
        }
    }

    /// Charges fuel for a call to the file system and for `bytes`.
    pub(super) fn charge(&mut self, bytes: usize) {
        self.meter.add(FUEL + bytes as u64);
    }

    /// Records an operation on a descriptor as a use of the directory that it lies in, unless the
    /// operation was refused.
    pub(super) fn record<T>(&self, descriptor: u32, access: Access, outcome: &FsResult<T>) {
        let Some(opened) = self.files.open.get(&descriptor) else { return };
        let Some(recorder) = &opened.recorder else { return };
        let is_refused =
            outcome.as_ref().is_err_and(|error| blocking::has_code(error, ErrorCode::NotPermitted));
        let is_read_only = access == Access::ReadWrite && opened.mount.is_none();
        if !is_read_only && !is_refused {
            recorder.record(access);
        }
    }

    pub(super) fn opened(&self, descriptor: &Resource<Descriptor>) -> FsResult<&OpenDescriptor> {
        // Every descriptor that a guest holds was recorded here when it was opened.
        self.files.open.get(&descriptor.rep()).ok_or_else(|| ErrorCode::BadDescriptor.into())
    }

    pub(super) fn directory(
        &self,
        descriptor: &Resource<Descriptor>,
    ) -> FsResult<(Dir, Option<Arc<Mount>>)> {
        match self.wasi.table.get(descriptor)? {
            Descriptor::Dir(directory) => {
                Ok((directory.clone(), self.opened(descriptor)?.mount.clone()))
            }
            Descriptor::File(_) => Err(ErrorCode::NotDirectory.into()),
        }
    }

    /// Returns a directory and its mount. Fails if the directory is read-only.
    pub(super) fn writable_directory(
        &mut self,
        descriptor: &Resource<Descriptor>,
    ) -> FsResult<(Dir, Arc<Mount>)> {
        let (directory, mount) = self.directory(descriptor)?;
        Ok((directory, self.files.writable(mount)?))
    }

    /// Changes one name in a directory by calling `change` with the directory and the path of the
    /// name. Charges fuel for the path. Fails if the directory is read-only.
    pub(super) async fn change_name(
        &mut self,
        descriptor: &Resource<Descriptor>,
        path: String,
        change: fn(&MountGuard, &Dir, &str) -> FsResult<()>,
    ) -> FsResult<()> {
        self.charge(path.len());
        let (directory, mount) = self.writable_directory(descriptor)?;
        let changed = mount.change(move |guard| change(guard, &directory, &path)).await;
        self.record(descriptor.rep(), Access::ReadWrite, &changed);
        changed
    }

    /// Returns a file and its mount. Fails if the file is in a read-only directory.
    pub(super) fn writable_file(
        &mut self,
        descriptor: &Resource<Descriptor>,
    ) -> FsResult<(File, Arc<Mount>, Option<Arc<OpenFile>>)> {
        let Descriptor::File(file) = self.wasi.table.get(descriptor)? else {
            return Err(ErrorCode::BadDescriptor.into());
        };
        let file = file.clone();
        let OpenDescriptor { mount, open_file, .. } = self.opened(descriptor)?.clone();
        Ok((file, self.files.writable(mount)?, open_file))
    }

    pub(super) fn push(
        &mut self,
        descriptor: Descriptor,
        opened: OpenDescriptor,
    ) -> FsResult<Resource<Descriptor>> {
        let descriptor = self.wasi.table.push(descriptor)?;
        self.files.open.insert(descriptor.rep(), opened);
        Ok(descriptor)
    }

    pub(super) fn writer(
        &mut self,
        descriptor: &Resource<Descriptor>,
        position: Option<u64>,
    ) -> FsResult<Resource<DynOutputStream>> {
        let (file, mount, open_file) = self.writable_file(descriptor)?;
        let writer = FileWriter::open(
            mount,
            &file,
            position,
            open_file,
            self.files.permit()?,
            self.files.late_fuel.clone(),
        )?;
        Ok(self.wasi.table.push(writer)?)
    }
}

impl preopens::Host for FilesystemHost<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Descriptor>, String)>> {
        let mut directories = self.wasi.get_directories()?;
        for ((descriptor, _), granted) in directories.iter().zip(&self.files.granted) {
            let GrantedDirectory { mount, recorder } = granted;
            let opened = OpenDescriptor::granted(mount.clone(), recorder.clone());
            self.files.open.insert(descriptor.rep(), opened);
        }
        if let Some((directory, mount)) = self.files.scratch()? {
            let opened = OpenDescriptor::granted(Some(mount), self.files.scratch_recorder.clone());
            directories.push((self.push(Descriptor::Dir(directory), opened)?, "/tmp".to_owned()));
        }
        Ok(directories)
    }
}

impl types::Host for FilesystemHost<'_> {
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
