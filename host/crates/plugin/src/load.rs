//! Loads a plugin from a file or from the store. The plugin that is in place does not change meanwhile.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::time::timeout;
use tracing::{info, warn};

use super::{
    ComponentSource, Grant, Manifest, Metadata, PluginError, Plugins, Rights, entries::PluginSpec,
    hidden, plugins::PluginsState, unassigned,
};
use airlock_catalog::{report_dropped, report_unchecked};
use airlock_compile::compiling;
use airlock_core::tool::{ClientName, ToolDefinition};
use airlock_egress::Egress;
use airlock_lock::Pin;
use airlock_sandbox::{Grants, HostResources, Limits, LoadError, Plugin, Tools};

/// Time for the compiler to begin with a component that is inspected.
const TURN: Duration = Duration::from_mins(5);
/// Time limit for a component that is inspected to be compiled and to describe its tools. After it, a child process that
/// compiles is killed. Without a child process, compiling continues, and other components wait for its end.
const INSPECTION: Duration = Duration::from_mins(5);

/// Reason that a component was not inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// It cannot be loaded.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// It was not compiled in time.
    #[error("it was not compiled within {} minutes", INSPECTION.as_secs() / 60)]
    Slow,
    /// Its turn did not come in time.
    #[error("the gateway compiles other components; try again later")]
    Busy,
}

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
        if settings.component.file().is_none() {
            self.0.resources.publishers.check_uploaded()?;
        }
        // The entry in place names its digest.
        if is_current && matches!(settings.component, ComponentSource::Stored(_)) {
            return Ok(None);
        }
        let bytes: Arc<[u8]> = settings.component.read(&self.0.resources.store).await?.into();
        let metadata = metadata_of(&bytes).await?;
        if settings.component.file().is_some() {
            self.0.lock.check(client, &metadata, &settings.grant, policy, accepted)?;
        }
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

    /// Compiles a component with nothing granted, and asks it for its tools if it does not embed them.
    /// Nothing else changes: it is what an operator sees before it is accepted. Its time begins when the
    /// compiler begins with it: the compiler may be busy with other components.
    pub async fn inspect(&self, component: Arc<[u8]>) -> Result<Metadata, InspectError> {
        let begun = self.0.resources.sandbox.compiling(component.clone());
        let begun = pin!(timeout(TURN, begun));
        let mut inspecting = pin!(self.inspect_untimed(component));
        let begun = match select(inspecting.as_mut(), begun).await {
            Either::Left((inspected, _)) => return Ok(inspected?),
            Either::Right((begun, _)) => begun,
        };
        begun.map_err(|_| InspectError::Busy)?;
        Ok(timeout(INSPECTION, inspecting).await.map_err(|_| InspectError::Slow)??)
    }

    async fn inspect_untimed(&self, component: Arc<[u8]>) -> Result<Metadata, PluginError> {
        self.0.resources.publishers.check_uploaded()?;
        let mut metadata = metadata_of(&component).await?;
        let resources = &self.0.resources;
        let client = ClientName::parse("plugin").expect("a constant that fits");
        let host = HostResources::default();
        let load = resources.sandbox.plugin(
            &client,
            component.clone(),
            Grants::default(),
            Limits::PLUGIN,
            host,
        );
        let plugin = compiling(None, "an uploaded component", &component, load).await?;
        metadata.tools = plugin.definitions(&component).await?;
        metadata.tools.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(metadata)
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

/// Reads the metadata of a component on a blocking thread, because it reads and hashes all of it.
async fn metadata_of(component: &Arc<[u8]>) -> Result<Metadata, PluginError> {
    let component = component.clone();
    let reading = tokio::task::spawn_blocking(move || Metadata::read(&component));
    Ok(reading.await.map_err(|panic| LoadError::Compile(panic.into()))??)
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
