//! Runs scripts in the sandbox, with an executor for each language.

use std::{collections::BTreeMap, env, path::PathBuf, sync::Arc, time::Duration};

use airlock_compile::{CodeCache, CompileHook, MAX_MEMORY_BYTES, compiling};
use airlock_core::{
    door::{Chain, ScriptLanguage},
    limit::saturating_u32,
};
use airlock_executors::EmbeddedExecutor;
use airlock_sandbox::{Executor, Sandbox, ScriptError, ScriptResult, Settings};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{OnceCell, Semaphore, SemaphorePermit},
    time::timeout,
};

use crate::{
    FinishedRun, PendingRun, RunDump, RunError, RunRequest, RunState, RunnerError, RunnerSettings,
    calls::{FunctionCalls, MadeCalls},
    function::NESTING,
    journal::RunJournal,
    printed::PrintedText,
    request::RunContent,
    state::SHOWN_BYTES,
};

/// Runs scripts. Cheap to clone: all clones share one sandbox, and an executor for each language that is compiled when it is
/// first needed. Its methods must be called in a tokio runtime, which also runs the functions.
#[derive(Clone)]
pub struct Runner(Arc<RunnerParts>);

struct RunnerParts {
    sandbox: Sandbox,
    executors: BTreeMap<ScriptLanguage, OnceCell<Executor>>,
    /// Permits of the scripts that run at the same time.
    permits: Semaphore,
    on_compile: Option<Box<CompileHook>>,
}

impl Runner {
    /// Makes the sandbox. No executor is loaded yet.
    pub fn new(settings: RunnerSettings) -> Result<Self, RunnerError> {
        settings.check()?;
        let RunnerSettings { cache_dir, concurrent, on_compile } = settings;
        let cache = cache_dir.or_else(|| CodeCache::default_directory(variable));
        let permits = concurrent as usize;
        let sandbox = Sandbox::new(&Settings {
            // The sandbox gives one caller at most nine sixteenths of its instances, and seven eighths of its memory. The
            // permits bound both before.
            instances_per_depth: concurrent * 2,
            depths: 1,
            process_memory_bytes: permits.saturating_mul(2 * MAX_MEMORY_BYTES),
            ..Settings::new(cache)
        });
        let sandbox = sandbox.map_err(|error| RunnerError::Sandbox(error.into()))?;
        let executors = ScriptLanguage::ALL.map(|language| (language, OnceCell::new()));
        Ok(Self(Arc::new(RunnerParts {
            sandbox,
            executors: BTreeMap::from(executors),
            permits: Semaphore::new(permits),
            on_compile: on_compile.map(|on_compile| -> Box<CompileHook> {
                Box::new(move |message: &str| -> Box<dyn Send> {
                    on_compile(message);
                    Box::new(())
                })
            }),
        })))
    }

    /// Loads the executor of a language, which the first run in it does otherwise: some milliseconds from the cache of
    /// compiled code, or up to a minute without.
    pub async fn load(&self, language: ScriptLanguage) -> Result<(), RunnerError> {
        self.executor(language).await.map(drop)
    }

    /// Runs a script until it ends, or until it stops at a call that needs an approval. Dropping the future stops the script
    /// and its calls.
    pub async fn run(&self, request: RunRequest) -> Result<RunState, RunError> {
        self.execute(RunContent::new(request)?).await
    }

    /// Runs the script of a run again, with the answers that its calls have got and with the decisions about those that
    /// waited. Each of its [limits](RunRequest::limits) counts from zero. Dropping the future stops the script; the run is
    /// lost then, unless a [dump](PendingRun::dump) of it was kept.
    pub async fn resume(&self, run: PendingRun) -> Result<RunState, RunError> {
        self.execute(run.into_content()).await
    }

    /// Runs the script of a finished run again with the answers of its journal alone. No function is called.
    pub async fn replay(&self, dump: &RunDump) -> Result<FinishedRun, RunError> {
        match self.execute(dump.replayed()?).await? {
            RunState::Finished(run) => Ok(run),
            RunState::Pending(run) => {
                let waiting = run.calls().first().map(|call| call.function.clone());
                Err(RunError::Pending { function: waiting.unwrap_or_default() })
            }
        }
    }

    async fn execute(&self, mut content: RunContent) -> Result<RunState, RunError> {
        let nesting = nesting(&content)?;
        let executor = self.executor(content.language).await?;
        let _permit = self.permit(content.limits.deadline).await?;
        let script = content.functions.admit_script(&content.limits);
        let chain = script.map_err(RunError::stopped)?.chain().clone();
        let keeps = content.keeps_calls();
        let journal = RunJournal::new(content.take_entries(), keeps, content.is_replay);
        let limit = content.limits.output_bytes;
        let printed = Arc::new(PrintedText::new(content.on_print.clone(), limit, content.lines));
        let functions = content.functions.clone();
        let memory_bytes = content.limits.memory_bytes;
        let calls = FunctionCalls {
            chain: chain.clone(),
            functions,
            printed: printed.clone(),
            context: content.context.take(),
            nesting,
            memory_bytes,
            made: Mutex::new(MadeCalls::new(journal)),
        };
        let calls = Arc::new(calls);
        let script = content.script();
        let limits = content.limits.of_guest();
        let running = Box::pin(executor.run(script, limits, &chain, calls.clone()));
        let ran = printed.beside(running).await;
        end(content, &chain, calls.take(), &printed, ran)
    }

