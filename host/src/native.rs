//! Tools of the embedding program, as one client named `internal`.

use std::{collections::BTreeMap, future::Future, sync::Arc, time::Instant};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use airlock_catalog::{Catalog, MAX_TOOLS_PER_CLIENT, SourceKind, report_dropped};
use airlock_core::{
    door::{Admitted, CallId, Chain, Progress, Provider},
    tenant::Tenant,
    threads,
    tool::{
        Annotations, BadTool, CallError, Cause, ClientName, Policy, Tool, ToolDefinition,
        ToolError, ToolName, ToolOutput, own_code,
    },
};
use airlock_json::schema::CompiledSchema;

type Body =
    Box<dyn Fn(NativeCall) -> BoxFuture<'static, Result<ToolOutput, ToolError>> + Send + Sync>;

/// A tool of the embedding program.
pub struct NativeTool {
    definition: ToolDefinition,
    body: Body,
}

/// Reason that a tool of the embedding program cannot be registered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadNativeTool {
    /// `internal-` and the name would not be a name that every model accepts.
    #[error("a tool's name must have 1 to 55 letters, digits, `_` or `-`, found {0:?}")]
    Name(String),
    /// Another tool has this name.
    #[error("a tool named {0:?} is already registered")]
    Duplicate(String),
    /// The definition is not valid.
    #[error(transparent)]
    Definition(#[from] BadTool),
    /// Arguments cannot be checked against the schema.
    #[error("the arguments of tool {tool:?} cannot be checked")]
    Schema {
        /// Its name.
        tool: String,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// A client has at most [`MAX_TOOLS_PER_CLIENT`] tools.
    #[error("a program cannot register more than {MAX_TOOLS_PER_CLIENT} tools")]
    TooMany,
}

impl NativeTool {
    /// Creates a tool. Arguments that do not fit `input_schema` do not reach `body`. Dropping the
    /// future of `body` cancels the call, which happens when the caller leaves and at the deadline.
    pub fn new<F, R>(name: &str, description: &str, input_schema: Value, body: F) -> Self
    where
        F: Fn(NativeCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        let definition = ToolDefinition {
            name: name.to_owned(),
            title: None,
            description: description.to_owned(),
            input_schema: input_schema.into(),
            output_schema: None,
            annotations: Annotations::default(),
            meta: None,
            extra: Map::new(),
        };
        Self { definition, body: Box::new(move |call| Box::pin(body(call))) }
    }

    /// Sets the JSON Schema of the structured result. Results are not checked against it.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.definition.output_schema = Some(schema.into());
        self
    }

    /// Sets the hints for clients. No decision depends on them.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        self.definition.annotations = annotations;
        self
    }

    /// Fails if the catalog would drop or rename the tool, or not check its arguments.
    fn check(&self) -> Result<(), BadNativeTool> {
        let client = ClientName::internal();
        let name = &self.definition.name;
        if ToolName::new(&client, name).as_str() != format!("{client}-{name}") {
            return Err(BadNativeTool::Name(name.clone()));
        }
        let tool = Tool::adopt(&client, self.definition.clone())?;
        CompiledSchema::compile_text("inputSchema", &tool.input_schema)
            .map_err(|error| BadNativeTool::Schema { tool: name.clone(), source: error.into() })?;
        Ok(())
    }
}

/// A call of a [`NativeTool`].
pub struct NativeCall {
    arguments: Map<String, Value>,
    chain: Chain,
}

impl NativeCall {
    /// The arguments, which fit the schema of the tool.
    pub fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }

    /// Identifier of the call, as in the records of a request.
    pub fn id(&self) -> CallId {
        self.chain.id()
    }

    /// The party that the call is accounted to: the holder of a virtual key, or all callers without
    /// one.
    pub fn tenant(&self) -> &Tenant {
        self.chain.tenant()
    }

    /// Instant at which the gateway cancels the call.
    pub fn deadline(&self) -> Instant {
        self.chain.deadline()
    }

    /// Reports the progress of the call. A caller that reads slowly gets only some of the reports.
    pub fn report_progress(&self, progress: Progress) {
        self.chain.reporter().progress(progress);
    }
}

