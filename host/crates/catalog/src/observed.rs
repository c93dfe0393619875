//! Shows results of tools in code mode to an observer, which learns their shape.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use airlock_core::{
    door::{Admitted, McpServer, Provider},
    tenant::Tenant,
    tool::{Answers, CallError, Tool, ToolOutput},
};

/// Sees the results of successful calls. It is called before the caller gets the result, so it must
/// not take long.
pub trait Observer: Send + Sync + 'static {
    /// Sees one result of a tool without output schema, for the tenant that gets it.
    fn observe(&self, tenant: &Tenant, tool: &Arc<Tool>, output: &ToolOutput);

    /// Returns the tools among `tools` with results that did not fit the type observed before, by their
    /// names at the source, with the number of these results.
    fn misfits(&self, tools: &[Arc<Tool>]) -> Vec<(String, u64)>;
}

/// A provider whose results are observed.
struct Observed {
    provider: Arc<dyn Provider>,
    tools: Arc<[Arc<Tool>]>,
    observer: Arc<OnceLock<Arc<dyn Observer>>>,
}

/// Returns a provider whose results the observer sees, once there is one.
pub(super) fn results(
    provider: Arc<dyn Provider>,
    tools: Arc<[Arc<Tool>]>,
    observer: &Arc<OnceLock<Arc<dyn Observer>>>,
) -> Arc<dyn Provider> {
    Arc::new(Observed { provider, tools, observer: observer.clone() })
}

impl Observed {
    /// Returns the observer and the tenant and tool that it is told; `None` if it does not see results
    /// of the tool.
    fn seen(&self, call: &Admitted) -> Option<(&dyn Observer, Tenant, Arc<Tool>)> {
        if call.tool().output_schema.is_some() {
            return None;
        }
        let observer = self.observer.get()?;
        Some((&**observer, call.chain().tenant().clone(), call.tool().clone()))
    }
}

fn show(seen: Option<(&dyn Observer, Tenant, Arc<Tool>)>, result: &Result<ToolOutput, CallError>) {
    if let (Some((observer, tenant, tool)), Ok(output)) = (seen, result) {
        observer.observe(&tenant, &tool, output);
    }
}

impl Provider for Observed {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let seen = self.seen(&call);
            let result = self.provider.call(call).await;
            show(seen, &result);
            result
        })
    }

    fn resume(
        &self,
        call: Admitted,
        answers: Answers,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let seen = self.seen(&call);
            let result = self.provider.resume(call, answers).await;
            show(seen, &result);
            result
        })
    }

    fn server(&self) -> Option<&dyn McpServer> {
        self.provider.server()
    }

    fn status(&self) -> Map<String, Value> {
        let mut status = self.provider.status();
        let misfits = self.observer.get().map(|observer| observer.misfits(&self.tools));
        if let Some(misfits) = misfits.filter(|misfits| !misfits.is_empty()) {
            let misfits = misfits.into_iter();
            let misfits = misfits.map(|(tool, results)| json!({"tool": tool, "results": results}));
            status.insert("misfits".to_owned(), misfits.collect());
        }
        status
    }
}
