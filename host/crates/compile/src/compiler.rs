//! Turns a component's bytes into code that can be instantiated: loaded from the cache, or compiled
//! once and then cached.
//!
//! Compiling is the only step that processes a whole component before any of its limits apply. So
//! it has limits of its own. The items of a component are [counted](crate::structure) first. One
//! component is compiled at a time. Where the program is Airlock itself, a [child
//! process](crate::child) compiles, and is killed when it takes too much time or memory. A compiler
//! that a component has taken over could still return harmful code, which this process then runs.
//! So the child bounds the cost of compiling and contains a crash of the compiler; it is not a
//! second sandbox.

use std::{
    borrow::Cow,
    collections::HashMap,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared, pending},
};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedMutexGuard, watch},
    task::spawn_blocking,
};
use tracing::{info, warn};
use wasmtime::{Engine, component::Component};

use crate::{
    cache::{CodeCache, name::CodeName},
    child, embed,
    error::{CompileError, CompilerFailure, MAX_COMPONENT_BYTES},
    functions::FunctionCache,
    precompile::precompile,
    sections,
    settings::{Compiling, Form},
    structure,
};

/// Compiler for one engine. Cheap to clone.
#[derive(Clone)]
pub struct Compiler(Arc<CompilerParts>);

struct CompilerParts {
    engine: Engine,
    cache: Option<CodeCache>,
    /// Functions that the engine has compiled, to be kept in the cache.
    functions: Option<Arc<FunctionCache>>,
    settings: Compiling,
    /// Compiling uses every core it gets. One component at a time is as fast and bounds the memory.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Name of the code whose turn it is, or was last.
    begun: watch::Sender<Option<CodeName>>,
    /// Compilations in progress. Requests for the same code share one.
    flights: Mutex<HashMap<CodeName, WeakShared<Flight>>>,
    counts: CompileCounts,
}

#[derive(Default)]
struct CompileCounts {
    cached: AtomicU64,
    compiled: AtomicU64,
    failed: AtomicU64,
    micros: AtomicU64,
}

/// Totals of a compiler since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CompileTotals {
    /// Components that were in the cache.
    pub cached: u64,
    /// Components that were compiled.
    pub compiled: u64,
    /// Components that could not be compiled.
    pub failed: u64,
    /// Time in which components were compiled, whether or not that failed.
    pub time: Duration,
}

type Flight = BoxFuture<'static, Result<Component, Arc<CompilerFailure>>>;

/// A component to compile.
struct UncompiledComponent {
    /// Name of the compiled code.
    name: CodeName,
    form: Form,
    wasm: Arc<[u8]>,
}

/// Result of looking a component up in the cache.
enum CacheLookup {
    Compiled(Component),
    Checked(UncompiledComponent),
}

impl Compiler {
    /// Creates a compiler for `engine`. Native code is kept in the `cache`; with `functions`, which
    /// the engine has too, so are the functions that it compiles.
    pub fn new(
        engine: Engine,
        cache: Option<CodeCache>,
        functions: Option<Arc<FunctionCache>>,
        settings: Compiling,
    ) -> Self {
        Self(Arc::new(CompilerParts {
            engine,
            cache,
            functions,
            settings,
            turn: Arc::default(),
            begun: watch::Sender::default(),
            flights: Mutex::default(),
            counts: CompileCounts::default(),
        }))
    }

    /// Returns the directory of the compiled code; `None` if none is kept.
    pub fn cache_directory(&self) -> Option<&Path> {
        self.0.cache.as_ref().map(CodeCache::directory)
    }

    /// Returns the cache of compiled code, if there is one.
    pub fn cache(&self) -> Option<&CodeCache> {
        self.0.cache.as_ref()
    }

    /// Returns the totals since the start.
    pub fn totals(&self) -> CompileTotals {
        let CompileCounts { cached, compiled, failed, micros } = &self.0.counts;
        CompileTotals {
            cached: cached.load(Ordering::Relaxed),
            compiled: compiled.load(Ordering::Relaxed),
            failed: failed.load(Ordering::Relaxed),
            time: Duration::from_micros(micros.load(Ordering::Relaxed)),
        }
    }

    /// Returns whether the cache holds native code for the plugin `wasm`, so that loading it needs
    /// no compilation.
    pub fn is_compiled(&self, wasm: &[u8]) -> bool {
        self.cache().is_some_and(|cache| {
            cache.holds(&CodeName::new(&self.0.engine, Form::Plain, &embed::code(wasm)))
        })
    }

    /// Loads or compiles a component. A child process is killed once no caller waits for what it
    /// compiles.
    pub async fn component(&self, wasm: Arc<[u8]>) -> Result<Component, CompileError> {
        self.load(Form::Plain, wasm).await
    }

    /// Loads the executor with this SHA-256 digest, or prepares and compiles it. `wasm` is not read if its code is in
    /// the cache, so that its pages in the program's file take no memory. A child process is killed once no caller
    /// waits for what it compiles.
    pub async fn executor(
        &self,
        wasm: &'static [u8],
        sha256: [u8; 32],
    ) -> Result<Component, CompileError> {
        let compiler = self.clone();
        if let Some(component) = spawn_blocking(move || compiler.prepared(sha256)).await? {
            self.0.counts.cached.fetch_add(1, Ordering::Relaxed);
            return Ok(component);
        }
        self.load(Form::Prepared, wasm.into()).await
    }

