//! Turns a component's bytes into code that can be instantiated: loaded from the cache, or compiled
//! once and then cached.
//!
//! Compiling is the only step that processes a whole component before any of its limits apply. So
//! it has limits of its own. The items of a component are counted first ([`structure`]). One
//! component is compiled at a time. Where the program is Airlock itself, a child process
//! ([`child`]) compiles, and is killed when it takes too much time or memory. A compiler that a
//! component has taken over could still return harmful code, which this process then runs. So the
//! child bounds the cost of compiling and contains a crash of the compiler; it is not a second
//! sandbox.

mod child;
mod prepare;
mod structure;

use parking_lot::Mutex;
use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use airlock_core::tool::Cause;
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use tokio::task::spawn_blocking;
use tracing::{info, warn};
use wasmtime::{Engine, component::Component};

pub use self::child::{COMMAND as COMPILE_COMMAND, Job, compile_component};
use super::{
    cache::{CodeCache, CodeName, FunctionCache},
    embed, section,
};
use crate::{LoadError, MAX_COMPONENT_BYTES};

/// Settings for compiling components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiling {
    /// Path of the `airlock` binary, which is started as a child process for each component. `None`
    /// compiles in this process, on a thread that cannot be stopped. A program that is Airlock
    /// itself uses [`Compiling::SELF`].
    pub program: Option<PathBuf>,
    /// Wall-clock time that a child may take. A Python interpreter of 18 MB takes half a minute on
    /// two cores.
    pub wall: Duration,
    /// Address space of a child, in bytes.
    pub memory_bytes: u64,
    /// Keeps the machine code of single functions beside the cache of compiled code, so that the next
    /// build of a component is compiled in a part of the time: an interpreter stays the same when the
    /// program in it changes. For components of this user's own. It has no effect with a `program`,
    /// because it works in this process alone.
    pub reuses_functions: bool,
}

impl Compiling {
    /// Path of the running program as the kernel knows it. It stays the same file even if another
    /// file has since taken its name.
    pub const SELF: &'static str = "/proc/self/exe";

    /// Returns settings that compile in this process. A child, if a `program` is set, gets ten
    /// minutes and 8 GiB.
    pub const fn in_process() -> Self {
        Self {
            program: None,
            wall: Duration::from_mins(10),
            memory_bytes: 8 << 30,
            reuses_functions: false,
        }
    }

    /// Returns settings that compile in a child, for a program that is Airlock itself.
    pub fn in_child() -> Self {
        Self { program: Some(Self::SELF.into()), ..Self::in_process() }
    }
}

/// Reason that a component is not compiled.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CompileError {
    /// The compiler rejected the component.
    #[error("{0}")]
    Refused(String),
    /// The compiler cannot be started, or I/O with it failed.
    #[error("the compiler cannot be run")]
    Run(#[source] std::io::Error),
    /// The compiler took longer than this.
    #[error("compiling took more than {0:?}")]
    Wall(Duration),
    /// The compiler crashed, or exceeded its CPU time or memory.
    #[error("the compiler failed ({status}){words}")]
    Died {
        /// Exit status or signal, as the kernel reports it.
        status: String,
        /// Text from its standard error, preceded by `: `; empty if there is none.
        words: String,
    },
    /// The compiler returned more native code than any component compiles to.
    #[error("the compiled code has more than {0} bytes")]
    TooMuchCode(usize),
    /// The compiler's output is not code for this engine.
    #[error("the compiled code cannot be loaded")]
    Code(#[source] Cause),
}

/// Compiler for one engine. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Compiler(Arc<Inner>);

struct Inner {
    engine: Engine,
    cache: Option<CodeCache>,
    /// Functions that the engine has compiled, to be kept in the cache.
    functions: Option<Arc<FunctionCache>>,
    settings: Compiling,
    /// Compiling uses every core it gets. One component at a time is as fast and bounds the memory.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Compilations in progress. Requests for the same code share one.
    flights: Mutex<HashMap<CodeName, WeakShared<Flight>>>,
}

type Flight = BoxFuture<'static, Result<Component, Arc<CompileError>>>;

/// Form in which a component is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// The component as it is.
    Plain,
    /// The component as its function `prepare` leaves it.
    Prepared,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "plain",
            Self::Prepared => "prepared",
        })
    }
}

impl FromStr for Form {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "plain" => Ok(Self::Plain),
            "prepared" => Ok(Self::Prepared),
            _ => Err("expected plain or prepared"),
        }
    }
}

/// A component to compile.
struct Source {
    /// Name of the compiled code.
    name: CodeName,
    form: Form,
    wasm: Arc<[u8]>,
}

/// Result of looking a component up in the cache.
enum Found {
    Compiled(Component),
    Checked(Source),
}

impl Compiler {
    pub(crate) fn new(
        engine: Engine,
        cache: Option<CodeCache>,
        functions: Option<Arc<FunctionCache>>,
        settings: Compiling,
    ) -> Self {
        Self(Arc::new(Inner {
            engine,
            cache,
            functions,
            settings,
            turn: Arc::default(),
            flights: Mutex::default(),
        }))
    }

    /// Returns the directory of the compiled code; `None` if none is kept.
    pub(crate) fn cache_directory(&self) -> Option<&Path> {
        self.0.cache.as_ref().map(CodeCache::directory)
    }

    /// Returns the cache of compiled code, if there is one.
    pub(crate) fn cache(&self) -> Option<&CodeCache> {
        self.0.cache.as_ref()
    }

