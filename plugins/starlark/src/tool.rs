//! Tools as a script sees them: a global for each namespace, with a callable for each tool, and a callable
//! for each tool that is a global function.
//!
//! A callable takes keyword arguments, or one dict; by position it takes the arguments that have names
//! in its binding. It is an ordinary value, so `f = files.read_file; f(path = "a")` works. That is no
//! risk, because the host decides every call separately.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use airlock_executor::{Binding, Bindings, Lines, Request, ToolAnswer, ToolError, Tools};
use airlock_starlark_library::{as_dict, convert, text};
use allocative::Allocative;
use starlark::environment::Module;
use starlark::eval::{Arguments, Evaluator};
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value,
    starlark_value,
};
use starlark::{Error, starlark_simple_value};

use crate::lower;

/// State of a run that its functions reach through the evaluator.
#[derive(ProvidesStaticType)]
pub(crate) struct StarlarkSession<'a> {
    pub(crate) tools: &'a dyn Tools,
    lines: RefCell<Lines<'a>>,
}

impl<'a> StarlarkSession<'a> {
    pub(crate) fn new(tools: &'a dyn Tools, print: &'a dyn Fn(&str)) -> Self {
        let lines = RefCell::new(Lines::new(print));
        Self { tools, lines }
    }

    pub(crate) fn from_evaluator<'e>(evaluator: &'e Evaluator<'_, '_, 'a>) -> &'e Self {
        evaluator
            .extra
            .and_then(|extra| extra.downcast_ref())
            .expect("`run` sets the session of every evaluator")
    }

    /// Prints a text and its end, each line as soon as it is complete.
    pub(crate) fn print(&self, text: &str, end: &str) {
        let mut lines = self.lines.borrow_mut();
        lines.push(text);
        lines.push(end);
    }

    /// Prints what is left without an end.
    pub(crate) fn flush(&self) {
        self.lines.borrow_mut().finish();
    }
}

/// The error of a tool, as it passes through the interpreter.
#[derive(Debug)]
pub(crate) struct ToolFailure {
    tool: String,
    error: ToolError,
}

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.tool, self.error.message)
    }
}

impl std::error::Error for ToolFailure {}

impl ToolFailure {
    /// Converts the failure to a value that a script examines.
    pub(crate) fn value(self, heap: Heap<'_>) -> Value<'_> {
        heap.alloc(ErrorValue(self.error))
    }
}

/// The failure of a tool as a value: `error.kind`, `error.code`, `error.message`, `error.data`,
/// `error.retry_after_ms`. As text it is its message.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
struct ErrorValue(#[allocative(skip)] ToolError);
starlark_simple_value!(ErrorValue);

impl fmt::Display for ErrorValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

#[starlark_value(type = "error")]
impl<'v> StarlarkValue<'v> for ErrorValue {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        let ToolError { kind, code, message, data, retry_after_ms } = &self.0;
        let none = Value::new_none();
        match attribute {
            "kind" => Some(heap.alloc(&**kind)),
            "code" => Some(code.as_deref().map_or(none, |code| heap.alloc(code))),
            "message" => Some(heap.alloc(&**message)),
            "data" => {
                let data = data.as_deref().and_then(|json| convert::from_json(json, heap).ok());
                Some(data.unwrap_or(none))
            }
            "retry_after_ms" => Some(retry_after_ms.map_or(none, |wait| heap.alloc(wait))),
            _ => None,
        }
    }

    fn dir_attr(&self) -> Vec<String> {
        ToolError::ATTRIBUTES.map(Into::into).to_vec()
    }

    /// `"text" in error` looks into the message.
    fn is_in(&self, other: Value<'v>) -> starlark::Result<bool> {
        Ok(other.unpack_str().is_some_and(|text| self.0.message.contains(text)))
    }
}

/// Adds a global to `module` for each namespace and each function that the script can name.
pub(crate) fn bind(bindings: &Bindings, module: &Module<'_>) {
    for name in bindings.named() {
        let namespace = Namespace { name: name.to_owned(), bindings: bindings.clone() };
        module.set(name, module.heap().alloc(namespace));
    }
    for function in bindings.functions() {
        let callable = Callable { tool: function.clone() };
        module.set(&lower::plain_name(&function.name), module.heap().alloc(callable));
    }
}

/// The global that holds a namespace's tools.
#[derive(ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
struct Namespace {
    name: String,
    #[allocative(skip)]
    bindings: Bindings,
}
starlark_simple_value!(Namespace);

#[starlark_value(type = "tools")]
impl<'v> StarlarkValue<'v> for Namespace {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        let tool = self.bindings.look_up(&self.name, attribute)?;
        Some(heap.alloc(Callable { tool }))
    }

    fn has_attr(&self, attribute: &str, _heap: Heap<'v>) -> bool {
        self.bindings.find(&self.name, attribute).is_some()
    }

    fn dir_attr(&self) -> Vec<String> {
        self.bindings.names(&self.name)
    }
}

/// One tool as a callable value.
#[derive(ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Callable {
    #[allocative(skip)]
    tool: Arc<Binding>,
}
starlark_simple_value!(Callable);

