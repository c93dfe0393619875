//! wasmtime: every guest runs here, in a fresh instance for each call, with hard limits.
//!
//! One [`Sandbox`] per process holds the engine with its pool of instances. A [`Plugin`] or the
//! [`Executor`] is compiled (or loaded from the cache of native code) and linked once. Each call
//! gets a store of its own, which is dropped afterwards. This module does not know where calls come
//! from; calls that guests make go back through the [`door`](airlock_core::door).

mod admission;
mod cache;
mod circuit;
mod compile;
mod contract;
mod embed;
mod engine;
mod executor;
mod exits;
mod grants;
mod imports;
mod instance;
mod limits;
mod memory;
mod outcome;
mod plain;
mod plugin;
mod schemas;
mod script;
mod section;
mod wasi;

use std::{path::PathBuf, sync::Arc, time::Duration};

use airlock_core::{
    tenant::Pool,
    tool::{CallError, Cause, ClientName, ToolDefinition, ToolName},
};
use tracing::warn;
use wasmtime::{Engine, Store, component::Linker};

pub use self::compile::{
    COMPILE_COMMAND, Form as CompileForm, Job as CompileJob, compile_component,
};
use self::{
    admission::{Admission, Share, Slot},
    cache::CodeCache,
    compile::Compiler,
    instance::{Start, State},
};
pub use self::{
    compile::Compiling,
    engine::MAX_MEMORY_BYTES,
    executor::Executor,
    grants::{Access, Denied, Directory, Grants, Lender, Quota, Store as KvStore},
    limits::Limits,
    plain::BadComponent,
    plugin::Plugin,
    schemas::Tools,
    script::{Binding, FailureKind, Script, ScriptError, ScriptFailure, ScriptResult},
};

/// Largest component that is compiled, in bytes. Compile time and memory grow in proportion.
pub const MAX_COMPONENT_BYTES: usize = 64 << 20;

/// Settings of the sandbox. All defaults are in [`Settings::new`]; there are no hidden ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Instances at each depth of call chains. One plugin, and likewise the executor, gets at most
    /// three quarters of them. One tenant gets at most three quarters of such a share, and seven
    /// eighths of all.
    pub instances_per_depth: u32,
    /// Depths that have instances of their own. Deeper calls share those of the last depth.
    pub depths: u32,
    /// Calls that may wait for an instance, at each depth. One tenant's calls of one plugin fill at
    /// most three quarters of the queue. In a full queue, the newest call of the tenant with the
    /// most calls is evicted to make room for a call of another tenant.
    pub queue: usize,
    /// Time that a call may wait. While its tenant has less than its part of the instances and
    /// another tenant has more, the call waits on until its deadline.
    pub queue_wait: Duration,
    /// Memory of all guests together, in bytes: linear memory, and HTTP responses and directory
    /// listings that they have not read yet. One tenant gets at most seven eighths.
    pub process_memory_bytes: usize,
    /// Directory for compiled code; `None` keeps none.
    pub cache: Option<PathBuf>,
    /// Settings for compiling components.
    pub compiling: Compiling,
    /// Files and directories of the gateway itself, which are granted to no plugin.
    pub off_limits: OffLimits,
}

/// Files and directories that control the gateway, or hold data that plugins must not see. A
/// granted directory must not overlap with one of them; only a read-only one may overlap with an
/// unwritable one. The cache of compiled code is always unreadable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OffLimits {
    /// Plugins may not write to these: the configuration, `airlock.lock`, components.
    pub unwritable: Vec<PathBuf>,
    /// Plugins may not even read these: the store that plugins share, secrets.
    pub unreadable: Vec<PathBuf>,
}

impl Settings {
    /// Returns settings for a gateway on a small machine: 64 instances at each of four depths,
    /// 1,000 waiting calls for 5 s, 4 GiB of guest memory. Components are compiled in this process.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Self {
            instances_per_depth: 64,
            depths: 4,
            queue: 1_000,
            queue_wait: Duration::from_secs(5),
            process_memory_bytes: 4 << 30,
            cache,
            compiling: Compiling::in_process(),
            off_limits: OffLimits::default(),
        }
    }
}

/// Reason that a component cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file does not exist or cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The component is larger than [`MAX_COMPONENT_BYTES`].
    #[error("the component has {found} bytes, the limit is {MAX_COMPONENT_BYTES}")]
    TooLarge {
        /// Its size, in bytes.
        found: usize,
    },
    /// The component has more items of one kind than the limit.
    #[error("the component has {found} {what}, the limit is {limit}")]
    TooMuch {
        /// Kind of item.
        what: &'static str,
        /// Number of items found.
        found: u64,
        /// Most items of this kind.
        limit: u64,
    },
    /// The bytes are not a WebAssembly component.
    #[error("not a WebAssembly component: {0}")]
    NotAComponent(String),
    /// The component does not compile, or uses a feature that this engine does not allow.
    #[error("the component does not compile")]
    Compile(#[source] Cause),
    /// The component imports something that the gateway does not provide.
    #[error("the component imports what this gateway does not lend: {}", names.join(", "))]
    UnknownImports {
        /// Names of these imports.
        names: Vec<String>,
    },
    /// The plugin was built for a version of the contract that this build does not support.
    #[error(
        "the plugin was built for version {found} of the contract, this gateway speaks {supported}; build it again with the SDK \
         of one of these"
    )]
    Version {
        /// Version that it exports.
        found: String,
        /// Versions that this build supports.
        supported: String,
    },
    /// The imports or exports of the component differ from those of its world.
    #[error("the component does not fit the world {world}")]
    Contract {
        /// Name of the world.
        world: &'static str,
        /// The missing or different import or export.
        #[source]
        cause: Cause,
    },
    /// The component exports no plugin contract, and its functions cannot be used as tools either.
    #[error("the component is no set of tools")]
    Plain(#[source] BadComponent),
    /// The tool descriptors cannot be read.
    #[error("the tool descriptors cannot be read")]
    Descriptors(#[source] Cause),
    /// The call that asks the plugin for its tools failed.
    #[error("the plugin did not describe its tools")]
    Describe(#[source] CallError),
    /// The plugin returned an error when it was asked for its tools.
    #[error("the plugin refused to describe its tools: {0}")]
    RefusedToDescribe(String),
    /// A granted directory does not exist, cannot be used or must not be granted.
    #[error("the granted directory {path} cannot be used: {reason}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Reason for the refusal.
        reason: String,
    },
}

/// Returns a custom section of a component, without running the component. This is the section of
/// the component itself, or else of the first nested module or component that has one, because
/// compilers put sections there. Its content is as untrusted as the component.
pub fn embedded<'a>(wasm: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, LoadError> {
    section::named_anywhere(wasm, name)
}

