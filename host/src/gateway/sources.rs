//! Sources of tools other than plugins: the embedding program, MCP servers, and code mode.

use std::sync::Arc;

use super::Gateway;
use crate::{guests, native::NativeTools};
use airlock_catalog::{SourceKind, report_dropped};
use airlock_config::{Config, Source};
use airlock_core::{
    door::ScriptLanguage,
    tool::{ClientName, Policy},
};
use airlock_plugin::compiling;
use airlock_sandbox::Limits;
use airlock_scripts::{CodeMode, LazyExecutor};
use airlock_upstream as upstream;

/// Returns the executor of a language.
fn executor_of(language: ScriptLanguage) -> Arc<[u8]> {
    match language {
        ScriptLanguage::Starlark => guests::STARLARK.into(),
        ScriptLanguage::Python => guests::PYTHON.into(),
    }
}

/// Returns whether any client is in code mode. `native` is the policy of the embedding program's tools.
pub(super) fn has_code_mode(config: &Config, native: &Policy) -> bool {
    native.code_mode || config.clients.iter().any(|client| client.policy.code_mode)
}

impl Gateway {
    pub(super) fn add_native(&self, tools: NativeTools, policy: Policy) {
        if tools.is_empty() {
            return;
        }
        let client = ClientName::internal();
        let definitions = tools.definitions();
        self.catalog.add_client(&client, SourceKind::Internal, policy);
        let dropped = self.catalog.blocking_publish(&client, definitions, Arc::new(tools));
        report_dropped(&client, &dropped);
    }

    /// Starts one task per server, on a runtime separate from the HTTP server: a slow, dead or
    /// flooding server does not delay other work.
    pub(super) fn connect_upstreams(&mut self) {
        let Some(runtime) = &self.upstreams.runtime else { return };
        for client in &self.config.clients {
            let Source::Upstream(settings) = &client.source else { continue };
            self.catalog.add_client(
                &client.name,
                SourceKind::Server(settings.transport.connection_type()),
                client.policy.clone(),
            );
            let Some(pins) = self.pins.client(client.name.as_str()) else { continue };
            let (control, task) = upstream::supervise(
                settings.clone(),
                pins,
                &self.logins,
                self.catalog.clone(),
                self.upstreams.stop.clone(),
                runtime.handle(),
            );
            self.upstreams.controls.insert(client.name.clone(), control);
            self.upstreams.tasks.spawn_on(task, runtime.handle());
        }
    }

    /// Installs code mode. Returns the executor of scripts that select no language, which is still to
    /// be loaded.
    pub(super) fn install_code_mode(&mut self) -> LazyExecutor {
        let language = self.config.script_language;
        let bytes = executor_of(language);
        let budget = &self.config.budget;
        let host_calls = Limits::SCRIPT.host_calls.saturating_add(budget.nested_calls);
        let cpu = self.config.runs.cpu_time;
        let limits = Limits { deadline: budget.script, cpu, host_calls, ..Limits::SCRIPT };
        let sandbox = self.sandbox.clone();
        let on_compile = self.on_compile.clone();
        let executor = LazyExecutor::new(move || {
            let sandbox = sandbox.clone();
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
            let sandbox = self.sandbox.clone();
            let executor = LazyExecutor::new(move || {
                let sandbox = sandbox.clone();
                async move { sandbox.executor(executor_of(other), limits).await }
            });
            (other, executor)
        });
        let code_mode = CodeMode::new(
            language,
            executor.clone(),
            others,
            self.config.layout(),
            self.runs.clone(),
        );
        code_mode.install(&self.catalog, self.config.search_above);
        self.code_mode = Some(code_mode.clone());
        let catalog = self.catalog.clone();
        let stop = self.upstreams.stop.clone();
        self.upstreams
            .tasks
            .spawn(async move { stop.run_until_cancelled(code_mode.follow(&catalog)).await });
        executor
    }
}
