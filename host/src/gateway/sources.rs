//! Where tools come from: the embedding program, MCP servers, plugins, and code mode on top of them.

use std::{path::Path, sync::Arc, time::Duration};

use futures_util::future::join_all;
use indicatif::{ProgressBar, ProgressStyle};
use tracing::{info, warn};

use super::Gateway;
use crate::{
    catalog::{ClientName, INTERNAL_CLIENT, Policy, State, ToolDefinition},
    code_mode::CodeMode,
    config::{Client, Source, Wasm},
    guests,
    native::NativeTools,
    sandbox::{Limits, LoadError, MAX_COMPONENT_BYTES, Plugin},
    upstream,
};

impl Gateway {
    pub(super) fn add_native(&self, tools: NativeTools, policy: Policy) {
        if tools.is_empty() {
            return;
        }
        let client = ClientName::parse(INTERNAL_CLIENT).expect("a constant that fits");
        let (definitions, provider) = tools.into_parts();
        self.catalog.add_client(&client, "internal", policy);
        report_dropped(&client, &self.catalog.publish(&client, definitions, provider));
    }

    /// Starts one task a server; a slow or dead one delays nobody.
    pub(super) fn connect_upstreams(&self) {
        for client in &self.config.clients {
            let Source::Upstream(settings) = &client.source else { continue };
            self.catalog.add_client(&client.name, settings.transport.connection_type(), client.policy.clone());
            let task = upstream::supervise(settings.clone(), self.catalog.clone(), self.upstreams.stop.clone());
            self.upstreams.tasks.spawn(task);
        }
    }

    /// Loads every plugin; what cannot be loaded is marked failed, with the reason.
    pub(super) async fn load_plugins(&self) {
        let load = self.config.clients.iter().filter_map(|client| match &client.source {
            Source::Wasm(wasm) => Some(self.load_plugin(client, wasm)),
            Source::Upstream(_) => None,
        });
        join_all(load).await;
    }

    async fn load_plugin(&self, client: &Client, wasm: &Wasm) {
        self.catalog.add_client(&client.name, "wasm", client.policy.clone());
        match self.try_plugin(client, wasm).await {
            Ok((plugin, definitions)) => {
                report_dropped(&client.name, &self.catalog.publish(&client.name, definitions, Arc::new(plugin)));
                info!(client = %client.name, "plugin loaded");
            }
            Err(error) => {
                let reason = chain(&error);
                warn!(client = %client.name, reason, "plugin not loaded");
                self.catalog.set_state(&client.name, State::Failed { reason });
            }
        }
    }

    async fn try_plugin(&self, client: &Client, wasm: &Wasm) -> Result<(Plugin, Vec<ToolDefinition>), LoadError> {
        let bytes: Arc<[u8]> = read(&wasm.component).await?.into();
        let plugin = self
            .with_progress(
                client.name.as_str(),
                &bytes,
                self.sandbox.plugin(&client.name, bytes.clone(), wasm.grants.clone(), wasm.limits),
            )
            .await?;
        let definitions = plugin.definitions(&bytes).await?;
        Ok((plugin, definitions))
    }

    /// Loads the script executor, where a client is offered to scripts.
    pub(super) async fn load_code_mode(&self) -> Result<(), LoadError> {
        if !self.config.clients.iter().any(|client| client.policy.code_mode) {
            return Ok(());
        }
        let bytes: Arc<[u8]> = guests::STARLARK.into();
        let budget = &self.config.budget;
        let host_calls = Limits::SCRIPT.host_calls.saturating_add(budget.nested_calls);
        let limits = Limits { deadline: budget.deadline, host_calls, ..Limits::SCRIPT };
        let executor = self.with_progress("the script executor", &bytes, self.sandbox.executor(bytes.clone(), limits)).await?;
        let code_mode = CodeMode::new(Arc::new(executor), self.config.binding_level);
        self.catalog.set_meta_tools(code_mode.into_own_tools());
        Ok(())
    }

    /// Shows on a terminal that something is compiled, which happens once and takes seconds.
    async fn with_progress<T>(&self, what: &str, wasm: &[u8], load: impl Future<Output = T>) -> T {
        if self.sandbox.is_compiled(wasm) {
            return load.await;
        }
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}").expect("a template that parses");
        let spinner = self.progress.add(ProgressBar::new_spinner().with_style(style));
        spinner.set_message(format!("compiling {what} ({} KiB) to native code, once", wasm.len() / 1024));
        spinner.enable_steady_tick(Duration::from_millis(120));
        let loaded = load.await;
        spinner.finish_and_clear();
        loaded
    }
}

async fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let found = tokio::fs::metadata(path).await.map_err(failed)?.len();
    // Refused before it is read.
    if found > MAX_COMPONENT_BYTES as u64 {
        return Err(LoadError::TooLarge { found: usize::try_from(found).unwrap_or(usize::MAX) });
    }
    tokio::fs::read(path).await.map_err(failed)
}

fn report_dropped(client: &ClientName, dropped: &[String]) {
    const TOLD: usize = 10;
    for reason in dropped.iter().take(TOLD) {
        warn!(%client, reason, "tool left out");
    }
    if dropped.len() > TOLD {
        warn!(%client, more = dropped.len() - TOLD, "more tools left out");
    }
}

/// An error with its causes, for the operator.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
