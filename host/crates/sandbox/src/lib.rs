//! wasmtime: every guest runs here, in a fresh instance for each call, with hard limits.
//!
//! A [`Sandbox`] is made once a process and holds the engine with its pool of instances. A
//! [`Plugin`] or the [`Executor`] is compiled (or taken from the cache of native code) and linked
//! once. A call gets a store of its own, which is thrown away afterwards. This module does not know
//! where calls come from; what guests call in turn goes back through the
//! [`door`](airlock_core::door).

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
    script::{Binding, FailureKind, Script, ScriptError, ScriptFailure, ScriptResult},
};

/// The largest component that is compiled. Compiling takes time and memory in proportion.
pub const MAX_COMPONENT_BYTES: usize = 64 << 20;

/// How the sandbox is set up. It has no defaults that an operator could not see: [`Settings::new`]
/// names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Instances at each depth of call chains. One plugin, and likewise the executor, gets three
    /// quarters of them; one tenant gets three quarters of such a share, and seven eighths of all.
    pub instances_per_depth: u32,
    /// Depths that have instances of their own; deeper calls share the last.
    pub depths: u32,
    /// Calls that may wait for an instance, at each depth. One tenant's calls of one plugin fill
    /// three quarters of the queue; in a full one, the tenant with the most calls makes room for
    /// others.
    pub queue: usize,
    /// How long one may wait. A tenant with less than its part of the instances waits on, until the
    /// call's deadline, while another has more.
    pub queue_wait: Duration,
    /// Memory of all guests together, in bytes: linear memory, and what they have not read yet of
    /// responses over HTTP and of listings. One tenant gets seven eighths.
    pub process_memory_bytes: usize,
    /// Where compiled code is kept; nowhere without it.
    pub cache: Option<PathBuf>,
    /// How components are compiled.
    pub compiling: Compiling,
    /// What is the gateway's own, and lent to no plugin.
    pub off_limits: OffLimits,
}

/// Files and directories that decide what the gateway does, or hold what plugins must not see. A
/// directory is granted to no plugin that overlaps with one of them. The cache of compiled code is
/// always one that may not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OffLimits {
    /// May not be written to: the configuration, `airlock.lock`, components.
    pub unwritable: Vec<PathBuf>,
    /// May not even be read: the store that plugins share, secrets.
    pub unreadable: Vec<PathBuf>,
}

