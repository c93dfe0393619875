//! Tools as a script sees them: a global for each namespace, with a callable for each tool.
//!
//! A callable takes keyword arguments, or one dict. It is an ordinary value, so `f =
//! files.read_file; f(path = "a")` works. That is no risk, because the host decides every call
//! separately.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use airlock_executor::{Answer, Binding, Bindings, Request, ToolError, Tools};
use allocative::Allocative;
use starlark::environment::Module;
use starlark::eval::{Arguments, Evaluator};
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value,
    starlark_value,
};
use starlark::{Error, starlark_simple_value};

use crate::convert;
use crate::library::regex::Patterns;
use crate::library::text;
use crate::library::values::as_dict;

/// State of a run that its functions reach through the evaluator.
#[derive(ProvidesStaticType)]
pub(crate) struct Session<'a> {
    pub(crate) tools: &'a dyn Tools,
    /// Receives each printed line.
    line: &'a dyn Fn(&str),
    /// Text that was printed after the last line.
    pending: RefCell<String>,
    /// Regular expressions that were compiled.
    pub(crate) patterns: RefCell<Patterns>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(tools: &'a dyn Tools, line: &'a dyn Fn(&str)) -> Self {
        Self { tools, line, pending: RefCell::default(), patterns: RefCell::default() }
    }

    pub(crate) fn of<'e>(evaluator: &'e Evaluator<'_, '_, 'a>) -> &'e Self {
        evaluator
            .extra
            .and_then(|extra| extra.downcast_ref())
            .expect("`run` sets the session of every evaluator")
    }

    /// Prints a text and its end, each line as soon as it is complete.
    pub(crate) fn print(&self, text: &str, end: &str) {
        let mut pending = self.pending.borrow_mut();
        pending.push_str(text);
        pending.push_str(end);
        let Some(last) = pending.rfind('\n') else { return };
        pending[..last].split('\n').for_each(self.line);
        pending.drain(..=last);
    }

    /// Prints what is left without an end.
    pub(crate) fn flush(&self) {
        let rest = self.pending.take();
        if !rest.is_empty() {
            (self.line)(&rest);
        }
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

/// The failure of a tool as a value: `error.kind`, `error.code`, `error.message`, `error.data`. As
/// text it is its message.
#[derive(Debug, ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct ErrorValue(#[allocative(skip)] ToolError);
starlark_simple_value!(ErrorValue);

impl fmt::Display for ErrorValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl ErrorValue {
    const FIELDS: [&'static str; 4] = ["kind", "code", "message", "data"];

    /// Iterates over names and values of the fields.
    pub(crate) fn fields<'v>(
        &self,
        heap: Heap<'v>,
    ) -> impl Iterator<Item = (&'static str, Value<'v>)> {
        Self::FIELDS.into_iter().filter_map(move |name| Some((name, self.get_attr(name, heap)?)))
    }
}

#[starlark_value(type = "error")]
impl<'v> StarlarkValue<'v> for ErrorValue {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        let ToolError { kind, code, message, data } = &self.0;
        let none = Value::new_none();
        match attribute {
            "kind" => Some(heap.alloc(&**kind)),
            "code" => Some(code.as_deref().map_or(none, |code| heap.alloc(code))),
            "message" => Some(heap.alloc(&**message)),
            "data" => {
                let data = data.as_deref().and_then(|json| convert::from_json(json, heap).ok());
                Some(data.unwrap_or(none))
            }
            _ => None,
        }
    }

    fn dir_attr(&self) -> Vec<String> {
        Self::FIELDS.map(Into::into).to_vec()
    }

    /// `"text" in error` looks into the message.
    fn is_in(&self, other: Value<'v>) -> starlark::Result<bool> {
        Ok(other.unpack_str().is_some_and(|text| self.0.message.contains(text)))
    }
}

/// The namespaces of one run, kept for error messages.
pub(crate) struct Namespaces {
    bindings: Bindings,
    missed: Arc<Missed>,
}

/// Namespace and name of the last attribute that was not found. Starlark's own message names neither
/// the namespace nor its tools.
type Missed = Mutex<Option<(String, String)>>;

impl Namespaces {
    /// Adds a global to `module` for each namespace that the script can name.
    pub(crate) fn bind(bindings: &Bindings, module: &Module<'_>) -> Self {
        let missed = Arc::new(Missed::default());
        for name in bindings.named() {
            let (bindings, missed) = (bindings.clone(), Arc::clone(&missed));
            let value = Namespace { name: name.to_owned(), bindings, missed };
            module.set(name, module.heap().alloc(value));
        }
        Self { bindings: bindings.clone(), missed }
    }

    /// Returns the names of all namespaces.
    pub(crate) fn names(&self) -> Vec<String> {
        self.bindings.namespaces()
    }

