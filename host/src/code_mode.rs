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
mod language;
mod lazy;
mod meta;
mod missing;
mod names;
mod report;
mod signature;
mod stub;
mod stubs;
mod text;
mod types;

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::BoxFuture;

pub use self::lazy::LazyExecutor;
use self::{cache::StubCache, meta::Arguments, names::Namespace, report::Report};
use crate::{
    catalog::Catalog,
    door::{Admitted, Chain, Origin, OwnTools, Provider, ScriptLanguage},
    sandbox::{Executor, Script, ScriptError, ScriptResult},
    tool::{CallError, ToolOutput},
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
    /// Runs scripts of requests that select no language.
    runner: (ScriptLanguage, Arc<dyn Runner>),
    /// Runs scripts in other languages.
    others: BTreeMap<ScriptLanguage, Arc<dyn Runner>>,
    binding_level: BindingLevel,
    stubs: StubCache,
}

/// Runs scripts. Implemented by the sandbox executor and by a fake in tests.
trait Runner: Send + Sync {
    fn run_script<'a>(&'a self, script: Script, chain: &'a Chain) -> BoxFuture<'a, ScriptResult>;
}

impl Runner for Executor {
    fn run_script<'a>(&'a self, script: Script, chain: &'a Chain) -> BoxFuture<'a, ScriptResult> {
        Box::pin(self.run(script, chain))
    }
}

impl CodeMode {
    /// Creates code mode with the executor that runs scripts of requests that select no language,
    /// and those for other languages.
    pub fn new(
        language: ScriptLanguage,
        executor: Arc<Executor>,
        others: impl IntoIterator<Item = (ScriptLanguage, LazyExecutor)>,
        binding_level: BindingLevel,
    ) -> Arc<Self> {
        let other = |(language, executor)| (language, Arc::new(executor) as Arc<dyn Runner>);
        let others = others.into_iter().map(other).collect();
        Self::with_runners((language, executor), others, binding_level)
    }

    fn with_runners(
        runner: (ScriptLanguage, Arc<dyn Runner>),
        others: BTreeMap<ScriptLanguage, Arc<dyn Runner>>,
        binding_level: BindingLevel,
    ) -> Arc<Self> {
        Arc::new(Self { runner, others, binding_level, stubs: StubCache::new() })
    }

    /// Installs the meta-tools in `catalog`, with descriptions for the layout of the files and the
    /// language of scripts that a request selects.
    pub fn install(self: &Arc<Self>, catalog: &Catalog) {
        let own_tools = |language| OwnTools {
            tools: meta::tools(self.binding_level, language::of(language)),
            provider: self.clone(),
        };
        for language in self.others.keys() {
            catalog.set_meta_tools_in(*language, own_tools(*language));
        }
        catalog.set_meta_tools(own_tools(self.runner.0));
    }

    /// Returns the language of a request's scripts, and what runs them.
    fn runner(&self, chain: &Chain) -> (&'static language::Language, &dyn Runner) {
        let (default, runner) = &self.runner;
        let selected = chain.view().language().unwrap_or(*default);
        match self.others.get(&selected) {
            Some(other) => (language::of(selected), &**other),
            None => (language::of(*default), &**runner),
        }
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

    async fn answer(&self, call: &Admitted) -> Result<ToolOutput, CallError> {
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
            meta::EXECUTE => self.execute(call, &namespaces, arguments.code()?).await,
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

    async fn execute(
        &self,
        call: &Admitted,
        namespaces: &[Namespace],
        code: &str,
    ) -> Result<ToolOutput, CallError> {
        let chain = call.chain();
        let (language, runner) = self.runner(chain);
        let result = if code.is_empty() {
            Ok(None)
        } else {
            let bindings = names::bindings(namespaces);
            let name = language.file_name.to_owned();
            runner.run_script(Script { name, source: code.to_owned(), bindings }, chain).await
        };
        let report = || Report::new(chain, namespaces, language);
        match result {
            Ok(value) => report().success(value).ok_or_else(|| CallError::ResultTooLarge {
                tool: call.tool().name.clone(),
                limit_bytes: report::MAX_RESULT as u64,
            }),
            Err(ScriptError::Failed(failure)) => Err(report().failure(&failure)),
            Err(ScriptError::Stopped(error)) => Err(error),
        }
    }
}

impl Provider for CodeMode {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move { self.answer(&call).await })
    }
}

#[cfg(test)]
mod tests;
