//! Tools of a program, prepared once and called for many runs.
//!
//! Preparing tools compiles their schemas, which costs more than a run. So it is done once for a set of
//! tools, while what a call needs of its run (the functions, the thread or event loop of the caller) comes
//! with the run, as its context.

use std::sync::Arc;

use airlock_runner::{Function, FunctionCall, FunctionError, Functions, RunContext};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::BindingFailure;

/// A tool as a binding describes it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// Name of the global function.
    pub name: String,
    /// Description for a model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Names for positional arguments, in order.
    pub parameters: Vec<String>,
    /// True if the script waits for an approval of each call.
    pub needs_approval: bool,
    /// True if the function changes nothing.
    pub is_read_only: bool,
}

/// Reads the JSON Schema of a tool. Fails if it is no JSON.
pub fn parsed_schema(tool: &str, text: &str) -> Result<Value, BindingFailure> {
    serde_json::from_str(text).map_err(|error| {
        BindingFailure::BadTool(format!("the schema of the tool {tool} is not JSON: {error}"))
    })
}

/// Makes the calls of one run.
pub trait CallTarget: Send + Sync {
    /// Calls a tool, by its place in the set. The arguments fit its schema. Dropping the future cancels the
    /// call.
    fn call(
        self: Arc<Self>,
        tool: usize,
        call: FunctionCall,
    ) -> BoxFuture<'static, Result<Value, FunctionError>>;
}

/// A set of tools, for any number of runs.
pub struct ToolPool {
    specs: Vec<ToolSpec>,
    functions: Functions,
}

impl ToolPool {
    /// Prepares tools. Fails if a name is no name of a function or is there twice, or if a schema is not
    /// valid.
    pub fn new(specs: Vec<ToolSpec>) -> Result<Self, BindingFailure> {
        let functions = specs.iter().cloned().enumerate();
        let functions = Functions::new(functions.map(|(tool, spec)| function(tool, spec)))?;
        Ok(Self { specs, functions })
    }

    /// Returns the tools as they were described.
    pub fn specs(&self) -> &[ToolSpec] {
        &self.specs
    }

    pub(crate) fn functions(&self) -> Functions {
        self.functions.clone()
    }
}

/// Target of the calls of a run, as its context.
struct RunTarget(Arc<dyn CallTarget>);

/// Returns the context of a run whose calls this target makes.
pub(crate) fn context(target: Arc<dyn CallTarget>) -> RunContext {
    Arc::new(RunTarget(target))
}

fn function(tool: usize, spec: ToolSpec) -> Function {
    let ToolSpec { name, description, input_schema, parameters, needs_approval, is_read_only } =
        spec;
    let function = Function::new(&name, &description, input_schema, move |call: FunctionCall| {
        let target = call.context::<RunTarget>();
        async move {
            let Some(target) = target else {
                return Err(FunctionError::new("the run of this call has ended"));
            };
            target.0.clone().call(tool, call).await
        }
    });
    let function = function.parameters(parameters);
    let function = if needs_approval { function.needs_approval() } else { function };
    if is_read_only { function.read_only() } else { function }
}
