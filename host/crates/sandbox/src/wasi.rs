//! WASI as plugins see it: every interface of 0.2 but HTTP is linked, so that what ordinary
//! toolchains build loads; and everything is denied that was not granted. Without grants a call of
//! the same guest with the same arguments goes the same way each time: environment, command line
//! and standard input are empty, there are no files and no network, and time and randomness begin
//! alike.

mod clocks;
mod descriptors;
mod directory;
mod files;
mod inside;
mod listing;
mod measure;
mod mount;
mod random;
mod scratch;
mod stdio;
mod streams;

use std::{io, sync::Arc};

use airlock_core::{
    tenant::{Pool, Tenant},
    tool::{Cause, ClientName},
};
use wasmtime::component::Linker;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};

pub(super) use self::files::NoScratch;
use self::{files::Files, mount::Mount, scratch::Base};
use super::{Access, Grants, instance::State};

/// Links all of WASI, with the host's own files, clocks and randomness.
pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    files::link(linker)?;
    clocks::link(linker)?;
    random::link(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// What all calls of one plugin share: how full its directories are, and where its scratch
/// directories are made.
pub(super) struct Mounts {
    /// In the order of the grants; none for a directory that may only be read.
    directories: Vec<Option<Arc<Mount>>>,
    scratch: Option<Arc<Base>>,
}

impl Mounts {
    /// Nothing is measured before a guest writes. Fails where the system has no place for scratch
    /// directories.
    pub(super) fn new(grants: &Grants) -> io::Result<Self> {
        let directories = grants.directories.iter().map(|directory| match directory.access {
            Access::ReadOnly => None,
            Access::ReadWrite => Some(Mount::new(directory.path.clone(), directory.quota)),
        });
        let scratch = grants.scratch.map(|_| Base::new()).transpose()?.map(Arc::new);
        Ok(Self { directories: directories.collect(), scratch })
    }
}

/// What one call holds of WASI.
pub(super) struct Wasi {
    context: WasiCtx,
    files: Files,
    /// The call's own time; none where the real one is granted.
    time: Option<clocks::Own>,
    /// The call's own numbers; none where real ones are granted.
    random: Option<random::Fixed>,
}

impl Wasi {
    /// Nothing at all; what is written to standard output is gone.
    pub(super) fn denied() -> Self {
        Self::new(
            &mut WasiCtxBuilder::new(),
            Files::new(Tenant::GATEWAY, Pool::new(0, 1)),
            false,
            false,
        )
    }

    /// Access that `grants` give to a call of `client` for `tenant`, whose listings take up
    /// `memory`. A granted directory that is not there any more is the error.
    pub(super) fn granted(
        client: &ClientName,
        tenant: &Tenant,
        grants: &Grants,
        mounts: &Mounts,
        memory: &Pool,
    ) -> Result<Self, Cause> {
        let mut context = WasiCtxBuilder::new();
        let output = || stdio::Output::new(client, &grants.scrubber);
        context.stdout(output()).stderr(output());
        let mut files = Files::new(tenant.clone(), memory.clone());
        for (directory, mount) in grants.directories.iter().zip(&mounts.directories) {
            let access = if mount.is_some() { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
            context.preopened_dir(&directory.path, format!("/{}", directory.name), access)?;
            files.add(mount.clone());
        }
        if let (Some(base), Some(quota)) = (&mounts.scratch, grants.scratch) {
            files.add_scratch(base.clone(), quota);
        }
        Ok(Self::new(&mut context, files, grants.clocks, grants.random))
    }

    /// Fuel that its streams of files have cost since this was asked last. They are used where no
    /// store is at hand.
    pub(super) fn take_fuel_debt(&self) -> u64 {
        self.files.take_fuel_debt()
    }

    fn new(context: &mut WasiCtxBuilder, files: Files, clocks: bool, random: bool) -> Self {
        // Without these a guest could make sockets, though not use them.
        context.allow_tcp(false).allow_udp(false).max_random_size(random::MAX_BYTES);
        Self {
            context: context.build(),
            files,
            time: (!clocks).then(clocks::Own::default),
            random: (!random).then(random::Fixed::new),
        }
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi.context, table: &mut self.table }
    }
}

#[cfg(test)]
mod tests;
