//! A script to run, with all that it gets.

use std::{mem, sync::Arc};

use airlock_core::{door::ScriptLanguage, script_names};
use airlock_json::MAX_DEPTH;
use airlock_sandbox::{Bindings, Script};
use serde_json::{Map, Value};

use crate::{
    Functions, InputProblem, RunContext, RunError, RunLimits, depth::nests_within,
    journal::JournalEntry,
};

/// Maximum bytes of a script: four times as many as a model may send to a gateway. An executor parses it in each run, and
/// again in each replay.
pub const MAX_CODE_BYTES: usize = 256 << 10;
/// Maximum bytes of the inputs of a run, as JSON. They are copied into the sandbox, where their values take several times as
/// much of its memory, and are kept with a run that waits. Larger data is for a function to read.
pub const MAX_INPUT_BYTES: usize = 16 << 20;
/// Global that has the value of a script.
const RESULT: &str = "result";

/// Receives each line that a script prints, in order and without the line break.
pub type PrintHook = Arc<dyn Fn(&str) + Send + Sync>;

/// A script to run, with all that it gets.
#[derive(Clone)]
pub struct RunRequest {
    /// Language of the script.
    pub language: ScriptLanguage,
    /// The script, at most [`MAX_CODE_BYTES`]. Its value is that of the global `result`, or else that of its last statement
    /// if that is an expression.
    pub code: String,
    /// Global variables that the script has at its start, by name; at most [`MAX_INPUT_BYTES`] as JSON.
    pub inputs: Map<String, Value>,
    /// Functions that the script may call.
    pub functions: Functions,
    /// Bounds on the run.
    pub limits: RunLimits,
    /// Receives the printed lines while the script runs. It is called between two slices of the script, and delays it.
    pub on_print: Option<PrintHook>,
    /// True to return the [journal](crate::FinishedRun::journal) of a finished run.
    pub journal: bool,
    /// A value of the program that the functions receive with each [call](crate::FunctionCall::context). A run that waits
    /// drops it.
    pub context: Option<RunContext>,
    /// Nesting of the call whose function runs this script, [`FunctionCall::nesting`](crate::FunctionCall::nesting); 0 by
    /// default. Only a function that runs a script outside of its own future needs it, as in another task or thread.
    pub nesting: u32,
}

impl RunRequest {
    /// Creates a request without inputs and functions, with the default limits.
    pub fn new(language: ScriptLanguage, code: impl Into<String>) -> Self {
        Self {
            language,
            code: code.into(),
            inputs: Map::new(),
            functions: Functions::none(),
            limits: RunLimits::default(),
            on_print: None,
            journal: false,
            context: None,
            nesting: 0,
        }
    }

    /// Sets all inputs.
    #[must_use]
    pub fn with_inputs(self, inputs: Map<String, Value>) -> Self {
        Self { inputs, ..self }
    }

    /// Adds an input, or replaces it.
    #[must_use]
    pub fn with_input(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.inputs.insert(name.to_owned(), value.into());
        self
    }

    /// Sets the functions.
    #[must_use]
    pub fn with_functions(self, functions: Functions) -> Self {
        Self { functions, ..self }
    }

    /// Sets the limits.
    #[must_use]
    pub fn with_limits(self, limits: RunLimits) -> Self {
        Self { limits, ..self }
    }

    /// Sets what receives the printed lines.
    #[must_use]
    pub fn with_on_print(self, on_print: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { on_print: Some(Arc::new(on_print)), ..self }
    }

    /// Sets whether the journal of a finished run is returned.
    #[must_use]
    pub fn with_journal(self, journal: bool) -> Self {
        Self { journal, ..self }
    }

    /// Sets the value that the functions receive with each call.
    #[must_use]
    pub fn with_context(self, context: RunContext) -> Self {
        Self { context: Some(context), ..self }
    }

    /// Sets the nesting of the call whose function runs this script.
    #[must_use]
    pub fn with_nesting(self, nesting: u32) -> Self {
        Self { nesting, ..self }
    }
}

/// A run with all that it needs, checked.
#[derive(Clone)]
pub(crate) struct RunContent {
    pub(crate) language: ScriptLanguage,
    pub(crate) code: String,
    /// JSON text of an object; `None` without inputs.
    pub(crate) inputs: Option<Arc<str>>,
    pub(crate) functions: Functions,
    /// Names of the functions in the script.
    pub(crate) bindings: Arc<Bindings>,
    pub(crate) limits: RunLimits,
    pub(crate) on_print: Option<PrintHook>,
    /// True if the journal of the finished run is wanted.
    pub(crate) journal: bool,
    /// True if every answer comes from the journal.
    pub(crate) is_replay: bool,
    /// Calls that were made or decided about before.
    pub(crate) entries: Vec<JournalEntry>,
    /// Printed lines that were delivered before.
    pub(crate) lines: u64,
    pub(crate) context: Option<RunContext>,
    /// Nesting of the call that runs the script.
    pub(crate) nesting: u32,
}

