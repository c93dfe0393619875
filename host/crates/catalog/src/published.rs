//! The provider of a published list of tools: runs the calls of a source, and the steps before and
//! after each of them.
//!
//! ```text
//! call:   check the arguments → look into the cache → the source's call ┐
//!                                       │ found       the result is kept ┤
//! resume: the source's resume           │                                ├→ check the result
//!                                       └──────────→ show it to the observer ←──────┘
//! ```
//!
//! If the source is away, another tool may take the call: see [`fallback`]. If a guard looks at the result, the observer
//! sees what the guard leaves of it: its keys may be data.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::{
    cache::{ClientCache, Lookup},
    fallback::{self, Fallbacks},
    left_out::MAX_REASONS,
    schemas::Schemas,
};
use airlock_core::{
    door::{Admitted, McpServer, Provider},
    tenant::Tenant,
    tool::{Answers, CallError, Tool, ToolOutput},
};

/// Observes the results of successful calls of tools in code mode, for their types. It is called before the caller
/// gets the result, so it must not take long.
pub trait Observer: Send + Sync + 'static {
    /// Observes one result of a tool without output schema, for the tenant that gets it.
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
    /// Observes the results, once there is one; `None` if the tools are not in code mode.
    pub(super) observer: Option<SharedObserver>,
    /// Keeps results of some of the tools; `None` if it keeps none.
    pub(super) cache: Option<Arc<ClientCache>>,
    /// Tools that are called while the source is away.
    pub(super) fallbacks: Arc<Fallbacks>,
    /// True if the source is the program itself, which does not check arguments again as a server does.
    pub(super) is_internal: bool,
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
        let is_withheld = call.chain().reporter().is_withheld();
        let mut output = work(call).await?;
        fallback::without_marks(&mut output);
        self.schemas.check_result(&tool, &tenant, &mut output).await?;
        if !is_withheld {
            self.observe(&tenant, &tool, &output);
        }
        Ok(output)
    }

    /// Runs a call whose arguments were checked, unless the cache has its result.
    async fn cached(&self, call: Admitted) -> Result<ToolOutput, CallError> {
        let Some(cache) = &self.cache else {
            return self.checked(call, |call| self.provider.call(call)).await;
        };
        match cache.look_up(&call) {
            Lookup::Hit(output) => {
                if !call.chain().reporter().is_withheld() {
                    self.observe(call.chain().tenant(), call.tool(), &output);
                }
                Ok(*output)
            }
            Lookup::Uncached => self.checked(call, |call| self.provider.call(call)).await,
            Lookup::Miss(miss) => {
                let chain = call.chain().clone();
                // A server makes no calls of the gateway's tools.
                let may_call = call.server().is_none();
                let output = self.checked(call, |call| self.provider.call(call)).await?;
                let has_called = may_call && chain.ledger().may_have_acted(chain.id());
                // Parts that were sent before the result are not in it.
                if !has_called && chain.reporter().emitted().is_empty() {
                    cache.keep(&miss, &output);
                }
                Ok(output)
            }
        }
    }

    fn observe(&self, tenant: &Tenant, tool: &Arc<Tool>, output: &ToolOutput) {
        if tool.output_schema.is_none()
            && let Some(observer) = self.observer()
        {
            observer.observe(tenant, tool, output);
        }
    }

    fn observer(&self) -> Option<&Arc<dyn Observer>> {
        self.observer.as_ref()?.get()
    }
}

impl Provider for Published {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let call = if self.is_internal {
                self.schemas.fitted(call).await?
            } else {
                self.schemas.check_arguments(&call).await?;
                call
            };
            let Some(standby) = self.fallbacks.stand_by(&call) else {
                return self.cached(call).await;
            };
            let tool = call.tool().clone();
            let tenant = call.chain().tenant().clone();
            let error = match self.cached(call).await {
                Err(error) if standby.is_needed(&error) => error,
                result => return result,
            };
            let mut output = standby.call(error).await?;
            // The caller knows the output schema of the tool that it called.
            self.schemas.check_result(&tool, &tenant, &mut output).await?;
            Ok(output)
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

    /// Observes a result that was withheld from the observer until guards had decided about it.
    fn observe_guarded(&self, tenant: &Tenant, tool: &Arc<Tool>, output: &ToolOutput) {
        // The tool that took the call was observed.
        if !fallback::is_marked(output) {
            self.observe(tenant, tool, output);
        }
    }

    fn server(&self) -> Option<&dyn McpServer> {
        self.provider.server()
    }

    fn is_circuit_open(&self) -> Option<bool> {
        self.provider.is_circuit_open()
    }

    fn status(&self) -> Map<String, Value> {
        let mut status = self.provider.status();
        let unchecked: Vec<_> = self.schemas.unchecked().iter().take(MAX_REASONS).collect();
        if !unchecked.is_empty() {
            status.insert("unchecked".to_owned(), json!(unchecked));
        }
        if let Some(cache) = &self.cache {
            status.insert("tool_cache".to_owned(), cache.status());
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
