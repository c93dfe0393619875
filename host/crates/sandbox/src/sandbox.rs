//! The sandbox of a process: the engine with its pool of instances, and the resources that all guests
//! share. It opens plugins and executors.

use std::sync::Arc;

use airlock_compile::{CodeCache, CompileError, Compiler, Compiling, pooled_engine};
use airlock_core::{tenant::Pool, tool::ClientName};
use parking_lot::Mutex;
use tracing::warn;
use wasmtime::{Engine, component::Linker};

use crate::{
    Executor, Grants, HostResources, Limits, LoadError, OffLimits, Plugin, Settings, contract,
    executor, plugin,
    run::{admission::Admission, instance::GuestRunner, memory, state::State},
};

/// Resources of the instance pool in use right now. All are zero when nothing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Component instances.
    pub instances: u64,
    /// Linear memories.
    pub memories: usize,
    /// Tables.
    pub tables: usize,
    /// Stacks of guests.
    pub stacks: usize,
}

/// The engine, the pool and the resources that all guests share. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox(Arc<Inner>);

struct Inner {
    engine: Engine,
    plugin_linker: Linker<State>,
    executor_linker: Linker<State>,
    admission: Admission,
    /// Memory that guests may hold.
    memory: Pool,
    compiler: Compiler,
    off_limits: Mutex<Arc<OffLimits>>,
}

impl Sandbox {
    /// Makes the engine and opens the cache. If the cache cannot be used, this is logged and the
    /// sandbox works without one.
    pub fn new(settings: &Settings) -> Result<Self, LoadError> {
        let slots = settings.instances_per_depth * settings.depths.max(1);
        let cache = settings.cache.as_ref().and_then(|path| {
            CodeCache::open(path)
                .inspect_err(|error| warn!(%error, "compiled code is not cached"))
                .ok()
        });
        let functions = (cache.as_ref())
            .filter(|_| settings.compiling == Compiling::InProcess { reuses_functions: true })
            .map(|cache| Arc::new(cache.functions()));
        // A little more than admission grants, so that no call waits for a slot that is still being
        // cleared.
        let engine = pooled_engine(slots + slots / 12 + 1, functions.as_ref()).map_err(failed)?;
        let compiler = Compiler::new(engine.clone(), cache, functions, settings.compiling.clone());
        let off_limits = settings.off_limits.clone().and_unreadable(compiler.cache_directory());
        Ok(Self(Arc::new(Inner {
            plugin_linker: plugin::linker(&engine).map_err(failed)?,
            executor_linker: executor::linker(&engine).map_err(failed)?,
            admission: Admission::new(
                settings.depths.max(1),
                settings.instances_per_depth,
                settings.queue,
                settings.queue_wait,
            ),
            memory: memory::budget(settings.process_memory_bytes),
            compiler,
            off_limits: Mutex::new(Arc::new(off_limits)),
            engine,
        })))
    }

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
            let guest = contract::open(&sandbox.0.plugin_linker, &component, &wasm)?;
            let off_limits = sandbox.0.off_limits.lock().clone();
            off_limits.check(&grants.directories)?;
            Plugin::new(sandbox.runner(), client, guest, &component, &grants, limits, host)
        })
        .await
        .unwrap_or_else(|panic| Err(LoadError::Compile(panic.into())))
    }

    /// Prepares, compiles and links a script executor. Preparing runs the guest's `prepare` once,
    /// with every import but its log denied. It is repeated only when the component or the compiler
    /// has changed.
    pub async fn executor(&self, wasm: Arc<[u8]>) -> Result<Executor, LoadError> {
        let component = self.0.compiler.executor(wasm).await?;
        Executor::new(self.runner(), &self.0.executor_linker, &component)
    }

    /// Returns the resources in use right now; `None` if the engine has no instance pool.
    pub fn usage(&self) -> Option<Usage> {
        let metrics = self.0.engine.pooling_allocator_metrics()?;
        Some(Usage {
            instances: metrics.component_instances(),
            memories: metrics.memories(),
            tables: metrics.tables(),
            stacks: metrics.stacks(),
        })
    }

    /// Returns what the calls of one more guest run with.
    fn runner(&self) -> GuestRunner {
        let Inner { engine, memory, admission, .. } = &*self.0;
        let share = admission.share();
        GuestRunner { engine: engine.clone(), memory: memory.clone(), share }
    }

    /// Replaces the files and directories that are granted to no plugin. Plugins that are loaded
    /// already are not checked again. Returns whether they have changed.
    pub fn set_off_limits(&self, off_limits: OffLimits) -> bool {
        let off_limits = off_limits.and_unreadable(self.0.compiler.cache_directory());
        let mut current = self.0.off_limits.lock();
        let is_changed = **current != off_limits;
        *current = Arc::new(off_limits);
        is_changed
    }
}

fn failed(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(CompileError::Failed(error.into()))
}
