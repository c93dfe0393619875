//! The host functions of descriptors. Each charges fuel, finds the mount of its descriptor and
//! leaves the work to [`directory`], to a stream or to wasmtime-wasi.

use std::sync::Arc;

use wasmtime::component::Resource;
use wasmtime_wasi::{
    filesystem::Descriptor,
    p2::{
        DynInputStream, DynOutputStream, FsResult,
        bindings::filesystem::types::{
            Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntryStream,
            ErrorCode, Filesize, HostDescriptor, MetadataHashValue, NewTimestamp, OpenFlags,
            PathFlags,
        },
    },
    runtime::spawn_blocking,
};

use super::{FilesystemHost, OpenDescriptor};
use crate::{
    Access,
    plugin::wasi::{directory, streams::Reader},
};

/// Passes calls to wasmtime-wasi. The flags with which the descriptor was opened decide about them.
/// After an access and `=>`, each call is recorded as a use of its directory.
macro_rules! delegate_to_wasi {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(async fn $name(&mut self, descriptor: Resource<Descriptor>, $($argument: $kind),*) -> FsResult<$answer> {
            self.charge(0);
            self.wasi.$name(descriptor, $($argument),*).await
        })*
    };
    ($access:expr => $($name:ident($($argument:ident: $kind:ty),*) -> $answer:ty;)*) => {
        $(async fn $name(&mut self, descriptor: Resource<Descriptor>, $($argument: $kind),*) -> FsResult<$answer> {
            self.charge(0);
            let used = descriptor.rep();
            let outcome = self.wasi.$name(descriptor, $($argument),*).await;
            self.record(used, $access, &outcome);
            outcome
        })*
    };
}

/// Returns whether a file is opened for changing it or its directory.
fn changes(open: OpenFlags, flags: DescriptorFlags) -> bool {
    open.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE)
        || flags.intersects(DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY)
}

impl HostDescriptor for FilesystemHost<'_> {
    delegate_to_wasi! {
        advise(offset: Filesize, length: Filesize, advice: Advice) -> ();
        get_flags() -> DescriptorFlags;
        get_type() -> DescriptorType;
        sync() -> ();
        sync_data() -> ();
    }
    delegate_to_wasi! {
        Access::ReadOnly =>
        metadata_hash() -> MetadataHashValue;
        metadata_hash_at(follow: PathFlags, path: String) -> MetadataHashValue;
        readlink_at(path: String) -> String;
        stat() -> DescriptorStat;
        stat_at(follow: PathFlags, path: String) -> DescriptorStat;
    }
    delegate_to_wasi! {
        Access::ReadWrite =>
        set_times(accessed: NewTimestamp, modified: NewTimestamp) -> ();
        set_times_at(follow: PathFlags, path: String, accessed: NewTimestamp, modified: NewTimestamp) -> ();
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
        let (file, mount, _open_file) = self.writable_file(&descriptor)?;
        mount.change(move |guard| directory::write(guard, &file, &bytes, offset)).await
    }

    async fn set_size(&mut self, descriptor: Resource<Descriptor>, size: Filesize) -> FsResult<()> {
        self.charge(0);
        let (file, mount, _open_file) = self.writable_file(&descriptor)?;
        mount.change(move |guard| directory::set_size(guard, &file, size)).await
    }

    fn read_via_stream(
        &mut self,
        descriptor: Resource<Descriptor>,
        offset: Filesize,
    ) -> FsResult<Resource<DynInputStream>> {
        self.charge(0);
        let permit = self.files.permit()?;
        let open_file = self.opened(&descriptor)?.open_file.clone();
        let stream = self.wasi.read_via_stream(descriptor, offset)?;
        let stream = self.wasi.table.delete(stream)?;
        Ok(self.wasi.table.push(Reader::open(
            stream,
            open_file,
            permit,
            self.files.late_fuel.clone(),
        ))?)
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
        let permit = self.files.permit()?;
        let is_change = changes(open, flags);
        if is_change {
            self.files.record_change(mount.as_deref());
        }
        let opened = if let Some(mount) = mount.clone() {
            mount
                .change(move |guard| {
                    directory::open_in_mount(guard, &directory, follow, &path, open, flags)
                })
                .await
        } else {
            spawn_blocking(move || directory::open(&directory, follow, &path, open, flags))
                .await
                .map(|opened| (opened, None))
        };
        let access = if is_change { Access::ReadWrite } else { Access::ReadOnly };
        self.record(descriptor.rep(), access, &opened);
        let (opened, open_file) = opened?;
        let open_file = open_file.map(Arc::new);
        let recorder = self.opened(&descriptor)?.recorder.clone();
        self.push(opened, OpenDescriptor { mount, open_file, recorder, _permit: Some(permit) })
    }

    async fn read_directory(
        &mut self,
        descriptor: Resource<Descriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        let used = descriptor.rep();
        let listing = self.list(descriptor).await;
        self.record(used, Access::ReadOnly, &listing);
        listing
    }

    async fn create_directory_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        self.change_name(&descriptor, path, directory::create_directory).await
    }

    async fn remove_directory_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        self.change_name(&descriptor, path, directory::remove_directory).await
    }

    async fn unlink_file_at(
        &mut self,
        descriptor: Resource<Descriptor>,
        path: String,
    ) -> FsResult<()> {
        self.change_name(&descriptor, path, directory::unlink).await
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
        let renamed = mount
            .change(move |guard| directory::rename(guard, &directory, &path, &to, &new_path))
            .await;
        self.record(descriptor.rep(), Access::ReadWrite, &renamed);
        renamed
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
