//! Code mode: a model reads the available tools as Python stubs, and calls them from a script.
//!
//! Four meta-tools replace the tools of all clients in code mode. A script may call the tools of
//! the [`View`] that the door decides with, and the door decides each of its calls again. This
//! module handles names, stubs and texts; the [`sandbox`] runs scripts.
//!
//! [`View`]: crate::door::View
//! [`sandbox`]: crate::sandbox

mod budget;
mod cache;
mod docs;
mod execute;
mod language;
mod meta;
mod missing;
mod names;
mod report;
mod signature;
mod stub;
mod stubs;
mod text;
mod types;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use self::{cache::StubCache, meta::Arguments, names::Namespace};
use crate::{
    catalog::Catalog,
    door::{Admitted, Chain, Origin, OwnTools, Provider},
    runs::Runs,
    sandbox::{Executor, Script, ScriptCalls, ScriptResult},
    tool::{Answers, CallError, Tool, ToolOutput},
};

/// Layout of the virtual files of code mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindingLevel {
    /// One file per client.
    Server,
    /// One file per tool.
    Tool,
}

/// Runs the four meta-tools.
pub struct CodeMode {
    runner: Arc<dyn Runner>,
    binding_level: BindingLevel,
    stubs: StubCache,
    /// Keeps the runs of scripts; `None` if nothing is kept.
    runs: Option<Runs>,
}

/// Runs scripts. Implemented by the sandbox executor and by a fake in tests.
trait Runner: Send + Sync {
    fn run_script<'a>(
        &'a self,
        script: Script,
        chain: &'a Chain,
        calls: Arc<dyn ScriptCalls>,
    ) -> BoxFuture<'a, ScriptResult>;
}

impl Runner for Executor {
    fn run_script<'a>(
        &'a self,
        script: Script,
        chain: &'a Chain,
        calls: Arc<dyn ScriptCalls>,
    ) -> BoxFuture<'a, ScriptResult> {
        Box::pin(self.run(script, chain, calls))
    }
}

impl CodeMode {
    /// Creates code mode with the executor that runs scripts. Without `runs`, a script that needs an
    /// approval ends there.
    pub fn new(
        executor: Arc<Executor>,
        binding_level: BindingLevel,
        runs: Option<Runs>,
    ) -> Arc<Self> {
        Self::with_runner(executor, binding_level, runs)
    }

    fn with_runner(
        runner: Arc<dyn Runner>,
        binding_level: BindingLevel,
        runs: Option<Runs>,
    ) -> Arc<Self> {
        Arc::new(Self { runner, binding_level, stubs: StubCache::new(), runs })
    }

    /// Returns the meta-tools, with descriptions for the layout of the files.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        meta::tools(self.binding_level)
    }

    /// Returns the meta-tools and their provider, for
    /// [`Catalog::set_meta_tools`](crate::catalog::Catalog::set_meta_tools).
    pub fn own_tools(self: &Arc<Self>) -> OwnTools {
        OwnTools { tools: self.tools(), provider: self.clone() }
    }

    /// Renders the stubs of published code mode tools whenever the catalog changes. Runs until the
    /// catalog or the future is dropped. If a request names a tool whose stub is not rendered yet,
    /// that request renders it.
    pub async fn follow(&self, catalog: &Catalog) {
        let mut changes = catalog.changes();
        loop {
            changes.mark_unchanged();
            let clients: Vec<_> = catalog
                .snapshot()
                .clients()
                .filter(|client| client.policy.code_mode)
                .cloned()
                .collect();
            for client in clients {
                self.stubs.stubs(&client.tools).await;
            }
            self.stubs.prune();
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    async fn answer(
        &self,
        call: &Admitted,
        answers: Option<&Answers>,
    ) -> Result<ToolOutput, CallError> {
        let arguments = Arguments(call.arguments().to_object());
        let view = call.chain().view();
        let namespaces = names::namespaces(view.scripted());
        match call.tool().name.as_str() {
            meta::LIST if namespaces.is_empty() => Ok(ToolOutput::text(stubs::nothing_to_list(
                view.list(&Origin::Model).next().is_some(),
            ))),
            meta::LIST => Ok(ToolOutput::text(stubs::list(&namespaces, self.binding_level))),
            meta::READ => {
                let (name, range) = (arguments.text("fileName")?, arguments.range()?);
                Ok(ToolOutput::text(self.read(&namespaces, name, range).await))
            }
            meta::DOCS => Ok(ToolOutput::text(
                self.docs(&namespaces, arguments.text("server")?, arguments.text("tool")?).await,
            )),
            meta::EXECUTE => match answers {
                None => self.execute(call, &namespaces, arguments.code()?).await,
                Some(answers) => self.resume(call, &namespaces, arguments.code()?, answers).await,
            },
            other => Err(CallError::NotFound { name: other.to_owned() }),
        }
    }

    async fn read(&self, namespaces: &[Namespace], file_name: &str, range: stubs::Range) -> String {
        match stubs::find(namespaces, self.binding_level, file_name) {
            Ok(file) => file.show(&self.stubs.stubs(&file.tools()).await, range),
            Err(missing) => missing,
        }
    }

    async fn docs(&self, namespaces: &[Namespace], server: &str, tool: &str) -> String {
        match docs::find(namespaces, server, tool) {
            Ok((namespace, function)) => {
                let stubs = self.stubs.stubs(std::slice::from_ref(&function.tool)).await;
                docs::page(namespace, function, &stubs[0])
            }
            Err(missing) => missing,
        }
    }
}

impl Provider for CodeMode {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move { self.answer(&call, None).await })
    }

    fn resume(
        &self,
        call: Admitted,
        answers: Answers,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move { self.answer(&call, Some(&answers)).await })
    }
}

#[cfg(test)]
mod tests;
