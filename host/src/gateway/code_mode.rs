//! Code mode of a gateway: the executors of its languages, and the clients that are in it.

use std::sync::Arc;

use crate::guests;
use airlock_catalog::Catalog;
use airlock_config::Config;
use airlock_core::{door::ScriptLanguage, tool::Policy};
use airlock_plugin::{CompileHook, compiling};
use airlock_sandbox::{Limits, Sandbox};
use airlock_scripts::{CodeMode, LazyExecutor, runs::Runs};

/// Returns whether any client is in code mode. `native` is the policy of the embedding program's tools.
pub(super) fn is_used(config: &Config, native: &Policy) -> bool {
    native.code_mode || config.clients.iter().any(|client| client.policy.code_mode)
}

/// Installs code mode in the catalog. Returns it with the executor of scripts that select no language,
/// which is still to be loaded.
pub(super) fn install(
    config: &Config,
    catalog: &Catalog,
    sandbox: &Sandbox,
    runs: Option<Runs>,
    on_compile: Option<Arc<CompileHook>>,
) -> (Arc<CodeMode>, LazyExecutor) {
    let language = config.script_language;
    let budget = &config.budget;
    let host_calls = Limits::SCRIPT.host_calls.saturating_add(budget.nested_calls);
    let cpu = config.runs.cpu_time;
    let limits = Limits { deadline: budget.script, cpu, host_calls, ..Limits::SCRIPT };
    let bytes = executor_of(language);
    let own = sandbox.clone();
    let executor = LazyExecutor::new(move || {
        let sandbox = own.clone();
        let on_compile = on_compile.clone();
        let bytes = bytes.clone();
        async move {
            let load = sandbox.executor(bytes.clone(), limits);
            compiling(on_compile.as_deref(), "the script executor", &bytes, load).await
        }
    });
    // Another language is compiled when a request first selects it.
    let others = ScriptLanguage::ALL.into_iter().filter(|other| *other != language);
    let others = others.map(|other| {
        let sandbox = sandbox.clone();
        let executor = LazyExecutor::new(move || {
            let sandbox = sandbox.clone();
            async move { sandbox.executor(executor_of(other), limits).await }
        });
        (other, executor)
    });
    let code_mode = CodeMode::new(language, executor.clone(), others, config.layout(), runs);
    code_mode.install(catalog, config.search_above);
    (code_mode, executor)
}

/// Returns the executor of a language.
fn executor_of(language: ScriptLanguage) -> Arc<[u8]> {
    match language {
        ScriptLanguage::Starlark => guests::STARLARK.into(),
        ScriptLanguage::Python => guests::PYTHON.into(),
    }
}
