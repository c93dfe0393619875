//! The sandbox of a process: the engine with its pool of instances, and the resources that all guests
//! share. It opens plugins and executors.

#[cfg(feature = "plugins")]
mod guards;
#[cfg(feature = "plugins")]
mod plugins;

use std::sync::Arc;

use airlock_compile::{CodeCache, CompileError, CompileTotals, Compiler, Compiling, pooled_engine};
use airlock_core::{admission::Admission, tenant::Pool};
use tracing::warn;
use wasmtime::{Engine, component::Linker};

use crate::{
    Executor, LoadError, Settings, executor,
    run::{
        instance::GuestRunner,
        memory,
        state::{ScriptSide, State},
        totals::{GuestTotals, GuestUsage},
    },
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
pub struct Sandbox(Arc<SandboxParts>);

struct SandboxParts {
    engine: Engine,
    executor_linker: Linker<State<ScriptSide>>,
    admission: Admission,
    /// Memory that guests may hold.
    memory: Pool,
    totals: Arc<GuestTotals>,
    compiler: Compiler,
    #[cfg(feature = "plugins")]
    plugins: plugins::PluginLinks,
}

impl Sandbox {
    /// Makes the engine and opens the cache. If the cache cannot be used, this is logged and the
    /// sandbox works without one.
    pub fn new(settings: &Settings) -> Result<Self, LoadError> {
        let slots = settings.slots();
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
        let engine =
            pooled_engine(slots + slots / 12 + 1 + settings.guard_instances, functions.as_ref());
        let engine = engine.map_err(failed)?;
        let compiler = Compiler::new(engine.clone(), cache, functions, settings.compiling.clone());
        Ok(Self(Arc::new(SandboxParts {
            #[cfg(feature = "plugins")]
            plugins: plugins::PluginLinks::new(&engine, settings, &compiler)?,
            executor_linker: executor::linker(&engine).map_err(failed)?,
            admission: Admission::new(
                settings.depths.max(1),
                settings.instances_per_depth,
                settings.queue,
                settings.queue_wait,
            ),
            memory: memory::budget(settings.process_memory_bytes),
            totals: Arc::default(),
            compiler,
            engine,
        })))
    }

    /// Prepares, compiles and links a script executor, whose SHA-256 digest is `sha256`. Preparing runs the guest's
    /// `prepare` once, with every import but its log denied. It is repeated only when the component or the compiler
    /// has changed.
    pub async fn executor(
        &self,
        wasm: &'static [u8],
        sha256: [u8; 32],
    ) -> Result<Executor, LoadError> {
        let component = self.0.compiler.executor(wasm, sha256).await?;
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

    /// Returns the usage of plugins and of scripts since the start.
    pub fn guest_usage(&self) -> [GuestUsage; 2] {
        self.0.totals.usage()
    }

    /// Returns the bytes that guests hold, and the limit on them.
    pub fn memory_usage(&self) -> (usize, usize) {
        self.0.memory.usage()
    }

    /// Returns the totals of compiling since the start.
    pub fn compile_totals(&self) -> CompileTotals {
        self.0.compiler.totals()
    }

    /// Returns what the calls of one more guest run with.
    fn runner(&self) -> GuestRunner {
        let SandboxParts { engine, memory, admission, totals, .. } = &*self.0;
        let share = admission.share();
        GuestRunner {
            engine: engine.clone(),
            memory: memory.clone(),
            share,
            totals: totals.clone(),
        }
    }
}

fn failed(error: wasmtime::Error) -> LoadError {
    LoadError::Compile(CompileError::Failed(error.into()))
}