    /// Waits until a component is compiled, because of a call of [`Self::component`]. Never returns if it
    /// is in the cache.
    pub async fn begun(&self, wasm: Arc<[u8]>) {
        let mut begun = self.0.begun.subscribe();
        let engine = self.0.engine.clone();
        let naming =
            spawn_blocking(move || CodeName::new(&engine, Form::Plain, &embed::code(&wasm)));
        let Ok(name) = naming.await else { return pending().await };
        let is_known = begun.wait_for(|begun| begun.as_ref() == Some(&name)).await.is_ok();
        if !is_known {
            pending::<()>().await;
        }
    }

    async fn load(&self, form: Form, wasm: Arc<[u8]>) -> Result<Component, CompileError> {
        if wasm.len() > MAX_COMPONENT_BYTES {
            return Err(CompileError::TooLarge { found: wasm.len() });
        }
        if Engine::detect_precompiled(&wasm).is_some() {
            return Err(CompileError::NotAComponent(
                "it holds native code, which is never loaded from outside".into(),
            ));
        }
        sections::check_layer(&wasm)?;
        let compiler = self.clone();
        let found = spawn_blocking(move || compiler.find(form, wasm)).await;
        match found.unwrap_or_else(|panic| Err(panic.into()))? {
            CacheLookup::Compiled(component) => {
                self.0.counts.cached.fetch_add(1, Ordering::Relaxed);
                Ok(component)
            }
            CacheLookup::Checked(source) => {
                self.flight(source).await.map_err(|error| CompileError::Failed(Box::new(error)))
            }
        }
    }

    /// Searches the cache for the executor with this digest. Blocks.
    fn prepared(&self, sha256: [u8; 32]) -> Option<Component> {
        let CompilerParts { engine, cache, .. } = &*self.0;
        let cache = cache.as_ref()?;
        cache.load(engine, &CodeName::from_digest(engine, Form::Prepared, sha256))
    }

    /// Searches the cache for a component, and checks the structure of one that is not there.
    /// Blocks.
    fn find(&self, form: Form, wasm: Arc<[u8]>) -> Result<CacheLookup, CompileError> {
        let code = match embed::code(&wasm) {
            Cow::Borrowed(_) => None,
            Cow::Owned(code) => Some(code.into()),
        };
        let wasm: Arc<[u8]> = code.unwrap_or(wasm);
        let name = CodeName::new(&self.0.engine, form, &wasm);
        if let Some(component) = self.cache().and_then(|cache| cache.load(&self.0.engine, &name)) {
            return Ok(CacheLookup::Compiled(component));
        }
        structure::check(&wasm)?;
        Ok(CacheLookup::Checked(UncompiledComponent { name, form, wasm }))
    }

    fn flight(&self, source: UncompiledComponent) -> Shared<Flight> {
        let mut flights = self.0.flights.lock();
        flights.retain(|_, flight| flight.upgrade().is_some());
        if let Some(flight) = flights.get(&source.name).and_then(WeakShared::upgrade) {
            return flight;
        }
        let name = source.name.clone();
        let compiled = self.clone().compile_counted(source);
        let flight = compiled.map(|result| result.map_err(Arc::new)).boxed().shared();
        flights.extend(flight.downgrade().map(|weak| (name, weak)));
        flight
    }

    /// Compiles a component once it has its turn, and counts it.
    async fn compile_counted(
        self,
        source: UncompiledComponent,
    ) -> Result<Component, CompilerFailure> {
        let turn = self.0.turn.clone().lock_owned().await;
        let started = Instant::now();
        let inner = self.0.clone();
        let compiled = self.compile(source, turn).await;
        let CompileCounts { compiled: succeeded, failed, micros, .. } = &inner.counts;
        let count = if compiled.is_ok() { succeeded } else { failed };
        count.fetch_add(1, Ordering::Relaxed);
        let took = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        micros.fetch_add(took, Ordering::Relaxed);
        compiled
    }

    async fn compile(
        self,
        source: UncompiledComponent,
        turn: OwnedMutexGuard<()>,
    ) -> Result<Component, CompilerFailure> {
        let UncompiledComponent { name, form, wasm } = source;
        self.0.begun.send_replace(Some(name.clone()));
        let started = Instant::now();
        let wasm_bytes = wasm.len();
        let engine = self.0.engine.clone();
        let (place, native) = match &self.0.settings {
            Compiling::InChild(settings) => {
                let _turn = turn;
                ("child", child::run(settings, &engine, form, &wasm).await?)
            }
            Compiling::InProcess { .. } => {
                // The turn moves into the thread, because compiling continues after every caller has
                // gone.
                let compiled = spawn_blocking(move || {
                    let _turn = turn;
                    precompile(&engine, form, &wasm)
                });
                ("process", joined(compiled.await)?)
            }
        };
        let native_bytes = native.len();
        info!(wasm_bytes, native_bytes, elapsed = ?started.elapsed(), place, "compiled a component");
        joined(spawn_blocking(move || self.keep(&name, &native)).await)
    }

    /// Stores compiled code in the cache and loads it from there. If that fails, or without a
    /// cache, loads it from memory. Blocks.
    fn keep(&self, name: &CodeName, native: &[u8]) -> Result<Component, CompilerFailure> {
        let CompilerParts { engine, cache, functions, .. } = &*self.0;
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
        component.map_err(|error| CompilerFailure::Code(error.into()))
    }
}

fn joined<T>(
    result: Result<Result<T, CompilerFailure>, tokio::task::JoinError>,
) -> Result<T, CompilerFailure> {
    result.unwrap_or_else(|panic| {
        Err(CompilerFailure::Died { status: panic.to_string(), words: String::new() })
    })
}

#[cfg(test)]
mod tests;