#[starlark_value(type = "tool")]
impl<'v> StarlarkValue<'v> for Callable {
    fn name_for_call_stack(&self, _me: Value<'v>) -> String {
        self.to_string()
    }

    fn invoke(
        &self,
        _me: Value<'v>,
        arguments: &Arguments<'v, '_>,
        evaluator: &mut Evaluator<'v, '_, '_>,
    ) -> starlark::Result<Value<'v>> {
        let request = self.request(self.arguments(arguments, evaluator.heap())?);
        let answer = StarlarkSession::from_evaluator(evaluator).tools.call(request);
        self.answer(answer, evaluator.heap()).map_err(Error::new_other)
    }
}

impl Callable {
    /// Returns the request that calls this tool with `arguments`, a JSON object.
    pub(crate) fn request(&self, arguments: String) -> Request {
        Request { tool: self.tool.tool.clone(), arguments }
    }

    /// Converts the result of the tool to a value of the script.
    pub(crate) fn answer<'v>(
        &self,
        answer: Result<ToolAnswer, ToolError>,
        heap: Heap<'v>,
    ) -> Result<Value<'v>, ToolFailure> {
        answer
            .and_then(|answer| {
                answer.into_value(|json| convert::from_json(json, heap), |text| heap.alloc(text))
            })
            .map_err(|error| ToolFailure { tool: self.to_string(), error })
    }

    /// Serializes a dict as a JSON object. Fails for any other value.
    pub(crate) fn object<'v>(&self, value: Value<'v>, heap: Heap<'v>) -> starlark::Result<String> {
        if as_dict(value).is_none() {
            let name = text::type_name(value);
            let value = value.get_type();
            let article = if value == "int" || value == "error" { "an" } else { "a" };
            return Err(self.misuse(&format!("takes a dict of arguments, not {article} {name}")));
        }
        convert::to_json(value, heap)
            .map_err(|unfit| self.misuse(&format!("cannot be called with this: {unfit}")))
    }

    fn arguments<'v>(
        &self,
        arguments: &Arguments<'v, '_>,
        heap: Heap<'v>,
    ) -> starlark::Result<String> {
        let positional: Vec<_> = arguments.positions(heap)?.collect();
        let named = arguments.names_map()?;
        if self.tool.parameters.is_empty() {
            match positional[..] {
                [] => (),
                [only] if named.is_empty() && as_dict(only).is_some() => {
                    return self.object(only, heap);
                }
                _ => {
                    return Err(self.misuse(&format!(
                        "takes arguments by name: write the name of the parameter, like `{}(name = …)`",
                        self.tool.name
                    )));
                }
            }
        }
        let parameters = self
            .tool
            .by_position(positional.len(), named.keys().map(|name| name.as_str()))
            .map_err(|what| self.misuse(&what))?;
        let by_position = parameters.iter().map(String::as_str).zip(positional);
        let by_name = named.iter().map(|(name, value)| (name.as_str(), *value));
        convert::to_object(by_position.chain(by_name), heap)
            .map_err(|unfit| self.misuse(&format!("cannot be called with this: {unfit}")))
    }

    fn misuse(&self, what: &str) -> Error {
        Error::new_kind(starlark::ErrorKind::Function(anyhow::anyhow!("{self} {what}")))
    }
}

impl fmt::Display for Callable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.tool, f)
    }
}

impl fmt::Debug for Callable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use airlock_test_executors::embedded;

    use crate::Starlark;
    use crate::run::tests::{fail, result};

    #[test]
    fn a_tool_takes_no_arguments_by_position() {
        let message = "files.read_file takes arguments by name: write the name of the parameter, like `read_file(name = …)`";
        for call in
            ["files.read_file('a')", "files.read_file('a', 'b')", "files.read_file({}, b = 1)"]
        {
            assert_eq!(fail(call).message, message, "{call}");
        }
    }

    #[test]
    fn functions_are_gathered_and_attempted_with_dicts_of_arguments() {
        let source = "gather([(read, {'path': n}) for n in range(3)])";
        let value = r#"[{"path":0},{"path":1},{"path":2}]"#;
        embedded::check_results::<Starlark>(&[
            (source, value),
            ("attempt(save, {'record': 1}).value", r#"{"record":1}"#),
            ("attempt(refuse).error.code", r#""no_way""#),
            ("type(save).__name__", r#""tool""#),
        ]);
        assert_eq!(embedded::batches::<Starlark>(source), [3]);
        let failure = embedded::fail::<Starlark>("gather([(save, 1)])");
        assert_eq!(failure.message, "save takes a dict of arguments, not an int");
    }

    #[test]
    fn functions_and_inputs_with_the_names_of_built_in_functions_are_no_others() {
        embedded::check_results::<Starlark>(&[
            ("sum(x > 1 for x in [1, 2])", r#"{"values":[false,true]}"#),
            ("def f():\n  global sum\n  sum = [sum(1)]\nf()\nsum", r#"[{"values":1}]"#),
            ("[len[0], id]", "[1,7]"),
        ]);
    }

    #[test]
    fn a_tool_has_a_type() {
        let source = "result = type(files.fail).__name__";
        assert_eq!(result(source).as_deref(), Some("\"tool\""));
    }
}
