//! WASI for plugins. Every interface of 0.2 except HTTP is linked here, so that the output of
//! ordinary toolchains loads; everything that was not granted is denied: environment, command line
//! and standard input are empty, there are no files and no network, and time starts from a fixed
//! value. Random numbers need no grant: identical keys and identifiers in every call would be a trap
//! for authors. Only a guest that describes its tools draws fixed numbers, so that it always
//! describes the same.

mod blocking;
mod clocks;
mod descriptors;
mod directory;
mod files;
mod listing;
mod measure;
mod mount;
mod random;
mod scratch;
mod stdio;
mod streams;

use std::{collections::BTreeMap, io, sync::Arc};

use airlock_core::{
    tenant::{Pool, Tenant},
    tool::{Cause, ClientName},
};
use wasmtime::component::Linker;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

pub(super) use self::files::NoScratch;
use self::{files::Files, mount::Mount, scratch::ScratchRoot};
use crate::{
    Access, Grants,
    run::{instance::State, meter::LateFuel},
    uses::CallRecorder,
};

/// Links all of WASI except HTTP, with the host's own files, clocks and randomness.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    files::link(linker)?;
    clocks::link(linker)?;
    random::link(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// State that all calls of one plugin share: the use of its directories, and the place of its
/// scratch directories.
pub(super) struct Mounts {
    /// Directories that may be written to, by their names in the guest.
    directories: BTreeMap<String, Arc<Mount>>,
    scratch: Option<Arc<ScratchRoot>>,
}

impl Mounts {
    /// Prepares the mounts. Nothing is measured before a guest writes. Fails if the base of the
    /// scratch directories cannot be made.
    pub(super) fn new(grants: &Grants) -> io::Result<Self> {
        let writable =
            grants.directories.iter().filter(|directory| directory.access == Access::ReadWrite);
        let directories = writable.map(|directory| {
            (directory.name.clone(), Mount::new(directory.path.clone(), directory.quota))
        });
        let scratch = match grants.scratch {
            Some(_) => Some(Arc::new(ScratchRoot::new()?)),
            None => None,
        };
        Ok(Self { directories: directories.collect(), scratch })
    }
}

/// WASI state of one call.
pub(super) struct Wasi {
    context: WasiCtx,
    files: Files,
    /// The call's own time; `None` if the real time is granted.
    clock: Option<clocks::VirtualClock>,
    /// Fixed numbers of a guest that describes its tools; `None` in a call of a tool.
    random: Option<random::SeededRandom>,
}

impl Wasi {
    /// Grants nothing; standard output is discarded, and random numbers are fixed.
    pub(super) fn denied() -> Self {
        let files = Files::new(Tenant::GATEWAY, Pool::new(0, 1));
        let random = random::SeededRandom::new();
        Self { random: Some(random), ..Self::new(&mut WasiCtxBuilder::new(), files, false) }
    }

    /// Grants the access of `grants`, which are those of the plugin or of one of its tools, to a call
    /// of `client` for `tenant`. Listings take their memory
    /// from `memory`. Uses of directories go to `recorder`. Fails if a granted directory no longer
    /// exists.
    pub(super) fn granted(
        client: &ClientName,
        tenant: &Tenant,
        grants: &Grants,
        mounts: &Mounts,
        memory: &Pool,
        recorder: Option<&CallRecorder>,
    ) -> Result<Self, Cause> {
        let mut context = WasiCtxBuilder::new();
        context
            .stdout(stdio::Output::new(client, &grants.scrubber))
            .stderr(stdio::Output::new(client, &grants.scrubber));
        let mut files = Files::new(tenant.clone(), memory.clone());
        for directory in &grants.directories {
            // The mounts are those of the plugin; the running tool may have less access.
            let is_writable = directory.access == Access::ReadWrite;
            let mount = mounts.directories.get(&directory.name).filter(|_| is_writable).cloned();
            let access = if mount.is_some() { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            context.preopened_dir(&directory.path, format!("/{}", directory.name), access)?;
            files.add(mount, recorder.map(|recorder| recorder.of_directory(&directory.request)));
        }
        if let (Some(root), Some(quota)) = (&mounts.scratch, grants.scratch) {
            files.add_scratch(root.clone(), quota, recorder.map(CallRecorder::of_scratch));
        }
        Ok(Self::new(&mut context, files, grants.clocks))
    }

    /// Returns the fuel that file streams cost.
    pub(super) fn late_fuel(&self) -> &LateFuel {
        self.files.late_fuel()
    }

    /// Returns whether the guest tried to change a directory that it may only read.
    pub(super) fn denied_a_change(&self) -> bool {
        self.files.denied_a_change()
    }

    /// Returns whether the guest has changed something in a granted directory, or has tried to.
    pub(super) fn has_changed(&self) -> bool {
        self.files.has_changed()
    }

    fn new(context: &mut WasiCtxBuilder, files: Files, clocks: bool) -> Self {
        // Without these a guest could create sockets, although not use them.
        context.allow_tcp(false).allow_udp(false).max_random_size(random::MAX_BYTES);
        Self {
            context: context.build(),
            files,
            clock: (!clocks).then(clocks::VirtualClock::default),
            random: None,
        }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.call.wasi.context, table: &mut self.table }
    }
}

#[cfg(test)]
mod tests;
