//! Plugins: a plugin is compiled and linked once, and instantiated for every call.
//!
//! | Module | Content |
//! |---|---|
//! | `contract`, `plain`, `tool_guest` | components of each version of the contract, components without it, and their common part |
//! | `imports`, `wasi` | the interfaces that plugins may import: Airlock's own, and WASI |
//! | `grants`, `effects`, `rights`, `off_limits` | the rights of each tool |
//! | `side`, `log`, `uses`, `late_fuel` | one call of a plugin on the host's side |
//! | `descriptors`, `schemas`, `inspect` | their tools, without running them |

mod contract;
pub(crate) mod descriptors;
mod effects;
mod grants;
pub(crate) mod imports;
mod inspect;
mod late_fuel;
mod log;
mod off_limits;
mod plain;
mod rights;
mod schemas;
pub(crate) mod side;
pub(crate) mod tool_guest;
mod uses;
pub(crate) mod wasi;

use std::sync::Arc;

use airlock_circuit::Circuit;
use airlock_core::{
    door::{Admitted, Chain, Provider},
    secret::{Scrubber, scrubbed},
    tool::{CallError, ClientName, ToolDefinition, ToolName, ToolOutput, content_size},
};
use airlock_egress::Outlet;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use tracing::{debug, warn};
use wasmtime::component::{Component, Linker};

pub(crate) use self::contract::open;
pub use self::{
    effects::{DeclaredEffect, Effect, Effects},
    grants::{Access, Denied, Directory, Grants, HostResources, KvStore, Quota, ToolNames},
    inspect::{
        contract_version, embed_tools, embedded_tools, exports_contract, is_guard,
        supported_contracts,
    },
    off_limits::OffLimits,
    schemas::Tools,
    uses::{ToolUses, Use, UseRecorder},
};
use self::{
    rights::{PluginParts, Rights, ToolRights},
    schemas::Schemas,
    side::PluginSide,
    tool_guest::{Returned, ToolGuest},
    uses::CallRecorder,
    wasi::{Mounts, Wasi},
};
use crate::{
    Limits, LoadError,
    run::{
        instance::GuestRunner,
        state::{Call, State},
    },
};

/// Limits on a plugin that describes its tools, which it does with everything denied.
const DESCRIBE: Limits = Limits {
    fuel: 100_000_000,
    cpu: std::time::Duration::from_secs(1),
    deadline: std::time::Duration::from_secs(5),
    host_calls: 100,
    ..Limits::PLUGIN
};

/// A compiled and linked plugin with its grants.
pub struct Plugin {
    runner: GuestRunner,
    parts: PluginParts,
    guest: Box<dyn ToolGuest>,
    schemas: Schemas,
    circuit: Circuit,
    limits: Limits,
    rights: Rights,
    /// Directories of the whole grant, which the tools share.
    mounts: Mounts,
    native_bytes: usize,
}

/// Builds the linker of the plugins' world: the host's interfaces, and WASI, which denies
/// everything that was not granted.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State<PluginSide>>> {
    let mut linker = Linker::new(engine);
    wasi::link(&mut linker)?;
    imports::wasi_http::link(&mut linker)?;
    contract::link(&mut linker)?;
    Ok(linker)
}

impl Plugin {
    pub(crate) fn new(
        runner: GuestRunner,
        client: ClientName,
        guest: Box<dyn ToolGuest>,
        component: &Component,
        grants: &Grants,
        limits: Limits,
        host: HostResources,
    ) -> Result<Self, LoadError> {
        let mounts = Mounts::new(grants).map_err(|error| LoadError::Directory {
            path: std::env::temp_dir(),
            reason: format!("no place for scratch directories: {error}"),
        })?;
        let native = component.image_range();
        let HostResources { database, egress } = host;
        let circuit = Circuit::new(client.clone(), limits.deadline, limits.fuel);
        let parts = PluginParts { client, log: Arc::default(), database };
        Ok(Self {
            rights: Rights::new(&parts, grants, egress.as_ref()),
            runner,
            parts,
            guest,
            schemas: Schemas::default(),
            circuit,
            limits,
            mounts,
            native_bytes: native.end.addr() - native.start.addr(),
        })
    }

    /// Returns the size of the compiled image, in bytes: the native code with all that belongs to
    /// it. The image is mapped once, however many instances there are.
    pub fn native_bytes(&self) -> usize {
        self.native_bytes
    }

    /// Returns the plugin's tools: from the section that its build embedded, or else from one call
    /// of the guest with everything denied. A plain component has no such section; its tools are
    /// listed without running it.
    pub async fn definitions(&self, wasm: &[u8]) -> Result<Vec<ToolDefinition>, LoadError> {
        if !self.guest.embeds_descriptors() {
            return self.describe().await;
        }
        if let Some(section) = descriptors::find(wasm)? {
            return descriptors::parse(section);
        }
        debug!(plugin = %self.parts.client, "no tool descriptors are embedded; asking the plugin");
        self.describe().await
    }

