//! The sandbox, wasmtime: runs every guest in a fresh instance for each call, with hard limits.
//!
//! One [`Sandbox`] per process holds the engine with its pool of instances. A [`Plugin`] or the
//! [`Executor`] is compiled (or loaded from the cache of native code) and linked once. Each call
//! gets a store of its own, which is dropped afterwards. This crate does not know where calls come
//! from; calls that guests make go back through the [`door`](airlock_core::door).

mod contract;
mod effects;
mod engine;
mod error;
mod executor;
mod grants;
mod imports;
mod inspect;
mod limits;
mod load;
mod plain;
mod plugin;
mod run;
mod schemas;
mod script;
mod settings;
mod uses;
mod wasi;

use parking_lot::Mutex;
use std::sync::Arc;

use airlock_core::{
    tenant::Pool,
    tool::{CallError, ClientName},
};
use tracing::warn;
use wasmtime::{Engine, Store, component::Linker};

pub use self::{
    effects::{DeclaredEffect, Effect, Effects},
    engine::MAX_MEMORY_BYTES,
    error::LoadError,
    executor::Executor,
    grants::{
        Access, Denied, Directory, Grants, HostResources, Quota, Store as KvStore, ToolNames,
    },
    inspect::{
        contract_version, data_contains, embed, embed_tools, embedded, embedded_tools,
        exports_contract, imported_functions, imports, supported_contracts,
    },
    limits::Limits,
    load::compile::{
        COMPILE_COMMAND, Compiling, Form as CompileForm, Job as CompileJob, compile_component,
    },
    plain::BadComponent,
    plugin::Plugin,
    run::beside::{Lost, run_apart, run_beside},
    schemas::Tools,
    script::{
        Binding, Bindings, FailureKind, Script, ScriptAnswer, ScriptCall, ScriptCalls, ScriptError,
        ScriptFailure, ScriptResult,
    },
    settings::{OffLimits, Settings},
    uses::{ToolUses, Use, UseRecorder},
};
use self::{
    load::{cache::CodeCache, compile::Compiler},
    run::{
        admission::{Admission, Share, Slot},
        instance::{self, Call, State},
        memory,
    },
};

/// Largest component that is compiled, in bytes. Compile time and memory grow in proportion.
pub const MAX_COMPONENT_BYTES: usize = 64 << 20;

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
        // A little more than admission grants, so that no call waits for a slot that is still being
        // cleared.
        let cache = settings.cache.as_ref().and_then(|path| {
            CodeCache::open(path)
                .inspect_err(|error| warn!(%error, "compiled code is not cached"))
                .ok()
        });
        let functions = (cache.as_ref())
            .filter(|_| settings.compiling.reuses_functions && settings.compiling.program.is_none())
            .map(|cache| Arc::new(cache.functions()));
        let engine = engine::engine(slots + slots / 12 + 1, functions.as_ref())
            .map_err(|error| LoadError::Compile(error.into()))?;
        let compiler = Compiler::new(engine.clone(), cache, functions, settings.compiling.clone());
        let off_limits = settings.off_limits.clone().and_unreadable(compiler.cache_directory());
        Ok(Self(Arc::new(Inner {
            plugin_linker: linked(plugin::linker(&engine))?,
            executor_linker: linked(executor::linker(&engine))?,
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
            Plugin::new(sandbox, client, &component, &wasm, &grants, limits, host)
        })
        .await
        .unwrap_or_else(|panic| Err(LoadError::Compile(panic.into())))
    }

    /// Prepares, compiles and links a script executor. Preparing runs the guest's `prepare` once,
    /// with every import but its log denied. It is repeated only when the component or the compiler
    /// has changed.
    pub async fn executor(&self, wasm: Arc<[u8]>, limits: Limits) -> Result<Executor, LoadError> {
        let component = self.0.compiler.executor(wasm).await?;
        Executor::new(self.clone(), &component, limits)
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

    /// Opens a share of the slots for one guest.
    fn share(&self) -> Share {
        self.0.admission.share()
    }

    /// Returns the memory budget of all guests, which also covers what the host holds for them.
    fn memory(&self) -> &Pool {
        &self.0.memory
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

    fn off_limits(&self) -> Arc<OffLimits> {
        self.0.off_limits.lock().clone()
    }

    fn plugin_linker(&self) -> &Linker<State> {
        &self.0.plugin_linker
    }

    fn executor_linker(&self) -> &Linker<State> {
        &self.0.executor_linker
    }

    /// Runs `body` in a fresh store. The `slot` is released after the store is dropped.
    async fn run<T>(
        &self,
        slot: Slot,
        call: Call,
        body: impl AsyncFnOnce(&mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<T, CallError> {
        let ended = instance::run(&self.0.engine, &self.0.memory, call, body).await;
        drop(slot);
        ended
    }
}

fn linked(linker: wasmtime::Result<Linker<State>>) -> Result<Linker<State>, LoadError> {
    linker.map_err(|error| LoadError::Compile(error.into()))
}