    /// Returns the tool that a script means by one name, as the script must write it: the name of the
    /// tool alone, or with the namespace and an underscore before it. `None` if there is no such tool.
    pub(crate) fn spelled(&self, name: &str) -> Option<String> {
        self.bindings.spelled(name)
    }

    /// Returns namespace, name and the available tools of the last look-up that failed; `None` if
    /// none failed.
    pub(crate) fn missed(&self) -> Option<(String, String, Vec<String>)> {
        let missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (namespace, name) = missed?;
        let tools = self.bindings.names(&namespace);
        Some((namespace, name, tools))
    }
}

/// The global that holds a namespace's tools.
#[derive(ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
struct Namespace {
    name: String,
    #[allocative(skip)]
    bindings: Bindings,
    #[allocative(skip)]
    missed: Arc<Missed>,
}
starlark_simple_value!(Namespace);

#[starlark_value(type = "tools")]
impl<'v> StarlarkValue<'v> for Namespace {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        if let Some(tool) = self.bindings.find(&self.name, attribute) {
            return Some(heap.alloc(Callable { tool }));
        }
        *self.missed.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((self.name.clone(), attribute.into()));
        None
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
        let answer = Session::of(evaluator).tools.call(request);
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
        answer: Result<Answer, ToolError>,
        heap: Heap<'v>,
    ) -> Result<Value<'v>, ToolFailure> {
        match answer {
            Ok(Answer::Json(json)) => convert::from_json(&json, heap).map_err(|error| {
                self.failure(ToolError::internal(format!("its result is not JSON: {error}")))
            }),
            Ok(Answer::Text(text)) => Ok(text_or_data(text, heap)),
            Err(error) => Err(self.failure(error)),
        }
    }

    /// Serializes a dict as a JSON object. Fails for any other value.
    pub(crate) fn object<'v>(&self, value: Value<'v>, heap: Heap<'v>) -> starlark::Result<String> {
        if as_dict(value).is_none() {
            let (name, value) = (text::type_name(value), value.get_type());
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
        match positional[..] {
            [] => {
                let fields = named.iter().map(|(name, value)| (name.as_str(), *value));
                convert::to_object(fields, heap)
                    .map_err(|unfit| self.misuse(&format!("cannot be called with this: {unfit}")))
            }
            [only] if named.is_empty() && as_dict(only).is_some() => self.object(only, heap),
            _ => Err(self.misuse(&format!(
                "takes arguments by name: write the name of the parameter, like `{}(name = …)`",
                self.tool.name
            ))),
        }
    }

    fn misuse(&self, what: &str) -> Error {
        Error::new_kind(starlark::ErrorKind::Function(anyhow::anyhow!("{self} {what}")))
    }

    fn failure(&self, error: ToolError) -> ToolFailure {
        ToolFailure { tool: self.to_string(), error }
    }
}

fn text_or_data(text: String, heap: Heap<'_>) -> Value<'_> {
    convert::from_json(&text, heap).unwrap_or_else(|_| heap.alloc(text))
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
    use crate::run::tests::{fail, result};

    #[test]
    fn a_script_that_uses_two_of_500_tools_asks_for_two() {
        airlock_executor::testing::check_lazy_bindings::<crate::Starlark>();
    }

    #[test]
    fn arguments_are_given_by_name_or_as_one_dict() {
        for call in [
            "files.read_file(a = 1, b = [2])",
            "files.read_file({'a': 1, 'b': [2]})",
            "files.read_file(**{'a': 1, 'b': [2]})",
        ] {
            assert_eq!(
                result(&format!("result = {call}")).as_deref(),
                Some(r#"{"a":1,"b":[2]}"#),
                "{call}"
            );
        }
        let message = "files.read_file takes arguments by name: write the name of the parameter, like `read_file(name = …)`";
        for call in
            ["files.read_file('a')", "files.read_file('a', 'b')", "files.read_file({}, b = 1)"]
        {
            assert_eq!(fail(call).message, message, "{call}");
        }
    }

    #[test]
    fn a_tool_is_an_ordinary_value() {
        let source = "
f = files.read_file
result = [f(n = 1), getattr(files, 'read_file')(n = 2), [g(n = 3) for g in [files.readFile]], {'f': f}['f'](n = 4)]
";
        assert_eq!(result(source).as_deref(), Some(r#"[{"n":1},{"n":2},[{"n":3}],{"n":4}]"#));
    }

    #[test]
    fn a_namespace_can_be_inspected() {
        let source = "result = [dir(files), hasattr(files, 'x'), hasattr(files, 'readFile'), getattr(files, 'x', None), type(files.fail).__name__]";
        assert_eq!(
            result(source).as_deref(),
            Some(r#"[["fail","fail_at_length","read_file"],false,true,null,"tool"]"#)
        );
    }
}
