//! Code mode: a model reads what tools there are as Python stubs, and calls them from a script.
//!
//! Four meta-tools stand in for the tools of all clients in code mode. What a script may call is the [`View`] that the door
//! decides with, and each of its calls is decided there again. This module knows names, stubs and texts; what runs a
//! script is the [`sandbox`]'s business.
//!
//! [`View`]: crate::door::View
//! [`sandbox`]: crate::sandbox

mod docs;
mod language;
mod meta;
mod missing;
mod names;
mod report;
mod signature;
mod stubs;
mod text;
mod types;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use self::{meta::Given, names::Namespace, report::Report};
use crate::{
    catalog::{CallError, OwnTools, Provider, Tool, ToolOutput},
    door::{Admitted, Chain, Origin},
    sandbox::{Executor, Script, ScriptError, ScriptResult},
};

/// How the virtual files of code mode are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindingLevel {
    /// One file a client.
    Server,
    /// One file a tool.
    Tool,
}

/// Runs the four meta-tools.
pub struct CodeMode {
    runner: Arc<dyn Runner>,
    binding_level: BindingLevel,
}

/// Who runs scripts: the sandbox, or a stand-in in tests.
trait Runner: Send + Sync {
    fn run_script<'a>(&'a self, script: Script, chain: &'a Chain) -> BoxFuture<'a, ScriptResult>;
}

impl Runner for Executor {
    fn run_script<'a>(&'a self, script: Script, chain: &'a Chain) -> BoxFuture<'a, ScriptResult> {
        Box::pin(self.run(script, chain))
    }
}

impl CodeMode {
    /// Code mode with an executor to run scripts.
    pub fn new(executor: Arc<Executor>, binding_level: BindingLevel) -> Self {
        Self { runner: executor, binding_level }
    }

    /// The meta-tools, with descriptions that fit the layout of the files.
    pub fn tools(&self) -> Vec<Arc<Tool>> {
        meta::tools(self.binding_level)
    }

    /// The meta-tools with who runs them, for [`Catalog::set_meta_tools`](crate::catalog::Catalog::set_meta_tools).
    pub fn into_own_tools(self) -> OwnTools {
        OwnTools { tools: self.tools(), provider: Arc::new(self) }
    }

    async fn answer(&self, call: &Admitted) -> Result<ToolOutput, CallError> {
        let given = Given(call.arguments().to_object());
        let view = call.chain().view();
        let namespaces = names::namespaces(view.scripted());
        match call.tool().name.as_str() {
            meta::LIST if namespaces.is_empty() => {
                Ok(ToolOutput::text(stubs::nothing_to_list(view.list(&Origin::Model).next().is_some())))
            }
            meta::LIST => Ok(ToolOutput::text(stubs::list(&namespaces, self.binding_level))),
            meta::READ => {
                let text = stubs::read(&namespaces, self.binding_level, given.text("fileName")?, given.range()?);
                Ok(ToolOutput::text(text))
            }
            meta::DOCS => Ok(ToolOutput::text(docs::docs(&namespaces, given.text("server")?, given.text("tool")?))),
            meta::EXECUTE => self.execute(call, &namespaces, given.code()?).await,
            other => Err(CallError::NotFound { name: other.to_owned() }),
        }
    }

    async fn execute(&self, call: &Admitted, namespaces: &[Namespace], code: &str) -> Result<ToolOutput, CallError> {
        let chain = call.chain();
        let result = if code.is_empty() {
            Ok(None)
        } else {
            let bindings = names::bindings(namespaces);
            self.runner.run_script(Script { name: "code.star".to_owned(), source: code.to_owned(), bindings }, chain).await
        };
        let report = || Report::new(chain, namespaces);
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
