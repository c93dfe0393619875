//! From a component's bytes to code that can be instantiated: taken from the cache, or compiled
//! once and kept there.
//!
//! Compiling is the one thing that is done with all of a component before any of its limits apply,
//! so it has limits of its own: what is compiled is counted first ([`structure`]), one component is
//! compiled at a time, and where the program is Airlock itself it happens in a child process
//! ([`child`]) that is killed when it takes too long or too much. A compiler that was made to do
//! harm would still answer with code that this process then runs: the child bounds what compiling
//! costs and survives its crash, and is no second sandbox.

mod child;
mod prepare;
mod structure;

use std::{
    borrow::Cow,
    collections::HashMap,
    fmt,
    path::PathBuf,
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
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
    LoadError, MAX_COMPONENT_BYTES,
    cache::{CodeCache, CodeName},
    embed,
};

/// How components are compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiling {
    /// The `airlock` binary, which is started as a child process for each component; none to
    /// compile in this process, on a thread that cannot be stopped. For a program that is Airlock
    /// itself, [`Compiling::SELF`].
    pub program: Option<PathBuf>,
    /// How long a child may take. A Python interpreter of 18 MB takes half a minute on two cores.
    pub wall: Duration,
    /// Address space of a child, in bytes.
    pub memory_bytes: u64,
}

impl Compiling {
    /// The running program, as the kernel knows it: the same file even where another has taken its
    /// name since.
    pub const SELF: &'static str = "/proc/self/exe";

    /// In this process, or ten minutes and 8 GiB where a `program` is set.
    pub const fn in_process() -> Self {
        Self { program: None, wall: Duration::from_mins(10), memory_bytes: 8 << 30 }
    }
}

/// Why a component is not compiled.
#[derive(Debug, thiserror::Error)]
pub(super) enum CompileError {
    /// It is no good, says the compiler.
    #[error("{0}")]
    Refused(String),
    /// The compiler cannot be started, or spoken to.
    #[error("the compiler cannot be run")]
    Run(#[source] std::io::Error),
    /// It took too long.
    #[error("compiling took more than {0:?}")]
    Wall(Duration),
    /// It crashed, or went over its CPU time or memory.
    #[error("the compiler broke off ({status}){words}")]
    Died {
        /// How, as the kernel tells it.
        status: String,
        /// What it said last.
        words: String,
    },
    /// It answered with more than anything compiles to.
    #[error("compiled code of more than {0} bytes")]
    TooMuchCode(usize),
    /// Its answer is no code for this engine.
    #[error("the compiled code cannot be loaded")]
    Code(#[source] Cause),
}

/// Compiles for one engine. Cheap to clone.
#[derive(Clone)]
pub(super) struct Compiler(Arc<Inner>);

struct Inner {
    engine: Engine,
    cache: Option<CodeCache>,
    settings: Compiling,
    /// Compiling takes every core it gets; one at a time is as fast and keeps its memory bounded.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// What is being compiled. Whoever asks for the same waits for the same.
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

/// Something to compile.
struct Source {
    /// Name of the compiled code.
    name: CodeName,
    form: Form,
    wasm: Arc<[u8]>,
}

/// A component that has been looked at.
enum Found {
    Compiled(Component),
    Checked(Source),
}

impl Compiler {
    pub(super) fn new(engine: Engine, cache: Option<CodeCache>, settings: Compiling) -> Self {
        Self(Arc::new(Inner {
            engine,
            cache,
            settings,
            turn: Arc::default(),
            flights: Mutex::default(),
        }))
    }

    /// Where compiled code is kept.
    pub(super) fn cache(&self) -> Option<&CodeCache> {
        self.0.cache.as_ref()
    }

    /// Whether `wasm` was compiled before, so that loading it takes no time.
    pub(super) fn is_compiled(&self, wasm: &[u8]) -> bool {
        self.cache().is_some_and(|cache| {
            cache.holds(&CodeName::new(&self.0.engine, Form::Plain, &embed::code(wasm)))
        })
    }

    /// Loads or compiles a component. A child process is killed once no caller waits for what it
    /// compiles.
    pub(super) async fn component(&self, wasm: Arc<[u8]>) -> Result<Component, LoadError> {
        self.load(Form::Plain, wasm).await
    }

    /// Loads an executor, or prepares and compiles it. A child process is killed once no caller
    /// waits for what it compiles.
    pub(super) async fn executor(&self, wasm: Arc<[u8]>) -> Result<Component, LoadError> {
        self.load(Form::Prepared, wasm).await
    }

    async fn load(&self, form: Form, wasm: Arc<[u8]>) -> Result<Component, LoadError> {
        if wasm.len() > MAX_COMPONENT_BYTES {
            return Err(LoadError::TooLarge { found: wasm.len() });
        }
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

    /// Looks in the cache, and at what is not there. It blocks.
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
        // The map is whole after every statement.
        let mut flights = self.0.flights.lock().unwrap_or_else(PoisonError::into_inner);
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
            // The turn goes along: compiling goes on when nobody waits for it any more.
            let compile = move || {
                let _turn = turn;
                precompile(&engine, form, &wasm)
            };
            joined(spawn_blocking(compile).await)?
        };
        let native_bytes = native.len();
        let place = if settings.program.is_some() { "child" } else { "process" };
        info!(wasm_bytes, native_bytes, elapsed = ?started.elapsed(), place, "compiled a component");
        joined(spawn_blocking(move || self.keep(&name, &native)).await)
    }

    /// Puts compiled code into the cache and takes it from there, or takes it as it is. It blocks.
    fn keep(&self, name: &CodeName, native: &[u8]) -> Result<Component, CompileError> {
        let Inner { engine, cache, .. } = &*self.0;
        if let Some(cache) = cache {
            match cache.store(name, native) {
                Ok(()) => {
                    if let Some(component) = cache.load(engine, name) {
                        return Ok(component);
                    }
                }
                Err(error) => warn!(%error, "compiled code is not kept"),
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
