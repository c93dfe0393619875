//! All tools of the embedding program, and their changes while the gateway runs.
//!
//! A change publishes a new set under the same client, as a server does whose list has changed: clients
//! are notified, and calls that run go on with the tools that they began with.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use tokio::{sync::Mutex, time::timeout_at};
use tokio_util::sync::CancellationToken;

use super::{BadNativeTool, NativeTool, ToolContext};
use airlock_catalog::{
    Catalog, MAX_TOOLS_PER_CLIENT, SourceKind, UncheckedSchemas, own_error, read_arguments,
    report_dropped,
};
use airlock_core::{
    door::{Admitted, Provider, at_call_depth},
    tool::{CallError, ClientName, Policy, ToolDefinition, ToolOutput},
};

/// The embedder's tools, by their names.
#[derive(Clone, Default)]
pub(crate) struct NativeTools(BTreeMap<String, NativeTool>);

impl NativeTools {
    /// Adds a tool. Fails if it is not valid, or if its name is taken.
    pub(crate) fn register(&mut self, tool: NativeTool) -> Result<(), BadNativeTool> {
        tool.check()?;
        let name = tool.name().to_owned();
        if self.0.contains_key(&name) {
            return Err(BadNativeTool::Duplicate(name));
        }
        if self.0.len() == MAX_TOOLS_PER_CLIENT {
            return Err(BadNativeTool::TooMany);
        }
        self.0.insert(name, tool);
        Ok(())
    }

    fn replace(&mut self, tool: NativeTool) -> Result<(), BadNativeTool> {
        tool.check()?;
        match self.0.get_mut(tool.name()) {
            Some(before) => {
                *before = tool;
                Ok(())
            }
            None => Err(BadNativeTool::Unknown(tool.name().to_owned())),
        }
    }

    fn remove(&mut self, name: &str) -> Result<(), BadNativeTool> {
        let removed = self.0.remove(name);
        removed.map(drop).ok_or_else(|| BadNativeTool::Unknown(name.to_owned()))
    }

    fn definitions(&self) -> Vec<ToolDefinition> {
        self.0.values().map(|tool| tool.definition.clone()).collect()
    }
}

impl Provider for NativeTools {
    fn call(&self, mut call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let tool = call.tool().clone();
            let Some(NativeTool { body, .. }) = self.0.get(&tool.original) else {
                return Err(CallError::not_found(tool.name.as_str()));
            };
            let ended = CancellationToken::new();
            let context = ToolContext::new(&call, ended.clone());
            let _ended = ended.drop_guard();
            let deadline = context.deadline();
            let arguments = read_arguments(&mut call).await;
            let limit = deadline.saturating_duration_since(Instant::now());
            // The requests that it sends to the gateway take their depth from it.
            let depth = context.depth();
            let running = at_call_depth(depth, async move { body(arguments, context).await });
            match timeout_at(deadline.into(), running).await {
                Ok(answer) => answer.map_err(own_error),
                Err(_) => Err(CallError::deadline(tool.name.clone(), limit)),
            }
        })
    }
}

/// The tools of the embedding program, which may change while the gateway runs. Cheap to clone. MCP clients
/// are notified of each change.
#[derive(Clone)]
pub struct ProgramTools(Arc<SharedTools>);

struct SharedTools {
    catalog: Arc<Catalog>,
    policy: Policy,
    /// Locked during a change, so that each is made of the one before.
    tools: Mutex<NativeTools>,
}

impl ProgramTools {
    /// Adds the tools that a gateway is built with to its catalog, as one client, unless there are none. Fails if their
    /// schemas are together too large.
    pub(crate) fn new(
        catalog: &Arc<Catalog>,
        policy: Policy,
        tools: NativeTools,
    ) -> Result<Self, UncheckedSchemas> {
        if !tools.0.is_empty() {
            let client = ClientName::internal();
            catalog.add_client(&client, SourceKind::Internal, policy.clone());
            let provider = Arc::new(tools.clone());
            let dropped =
                catalog.blocking_publish_checked(&client, tools.definitions(), provider)?;
            report_dropped(&client, &dropped);
        }
        let catalog = catalog.clone();
        Ok(Self(Arc::new(SharedTools { catalog, policy, tools: Mutex::new(tools) })))
    }

    /// Adds a tool. Fails if its name or a schema is not valid, if the schemas of all tools are together too large, or if
    /// another tool has its name; nothing has changed then. The same holds if the future is dropped.
    pub async fn register(&self, tool: NativeTool) -> Result<(), BadNativeTool> {
        self.change(|tools| tools.register(tool)).await
    }

    /// Replaces the tool that has the same name. Fails if there is none, if a schema is not valid, or if the schemas of all
    /// tools are together too large.
    pub async fn replace(&self, tool: NativeTool) -> Result<(), BadNativeTool> {
        self.change(|tools| tools.replace(tool)).await
    }

    /// Removes a tool, by its name without that of the client. Fails if there is none. Calls of it that run go on.
    pub async fn remove(&self, name: &str) -> Result<(), BadNativeTool> {
        self.change(|tools| tools.remove(name)).await
    }

    /// Returns the names of all tools, without that of the client, sorted.
    pub async fn names(&self) -> Vec<String> {
        self.0.tools.lock().await.0.keys().cloned().collect()
    }

    async fn change(
        &self,
        change: impl FnOnce(&mut NativeTools) -> Result<(), BadNativeTool>,
    ) -> Result<(), BadNativeTool> {
        let SharedTools { catalog, policy, tools } = &*self.0;
        let mut present = tools.lock().await;
        let mut changed = present.clone();
        change(&mut changed)?;
        let client = ClientName::internal();
        if changed.0.is_empty() {
            catalog.remove_client(&client);
        } else {
            if present.0.is_empty() {
                catalog.add_client(&client, SourceKind::Internal, policy.clone());
            }
            let provider = Arc::new(changed.clone());
            let published = catalog.publish_checked(&client, changed.definitions(), provider).await;
            if published.is_err() && present.0.is_empty() {
                catalog.remove_client(&client);
            }
            report_dropped(&client, &published?);
        }
        *present = changed;
        Ok(())
    }
}

airlock_strings::debug_fields!(ProgramTools {});
