//! An executor that is compiled when a script first needs it.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{sync::OnceCell, time::timeout};
use tracing::{error, info};

use super::{Runner, meta};
use crate::{
    door::Chain,
    runs::EXECUTOR_LOADING,
    sandbox::{Executor, LoadError, Script, ScriptCalls, ScriptError, ScriptResult},
    tool::{CallError, ErrorKind, ToolError, ToolName},
};

/// Time for which a script waits for its executor. One that is in the cache of compiled code loads in
/// much less.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// An executor that is compiled when a script first needs it, once. Compiling takes up to a minute;
/// scripts that wait longer than ten seconds fail.
pub struct LazyExecutor(Arc<Lazy>);

struct Lazy {
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
        Self(Arc::new(Lazy { load, loaded: OnceCell::new() }))
    }

    /// Returns the executor. Fails if it cannot be loaded, or not soon.
    async fn loaded(&self) -> Result<&Executor, ScriptError> {
        if let Some(executor) = self.0.loaded.get() {
            return Ok(executor);
        }
        let lazy = self.0.clone();
        // A task of its own: a caller that gives up does not stop the compiler for the next.
        let load = tokio::spawn(async move {
            let loaded = lazy.loaded.get_or_try_init(|| {
                info!("a script needs another executor, which is loaded");
                (lazy.load)()
            });
            loaded.await.map(drop)
        });
        let failed = |cause: Box<dyn std::error::Error + Send + Sync>| {
            error!(error = &*cause, "the executor of a script cannot be loaded");
            ScriptError::Stopped(CallError::Unavailable {
                tool: ToolName::own(meta::EXECUTE),
                cause,
            })
        };
        let Ok(loaded) = timeout(MAX_WAIT, load).await else {
            let message = "the executor of this language is being compiled, which takes up to a minute once: \
                           run the script again then";
            let error = ToolError {
                code: Some(EXECUTOR_LOADING.to_owned()),
                ..ToolError::new(ErrorKind::Unavailable, message)
            };
            return Err(ScriptError::Stopped(CallError::Tool(error)));
        };
        loaded.map_err(|lost| failed(lost.into()))?.map_err(|error| failed(error.into()))?;
        Ok(self.0.loaded.get().expect("it was loaded above and is never dropped"))
    }
}

impl Runner for LazyExecutor {
    fn run_script<'a>(
        &'a self,
        script: Script,
        chain: &'a Chain,
        calls: Arc<dyn ScriptCalls>,
    ) -> BoxFuture<'a, ScriptResult> {
        Box::pin(async move { self.loaded().await?.run(script, chain, calls).await })
    }
}
