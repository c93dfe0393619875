//! An executor that is compiled beside the work of the gateway, or when a script first needs it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::BoxFuture;
use tokio::{sync::OnceCell, time::timeout_at};
use tracing::{error, info};

use super::{Runner, meta};
use crate::runs::EXECUTOR_LOADING;
use airlock_core::{
    door::Chain,
    tool::{CallError, ErrorKind, ToolError, ToolName},
};
use airlock_sandbox::{
    Executor, Limits, LoadError, Script, ScriptCalls, ScriptError, ScriptResult,
};

/// Time before the deadline of its call at which a script ends its wait for the executor, so that the
/// caller learns the reason.
const RESERVE: Duration = Duration::from_secs(1);

/// An executor that is compiled once, when it is first needed. Compiling takes up to a minute; scripts
/// wait for it until the deadlines of their calls. Cheap to clone.
#[derive(Clone)]
pub struct LazyExecutor(Arc<LazyLoad>);

struct LazyLoad {
    load: Box<dyn Fn() -> BoxFuture<'static, Result<Executor, LoadError>> + Send + Sync>,
    loaded: OnceCell<Executor>,
}

impl LazyExecutor {
    /// Creates an executor from what loads it. A load that fails is tried again for the next script.
    pub fn new<L, F>(load: L) -> Self
    where
        L: Fn() -> F + Send + Sync + 'static,
        F: Future<Output = Result<Executor, LoadError>> + Send + 'static,
    {
        let load = Box::new(move || Box::pin(load()) as BoxFuture<'static, _>);
        Self(Arc::new(LazyLoad { load, loaded: OnceCell::new() }))
    }

    /// Loads the executor, unless it is loaded. Fails if it cannot be loaded.
    pub async fn load(&self) -> Result<(), LoadError> {
        self.0.loaded.get_or_try_init(|| (self.0.load)()).await.map(drop)
    }

    /// Returns the executor. Fails if it cannot be loaded, or not before `deadline`.
    async fn loaded(&self, deadline: Instant) -> Result<&Executor, ScriptError> {
        if let Some(executor) = self.0.loaded.get() {
            return Ok(executor);
        }
        let lazy = self.clone();
        // A task of its own: a caller that gives up does not stop the compiler for the next.
        let load = tokio::spawn(async move {
            info!("a script waits for its executor, which is being loaded");
            lazy.load().await
        });
        let until = deadline.checked_sub(RESERVE).unwrap_or(deadline);
        let Ok(loaded) = timeout_at(until.into(), load).await else {
            let message = "the executor of this language is being compiled, which takes up to a minute once: \
                           run the script again then";
            let error = ToolError::new(ErrorKind::Unavailable, message).with_code(EXECUTOR_LOADING);
            return Err(ScriptError::Stopped(error.into()));
        };
        loaded
            .map_err(|lost| not_loaded(lost.into()))?
            .map_err(|error| not_loaded(error.into()))?;
        Ok(self.0.loaded.get().expect("it was loaded above and is never dropped"))
    }
}

/// An executor with the limits of its scripts.
pub(super) struct LimitedExecutor {
    pub(super) executor: LazyExecutor,
    pub(super) limits: Limits,
}

impl Runner for LimitedExecutor {
    fn run_script<'a>(
        &'a self,
        script: Script,
        chain: &'a Chain,
        calls: Arc<dyn ScriptCalls>,
    ) -> BoxFuture<'a, ScriptResult> {
        Box::pin(async move {
            let executor = self.executor.loaded(chain.deadline()).await?;
            executor.run(script, self.limits, chain, calls).await
        })
    }
}

/// Logs why the executor is missing, and returns the error of its script.
fn not_loaded(cause: Box<dyn std::error::Error + Send + Sync>) -> ScriptError {
    error!(error = &*cause, "the executor of a script cannot be loaded");
    ScriptError::Stopped(CallError::unavailable(ToolName::own(meta::EXECUTE), cause))
}
