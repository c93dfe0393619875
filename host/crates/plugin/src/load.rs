//! Loads a plugin from a file. The plugin that is in place does not change meanwhile.

use std::sync::Arc;

use tracing::{info, warn};

use super::{
    Grant, Manifest, Metadata, PluginError, Plugins, Rights, compiling, entries::PluginSpec,
    hidden, plugins::PluginsState, read_component, unassigned,
};
use airlock_catalog::{report_dropped, report_unchecked};
use airlock_core::tool::{ClientName, ToolDefinition};
use airlock_egress::Egress;
use airlock_lock::Pin;
use airlock_sandbox::{Grants, HostResources, LoadError, Plugin, Tools};

/// A plugin that is ready to replace another.
pub(super) struct Loaded {
    pub(super) plugin: Plugin,
    pub(super) definitions: Vec<ToolDefinition>,
    pub(super) pin: Pin,
}

impl Plugins {
    /// Reads, checks and compiles one plugin. `None` if its digest equals that of the plugin in place
    /// (`is_current`), which `accepted` is then.
    pub(super) async fn read(
        &self,
        client: &ClientName,
        spec: &PluginSpec,
        accepted: Option<&Pin>,
        is_current: bool,
    ) -> Result<Option<Loaded>, PluginError> {
        let PluginSpec { policy, settings } = spec;
        let bytes: Arc<[u8]> = read_component(&settings.component).await?.into();
        let metadata = Metadata::of(&bytes)?;
        self.0.lock.check(client, &metadata, &settings.grant, policy, accepted)?;
        if is_current && accepted.is_some_and(|pin| pin.component == metadata.digest) {
            return Ok(None);
        }
        let Rights { grants, limits, notes } =
            self.rights(metadata.manifest.clone(), settings.grant.clone()).await?;
        for note in notes {
            info!(%client, note, "grants");
        }
        for (request, effect) in metadata.manifest.iter().flat_map(Manifest::unused) {
            warn!(%client, %request, %effect, "no tool declares the effect that the request is for");
        }
        let host = self.host_resources(&grants).await?;
        if let Some(database) = &host.database {
            unassigned::settle(database, client, &grants.stores).await?;
            hidden::report(database, client, &grants.stores).await;
        }
        let resources = &self.0.resources;
        let grants = Grants { recorder: resources.recorder.clone(), ..grants };
        let load = resources.sandbox.plugin(client, bytes.clone(), grants, limits, host);
        let plugin =
            compiling(resources.on_compile.as_deref(), client.as_str(), &bytes, load).await?;
        let mut definitions = plugin.definitions(&bytes).await?;
        replace_descriptions(&mut definitions, &settings.grant);
        let (plugin, tools) = usable(plugin, definitions).await?;
        report_dropped(client, &tools.left_out);
        report_unchecked(client, &tools.unchecked);
        let Tools { definitions, .. } = tools;
        Ok(Some(Loaded { plugin, definitions, pin: metadata.pin(client) }))
    }

    /// Computes the rights of a plugin on a blocking thread, because it reads secrets from disk.
    async fn rights(
        &self,
        manifest: Option<Manifest>,
        grant: Grant,
    ) -> Result<Rights, PluginError> {
        let environment = self.0.resources.environment;
        let rights = tokio::task::spawn_blocking(move || {
            Rights::intersect(manifest.as_ref(), &grant, &|source| source.read(&environment))
        });
        let rights = rights.await;
        Ok(rights.map_err(|panic| LoadError::Compile(panic.into()))??)
    }

    /// Returns the resources for a plugin with these grants. Resources that no plugin needs are not
    /// opened.
    async fn host_resources(&self, grants: &Grants) -> Result<HostResources, PluginError> {
        let PluginsState { resources, egress, .. } = &*self.0;
        Ok(HostResources {
            database: if grants.stores.is_empty() {
                None
            } else {
                Some(resources.store.open().await?.clone())
            },
            egress: match &grants.http {
                Some(_) => Some(egress.get_or_try_init(async || Egress::new()).await?.clone()),
                None => None,
            },
        })
    }
}

/// Leaves out the tools that cannot be offered, with the reasons. Fails if that leaves none of
/// them.
async fn usable(
    plugin: Plugin,
    mut definitions: Vec<ToolDefinition>,
) -> Result<(Plugin, Tools), PluginError> {
    let nameless = definitions.extract_if(.., |tool| tool.description.trim().is_empty());
    let nameless: Vec<_> = nameless
        .map(|tool| {
            format!(
                "tool {:?} has no description; give it one in `wasm_config.descriptions`",
                tool.name
            )
        })
        .collect();
    let (plugin, mut tools) = plugin.with_tools(definitions).await?;
    tools.left_out.splice(0..0, nameless);
    if tools.definitions.is_empty() && !tools.left_out.is_empty() {
        return Err(PluginError::NoTools(tools.left_out.join("; ")));
    }
    Ok((plugin, tools))
}

/// Replaces descriptions of tools by those of the operator.
fn replace_descriptions(definitions: &mut [ToolDefinition], grant: &Grant) {
    for (tool, description) in &grant.descriptions {
        if let Some(definition) = definitions.iter_mut().find(|definition| definition.name == *tool)
        {
            definition.description.clone_from(description);
        } else {
            warn!(tool, "a description is configured for a tool that the plugin does not have");
        }
    }
}