/// The embedder's tools, by their names.
#[derive(Default)]
pub(crate) struct NativeTools(BTreeMap<String, NativeTool>);

impl NativeTools {
    pub(crate) fn register(&mut self, tool: NativeTool) -> Result<(), BadNativeTool> {
        tool.check()?;
        let name = tool.definition.name.clone();
        if self.0.contains_key(&name) {
            return Err(BadNativeTool::Duplicate(name));
        }
        if self.0.len() == MAX_TOOLS_PER_CLIENT {
            return Err(BadNativeTool::TooMany);
        }
        self.0.insert(name, tool);
        Ok(())
    }

    /// Adds the tools to the catalog, as one client, unless there are none.
    pub(crate) fn publish(self, catalog: &Catalog, policy: Policy) {
        if self.0.is_empty() {
            return;
        }
        let client = ClientName::internal();
        let definitions = self.0.values().map(|tool| tool.definition.clone()).collect();
        catalog.add_client(&client, SourceKind::Internal, policy);
        let dropped = catalog.blocking_publish(&client, definitions, Arc::new(self));
        report_dropped(&client, &dropped);
    }
}

impl Provider for NativeTools {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let tool = call.tool();
            let Some(NativeTool { body, .. }) = self.0.get(&tool.original) else {
                return Err(CallError::not_found(tool.name.as_str()));
            };
            let chain = call.chain().clone();
            let deadline = chain.deadline();
            let arguments = call.arguments().clone();
            let bytes = arguments.as_str().len();
            let arguments =
                threads::read(chain.tenant(), bytes, move || arguments.to_object()).await;
            let limit = deadline.saturating_duration_since(Instant::now());
            let running = body(NativeCall { arguments, chain });
            match tokio::time::timeout_at(deadline.into(), running).await {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: Value) -> NativeTool {
        NativeTool::new(name, "", schema, async |_| Ok(ToolOutput::default()))
    }

    fn refusal(name: &str, schema: Value) -> BadNativeTool {
        NativeTools::default().register(tool(name, schema)).expect_err("it is refused")
    }

    #[test]
    fn a_name_that_the_catalog_would_change_is_refused() {
        let long = "a".repeat(56);
        for name in ["", "a b", "a.b", "größe", &long] {
            let refusal = refusal(name, json!({}));
            assert!(matches!(&refusal, BadNativeTool::Name(found) if found == name), "{refusal}");
        }
        let mut tools = NativeTools::default();
        tools.register(tool(&long[..55], json!({}))).expect("it is short enough");
    }

    #[test]
    fn a_second_tool_of_a_name_is_refused_and_the_first_stays() {
        let mut tools = NativeTools::default();
        tools.register(tool("a", json!({}))).expect("the first");
        let refusal = tools.register(tool("a", json!({}))).expect_err("the second");
        assert_eq!(refusal.to_string(), r#"a tool named "a" is already registered"#);
        assert_eq!(tools.0.len(), 1);
    }

    #[test]
    fn a_schema_that_no_arguments_can_be_checked_against_is_refused() {
        let refused = refusal("a", json!({"type": "array"}));
        assert!(matches!(refused, BadNativeTool::Definition(BadTool::Schema { .. })), "{refused}");
        let refused = refusal("a", json!({"properties": {"b": {"type": "strin"}}}));
        assert!(matches!(&refused, BadNativeTool::Schema { tool, .. } if tool == "a"), "{refused}");
    }

    #[test]
    fn an_output_schema_that_is_no_object_is_refused() {
        let tool = tool("a", json!({})).output_schema(json!("text"));
        let refused = NativeTools::default().register(tool).expect_err("it is refused");
        assert!(matches!(refused, BadNativeTool::Definition(BadTool::Schema { .. })), "{refused}");
    }
}