/// Returns the tool descriptors that the build of a component embedded; `None` if it embedded none.
pub fn embedded_tools(wasm: &[u8]) -> Result<Option<Vec<ToolDefinition>>, LoadError> {
    section::find(wasm)?.map(section::parse).transpose()
}

/// Returns the component with its descriptors embedded, so that listing its tools does not run it.
pub fn embed_tools(wasm: &[u8], tools: &[ToolDefinition]) -> Result<Vec<u8>, LoadError> {
    embed::replace(wasm, section::NAME, section::of(tools).as_bytes())
}

/// Returns the component with a custom section of its own, which replaces all its sections of that
/// name. The name must begin with `airlock:`; such sections are never part of the compiled code.
pub fn embed(wasm: &[u8], name: &str, content: &[u8]) -> Result<Vec<u8>, LoadError> {
    embed::replace(wasm, name, content)
}

/// Returns the names of the interfaces and other items that a component imports.
pub fn imports(wasm: &[u8]) -> Result<Vec<String>, LoadError> {
    section::imports(wasm)
}

/// Returns the version of the plugin contract that a component exports; `None` if it exports none.
pub fn contract_version(wasm: &[u8]) -> Result<Option<String>, LoadError> {
    let exports = section::exports(wasm)?;
    Ok(exports.iter().find_map(|name| Some(contract::version_of(name)?.to_owned())))
}

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
    off_limits: OffLimits,
}

impl Sandbox {
    /// Makes the engine and opens the cache. If the cache cannot be used, this is logged and the
    /// sandbox works without one.
    pub fn new(settings: &Settings) -> Result<Self, LoadError> {
        let slots = settings.instances_per_depth * settings.depths.max(1);
        // A little more than admission grants, so that no call waits for a slot that is still being
        // cleared.
        let engine = engine::engine(slots + slots / 12 + 1)
            .map_err(|error| LoadError::Compile(error.into()))?;
        let link = |linker: wasmtime::Result<Linker<State>>| {
            linker.map_err(|error| LoadError::Compile(error.into()))
        };
        let cache = settings.cache.as_ref().and_then(|path| {
            CodeCache::open(path)
                .inspect_err(|error| warn!(%error, "compiled code is not kept"))
                .ok()
        });
        let mut off_limits = settings.off_limits.clone();
        off_limits.unreadable.extend(cache.as_ref().map(|cache| cache.directory().to_owned()));
        Ok(Self(Arc::new(Inner {
            plugin_linker: link(plugin::linker(&engine))?,
            executor_linker: link(executor::linker(&engine))?,
            admission: Admission::new(
                settings.depths.max(1),
                settings.instances_per_depth,
                settings.queue,
                settings.queue_wait,
            ),
            memory: memory::budget(settings.process_memory_bytes),
            compiler: Compiler::new(engine.clone(), cache, settings.compiling.clone()),
            off_limits,
            engine,
        })))
    }

    /// Returns whether the cache holds native code for the plugin `wasm`, so that loading it needs
    /// no compilation. The file is not verified; if loading refuses it, the plugin is compiled
    /// again.
    pub fn is_compiled(&self, wasm: &[u8]) -> bool {
        self.0.compiler.is_compiled(wasm)
    }

    /// Compiles and links a plugin for `client`. It gets those resources of the `lender` that its
    /// `grants` allow. A plain component is accepted too: its functions are the tools.
    pub async fn plugin(
        &self,
        client: &ClientName,
        wasm: Arc<[u8]>,
        grants: Grants,
        limits: Limits,
        lender: Lender,
    ) -> Result<Plugin, LoadError> {
        let component = self.0.compiler.component(wasm.clone()).await?;
        let (sandbox, client) = (self.clone(), client.clone());
        // Blocking: it walks the component and checks the directories.
        let open = move || Plugin::new(sandbox, client, &component, &wasm, grants, limits, lender);
        tokio::task::spawn_blocking(open)
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

    fn off_limits(&self) -> &OffLimits {
        &self.0.off_limits
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
        tool: &ToolName,
        start: Start,
        body: impl AsyncFnOnce(&mut Store<State>) -> wasmtime::Result<T>,
    ) -> Result<T, CallError> {
        let ended = instance::run(&self.0.engine, &self.0.memory, tool, start, body).await;
        drop(slot);
        ended
    }
}
