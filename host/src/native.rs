//! Tools of the embedding program, as one client named `internal`.

use std::{collections::BTreeMap, future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use airlock_core::{
    door::{Admitted, Provider},
    threads,
    tool::{Annotations, CallError, ToolDefinition, ToolError, ToolOutput, own_code},
};

type Body = Box<
    dyn Fn(Map<String, Value>) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync,
>;

/// The embedder's tools.
#[derive(Default)]
pub(crate) struct NativeTools {
    definitions: Vec<ToolDefinition>,
    bodies: BTreeMap<String, Body>,
}

impl NativeTools {
    /// Adds a tool. If two tools have the same name, the later one is dropped when the catalog
    /// takes the definitions.
    pub(crate) fn register<F, R>(
        &mut self,
        name: &str,
        description: &str,
        input_schema: Value,
        body: F,
    ) where
        F: Fn(Map<String, Value>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        self.definitions.push(ToolDefinition {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: input_schema.into(),
            output_schema: None,
            annotations: Annotations::default(),
            meta: None,
            extra: Map::new(),
        });
        let body: Body = Box::new(move |arguments| Box::pin(body(arguments)));
        self.bodies.entry(name.to_owned()).or_insert(body);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.definitions.is_empty()
    }

    /// Splits into the definitions for the catalog and the provider that runs the calls.
    pub(crate) fn into_parts(self) -> (Vec<ToolDefinition>, Arc<dyn Provider>) {
        (self.definitions, Arc::new(Bodies(self.bodies)))
    }
}

struct Bodies(BTreeMap<String, Body>);

impl Provider for Bodies {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let tool = call.tool();
            let Some(body) = self.0.get(&tool.original) else {
                return Err(CallError::not_found(tool.name.as_str()));
            };
            let deadline = call.chain().deadline();
            let arguments = call.arguments().clone();
            let bytes = arguments.as_str().len();
            let tenant = call.chain().tenant();
            let arguments = threads::read(tenant, bytes, move || arguments.to_object()).await;
            let limit = deadline.saturating_duration_since(std::time::Instant::now());
            match tokio::time::timeout_at(deadline.into(), body(arguments)).await {
                Ok(answer) => answer.map_err(own_error),
                Err(_) => Err(CallError::deadline(tool.name.clone(), limit)),
            }
        })
    }
}

/// Returns the error of a tool, whose code does not look like one of the gateway.
fn own_error(error: ToolError) -> CallError {
    let code = error.code.and_then(own_code);
    CallError::from(ToolError { code, ..error })
}
