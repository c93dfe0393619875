//! Loads a plugin from a file. The plugin that is in place does not change meanwhile.

use std::sync::Arc;

use tracing::{info, warn};

use super::{
    Answer, Facts, Manifest, PluginError, Plugins, Settings, Settled, compiling,
    lock_policy::Standing, plugins::Shared, read_component, settle,
};
use crate::{
    catalog::report_dropped,
    egress::Egress,
    sandbox::{Grants, Lender, LoadError, Plugin},
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
        settings: &Settings,
        before: Option<&str>,
    ) -> Result<Option<Loaded>, PluginError> {
        let bytes: Arc<[u8]> = read_component(&settings.component).await?.into();
        let facts = Facts::of(&bytes)?;
        if self.0.lock.check(client, &facts)? == Standing::Unpinned {
            self.tell_unpinned(client);
        }
        if before == Some(facts.component.as_str()) {
            return Ok(None);
        }
        let Settled { grants, limits, notes } =
            self.settled(facts.manifest.clone(), settings.answer.clone()).await?;
        for note in notes {
            info!(%client, note, "grants");
        }
        let lender = self.lender(&grants).await?;
        let host = &self.0.host;
        let load = host.sandbox.plugin(client, bytes.clone(), grants, limits, lender);
        let plugin = compiling(&host.progress, client.as_str(), &bytes, load).await?;
        let mut definitions = plugin.definitions(&bytes).await?;
        reword(&mut definitions, &settings.answer);
        let (plugin, definitions, dropped) = usable(plugin, definitions).await?;
        report_dropped(client, &dropped);
        Ok(Some(Loaded { plugin, definitions, digest: facts.component }))
    }

    /// Settles request, grant and ceiling on a blocking thread, because it reads secrets from disk.
    async fn settled(
        &self,
        manifest: Option<Manifest>,
        answer: Answer,
    ) -> Result<Settled, PluginError> {
        let environment = self.0.host.environment;
        let decide =
            move || settle(manifest.as_ref(), &answer, &|source| source.read(&environment));
        let decided = tokio::task::spawn_blocking(decide).await;
        let decided = decided.map_err(|panic| LoadError::Compile(panic.into()))?;
        Ok(decided?)
    }

    /// Returns the resources for a plugin with these grants. Resources that no plugin needs are not
    /// opened.
    async fn lender(&self, grants: &Grants) -> Result<Lender, PluginError> {
        let Shared { host, database, egress, .. } = &*self.0;
        let open = || Database::open(store::Settings::new(&host.store));
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

    /// Logs once per plugin, not at every change of its file, that it is not pinned.
    fn tell_unpinned(&self, client: &ClientName) {
        let Some(entry) = self.0.entries.get(client) else { return };
        if !std::mem::replace(&mut entry.seen().is_told_unpinned, true) {
            warn!(%client, "the plugin is not pinned: whatever takes its place is loaded; `airlock plugin accept` pins it");
        }
    }
}

/// Leaves out the tools that cannot be offered, and returns the reasons. Fails if that leaves none
/// of them.
async fn usable(
    plugin: Plugin,
    mut definitions: Vec<ToolDefinition>,
) -> Result<(Plugin, Vec<ToolDefinition>, Vec<String>), PluginError> {
    let nameless = definitions.extract_if(.., |tool| tool.description.trim().is_empty());
    let mut dropped: Vec<_> = nameless
        .map(|tool| {
            format!(
                "tool {:?} has no description; give it one in `wasm_config.descriptions`",
                tool.name
            )
        })
        .collect();
    let (plugin, definitions, unusable) = plugin.with_tools(definitions).await?;
    dropped.extend(unusable);
    if definitions.is_empty() && !dropped.is_empty() {
        return Err(PluginError::NoTools(dropped.join("; ")));
    }
    Ok((plugin, definitions, dropped))
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
