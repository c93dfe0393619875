//! Tools as a script sees them: a global for each namespace, with a callable for each tool.
//!
//! A callable takes keyword arguments, or one dict. It is an ordinary value, so `f =
//! files.read_file; f(path = "a")` works. That is no risk, because the host decides every call
//! separately.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use allocative::Allocative;
use starlark::environment::Module;
use starlark::eval::{Arguments, Evaluator};
use starlark::values::dict::DictRef;
use starlark::values::{
    Heap, NoSerialize, ProvidesStaticType, StarlarkPagablePanic, StarlarkValue, Value,
    starlark_value,
};
use starlark::{Error, starlark_simple_value};

use crate::convert;
use crate::run::Binding;

/// The tools behind a run: the host's import in WebAssembly, a stub in tests.
pub trait Tools {
    /// Calls one tool and waits for its result. The error is a message for the reader of the
    /// script.
    fn call(&self, request: Request) -> Result<Answer, String>;

    /// Calls several tools at once. The results are in the order of the requests.
    fn call_batch(&self, requests: Vec<Request>) -> Vec<Result<Answer, String>> {
        requests.into_iter().map(|request| self.call(request)).collect()
    }
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Full name of the tool.
    pub tool: String,
    /// Arguments, as a JSON object.
    pub arguments: String,
}

/// The result of a tool.
#[derive(Clone, Debug)]
pub enum Answer {
    /// Data, as JSON text.
    Json(String),
    /// Text for a reader. It becomes data if it is JSON, and stays a string otherwise.
    Text(String),
}

/// State that the callables reach through the evaluator.
#[derive(ProvidesStaticType)]
pub(crate) struct Session<'a> {
    pub(crate) tools: &'a dyn Tools,
}

impl<'a> Session<'a> {
    pub(crate) fn of<'e>(evaluator: &'e Evaluator<'_, '_, 'a>) -> &'e Self {
        evaluator
            .extra
            .and_then(|extra| extra.downcast_ref())
            .expect("`run` sets the session of every evaluator")
    }
}

/// The error of a tool, as it passes through the interpreter.
#[derive(Debug)]
pub(crate) struct ToolFailure(String);

impl fmt::Display for ToolFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ToolFailure {}

/// The namespaces of one run, kept for error messages.
pub(crate) struct Namespaces {
    all: Vec<Arc<Shelf>>,
    missed: Arc<Missed>,
}

/// The last attribute that was not found, and its namespace. Starlark's own message names neither
/// the namespace nor its tools.
type Missed = Mutex<Option<(Arc<Shelf>, String)>>;

/// The tools of one namespace.
struct Shelf {
    name: String,
    tools: Vec<(Option<String>, Arc<Tool>)>,
}

struct Tool {
    namespace: String,
    name: String,
    full: String,
}

impl Namespaces {
    /// Adds a global to `module` for each namespace. If two bindings have the same name, the first
    /// is used.
    pub(crate) fn bind(bindings: &[Binding], module: &Module<'_>) -> Self {
        let mut shelves: Vec<Shelf> = Vec::new();
        for binding in bindings {
            let at = shelves
                .iter()
                .position(|shelf| shelf.name == binding.namespace)
                .unwrap_or_else(|| {
                    shelves.push(Shelf { name: binding.namespace.clone(), tools: Vec::new() });
                    shelves.len() - 1
                });
            let tool = Tool {
                namespace: binding.namespace.clone(),
                name: binding.name.clone(),
                full: binding.tool.clone(),
            };
            shelves[at].tools.push((binding.alias.clone(), Arc::new(tool)));
        }
        let missed = Arc::new(Missed::default());
        let all: Vec<_> = shelves.into_iter().map(Arc::new).collect();
        for shelf in &all {
            let value = Namespace { shelf: Arc::clone(shelf), missed: Arc::clone(&missed) };
            module.set(&shelf.name, module.heap().alloc(value));
        }
        Self { all, missed }
    }

    /// Iterates over the names of all namespaces.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|shelf| shelf.name.as_str())
    }

    /// Returns namespace, name and the available tools of the last look-up that failed; `None` if
    /// none failed.
    pub(crate) fn missed(&self) -> Option<(String, String, Vec<String>)> {
        let missed = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        missed.as_ref().map(|(shelf, name)| (shelf.name.clone(), name.clone(), shelf.names()))
    }
}

