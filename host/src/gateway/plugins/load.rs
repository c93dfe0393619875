//! Loads a plugin from a file. The plugin that is in place does not change meanwhile.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use rustix::fs::{Mode, OFlags};
use tracing::{info, warn};

use super::{super::progress::compiling, Inner, PluginError, Plugins};
use crate::{
    config::{Wasm, environment},
    egress::Egress,
    plugin::{Answer, Drift, Facts, Lock, LockError, Manifest, Settled, settle},
    sandbox::{Grants, Lender, LoadError, MAX_COMPONENT_BYTES, Plugin, Tools},
    store::{self, Database},
    tool::{ClientName, ToolDefinition},
};

/// A plugin that is ready to replace another.
pub(super) struct Loaded {
    pub(super) plugin: Plugin,
    pub(super) definitions: Vec<ToolDefinition>,
    pub(super) digest: String,
}

impl Plugins {
    /// Reads, checks and compiles one plugin. `None` if its digest equals that of the plugin in
    /// place.
    pub(super) async fn read(
        &self,
        client: &ClientName,
        wasm: &Wasm,
        before: Option<&str>,
    ) -> Result<Option<Loaded>, PluginError> {
        let bytes: Arc<[u8]> = read(&wasm.component).await?.into();
        let facts = Facts::of(&bytes)?;
        self.check_lock(client, &facts)?;
        if before == Some(facts.component.as_str()) {
            return Ok(None);
        }
        let Settled { grants, limits, notes } =
            settled(facts.manifest.clone(), wasm.answer.clone()).await?;
        for note in notes {
            info!(%client, note, "grants");
        }
        let lender = self.lender(&grants).await?;
        let load = self.0.sandbox.plugin(client, bytes.clone(), grants, limits, lender);
        let plugin = self.with_progress(client.as_str(), &bytes, load).await?;
        let mut definitions = plugin.definitions(&bytes).await?;
        reword(&mut definitions, &wasm.answer);
        let nameless = definitions.extract_if(.., |tool| tool.description.trim().is_empty());
        let mut dropped: Vec<_> = nameless
            .map(|tool| {
                format!(
                    "tool {:?} has no description; give it one in `wasm_config.descriptions`",
                    tool.name
                )
            })
            .collect();
        let (plugin, Tools { definitions, left_out, unchecked }) =
            plugin.with_tools(definitions).await?;
        dropped.extend(left_out);
        if definitions.is_empty() && !dropped.is_empty() {
            return Err(PluginError::NoTools(dropped.join("; ")));
        }
        super::report_dropped(client, &dropped);
        super::report_unchecked(client, &unchecked);
        Ok(Some(Loaded { plugin, definitions, digest: facts.component }))
    }

    /// Returns the resources for a plugin with these grants. Resources that no plugin needs are not
    /// opened.
    async fn lender(&self, grants: &Grants) -> Result<Lender, PluginError> {
        let Inner { database, egress, store, .. } = &*self.0;
        let open = || Database::open(store::Settings::new(store));
        Ok(Lender {
            database: if grants.stores.is_empty() {
                None
            } else {
                Some(database.get_or_try_init(open).await?.clone())
            },
            egress: match &grants.http {
                Some(_) => Some(egress.get_or_try_init(async || Egress::new()).await?.clone()),
                None => None,
            },
        })
    }

    /// Fails if a plugin differs from its accepted state. Without a lock file every plugin passes,
    /// unless there was a lock file before.
    pub(super) fn check_lock(&self, client: &ClientName, facts: &Facts) -> Result<(), PluginError> {
        let Some(path) = &self.0.lock else { return Ok(()) };
        let found = Lock::load(path);
        if !matches!(found, Ok(None)) {
            self.0.had_lock.store(true, Ordering::Relaxed);
        }
        let Some(lock) = found? else {
            // Otherwise, an attacker who can remove a file beside the configuration could load any
            // component.
            if self.0.had_lock.load(Ordering::Relaxed) {
                return Err(LockError::Gone { path: path.clone() }.into());
            }
            self.tell_unpinned(client);
            return Ok(());
        };
        match lock.pin(client) {
            // The digest covers the descriptors too: they are embedded in the component or produced
            // by its code.
            Some(pin) if pin.component == facts.component => Ok(()),
            _ => match Drift::between(&lock, client, facts) {
                Some(drift) => Err(drift.into()),
                None => Ok(()),
            },
        }
    }

    /// Logs once per plugin, not at every change of its file, that it is not pinned.
    fn tell_unpinned(&self, client: &ClientName) {
        let Some(entry) = self.0.entries.get(client) else { return };
        if !std::mem::replace(&mut entry.seen().is_told_unpinned, true) {
            warn!(%client, "the plugin is not pinned: whatever takes its place is loaded; `airlock plugin accept` pins it");
        }
    }

    /// Awaits `load`, which compiles `wasm`, and shows progress on a terminal.
    pub(in crate::gateway) async fn with_progress<T>(
        &self,
        what: &str,
        wasm: &[u8],
        load: impl Future<Output = T>,
    ) -> T {
        compiling(&self.0.progress, what, wasm, load).await
    }
}

/// Settles request, grant and ceiling on a blocking thread, because it reads secrets from disk.
async fn settled(manifest: Option<Manifest>, answer: Answer) -> Result<Settled, PluginError> {
    let decide = move || settle(manifest.as_ref(), &answer, &|source| source.read(&environment));
    let decided = tokio::task::spawn_blocking(decide).await;
    let decided = decided.map_err(|panic| LoadError::Compile(panic.into()))?;
    Ok(decided?)
}

/// Replaces descriptions of tools by those of the operator.
fn reword(definitions: &mut [ToolDefinition], answer: &Answer) {
    for (tool, description) in &answer.descriptions {
        if let Some(definition) = definitions.iter_mut().find(|definition| definition.name == *tool)
        {
            definition.description.clone_from(description);
        } else {
            warn!(tool, "a description is configured for a tool that the plugin does not have");
        }
    }
}

/// Reads a component. Fails if the path is not a regular file or the file is too large.
pub(crate) async fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let path = path.to_owned();
    let read = tokio::task::spawn_blocking(move || read_bounded(&path)).await;
    read.map_err(|panic| LoadError::Compile(panic.into()))?
}

/// Reads a regular file up to the size limit. Pipes would block and devices are endless, so neither
/// is read.
fn read_bounded(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |source: io::Error| LoadError::Read { path: path.to_owned(), source };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file: File =
        rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?.into();
    // Metadata of the opened file, because the path may point elsewhere by now.
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::other("it is no regular file")));
    }
    let check = |found: u64| {
        if found > MAX_COMPONENT_BYTES as u64 {
            Err(LoadError::TooLarge { found: usize::try_from(found).unwrap_or(usize::MAX) })
        } else {
            Ok(())
        }
    };
    // Checked before reading.
    check(metadata.len())?;
    let mut bytes = Vec::new();
    let read = file.take(MAX_COMPONENT_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    check(read as u64)?;
    Ok(bytes)
}
