//! A plugin: compiled and linked once, instantiated for every call.

use std::{path::Path, sync::Arc};

use futures_util::future::BoxFuture;
use tracing::warn;
use wasmtime::component::{Component, Linker, Resource};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use super::{
    Access, Directory, Grants, Limits, LoadError, Sandbox,
    bindings::plugin::{ToolPlugin, ToolPluginPre},
    convert, imports,
    instance::{CallHandle, Speaker, Start, State},
    section, stdio,
};
use crate::{
    catalog::{CallError, ClientName, Provider, ToolDefinition, ToolName, ToolOutput},
    door::{Admitted, Origin},
};

/// What a plugin may spend on describing itself, which it does with everything denied.
const DESCRIBE: Limits = Limits {
    fuel: 100_000_000,
    cpu: std::time::Duration::from_secs(1),
    deadline: std::time::Duration::from_secs(5),
    host_calls: 100,
    ..Limits::PLUGIN
};
/// The longest random string that a guest may ask for at once.
///
/// The engine does not charge WASI calls, so this bounds what one slice of a guest can make the host compute.
const MAX_RANDOM_BYTES: u64 = 4 << 10;

/// A compiled and linked plugin with what its operator lends it.
pub struct Plugin {
    sandbox: Sandbox,
    client: ClientName,
    pre: ToolPluginPre<State>,
    limits: Limits,
    grants: Grants,
    origin: Origin,
}

/// The linker of the plugins' world: the host's interfaces, and WASI with everything denied that was not granted.
pub(super) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    imports::link_shared(&mut linker)?;
    imports::link_call(&mut linker)?;
    Ok(linker)
}

impl Plugin {
    pub(super) fn new(
        sandbox: Sandbox,
        client: ClientName,
        component: &Component,
        grants: Grants,
        limits: Limits,
    ) -> Result<Self, LoadError> {
        let pre = sandbox.plugin_linker().instantiate_pre(component).and_then(ToolPluginPre::new);
        let pre = pre.map_err(|error| LoadError::Contract { world: "tool-plugin", cause: error.into() })?;
        for directory in &grants.directories {
            check_directory(directory, sandbox.cache_directory())?;
        }
        let origin = Origin::Plugin(Arc::new(grants.tools.iter().cloned().collect()));
        Ok(Self { sandbox, client, pre, limits, grants, origin })
    }

    /// The plugin's tools: from the section that its build embedded, or asked once, with everything denied.
    pub async fn definitions(&self, wasm: &[u8]) -> Result<Vec<ToolDefinition>, LoadError> {
        if let Some(section) = section::find(wasm)? {
            return section::parse(section);
        }
        warn!(plugin = %self.client, "no tool descriptors are embedded; asking the plugin");
        self.describe().await
    }

    async fn describe(&self) -> Result<Vec<ToolDefinition>, LoadError> {
        let name = ToolName::new(&self.client, "describe");
        let start = Start {
            chain: None,
            origin: Origin::Plugin(Arc::default()),
            speaker: Speaker::Plugin(self.client.clone()),
            limits: DESCRIBE,
            wasi: WasiCtxBuilder::new().max_random_size(MAX_RANDOM_BYTES).build(),
        };
        let answered = self
            .sandbox
            .run(1, &name, start, async |store| {
                let plugin = self.pre.instantiate_async(&mut *store).await?;
                plugin.airlock_plugin_tools().call_describe(store).await
            })
            .await
            .map_err(LoadError::Describe)?;
        let descriptors = answered.map_err(LoadError::RefusedToDescribe)?;
        descriptors
            .into_iter()
            .map(|tool| convert::definition_from_guest(tool).map_err(|error| LoadError::Descriptors(error.into())))
            .collect()
    }

