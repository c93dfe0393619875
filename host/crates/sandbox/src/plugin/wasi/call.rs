//! WASI state of one call, and what all calls of a plugin share.

use std::{collections::BTreeMap, io, sync::Arc};

use airlock_core::{
    tenant::{Pool, Tenant},
    tool::Cause,
};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use super::{
    clocks::VirtualClock,
    files::Files,
    mount::Mount,
    random::{self, SeededRandom},
    scratch::ScratchRoot,
    stdio::Output,
};
use crate::{
    Access, Grants,
    plugin::{late_fuel::LateFuel, rights::ToolRights, uses::CallRecorder},
};

/// State that all calls of one plugin share: the use of its directories, and the place of its
/// scratch directories.
pub(crate) struct Mounts {
    /// Directories that may be written to, by their names in the guest.
    pub(super) directories: BTreeMap<String, Arc<Mount>>,
    pub(super) scratch: Option<Arc<ScratchRoot>>,
}

impl Mounts {
    /// Prepares the mounts. Nothing is measured before a guest writes. Fails if the base of the
    /// scratch directories cannot be made.
    pub(crate) fn new(grants: &Grants) -> io::Result<Self> {
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
pub(crate) struct Wasi {
    pub(super) context: LazyContext,
    pub(super) files: Files,
    /// The call's own time; `None` if the real time is granted.
    pub(super) clock: Option<VirtualClock>,
    /// Fixed numbers of a guest that describes its tools; `None` in a call of a tool.
    pub(super) random: Option<SeededRandom>,
}

impl Wasi {
    /// Grants nothing; standard output is discarded, and random numbers are fixed.
    pub(crate) fn denied() -> Self {
        let files = Files::new(Tenant::GATEWAY, Pool::new(0, 1));
        let random = SeededRandom::new();
        Self { random: Some(random), ..Self::new(LazyContext::new(None), files, false) }
    }

    /// Grants the access of `rights` to a call for `tenant`. Listings take their memory from `memory`. Uses of
    /// directories go to `recorder`. Fails if a granted directory no longer exists.
    pub(crate) fn granted(
        rights: &Arc<ToolRights>,
        tenant: &Tenant,
        mounts: &Mounts,
        memory: &Pool,
        recorder: Option<&CallRecorder>,
    ) -> Result<Self, Cause> {
        let grants = &rights.grants;
        let mut context = LazyContext::new(Some(rights.clone()));
        let mut files = Files::new(tenant.clone(), memory.clone());
        if !grants.directories.is_empty() {
            let mut builder = context_builder(Some(rights));
            for directory in &grants.directories {
                // The mounts are those of the plugin; the running tool may have less access.
                let is_writable = directory.access == Access::ReadWrite;
                let mount =
                    mounts.directories.get(&directory.name).filter(|_| is_writable).cloned();
                let access = if mount.is_some() { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
                builder.preopened_dir(&directory.path, format!("/{}", directory.name), access)?;
                files
                    .add(mount, recorder.map(|recorder| recorder.of_directory(&directory.request)));
            }
            context.built = Some(Box::new(builder.build()));
        }
        if let (Some(root), Some(quota)) = (&mounts.scratch, grants.scratch) {
            files.add_scratch(root.clone(), quota, recorder.map(CallRecorder::of_scratch));
        }
        Ok(Self::new(context, files, grants.clocks))
    }

    /// Returns the fuel that file streams cost.
    pub(crate) fn late_fuel(&self) -> &LateFuel {
        self.files.late_fuel()
    }

    /// Returns whether the guest tried to change a directory that it may only read.
    pub(crate) fn denied_a_change(&self) -> bool {
        self.files.denied_a_change()
    }

    /// Returns whether the guest has changed something in a granted directory, or has tried to.
    pub(crate) fn has_changed(&self) -> bool {
        self.files.has_changed()
    }

    fn new(context: LazyContext, files: Files, clocks: bool) -> Self {
        Self { context, files, clock: (!clocks).then(VirtualClock::default), random: None }
    }
}

/// State of wasmtime-wasi for one call. It is built when the guest first uses WASI, which most calls never do: the seeds
/// of its random numbers alone take a thousand instructions. Only a call with directories, which may be gone, opens them
/// at its start.
pub(super) struct LazyContext {
    built: Option<Box<WasiCtx>>,
    /// Rights of the guest whose standard output is logged; `None` if it is discarded.
    logged: Option<Arc<ToolRights>>,
}

impl LazyContext {
    fn new(logged: Option<Arc<ToolRights>>) -> Self {
        Self { built: None, logged }
    }

    /// Returns the state.
    pub(super) fn get(&mut self) -> &mut WasiCtx {
        let logged = self.logged.as_deref();
        self.built.get_or_insert_with(|| Box::new(context_builder(logged).build()))
    }
}

/// Returns a builder of a state without directories. The standard output of a guest with these rights is logged.
fn context_builder(logged: Option<&ToolRights>) -> WasiCtxBuilder {
    let mut builder = WasiCtxBuilder::new();
    // Without these a guest could create sockets, although not use them.
    builder.allow_tcp(false).allow_udp(false).max_random_size(random::MAX_BYTES);
    if let Some(ToolRights { plugin, grants, .. }) = logged {
        let output = Output::new(&plugin.client, &grants.scrubber);
        let errors = output.beside();
        builder.stdout(output).stderr(errors);
    }
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_built_at_its_first_use_and_kept() {
        let mut context = LazyContext::new(None);
        assert!(context.built.is_none());
        let first = std::ptr::from_mut(context.get());
        assert!(context.built.is_some());
        assert_eq!(std::ptr::from_mut(context.get()), first);
    }
}