impl Settings {
    /// What suits a gateway on a small machine: 64 instances at each of four depths, 1,000 waiting
    /// callers for 5 s, 4 GiB of guest memory; components are compiled in this process.
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

/// Why a component cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It is not there, or cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It is larger than [`MAX_COMPONENT_BYTES`].
    #[error("the component has {found} bytes, the limit is {MAX_COMPONENT_BYTES}")]
    TooLarge {
        /// Its size.
        found: usize,
    },
    /// It has more of something than is compiled.
    #[error("the component has {found} {what}, the limit is {limit}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// How much it has.
        found: u64,
        /// How much it may have.
        limit: u64,
    },
    /// It is something else.
    #[error("not a WebAssembly component: {0}")]
    NotAComponent(String),
    /// It does not compile, or uses what this engine does not allow.
    #[error("the component does not compile")]
    Compile(#[source] Cause),
    /// It imports something that is not lent to anyone.
    #[error("the component imports what this gateway does not lend: {}", names.join(", "))]
    UnknownImports {
        /// The imports by name.
        names: Vec<String>,
    },
    /// It was built for a version of the contract that this build does not speak.
    #[error(
        "the plugin was built for version {found} of the contract, this gateway speaks {supported}; build it again with the SDK \
         of one of these"
    )]
    Version {
        /// The version that it exports.
        found: String,
        /// The versions that would do.
        supported: String,
    },
    /// It imports or exports something else than its world says.
    #[error("the component does not fit the world {world}")]
    Contract {
        /// The world.
        world: &'static str,
        /// What is missing or different.
        #[source]
        cause: Cause,
    },
    /// It exports no plugin contract, and its functions are no tools either.
    #[error("the component is no set of tools")]
    Plain(#[source] BadComponent),
    /// Its embedded descriptors cannot be read.
    #[error("the tool descriptors cannot be read")]
    Descriptors(#[source] Cause),
    /// Asked for its tools, it broke off.
    #[error("the plugin did not describe its tools")]
    Describe(#[source] CallError),
    /// Asked for its tools, it answered with an error.
    #[error("the plugin refused to describe its tools: {0}")]
    RefusedToDescribe(String),
    /// A granted directory is not there.
    #[error("the granted directory {path} cannot be used: {reason}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// A custom section of a component, without running it: its own or else, for what a compiler puts
/// there, of the first module in it that has one. As untrusted as the component.
pub fn embedded<'a>(wasm: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, LoadError> {
    section::named_anywhere(wasm, name)
}

/// The descriptors that a component's build embedded, if it did.
pub fn embedded_tools(wasm: &[u8]) -> Result<Option<Vec<ToolDefinition>>, LoadError> {
    section::find(wasm)?.map(section::parse).transpose()
}

/// The component with its descriptors embedded, so that listing its tools does not run it.
pub fn embed_tools(wasm: &[u8], tools: &[ToolDefinition]) -> Result<Vec<u8>, LoadError> {
    embed::replace(wasm, section::NAME, section::of(tools).as_bytes())
}

/// The component with a custom section of its own, in the place of all that it had of that name.
/// The name begins with `airlock:`: such a section is read and never part of the code.
pub fn embed(wasm: &[u8], name: &str, content: &[u8]) -> Result<Vec<u8>, LoadError> {
    embed::replace(wasm, name, content)
}

/// The interfaces that a component imports, by name.
pub fn imports(wasm: &[u8]) -> Result<Vec<String>, LoadError> {
    section::imports(wasm)
}

/// The version of the plugin contract that a component exports, if it exports one.
pub fn contract_version(wasm: &[u8]) -> Result<Option<String>, LoadError> {
    let exports = section::exports(wasm)?;
    Ok(exports.iter().find_map(|name| Some(contract::version_of(name)?.to_owned())))
}

/// What of the pool is in use right now. All zero when nothing runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// Component instances.
    pub instances: u64,
    /// Linear memories.
    pub memories: usize,
    /// Tables.
    pub tables: usize,
    /// Guests' stacks.
    pub stacks: usize,
}

/// The engine, the pool and what all guests share. Cheap to clone.
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
    /// Makes the engine, and opens the cache; one that cannot be used is reported and done without.
    pub fn new(settings: &Settings) -> Result<Self, LoadError> {
        let slots = settings.instances_per_depth * settings.depths.max(1);
        // A little more than can be asked for, so that a slot that is being cleared is never waited
        // for.
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

    /// Whether `wasm` was compiled before, so that loading it takes no time.
    pub fn is_compiled(&self, wasm: &[u8]) -> bool {
        self.0.compiler.is_compiled(wasm)
    }

    /// Compiles and links a plugin for `client`, with what it is granted of what the `lender` has.
    /// A plain component is one too: its functions are the tools.
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
        // It walks the component, and looks at the directories.
        let open = move || Plugin::new(sandbox, client, &component, &wasm, grants, limits, lender);
        tokio::task::spawn_blocking(open)
            .await
            .unwrap_or_else(|panic| Err(LoadError::Compile(panic.into())))
    }

    /// Prepares, compiles and links a script executor. Preparing runs the guest's `prepare` once,
    /// with every import denied, and is done again only when the component or the compiler has
    /// changed.
    pub async fn executor(&self, wasm: Arc<[u8]>, limits: Limits) -> Result<Executor, LoadError> {
        let component = self.0.compiler.executor(wasm).await?;
        Executor::new(self.clone(), &component, limits)
    }

    /// What is in use right now; none where there is no pool.
    pub fn usage(&self) -> Option<Usage> {
        let metrics = self.0.engine.pooling_allocator_metrics()?;
        Some(Usage {
            instances: metrics.component_instances(),
            memories: metrics.memories(),
            tables: metrics.tables(),
            stacks: metrics.stacks(),
        })
    }

    /// One guest's way to slots.
    fn share(&self) -> Share {
        self.0.admission.share()
    }

    /// Memory that guests may hold, and what the host holds for them.
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

    /// Runs `body` in a fresh store. The `slot` is given back after the store is gone.
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
