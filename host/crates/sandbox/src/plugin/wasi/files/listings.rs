//! The listings that a guest has open, bounded in memory.

use std::{sync::Arc, vec};

use airlock_core::tenant::Reservation;
use wasmtime::component::Resource;
use wasmtime_wasi::{
    filesystem::Descriptor,
    p2::{
        FsResult,
        bindings::filesystem::types::{
            DirectoryEntry, DirectoryEntryStream, ErrorCode, HostDirectoryEntryStream,
        },
    },
    runtime::spawn_blocking,
};

use super::{FilesystemHost, MAX_LISTED_BYTES, OpenPermit};
use crate::plugin::wasi::{blocking, listing};

/// A listing that the guest has open.
struct OpenListing {
    entries: vec::IntoIter<DirectoryEntry>,
    bytes: usize,
    _memory: Reservation,
    _permit: Arc<OpenPermit>,
}

impl FilesystemHost<'_> {
    /// Reads a directory to its end and opens a listing of it. Charges fuel for the bytes read.
    pub(super) async fn list(
        &mut self,
        descriptor: Resource<Descriptor>,
    ) -> FsResult<Resource<DirectoryEntryStream>> {
        let (directory, _) = self.directory(&descriptor)?;
        let permit = self.files.permit()?;
        let room = MAX_LISTED_BYTES.saturating_sub(self.files.listed_bytes);
        let listed = spawn_blocking(move || listing::read(&directory, room)).await;
        self.charge(match &listed {
            Ok((_, bytes)) => *bytes,
            // The directory was read up to that amount.
            Err(error) if blocking::has_code(error, ErrorCode::InsufficientMemory) => room,
            Err(_) => 0,
        });
        let (entries, bytes) = listed?;
        let memory = self
            .files
            .memory
            .take(&self.files.tenant, bytes)
            .ok_or(ErrorCode::InsufficientMemory)?;
        let listing = self.wasi.table.push(OpenListing {
            entries: entries.into_iter(),
            bytes,
            _memory: memory,
            _permit: permit,
        })?;
        self.files.listed_bytes += bytes;
        // Only this interface takes such resources, so the type of the entry in the table is known.
        Ok(Resource::new_own(listing.rep()))
    }
}

impl HostDirectoryEntryStream for FilesystemHost<'_> {
    async fn read_directory_entry(
        &mut self,
        listing: Resource<DirectoryEntryStream>,
    ) -> FsResult<Option<DirectoryEntry>> {
        let listing =
            self.wasi.table.get_mut(&Resource::<OpenListing>::new_borrow(listing.rep()))?;
        Ok(listing.entries.next())
    }

    fn drop(&mut self, listing: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        let listing = self.wasi.table.delete(Resource::<OpenListing>::new_own(listing.rep()))?;
        self.files.listed_bytes -= listing.bytes;
        Ok(())
    }
}
