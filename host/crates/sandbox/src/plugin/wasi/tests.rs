//! File operations without a guest: the same host functions, called from here, on a real file
//! system.

mod bounds;
mod escapes;
mod quotas;
mod scratch;
mod uses;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use airlock_core::{
    tenant::{Pool, Tenant},
    tool::ClientName,
};
use tempfile::TempDir;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::{
    filesystem::Descriptor,
    p2::{
        FsError, FsResult,
        bindings::filesystem::{
            preopens::Host as _,
            types::{
                DescriptorFlags, DirectoryEntryStream, ErrorCode, Host as _, HostDescriptor,
                HostDirectoryEntryStream, OpenFlags, PathFlags,
            },
        },
    },
};

use super::{Mounts, Wasi, files::FilesystemHost, measure::Amount, mount::Mount};
use crate::{
    Access, DeclaredEffect, Directory, Effect, Grants, Quota,
    plugin::{rights::ToolRights, uses::CallRecorder},
    run::meter::Meter,
};

const ROOM: Quota = Quota { bytes: 1 << 20, files: 100 };

/// Directories on the host, and the plugin's grants of them.
struct Host {
    all: TempDir,
    grants: Grants,
    mounts: Mounts,
    /// Memory from which listings take theirs.
    memory: Pool,
}

impl Host {
    /// Grants `docs` for writing within `quota`. Beside it is `secret`, with a file.
    fn new(quota: Quota) -> Self {
        Self::with(&[("docs", Access::ReadWrite, quota)], None)
    }

    fn with(directories: &[(&str, Access, Quota)], scratch: Option<Quota>) -> Self {
        let all = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(all.path().join("secret")).expect("a directory");
        std::fs::write(all.path().join("secret/file"), "hidden").expect("a file");
        let grants = Grants {
            directories: directories
                .iter()
                .map(|&(name, access, quota)| {
                    let path = all.path().join(name);
                    std::fs::create_dir(&path).expect("a directory");
                    Directory {
                        name: name.to_owned(),
                        request: name.to_owned(),
                        path,
                        access,
                        quota,
                    }
                })
                .collect(),
            scratch,
            ..Grants::default()
        };
        let mounts = Mounts::new(&grants).expect("they can be made");
        Self { all, grants, mounts, memory: Pool::new(1 << 30, 1) }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.all.path().join(path)
    }

    fn mount(&self) -> &Arc<Mount> {
        self.mounts.directories.values().next().expect("one may be written to")
    }

    /// Returns the counted amount, after checking that it equals the measured one.
    fn counted(&self) -> Amount {
        let counted = self.mount().counted().expect("it is known");
        assert_eq!(
            super::measure::measure(&self.path("docs"), ROOM),
            Some(counted),
            "counted on the right, found on the left"
        );
        counted
    }

    fn call(&self) -> Call {
        self.recorded_call(None)
    }

    /// Returns the state of a call that has not begun.
    fn granted(&self, recorder: Option<&CallRecorder>) -> Wasi {
        let client = ClientName::parse("test").expect("a name");
        let denied = ToolRights::denied(client, Arc::default());
        let rights = Arc::new(ToolRights { grants: Arc::new(self.grants.clone()), ..denied });
        Wasi::granted(&rights, &Tenant::ANONYMOUS, &self.mounts, &self.memory, recorder)
            .expect("the directories are there")
    }

    fn recorded_call(&self, recorder: Option<&CallRecorder>) -> Call {
        let wasi = self.granted(recorder);
        let mut call = Call {
            wasi,
            table: ResourceTable::new(),
            meter: Meter::new(0, Instant::now()),
            directories: Vec::new(),
        };
        let directories = call.view().get_directories().expect("directories");
        call.directories =
            directories.into_iter().map(|(directory, name)| (name, directory.rep())).collect();
        call
    }

    fn secret_is_untouched(&self) {
        assert_eq!(
            std::fs::read_to_string(self.path("secret/file")).expect("it is there"),
            "hidden"
        );
        assert_eq!(std::fs::read_dir(self.path("secret")).expect("it is there").count(), 1);
    }
}

/// One call of a guest.
struct Call {
    wasi: Wasi,
    table: ResourceTable,
    meter: Meter,
    directories: Vec<(String, u32)>,
}

/// Mode in which a file is opened.
#[derive(Clone, Copy)]
enum OpenMode {
    Read,
    Write,
    Create,
    CreateNew,
    Truncate,
}

