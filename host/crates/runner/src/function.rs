//! A function of the program that scripts may call.

use std::{
    any::Any,
    sync::Arc,
    time::{Duration, Instant},
};

use airlock_core::{
    door::CallId,
    tool::{ErrorKind, ToolDefinition, ToolError},
};
use airlock_json::weight::weight;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value};

use crate::depth::nests_within;

/// Levels of the details of a failure, half of those that JSON may have here: writing them as text recurses.
const MAX_DATA_LEVELS: usize = 64;
/// Memory of the details of a failure. Eight megabytes of empty lists take more than the 320 MiB of the document of a dump.
const MAX_DATA_BYTES: usize = 16 << 20;

/// Body of a function.
pub(crate) type FunctionBody =
    Box<dyn Fn(FunctionCall) -> BoxFuture<'static, Result<Value, FunctionError>> + Send + Sync>;

/// A value of the program that the functions of one run share, see [`FunctionCall::context`].
pub type RunContext = Arc<dyn Any + Send + Sync>;

tokio::task_local! {
    /// Context of the run whose call is polled. The catalog, through which a call reaches its function, does not know it.
    pub(crate) static CONTEXT: Option<RunContext>;
    /// Nesting of the run whose call is polled: a script that the function runs is nested one level deeper.
    pub(crate) static NESTING: u32;
}

/// A function of the program that scripts may call by its name.
pub struct Function {
    pub(crate) definition: ToolDefinition,
    pub(crate) body: FunctionBody,
    /// Names of the arguments by position; `None` for those of the input schema.
    pub(crate) parameters: Option<Vec<String>>,
    pub(crate) output_schema: Option<Value>,
    pub(crate) needs_approval: bool,
}

impl Function {
    /// Creates a function. Its name is that of a variable in scripts: ASCII letters, digits and `_`, no keyword, and no
    /// built-in of a language of scripts. Arguments that do not fit `input_schema`, the schema of an object, do not reach
    /// `body`.
    ///
    /// The future of `body` runs on the program's runtime, without a sandbox: work that blocks belongs on
    /// `tokio::task::spawn_blocking`. It is dropped when the script is stopped, at the deadline of the run for example. A
    /// panic is an error of the call. The result nests at most 127 levels.
    pub fn new<F, R>(name: &str, description: &str, input_schema: Value, body: F) -> Self
    where
        F: Fn(FunctionCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Value, FunctionError>> + Send + 'static,
    {
        Self {
            definition: ToolDefinition::new(name, description, input_schema),
            body: Box::new(move |call| Box::pin(body(call))),
            parameters: None,
            output_schema: None,
            needs_approval: false,
        }
    }

    /// Sets the names of arguments by position, in order. By default they are the properties of the input schema, in the order
    /// in which it has them.
    #[must_use]
    pub fn parameters(mut self, names: Vec<String>) -> Self {
        self.parameters = Some(names);
        self
    }

    /// Sets the JSON Schema of results, of any type. A result that does not fit is an error of the call.
    #[must_use]
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// Makes each call wait for an approval: the script stops at it, and the run is
    /// [pending](crate::RunState::Pending).
    #[must_use]
    pub fn needs_approval(mut self) -> Self {
        self.needs_approval = true;
        self
    }

    /// Declares that the function changes nothing, so that a call may be repeated: if its answer is too large for the journal
    /// of a run, it is called again when the run is resumed.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.definition.annotations.read_only = Some(true);
        self
    }
}

/// A call of a [`Function`].
#[derive(Debug)]
pub struct FunctionCall {
    pub(crate) id: CallId,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) deadline: Instant,
    pub(crate) context: Option<RunContext>,
    pub(crate) nesting: u32,
}

impl FunctionCall {
    /// The arguments, which fit the input schema.
    pub fn arguments(&self) -> &Map<String, Value> {
        &self.arguments
    }

    /// Returns the arguments, which fit the input schema.
    pub fn into_arguments(self) -> Map<String, Value> {
        self.arguments
    }

    /// Identifier of the call, as in [`FailedFunction::call`](crate::FailedFunction::call).
    pub fn id(&self) -> CallId {
        self.id
    }

    /// Instant at which the run is stopped, and the call with it.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Scripts in each other, up to the one that has made the call; 1 if the program itself has run it. A function that runs a
    /// script in another task passes it on, as [`RunRequest::nesting`](crate::RunRequest::nesting).
    pub fn nesting(&self) -> u32 {
        self.nesting
    }

    /// The [context](crate::RunRequest::context) of the run; `None` if it has none, or one of another type.
    pub fn context<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.context.clone()?.downcast().ok()
    }
}

/// Failure of a function, as the script can handle it: in Python a `ToolError` with `kind`, `code`, `message`, `data` and
/// `retry_after_ms`.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct FunctionError {
    message: String,
    kind: ErrorKind,
    code: Option<String>,
    data: Option<Value>,
    retry_after: Option<Duration>,
}

impl FunctionError {
    /// Creates a failure of the kind [`ErrorKind::Other`] with a message for the script.
    pub fn new(message: impl Into<String>) -> Self {
        let message = message.into();
        Self { message, kind: ErrorKind::Other, code: None, data: None, retry_after: None }
    }

    /// Sets the kind.
    #[must_use]
    pub fn with_kind(self, kind: ErrorKind) -> Self {
        Self { kind, ..self }
    }

    /// Sets a short stable identifier. The prefix `airlock.` is left out: it marks errors that no function made.
    #[must_use]
    pub fn with_code(self, code: &str) -> Self {
        Self { code: Some(code.to_owned()), ..self }
    }

    /// Sets further details. They are left out if they nest more than 64 levels, or take more than 16 MiB of memory.
    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// Marks that the same call may succeed later, after this time.
    #[must_use]
    pub fn with_retry_after(self, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..self }
    }
}

impl From<FunctionError> for ToolError {
    fn from(error: FunctionError) -> Self {
        let FunctionError { message, kind, code, data, retry_after } = error;
        let retry_after_ms =
            retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        // They are written into dumps, whose readers refuse what nests deeply, and what takes much memory.
        let details = data
            .filter(|data| nests_within(data, MAX_DATA_LEVELS) && weight(data) <= MAX_DATA_BYTES);
        Self { code, details, retry_after_ms, ..Self::new(kind, message) }
    }
}

#[cfg(test)]
mod tests {
    use airlock_json::weight::{ITEM_BYTES, LIST_BYTES};
    use serde_json::json;

    use super::*;

    #[test]
    fn details_that_nest_too_deeply_for_a_dump_are_left_out() {
        let deepest = (1..MAX_DATA_LEVELS).fold(json!([]), |value, _| json!([value]));
        let failed = ToolError::from(FunctionError::new("no").with_data(deepest.clone()));
        assert_eq!(failed.details, Some(deepest.clone()));
        let failed = ToolError::from(FunctionError::new("no").with_data(json!([deepest])));
        assert_eq!((failed.details, &*failed.message), (None, "no"));
    }

    #[test]
    fn details_that_take_too_much_memory_for_a_dump_are_left_out() {
        let most = (MAX_DATA_BYTES - LIST_BYTES) / (LIST_BYTES + ITEM_BYTES);
        for (items, is_kept) in [(most, true), (most + 1, false)] {
            let data = Value::from(vec![json!([]); items]);
            let failed = ToolError::from(FunctionError::new("no").with_data(data));
            assert_eq!(failed.details.is_some(), is_kept, "{items}");
        }
    }
}
