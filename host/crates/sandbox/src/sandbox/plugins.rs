//! The plugins of a sandbox.

use std::sync::Arc;

use airlock_compile::Compiler;
use airlock_core::tool::ClientName;
use parking_lot::Mutex;
use wasmtime::{Engine, component::Linker};

use super::{Sandbox, failed};
use crate::{
    Grants, HostResources, Limits, LoadError, OffLimits, Plugin, Settings,
    plugin::{self, side::PluginSide},
    run::state::State,
};

/// The linker of all plugins, and the files that are granted to none of them.
pub(super) struct PluginLinks {
    linker: Linker<State<PluginSide>>,
    off_limits: Mutex<Arc<OffLimits>>,
}

impl PluginLinks {
    pub(super) fn new(
        engine: &Engine,
        settings: &Settings,
        compiler: &Compiler,
    ) -> Result<Self, LoadError> {
        let off_limits = settings.off_limits.clone().and_unreadable(compiler.cache_directory());
        Ok(Self {
            linker: plugin::linker(engine).map_err(failed)?,
            off_limits: Mutex::new(Arc::new(off_limits)),
        })
    }
}

impl Sandbox {
    /// Returns whether the cache holds native code for the plugin `wasm`, so that loading it needs
    /// no compilation. The file is not verified; if loading refuses it, the plugin is compiled
    /// again.
    pub fn is_compiled(&self, wasm: &[u8]) -> bool {
        self.0.compiler.is_compiled(wasm)
    }

    /// Waits until the compiler begins with a plugin, while [`Self::plugin`] loads it. Never returns if it
    /// needs not be compiled.
    pub async fn compiling(&self, wasm: Arc<[u8]>) {
        self.0.compiler.begun(wasm).await;
    }

    /// Compiles and links a plugin for `client`. It gets those of the `host`'s resources that
    /// its `grants` allow. A plain component is accepted too: its functions are the tools.
    pub async fn plugin(
        &self,
        client: &ClientName,
        wasm: Arc<[u8]>,
        grants: Grants,
        limits: Limits,
        host: HostResources,
    ) -> Result<Plugin, LoadError> {
        let component = self.0.compiler.component(wasm.clone()).await?;
        let sandbox = self.clone();
        let client = client.clone();
        // Blocking: it walks the component and checks the directories.
        tokio::task::spawn_blocking(move || {
            let plugins = &sandbox.0.plugins;
            let guest = plugin::open(&plugins.linker, &component, &wasm)?;
            let off_limits = plugins.off_limits.lock().clone();
            off_limits.check(&grants.directories)?;
            Plugin::new(sandbox.runner(), client, guest, &component, &grants, limits, host)
        })
        .await
        .unwrap_or_else(|panic| Err(LoadError::Compile(panic.into())))
    }

    /// Replaces the files and directories that are granted to no plugin. Plugins that are loaded
    /// already are not checked again. Returns whether they have changed.
    pub fn set_off_limits(&self, off_limits: OffLimits) -> bool {
        let off_limits = off_limits.and_unreadable(self.0.compiler.cache_directory());
        let mut current = self.0.plugins.off_limits.lock();
        let is_changed = **current != off_limits;
        *current = Arc::new(off_limits);
        is_changed
    }
}
