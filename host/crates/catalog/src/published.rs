//! The provider of a published list of tools: runs the calls of a source, and the steps before and
//! after each of them.
//!
//! ```text
//! call:   check the arguments → the source's call   ┐
//! resume: the source's resume                       ┴→ check the result → show it to the observer
//! ```

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{MAX_REASONS, schemas::Schemas};
use airlock_core::{
    door::{Admitted, McpServer, Provider},
    tenant::Tenant,
    tool::{Answers, CallError, Tool, ToolOutput},
};

/// Sees the results of successful calls of tools in code mode, to learn their shape. It is called before the caller gets the result, so it must
/// not take long.
pub trait Observer: Send + Sync + 'static {
    /// Sees one result of a tool without output schema, for the tenant that gets it.
    fn observe(&self, tenant: &Tenant, tool: &Arc<Tool>, output: &ToolOutput);

    /// Returns the tools among `tools` with results that did not fit the type observed before, by their
    /// names at the source, with the number of these results.
    fn misfits(&self, tools: &[Arc<Tool>]) -> Vec<(String, u64)>;
}

/// Place of the observer of a catalog, empty until there is one.
pub(super) type SharedObserver = Arc<OnceLock<Arc<dyn Observer>>>;

/// Runs the tools of a source that are in the catalog.
#[derive(Clone)]
pub(super) struct Published {
    pub(super) provider: Arc<dyn Provider>,
    pub(super) tools: Arc<[Arc<Tool>]>,
    pub(super) schemas: Arc<Schemas>,
    /// Sees the results, once there is one; `None` if the tools are not in code mode.
    pub(super) observer: Option<SharedObserver>,
}

impl Published {
    /// Runs a call with `work`, which calls the source, and checks its result.
    async fn checked<'p>(
        &'p self,
        call: Admitted,
        work: impl FnOnce(Admitted) -> BoxFuture<'p, Result<ToolOutput, CallError>>,
    ) -> Result<ToolOutput, CallError> {
        let tool = call.tool().clone();
        let tenant = call.chain().tenant().clone();
        let mut output = work(call).await?;
        self.schemas.check_result(&tool, &tenant, &mut output).await?;
        if tool.output_schema.is_none()
            && let Some(observer) = self.observer()
        {
            observer.observe(&tenant, &tool, &output);
        }
        Ok(output)
    }

    fn observer(&self) -> Option<&Arc<dyn Observer>> {
        self.observer.as_ref()?.get()
    }
}

impl Provider for Published {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            self.schemas.check_arguments(&call).await?;
            self.checked(call, |call| self.provider.call(call)).await
        })
    }

    fn resume(
        &self,
        call: Admitted,
        answers: Answers,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        // The arguments are those of the call that asked, which were checked.
        Box::pin(self.checked(call, |call| self.provider.resume(call, answers)))
    }

    fn server(&self) -> Option<&dyn McpServer> {
        self.provider.server()
    }

    fn status(&self) -> Map<String, Value> {
        let mut status = self.provider.status();
        let unchecked: Vec<_> = self.schemas.unchecked().iter().take(MAX_REASONS).collect();
        if !unchecked.is_empty() {
            status.insert("unchecked".to_owned(), json!(unchecked));
        }
        let misfits = self.observer().map(|observer| observer.misfits(&self.tools));
        if let Some(misfits) = misfits.filter(|misfits| !misfits.is_empty()) {
            let misfits = misfits.into_iter();
            let misfits = misfits.map(|(tool, results)| json!({"tool": tool, "results": results}));
            status.insert("misfits".to_owned(), misfits.collect());
        }
        status
    }
}