    /// Returns whether the cache holds native code for the plugin `wasm`, so that loading it needs
    /// no compilation.
    pub(crate) fn is_compiled(&self, wasm: &[u8]) -> bool {
        self.cache().is_some_and(|cache| {
            cache.holds(&CodeName::new(&self.0.engine, Form::Plain, &embed::code(wasm)))
        })
    }

    /// Loads or compiles a component. A child process is killed once no caller waits for what it
    /// compiles.
    pub(crate) async fn component(&self, wasm: Arc<[u8]>) -> Result<Component, LoadError> {
        self.load(Form::Plain, wasm).await
    }

    /// Loads an executor, or prepares and compiles it. A child process is killed once no caller
    /// waits for what it compiles.
    pub(crate) async fn executor(&self, wasm: Arc<[u8]>) -> Result<Component, LoadError> {
        self.load(Form::Prepared, wasm).await
    }

    async fn load(&self, form: Form, wasm: Arc<[u8]>) -> Result<Component, LoadError> {
        if wasm.len() > MAX_COMPONENT_BYTES {
            return Err(LoadError::TooLarge { found: wasm.len() });
        }
        section::check_layer(&wasm)?;
        if Engine::detect_precompiled(&wasm).is_some() {
            return Err(LoadError::NotAComponent(
                "it holds native code, which is never loaded from outside".into(),
            ));
        }
        let compiler = self.clone();
        let found = spawn_blocking(move || compiler.find(form, wasm)).await;
        match found.unwrap_or_else(|panic| Err(LoadError::Compile(panic.into())))? {
            Found::Compiled(component) => Ok(component),
            Found::Checked(source) => {
                self.flight(source).await.map_err(|error| LoadError::Compile(Box::new(error)))
            }
        }
    }

    /// Searches the cache for a component, and checks the structure of one that is not there.
    /// Blocks.
    fn find(&self, form: Form, wasm: Arc<[u8]>) -> Result<Found, LoadError> {
        let code = match embed::code(&wasm) {
            Cow::Borrowed(_) => None,
            Cow::Owned(code) => Some(code.into()),
        };
        let wasm: Arc<[u8]> = code.unwrap_or(wasm);
        let name = CodeName::new(&self.0.engine, form, &wasm);
        if let Some(component) = self.cache().and_then(|cache| cache.load(&self.0.engine, &name)) {
            return Ok(Found::Compiled(component));
        }
        structure::check(&wasm)?;
        Ok(Found::Checked(Source { name, form, wasm }))
    }

    fn flight(&self, source: Source) -> Shared<Flight> {
        // The map is consistent after every statement.
        let mut flights = self.0.flights.lock();
        flights.retain(|_, flight| flight.upgrade().is_some());
        if let Some(flight) = flights.get(&source.name).and_then(WeakShared::upgrade) {
            return flight;
        }
        let name = source.name.clone();
        let compiled = self.clone().compile(source);
        let flight = compiled.map(|result| result.map_err(Arc::new)).boxed().shared();
        flights.extend(flight.downgrade().map(|weak| (name, weak)));
        flight
    }

    async fn compile(self, source: Source) -> Result<Component, CompileError> {
        let Source { name, form, wasm } = source;
        let turn = self.0.turn.clone().lock_owned().await;
        let started = Instant::now();
        let wasm_bytes = wasm.len();
        let settings = &self.0.settings;
        let native = if let Some(program) = &settings.program {
            let _turn = turn;
            child::run(program, settings, &self.0.engine, form, &wasm).await?
        } else {
            let engine = self.0.engine.clone();
            // The turn moves into the thread, because compiling continues after every caller has
            // gone.
            let compiled = spawn_blocking(move || {
                let _turn = turn;
                precompile(&engine, form, &wasm)
            });
            joined(compiled.await)?
        };
        let native_bytes = native.len();
        let place = if settings.program.is_some() { "child" } else { "process" };
        info!(wasm_bytes, native_bytes, elapsed = ?started.elapsed(), place, "compiled a component");
        joined(spawn_blocking(move || self.keep(&name, &native)).await)
    }

    /// Stores compiled code in the cache and loads it from there. If that fails, or without a
    /// cache, loads it from memory. Blocks.
    fn keep(&self, name: &CodeName, native: &[u8]) -> Result<Component, CompileError> {
        let Inner { engine, cache, functions, .. } = &*self.0;
        if let Some(cache) = cache {
            if let Some(functions) = functions
                && let Err(error) = cache.store_functions(functions)
            {
                warn!(%error, "compiled functions are not kept");
            }
            match cache.store(name, native) {
                Ok(()) => {
                    if let Some(component) = cache.load(engine, name) {
                        return Ok(component);
                    }
                }
                Err(error) => warn!(%error, "compiled code is not cached"),
            }
        }
        #[expect(
            unsafe_code,
            reason = "these bytes came from the engine's own serializer, in this process or in one that runs the same program"
        )]
        let component = unsafe { Component::deserialize(engine, native) };
        component.map_err(|error| CompileError::Code(error.into()))
    }
}

/// Compiles in this process.
fn precompile(engine: &Engine, form: Form, wasm: &[u8]) -> Result<Vec<u8>, CompileError> {
    let compiled = match form {
        Form::Plain => engine.precompile_component(wasm),
        Form::Prepared => {
            prepare::prepare(wasm).and_then(|prepared| engine.precompile_component(&prepared))
        }
    };
    compiled.map_err(|error| CompileError::Refused(format!("{error:#}")))
}

fn joined<T>(
    result: Result<Result<T, CompileError>, tokio::task::JoinError>,
) -> Result<T, CompileError> {
    result.unwrap_or_else(|panic| {
        Err(CompileError::Died { status: panic.to_string(), words: String::new() })
    })
}

#[cfg(test)]
mod tests;