    async fn invoke(&self, call: Admitted) -> Result<ToolOutput, CallError> {
        let tool = call.tool().clone();
        let name = &tool.name;
        let start = Start {
            chain: Some(call.chain().clone()),
            origin: self.origin.clone(),
            speaker: Speaker::Plugin(self.client.clone()),
            limits: self.limits,
            wasi: self.wasi().map_err(|cause| CallError::Unavailable { tool: name.clone(), cause })?,
        };
        let arguments = call.arguments().as_str().to_owned();
        let answer = self
            .sandbox
            .run(call.chain().depth(), name, start, async |store| {
                let plugin: ToolPlugin = self.pre.instantiate_async(&mut *store).await?;
                let context: Resource<CallHandle> = store.data_mut().table.push(CallHandle)?;
                plugin.airlock_plugin_tools().call_invoke(store, &tool.original, &arguments, context).await
            })
            .await?;
        let output = answer.map_err(|error| CallError::Tool(convert::error_from_guest(error)))?;
        let too_large = || CallError::ResultTooLarge { tool: name.clone(), limit_bytes: self.limits.result_bytes as u64 };
        // Before it is parsed: a parsed document takes many times its text.
        if convert::json_bytes(&output) > self.limits.result_bytes {
            return Err(too_large());
        }
        let output = convert::output_from_guest(output)
            .map_err(|error| CallError::BadResult { tool: name.clone(), cause: error.into() })?;
        if output.size() > self.limits.result_bytes {
            return Err(too_large());
        }
        Ok(output)
    }

    /// WASI as granted: the directories, output that goes to the log, clocks and randomness, and nothing else. The environment,
    /// arguments and standard input are empty, and there is no network.
    fn wasi(&self) -> Result<WasiCtx, crate::catalog::Cause> {
        let mut wasi = WasiCtxBuilder::new();
        wasi.max_random_size(MAX_RANDOM_BYTES);
        wasi.stdout(stdio::Output::new(&self.client)).stderr(stdio::Output::new(&self.client));
        for directory in &self.grants.directories {
            let access = match directory.access {
                Access::ReadOnly => FsPerms::ReadOnly,
                Access::ReadWrite => FsPerms::ReadWrite,
            };
            wasi.preopened_dir(&directory.path, format!("/{}", directory.name), access)?;
        }
        Ok(wasi.build())
    }
}

impl Provider for Plugin {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(self.invoke(call))
    }
}

/// Says at load, and not at the first call, that a granted directory is not there, or may not be granted: whoever can write to
/// the cache of native code can run any code in this process.
fn check_directory(directory: &Directory, cache: Option<&Path>) -> Result<(), LoadError> {
    let refuse = |reason: String| LoadError::Directory { path: directory.path.clone(), reason };
    let path = directory.path.canonicalize().map_err(|error| refuse(error.to_string()))?;
    if !path.is_dir() {
        return Err(refuse("it is not a directory".into()));
    }
    let holds = |cache: &Path| cache.canonicalize().is_ok_and(|cache| cache.starts_with(&path) || path.starts_with(&cache));
    if directory.access == Access::ReadWrite && cache.is_some_and(holds) {
        return Err(refuse("it holds the gateway's cache of compiled code, which no plugin may write to".into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_plugin_may_write_to_the_cache_of_compiled_code() {
        let home = tempfile::tempdir().expect("a directory");
        let (cache, below, other) = (home.path().join("cache"), home.path().join("cache/below"), home.path().join("other"));
        for directory in [&below, &other] {
            std::fs::create_dir_all(directory).expect("a directory");
        }
        let check = |path: &Path, access| {
            check_directory(&Directory { name: "d".into(), path: path.to_owned(), access }, Some(&cache)).is_ok()
        };
        for path in [home.path(), &cache, &below] {
            assert!(!check(path, Access::ReadWrite), "{}", path.display());
            assert!(check(path, Access::ReadOnly), "{}", path.display());
        }
        assert!(check(&other, Access::ReadWrite));
        assert!(!check(&home.path().join("missing"), Access::ReadOnly));
    }
}
