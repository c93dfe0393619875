//! Tools of the embedding program, as one client named `internal`.
//!
//! | module | purpose |
//! |---|---|
//! | `context` | a call, as the body of a tool sees it |
//! | `typed` | arguments and results as types of Rust: their schemas, and the conversion |
//! | `set` | all tools of the program, and their changes while the gateway runs |

mod context;
mod set;
mod typed;

pub(crate) use self::set::NativeTools;
pub use self::{context::ToolContext, set::ProgramTools};

use std::{fmt, future::Future, sync::Arc};

use futures_util::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use airlock_catalog::{BadInternalTool, MAX_TOOLS_PER_CLIENT, UncheckedSchemas, check_internal};
use airlock_core::tool::{Annotations, ToolDefinition, ToolError, ToolOutput};

type BodyFuture = BoxFuture<'static, Result<ToolOutput, ToolError>>;
type Body = dyn Fn(Map<String, Value>, ToolContext) -> BodyFuture + Send + Sync;

/// A tool of the embedding program.
///
/// ```
/// use airlock::{NativeTool, ToolContext, ToolEffect, tool::ToolError};
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Sum {
///     /// Numbers to add.
///     numbers: Vec<i64>,
/// }
///
/// #[derive(serde::Serialize, schemars::JsonSchema)]
/// struct Total {
///     total: i64,
/// }
///
/// async fn sum(arguments: Sum, _context: ToolContext) -> Result<Total, ToolError> {
///     Ok(Total { total: arguments.numbers.iter().sum() })
/// }
///
/// let tool = NativeTool::typed("sum", "Adds numbers.", sum).effect(ToolEffect::Reads);
/// ```
#[derive(Clone)]
pub struct NativeTool {
    definition: ToolDefinition,
    body: Arc<Body>,
}

/// Effect of a tool on its environment. Clients see it as hints, and it decides whether a call may be made
/// again after its answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolEffect {
    /// It changes nothing.
    Reads,
    /// It adds to its environment, and destroys nothing.
    Adds,
    /// It changes its environment, and a second call with the same arguments changes nothing further.
    Repeatable,
    /// It changes its environment, and may destroy something.
    Changes,
}

/// Reason that a tool of the embedding program cannot be registered, replaced or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadNativeTool {
    /// Another tool has this name.
    #[error("a tool named {0:?} is already registered")]
    Duplicate(String),
    /// No tool has this name.
    #[error("no tool named {0:?} is registered")]
    Unknown(String),
    /// The tool is not valid.
    #[error(transparent)]
    Tool(#[from] BadInternalTool),
    /// The schemas of all tools take too much work or memory to be compiled.
    #[error(transparent)]
    Schemas(#[from] UncheckedSchemas),
    /// A client has at most [`MAX_TOOLS_PER_CLIENT`] tools.
    #[error("a program cannot register more than {MAX_TOOLS_PER_CLIENT} tools")]
    TooMany,
}

impl NativeTool {
    /// Creates a tool from a function of a JSON object. Its name has at most 55 ASCII letters, digits, `_` and
    /// `-`; it and the schema are checked when the tool is registered. Arguments that do not fit `input_schema`, the
    /// schema of an object, do not reach `body`.
    ///
    /// The future of `body` is dropped when the caller leaves and at the deadline, which cancels the call. It runs
    /// without a sandbox: work that blocks belongs on `tokio::task::spawn_blocking`. A panic of it unwinds into the
    /// task of the program that waits for the call or the chat; over HTTP and MCP it is an internal error, and in
    /// a script the failure of the call.
    pub fn new<F, R>(name: &str, description: &str, input_schema: Value, body: F) -> Self
    where
        F: Fn(Map<String, Value>, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
    {
        let definition = ToolDefinition::new(name, description, input_schema);
        let body =
            Arc::new(move |arguments: Map<String, Value>, context: ToolContext| -> BodyFuture {
                Box::pin(body(arguments, context))
            });
        Self { definition, body }
    }

    /// Creates a tool from a function of types. The schemas are those of the types: of `Args`, which must be
    /// an object, and of `Out` if it is one. Such a result is data and the same JSON as text; a string is a
    /// text, and any other result is its JSON as text. The rest is as for [`Self::new`].
    pub fn typed<Args, Out, F, R>(name: &str, description: &str, body: F) -> Self
    where
        Args: DeserializeOwned + JsonSchema + 'static,
        Out: Serialize + JsonSchema + 'static,
        F: Fn(Args, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Out, ToolError>> + Send + 'static,
    {
        let output_schema = typed::output_schema::<Out>();
        let is_structured = output_schema.is_some();
        let input_schema = typed::input_schema::<Args>();
        let tool = Self::new(name, description, input_schema, move |arguments, context| {
            let running = typed::arguments::<Args>(arguments).map(|read| body(read, context));
            async move { typed::output(&running?.await?, is_structured) }
        });
        match output_schema {
            Some(schema) => tool.output_schema(schema),
            None => tool,
        }
    }

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: &str) -> Self {
        self.definition.title = Some(title.to_owned());
        self
    }

    /// Sets the JSON Schema of the structured result. A result that has none, or one that does not fit, is
    /// an error of the call.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.definition.output_schema = Some(schema.into());
        self
    }

    /// Sets the effect, as `read_only`, `destructive` and `idempotent` of the annotations. Without it, a tool
    /// counts as one whose calls may not be repeated.
    #[must_use]
    pub fn effect(mut self, effect: ToolEffect) -> Self {
        let hints = &mut self.definition.annotations;
        hints.read_only = Some(effect == ToolEffect::Reads);
        hints.destructive = Some(effect == ToolEffect::Changes);
        hints.idempotent = Some(matches!(effect, ToolEffect::Reads | ToolEffect::Repeatable));
        self
    }

    /// Sets those annotations that are not `None`; others stay as they are, also those of [`Self::effect`]. No
    /// permission of a call depends on them, but its repetition does.
    #[must_use]
    pub fn annotations(mut self, annotations: Annotations) -> Self {
        let Annotations { read_only, destructive, idempotent, open_world, extra } = annotations;
        let own = &mut self.definition.annotations;
        own.read_only = read_only.or(own.read_only);
        own.destructive = destructive.or(own.destructive);
        own.idempotent = idempotent.or(own.idempotent);
        own.open_world = open_world.or(own.open_world);
        own.extra = extra.or_else(|| own.extra.take());
        self
    }

    /// Returns the name, without that of the client.
    pub fn name(&self) -> &str {
        &self.definition.name
    }

    /// Fails if the catalog would drop or rename the tool, or not check its arguments and results.
    fn check(&self) -> Result<(), BadNativeTool> {
        check_internal(self.definition.clone())?;
        Ok(())
    }
}

impl fmt::Debug for NativeTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeTool").field("name", &self.definition.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