    /// Sets the tools that this plugin runs, and compiles their schemas. Returns the plugin and its
    /// tools.
    pub async fn with_tools(
        mut self,
        definitions: Vec<ToolDefinition>,
    ) -> Result<(Self, Tools), LoadError> {
        let compiled = tokio::task::spawn_blocking(move || Schemas::compile(definitions)).await;
        let (schemas, tools) = compiled.map_err(|panic| LoadError::Descriptors(panic.into()))?;
        self.schemas = schemas;
        Ok((self, tools))
    }

    /// Returns the tools that the component itself reports, with everything denied. Descriptors
    /// that its build embedded are ignored.
    pub async fn describe(&self) -> Result<Vec<ToolDefinition>, LoadError> {
        let PluginParts { client, log, .. } = &self.parts;
        let name = ToolName::new(client, "describe");
        let call = PluginSide::denied(client.clone(), log.clone()).call(name, DESCRIBE);
        let described = self
            .runner
            .run(None, || Ok(call), async |store| self.guest.describe(store).await)
            .await;
        described.map_err(LoadError::Describe)?.map_err(LoadError::RefusedToDescribe)
    }

    async fn invoke(&self, call: Admitted) -> Result<ToolOutput, CallError> {
        let tool = call.tool();
        let tenant = call.chain().tenant();
        let schemas = &self.schemas;
        schemas.check_arguments(&tool.original, &tool.name, tenant, call.arguments()).await?;
        let permit = self.circuit.permit(tenant, &tool.name)?;
        let result = self.run(&call).await;
        permit.end(&result);
        result
    }

    async fn run(&self, call: &Admitted) -> Result<ToolOutput, CallError> {
        let tool = call.tool();
        let name = &tool.name;
        let arguments = call.arguments().as_str();
        let chain = call.chain();
        let rights = self.rights.for_tool(&tool.original);
        let grants = &rights.grants;
        let recorder = grants
            .recorder
            .as_ref()
            .map(|recorder| recorder.of_call(&self.parts.client, &tool.original));
        let answered = self
            .runner
            .run(
                Some(chain),
                || self.begin(name, chain, rights, recorder.as_ref()),
                async |store| self.guest.invoke(store, &tool.original, arguments).await,
            )
            .await?;
        let tenant = chain.tenant();
        let scrubber = &grants.scrubber;
        let Returned { output, emitted } = match answered {
            Ok(returned) => returned,
            Err(error) => {
                let bytes = content_size(&error.content);
                let (error, _) = scrubbed(scrubber, tenant, bytes, error, Scrubber::error).await;
                return Err(error.into());
            }
        };
        let bytes = output.size();
        let (mut output, is_changed) =
            scrubbed(scrubber, tenant, bytes, output, Scrubber::output).await;
        if is_changed {
            warn!(tool = %name, "a secret was redacted from a plugin's result");
        }
        let bytes = if is_changed { output.size() } else { bytes };
        if bytes > self.limits.result_bytes {
            return Err(CallError::result_too_large(name.clone(), self.limits.result_bytes));
        }
        self.schemas.check_result(&tool.original, name, tenant, &mut output).await?;
        Ok(Returned { output, emitted }.readable())
    }

    /// Makes the host's side of a call, with the rights of its tool.
    fn begin(
        &self,
        tool: &ToolName,
        chain: &Chain,
        rights: &Arc<ToolRights>,
        recorder: Option<&CallRecorder>,
    ) -> Result<Call<PluginSide>, CallError> {
        let ToolRights { grants, outlet, .. } = &**rights;
        let memory = &self.runner.memory;
        let tenant = chain.tenant();
        let wasi = Wasi::granted(rights, tenant, &self.mounts, memory, recorder)
            .map_err(|cause| CallError::unavailable(tool.clone(), cause))?;
        let guest = PluginSide {
            rights: rights.clone(),
            outlet: outlet.as_ref().map(|outlet| recorded(outlet, grants, recorder)),
            wasi,
            recorder: recorder.cloned(),
        };
        Ok(Call { tool: tool.clone(), chain: Some(chain.clone()), limits: self.limits, guest })
    }
}

impl Provider for Plugin {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(self.invoke(call))
    }

    fn status(&self) -> Map<String, Value> {
        Map::from_iter([("circuit".to_owned(), self.circuit.describe().into())])
    }

    fn is_circuit_open(&self) -> Option<bool> {
        Some(self.circuit.is_open())
    }
}

/// Returns the outlet for one call, which reports the requests to the call's recorder if there is
/// one.
fn recorded(outlet: &Outlet, grants: &Grants, recorder: Option<&CallRecorder>) -> Outlet {
    match recorder {
        Some(recorder) => outlet.observed(grants.destinations.clone(), Arc::new(recorder.clone())),
        None => outlet.clone(),
    }
}