impl RunContent {
    /// Checks a request.
    pub(crate) fn new(request: RunRequest) -> Result<Self, RunError> {
        let RunRequest {
            language,
            code,
            inputs,
            functions,
            limits,
            on_print,
            journal,
            context,
            nesting,
        } = request;
        limits.check()?;
        check_size("code", code.len(), MAX_CODE_BYTES)?;
        for (name, value) in &inputs {
            check_input(name, &functions)?;
            // The object around them is a level too.
            if !nests_within(value, MAX_DEPTH - 1) {
                return Err(refused(name, InputProblem::TooDeep));
            }
        }
        let inputs = (!inputs.is_empty()).then(|| Value::Object(inputs).to_string());
        check_size("inputs", inputs.as_ref().map_or(0, String::len), MAX_INPUT_BYTES)?;
        Ok(Self {
            language,
            code,
            inputs: inputs.map(Arc::from),
            bindings: functions.bindings().clone(),
            functions,
            limits,
            on_print,
            journal,
            is_replay: false,
            entries: Vec::new(),
            lines: 0,
            context,
            nesting,
        })
    }

    /// Returns whether the calls of the run are kept: to be returned, or because it may have to be resumed.
    pub(crate) fn keeps_calls(&self) -> bool {
        self.journal || self.functions.need_approvals()
    }

    /// Returns the script for the sandbox.
    pub(crate) fn script(&self) -> Script {
        Script {
            name: self.language.file_name().to_owned(),
            source: self.code.clone(),
            bindings: self.bindings.clone(),
            clock_ms: None,
            inputs: self.inputs.clone(),
            last_expression: true,
            follows_values: false,
        }
    }

    /// Takes the calls out.
    pub(crate) fn take_entries(&mut self) -> Vec<JournalEntry> {
        mem::take(&mut self.entries)
    }
}

/// Fails if a part of a request has too many bytes.
pub(crate) fn check_size(what: &'static str, found: usize, most: usize) -> Result<(), RunError> {
    if found > most { Err(RunError::TooLarge { what, found, most }) } else { Ok(()) }
}

/// Fails if a script cannot have an input of this name beside these functions.
pub(crate) fn check_input(name: &str, functions: &Functions) -> Result<(), RunError> {
    if !is_global(name) {
        Err(refused(name, InputProblem::Name))
    } else if name == RESULT {
        Err(refused(name, InputProblem::Result))
    } else if functions.entry(name).is_some() {
        Err(refused(name, InputProblem::Function))
    } else {
        Ok(())
    }
}

/// Returns whether a name can be that of a global of a script. Names with two leading underscores are those of the
/// languages themselves.
pub(crate) fn is_global(name: &str) -> bool {
    script_names::is_identifier(name) && !name.starts_with("__")
}

fn refused(name: &str, problem: InputProblem) -> RunError {
    RunError::Input { name: airlock_strings::cut(name.to_owned(), 128), problem }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Function;

    fn request() -> RunRequest {
        let greet = Function::new("greet", "", json!({}), async |_| Ok(Value::Null));
        let functions = Functions::new([greet]).expect("a function");
        RunRequest::new(ScriptLanguage::Python, "1").with_functions(functions)
    }

    /// Returns the problem of the input that is refused.
    fn problem(name: &str, value: Value) -> Option<InputProblem> {
        match RunContent::new(request().with_input(name, value)) {
            Ok(_) => None,
            Err(RunError::Input { problem, .. }) => Some(problem),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn inputs_named_like_functions_and_keywords_are_refused() {
        for name in ["", "a b", "1a", "for", "None", "load", "größe", "__name"] {
            assert_eq!(problem(name, json!(1)), Some(InputProblem::Name), "{name}");
        }
        assert_eq!(problem("greet", json!(1)), Some(InputProblem::Function));
        assert_eq!(problem("result", json!(1)), Some(InputProblem::Result));
        for name in ["a", "_a", "id", "list", "greeting"] {
            assert_eq!(problem(name, json!(1)), None, "{name}");
        }
    }

    #[test]
    fn inputs_nest_as_deeply_as_an_executor_reads_them() {
        let nested = (1..MAX_DEPTH - 1).fold(json!([]), |value, _| json!([value]));
        assert_eq!(problem("a", nested.clone()), None);
        assert_eq!(problem("a", json!([nested])), Some(InputProblem::TooDeep));
    }

    #[test]
    fn code_and_inputs_are_refused_beyond_their_bounds() {
        assert!(RunContent::new(with_code(MAX_CODE_BYTES)).is_ok());
        let refused = RunContent::new(with_code(MAX_CODE_BYTES + 1)).err();
        assert!(matches!(refused, Some(RunError::TooLarge { what: "code", .. })));
        let around = r#"{"a":""}"#.len();
        assert!(RunContent::new(with_input(MAX_INPUT_BYTES - around)).is_ok());
        let refused = RunContent::new(with_input(MAX_INPUT_BYTES + 1 - around)).err();
        assert!(matches!(refused, Some(RunError::TooLarge { what: "inputs", .. })));
    }

    fn with_code(bytes: usize) -> RunRequest {
        RunRequest { code: " ".repeat(bytes), ..request() }
    }

    fn with_input(bytes: usize) -> RunRequest {
        request().with_input("a", " ".repeat(bytes))
    }
}