impl Call {
    fn view(&mut self) -> FilesystemHost<'_> {
        FilesystemHost::new(&mut self.wasi, &mut self.table, &mut self.meter)
    }

    /// Returns a granted directory.
    fn directory(&self, name: &str) -> Resource<Descriptor> {
        let found = self.directories.iter().find(|(found, _)| found == name);
        Resource::new_borrow(found.unwrap_or_else(|| panic!("{name} is granted")).1)
    }

    fn docs(&self) -> Resource<Descriptor> {
        self.directory("/docs")
    }

    async fn open(
        &mut self,
        path: &str,
        mode: OpenMode,
    ) -> Result<Resource<Descriptor>, ErrorCode> {
        let directory = self.docs();
        self.open_in(directory, path, mode).await
    }

    async fn open_in(
        &mut self,
        directory: Resource<Descriptor>,
        path: &str,
        mode: OpenMode,
    ) -> Result<Resource<Descriptor>, ErrorCode> {
        let (open, flags) = match mode {
            OpenMode::Read => (OpenFlags::empty(), DescriptorFlags::READ),
            OpenMode::Write => (OpenFlags::empty(), DescriptorFlags::WRITE),
            OpenMode::Create => (OpenFlags::CREATE, DescriptorFlags::WRITE),
            OpenMode::CreateNew => {
                (OpenFlags::CREATE | OpenFlags::EXCLUSIVE, DescriptorFlags::WRITE)
            }
            OpenMode::Truncate => (OpenFlags::CREATE | OpenFlags::TRUNCATE, DescriptorFlags::WRITE),
        };
        code(
            self.view()
                .open_at(directory, PathFlags::SYMLINK_FOLLOW, path.to_owned(), open, flags)
                .await,
        )
    }

    /// Opens a file, writes to a stream of it and closes both.
    async fn write(
        &mut self,
        path: &str,
        mode: OpenMode,
        bytes: &[u8],
        position: Option<u64>,
    ) -> Result<(), ErrorCode> {
        let file = self.open(path, mode).await?;
        let written = self.write_to(&file, bytes, position).await;
        self.close(file);
        written
    }

    /// Writes to a stream of an open file, at `position` or at the end of the file.
    async fn write_to(
        &mut self,
        file: &Resource<Descriptor>,
        bytes: &[u8],
        position: Option<u64>,
    ) -> Result<(), ErrorCode> {
        use wasmtime_wasi::p2::StreamError;
        let file = Resource::new_borrow(file.rep());
        let stream = match position {
            Some(position) => self.view().write_via_stream(file, position),
            None => self.view().append_via_stream(file),
        };
        let mut stream = self.table.delete(code(stream)?).expect("it was made");
        match stream.blocking_write_and_flush(bytes.to_vec().into()).await {
            Ok(()) => Ok(()),
            Err(StreamError::LastOperationFailed(error)) => {
                let error = self.table.push(error).expect("there is room");
                Err(self.view().filesystem_error_code(error).expect("an answer").expect("a code"))
            }
            Err(error) => panic!("{error}"),
        }
    }

    async fn read(&mut self, path: &str) -> Result<Vec<u8>, ErrorCode> {
        let file = self.open(path, OpenMode::Read).await?;
        let read = code(self.view().read(Resource::new_borrow(file.rep()), 1 << 20, 0).await);
        self.close(file);
        Ok(read?.0)
    }

    #[expect(clippy::needless_pass_by_value, reason = "closing is giving up the descriptor")]
    fn close(&mut self, descriptor: Resource<Descriptor>) {
        HostDescriptor::drop(&mut self.view(), Resource::new_own(descriptor.rep()))
            .expect("it was open");
    }

    async fn unlink(&mut self, path: &str) -> Result<(), ErrorCode> {
        let directory = self.docs();
        code(self.view().unlink_file_at(directory, path.to_owned()).await)
    }

    async fn create_directory(&mut self, path: &str) -> Result<(), ErrorCode> {
        let directory = self.docs();
        code(self.view().create_directory_at(directory, path.to_owned()).await)
    }

    async fn rename(
        &mut self,
        path: &str,
        to: Resource<Descriptor>,
        new_path: &str,
    ) -> Result<(), ErrorCode> {
        let directory = self.docs();
        code(self.view().rename_at(directory, path.to_owned(), to, new_path.to_owned()).await)
    }

    async fn list(&mut self) -> Result<Resource<DirectoryEntryStream>, ErrorCode> {
        let directory = self.docs();
        code(self.view().read_directory(directory).await)
    }

    async fn names(&mut self) -> Vec<String> {
        let listing = self.list().await.expect("it can be listed");
        let mut names = Vec::new();
        while let Some(entry) =
            code(self.view().read_directory_entry(Resource::new_borrow(listing.rep())).await)
                .expect("an entry")
        {
            names.push(entry.name);
        }
        HostDirectoryEntryStream::drop(&mut self.view(), listing).expect("it was open");
        names
    }
}

/// Converts a result to the guest's view of it. Panics on a trap.
fn code<T>(result: FsResult<T>) -> Result<T, ErrorCode> {
    result.map_err(|error: FsError| error.downcast().expect("an error of the file system, no trap"))
}

fn borrowed<T: 'static>(resource: &Resource<T>) -> Resource<T> {
    Resource::new_borrow(resource.rep())
}

fn create_with(path: &Path, program: &str) {
    assert!(std::process::Command::new(program).arg(path).status().expect("it runs").success());
}