    /// Waits for an instance, as long as the script itself may take: scripts whose functions run further scripts could
    /// wait for each other for ever.
    async fn permit(&self, deadline: Duration) -> Result<SemaphorePermit<'_>, RunError> {
        if let Ok(permit) = self.0.permits.try_acquire() {
            return Ok(permit);
        }
        if let Ok(permit) = timeout(deadline, self.0.permits.acquire()).await {
            return Ok(permit.expect("the semaphore is never closed"));
        }
        let message = format!(
            "no instance was free for {} ms: other scripts run; allow more of them, or run fewer",
            deadline.as_millis()
        );
        Err(RunError::Limit { limit: "concurrent", message })
    }

    /// Returns the executor of a language, which is loaded when it is first needed. Fails if it cannot be loaded.
    async fn executor(&self, language: ScriptLanguage) -> Result<&Executor, RunnerError> {
        let cell = &self.0.executors[&language];
        if let Some(executor) = cell.get() {
            return Ok(executor);
        }
        let runner = self.clone();
        // A task of its own: a caller that gives up does not stop the compiler for the next.
        let loaded = tokio::spawn(async move {
            let cell = &runner.0.executors[&language];
            cell.get_or_try_init(|| runner.open(language)).await.map(drop)
        });
        loaded.await.map_err(|lost| not_loaded(language, lost))??;
        Ok(cell.get().expect("it was loaded above and is never dropped"))
    }

    async fn open(&self, language: ScriptLanguage) -> Result<Executor, RunnerError> {
        let name = language.name();
        let embedded = airlock_executors::executor(language);
        let EmbeddedExecutor { wasm, sha256 } =
            embedded.ok_or(RunnerError::Language { language: name })?;
        let what = format!("the executor of {name}");
        let load = self.0.sandbox.executor(wasm, sha256);
        let opened = compiling(self.0.on_compile.as_deref(), &what, wasm, load).await;
        opened.map_err(|error| not_loaded(language, error))
    }
}

/// Returns the number of scripts in each other, with this one. Fails if they are more than its limit: each of them holds an
/// instance while it waits for the next, so without an end they would wait for each other.
fn nesting(content: &RunContent) -> Result<u32, RunError> {
    let around = NESTING.try_with(|nesting| *nesting).unwrap_or_default();
    let nesting = around.max(content.nesting).saturating_add(1);
    let most = content.limits.nesting;
    if nesting > most { Err(RunError::too_nested(most)) } else { Ok(nesting) }
}

/// Returns the end of a run whose script has stopped.
fn end(
    content: RunContent,
    chain: &Chain,
    made: MadeCalls,
    printed: &PrintedText,
    ran: ScriptResult,
) -> Result<RunState, RunError> {
    let (output, lines) = printed.take();
    let ran = match ran {
        Err(ScriptError::Failed(failure)) => Err(RunError::Script(made.failure(failure))),
        Err(ScriptError::Stopped(error)) => Err(RunError::stopped(error)),
        Ok(value) => Ok(value),
    };
    let MadeCalls { journal, stop, .. } = made;
    if let Some(stop) = stop {
        if let Some(error) = stop.into_error() {
            return Err(error);
        }
        let entries = journal.into_entries();
        let waiting = PendingRun::new(RunContent { entries, lines, ..content }, output);
        return waiting.map(RunState::Pending).map_err(|error| RunError::Limit {
            limit: SHOWN_BYTES,
            message: format!("the arguments of the calls that wait cannot be shown: {error}"),
        });
    }
    if let Ok(_) | Err(RunError::Script(_)) = &ran {
        journal.check_complete()?;
    }
    let calls = saturating_u32(journal.made() as u64);
    let value = ran?;
    let reporter = chain.reporter();
    let journal = content.journal.then(|| {
        let entries = journal.into_entries();
        RunDump::new(&RunContent { entries, lines, ..content }, &output, true)
    });
    // One that is too large could not be replayed.
    let journal = journal.and_then(Result::ok);
    Ok(RunState::Finished(FinishedRun {
        value: value.filter(|value| *value != Value::Null),
        output,
        fuel: reporter.fuel().unwrap_or_default(),
        peak_memory: reporter.memory_bytes().unwrap_or_default(),
        calls,
        journal,
    }))
}

/// Returns a variable of the environment; `None` if it is not set or empty.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn not_loaded(
    language: ScriptLanguage,
    cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> RunnerError {
    RunnerError::Load { language: language.name(), source: cause.into() }
}
