//! Sets of tools, as objects of JavaScript; scripts and limits as the package passes them.

#![allow(clippy::needless_pass_by_value, reason = "JavaScript passes arguments by value")]

use std::sync::Arc;

use airlock_binding::{
    BindingFailure, BindingRun, HostProcess, LimitValues, MAX_DEPTH, MAX_DUMP_BYTES,
    MAX_VALUE_BYTES, NameStyle, RunRequest, ToolPool, ToolSpec, parse_value, parsed_schema,
    script_language,
};
use napi::bindgen_prelude::Buffer;
use napi_derive::napi;
use serde_json::Value;

use crate::{
    caller::{NodeCaller, NodeReceiver},
    failure::thrown,
    gateway::{NodeGateway, NodeGatewayFields},
    run::{NodeRun, NodeScript, process},
};

/// A tool as the package describes it.
#[napi(object)]
pub struct NodeToolFields {
    /// Name of the global function.
    pub name: String,
    /// Description for a model.
    pub description: String,
    /// JSON Schema of the arguments, as text.
    pub input_schema: String,
    /// Names for positional arguments, in order.
    pub parameters: Vec<String>,
    /// True if the script waits for an approval of each call.
    pub needs_approval: bool,
    /// True if the function changes nothing.
    pub read_only: bool,
}

/// A script as the package passes it.
#[napi(object)]
pub struct NodeScriptFields {
    /// The script.
    pub code: String,
    /// Its inputs: an object, as text.
    pub inputs: Option<String>,
    /// Its language.
    pub language: String,
    /// Its limits.
    pub limits: NodeLimitFields,
    /// True if printed lines are wanted.
    pub has_printer: bool,
    /// True if a finished run keeps its journal.
    pub has_journal: bool,
    /// Scripts in each other around it.
    pub nesting: u32,
}

/// Limits as a program gives them.
#[napi(object)]
pub struct NodeLimitFields {
    /// Memory of the script, in units of 2^20 bytes.
    pub memory_mb: Option<f64>,
    /// Time in which the script computes.
    pub cpu_seconds: Option<f64>,
    /// Time of the whole run.
    pub seconds: Option<f64>,
    /// Calls of tools.
    pub calls: Option<f64>,
    /// Calls of tools at the same time.
    pub parallel_calls: Option<f64>,
    /// Scripts in each other.
    pub nesting: Option<f64>,
}

impl From<NodeLimitFields> for LimitValues {
    fn from(fields: NodeLimitFields) -> Self {
        let NodeLimitFields { memory_mb, cpu_seconds, seconds, calls, parallel_calls, nesting } =
            fields;
        Self { memory_mb, cpu_seconds, seconds, calls, parallel_calls, nesting }
    }
}

/// Bounds on values that the package writes as text.
#[napi(object)]
pub struct NodeValueBounds {
    /// Bytes of the text.
    pub bytes: u32,
    /// Levels of lists and objects.
    pub levels: u32,
    /// Bytes of a dump.
    pub dump_bytes: u32,
}

/// Returns the bounds on values.
#[napi]
pub fn value_bounds() -> NodeValueBounds {
    NodeValueBounds {
        bytes: u32::try_from(MAX_VALUE_BYTES).unwrap_or(u32::MAX),
        levels: u32::try_from(MAX_DEPTH).unwrap_or(u32::MAX),
        dump_bytes: u32::try_from(MAX_DUMP_BYTES).unwrap_or(u32::MAX),
    }
}

/// Compiles the schemas of tools.
#[napi]
pub fn tool_set(tools: Vec<NodeToolFields>) -> napi::Result<NodeToolSet> {
    let specs = tools.into_iter().map(described).collect::<Result<_, _>>();
    let pool = specs.and_then(ToolPool::new).map_err(|failure| thrown(&failure))?;
    Ok(NodeToolSet { pool: Arc::new(pool) })
}

fn described(tool: NodeToolFields) -> Result<ToolSpec, BindingFailure> {
    Ok(ToolSpec {
        input_schema: parsed_schema(&tool.name, &tool.input_schema)?,
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters,
        needs_approval: tool.needs_approval,
        is_read_only: tool.read_only,
    })
}

/// Tools whose schemas are compiled. It has no functions: each run brings its own.
#[napi]
pub struct NodeToolSet {
    pool: Arc<ToolPool>,
}

#[napi]
impl NodeToolSet {
    /// Starts a script. Its messages go to `receiver`.
    #[napi]
    pub fn run(
        &self,
        script: NodeScriptFields,
        receiver: NodeReceiver,
    ) -> napi::Result<NodeScript> {
        let process = process()?;
        let caller = NodeCaller::new(receiver);
        let running = run(process.clone(), self.pool.clone(), caller.clone(), script);
        Ok(NodeScript::spawn(&process, caller, running))
    }

    /// Begins to start a gateway with these tools, as the work 0. Its messages go to `receiver`.
    #[napi]
    pub fn start_gateway(
        &self,
        gateway: NodeGatewayFields,
        receiver: NodeReceiver,
    ) -> napi::Result<NodeGateway> {
        NodeGateway::start(gateway, self.pool.specs().to_vec(), receiver)
    }

    /// Loads a run that waits.
    #[napi]
    pub fn load(&self, dump: Buffer) -> napi::Result<NodeRun> {
        let loaded = BindingRun::load(&dump, &self.pool);
        loaded.map(NodeRun::new).map_err(|failure| thrown(&failure))
    }
}

async fn run(
    process: Arc<HostProcess>,
    pool: Arc<ToolPool>,
    caller: Arc<NodeCaller>,
    script: NodeScriptFields,
) -> Result<BindingRun, BindingFailure> {
    let request = request(script, &caller)?;
    Box::pin(BindingRun::start(process, pool, caller, request)).await
}

/// Converts a script to a request. Not on the thread of JavaScript: inputs may be large.
fn request(
    script: NodeScriptFields,
    caller: &Arc<NodeCaller>,
) -> Result<RunRequest, BindingFailure> {
    let mut request = RunRequest::new(script_language(&script.language)?, script.code);
    if let Some(inputs) = script.inputs {
        let Value::Object(members) = parse_value(&inputs)? else {
            let message = "the inputs of a script are an object of names and values";
            return Err(BindingFailure::Invalid(message.into()));
        };
        request.inputs = members;
    }
    request.limits = LimitValues::from(script.limits).checked(NameStyle::Camel)?;
    request.journal = script.has_journal;
    request.nesting = script.nesting;
    Ok(if script.has_printer { request.with_on_print(caller.printer()) } else { request })
}