impl Shelf {
    fn find(&self, attribute: &str) -> Option<&Arc<Tool>> {
        let named = self.tools.iter().find(|(_, tool)| tool.name == attribute);
        let found = named
            .or_else(|| self.tools.iter().find(|(alias, _)| alias.as_deref() == Some(attribute)));
        found.map(|(_, tool)| tool)
    }

    fn names(&self) -> Vec<String> {
        self.tools.iter().map(|(_, tool)| tool.name.clone()).collect()
    }
}

/// The global that holds a namespace's tools.
#[derive(ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
struct Namespace {
    #[allocative(skip)]
    shelf: Arc<Shelf>,
    #[allocative(skip)]
    missed: Arc<Missed>,
}
starlark_simple_value!(Namespace);

#[starlark_value(type = "tools")]
impl<'v> StarlarkValue<'v> for Namespace {
    fn get_attr(&self, attribute: &str, heap: Heap<'v>) -> Option<Value<'v>> {
        if let Some(tool) = self.shelf.find(attribute) {
            return Some(heap.alloc(Callable { tool: Arc::clone(tool) }));
        }
        *self.missed.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((Arc::clone(&self.shelf), attribute.into()));
        None
    }

    fn has_attr(&self, attribute: &str, _heap: Heap<'v>) -> bool {
        self.shelf.find(attribute).is_some()
    }

    fn dir_attr(&self) -> Vec<String> {
        self.shelf.names()
    }
}

/// One tool as a callable value.
#[derive(ProvidesStaticType, NoSerialize, Allocative, StarlarkPagablePanic)]
pub(crate) struct Callable {
    #[allocative(skip)]
    tool: Arc<Tool>,
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
        Request { tool: self.tool.full.clone(), arguments }
    }

    /// Converts the result of the tool to a value of the script.
    pub(crate) fn answer<'v>(
        &self,
        answer: Result<Answer, String>,
        heap: Heap<'v>,
    ) -> Result<Value<'v>, ToolFailure> {
        match answer {
            Ok(Answer::Json(json)) => convert::from_json(&json, heap)
                .map_err(|error| self.failure(&format!("its result is not JSON: {error}"))),
            Ok(Answer::Text(text)) => {
                Ok(convert::from_json(&text, heap).unwrap_or_else(|_| heap.alloc(text)))
            }
            Err(message) => Err(self.failure(&message)),
        }
    }

    /// Serializes a dict as a JSON object. Fails for any other value.
    pub(crate) fn object<'v>(&self, value: Value<'v>, heap: Heap<'v>) -> starlark::Result<String> {
        if DictRef::from_value(value).is_none() {
            return Err(
                self.misuse(&format!("takes a dict of arguments, not a {}", value.get_type()))
            );
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
            [only] if named.is_empty() => self.object(only, heap),
            _ => Err(self.misuse("takes arguments by name, like `(key = value)`, or one dict")),
        }
    }

    fn misuse(&self, what: &str) -> Error {
        Error::new_kind(starlark::ErrorKind::Function(anyhow::anyhow!("{self} {what}")))
    }

    fn failure(&self, message: &str) -> ToolFailure {
        ToolFailure(format!("{self}: {message}"))
    }
}

impl fmt::Display for Callable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.tool.namespace, self.tool.name)
    }
}

impl fmt::Debug for Callable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shelf.name)
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
        for (call, message) in [
            ("files.read_file('a')", "files.read_file takes a dict of arguments, not a string"),
            (
                "files.read_file('a', 'b')",
                "files.read_file takes arguments by name, like `(key = value)`, or one dict",
            ),
            (
                "files.read_file({}, b = 1)",
                "files.read_file takes arguments by name, like `(key = value)`, or one dict",
            ),
        ] {
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
        let source = "result = [dir(files), hasattr(files, 'x'), hasattr(files, 'readFile'), getattr(files, 'x', None), type(files.fail)]";
        assert_eq!(
            result(source).as_deref(),
            Some(r#"[["fail","read_file"],false,true,null,"tool"]"#)
        );
    }
}
