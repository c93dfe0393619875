//! Calls of the functions of a program: their form, their arguments, and the exceptions that they raise.

use airlock_binding::{FunctionError, stopped_error};
use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyTuple},
};
use serde_json::{Map, Value};

use crate::convert::to_dict;

/// Form in which a function is called.
pub(crate) struct CallForm {
    pub(crate) is_async: bool,
    /// Converts the arguments in place, a dict; `None` if JSON has their types.
    pub(crate) convert: Option<Py<PyAny>>,
}

/// A function, and its keyword arguments.
pub(crate) type PreparedCall<'py> = (Bound<'py, PyAny>, Bound<'py, PyDict>);

/// Returns the function of a tool, and its arguments.
pub(crate) fn prepared<'py>(
    py: Python<'py>,
    forms: &[CallForm],
    functions: &Py<PyTuple>,
    tool: usize,
    arguments: &Map<String, Value>,
) -> PyResult<PreparedCall<'py>> {
    let arguments = to_dict(py, arguments)?;
    if let Some(convert) = &forms[tool].convert {
        convert.call1(py, (&arguments,))?;
    }
    Ok((functions.bind(py).get_item(tool)?, arguments))
}

/// Calls a function in a copy of a context: one is entered by one thread at a time.
pub(crate) fn call_in_context<'py>(
    py: Python<'py>,
    context: &Py<PyAny>,
    function: Bound<'py, PyAny>,
    arguments: &Bound<'py, PyDict>,
) -> PyResult<Bound<'py, PyAny>> {
    let context = context.call_method0(py, intern!(py, "copy"))?;
    let run = context.getattr(py, intern!(py, "run"))?;
    run.bind(py).call((function,), Some(arguments))
}

/// Returns a copy of a context for a call of a gateway, whose requests to the gateway are deeper than the call, and whose
/// scripts are within those around the call.
pub(crate) fn context_at_depth(
    py: Python<'_>,
    context: &Py<PyAny>,
    depth: u32,
    nesting: u32,
) -> PyResult<Py<PyAny>> {
    static ENTER: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let enter = ENTER.import(py, "airlock._depth", "enter")?;
    let context = context.call_method0(py, intern!(py, "copy"))?;
    context.call_method1(py, intern!(py, "run"), (enter, depth, nesting))?;
    Ok(context)
}

/// Returns the name of the type of an exception, and its text.
pub(crate) fn described(py: Python<'_>, error: &PyErr) -> (String, String) {
    let kind = error.get_type(py).name().map_or_else(|_| "error".into(), |name| name.to_string());
    let text = error.value(py).str().map_or_else(|_| String::new(), |text| text.to_string());
    (kind, text)
}

/// Runs with the interpreter. Fails if the program ends.
pub(crate) fn attached<T>(
    run: impl FnOnce(Python<'_>) -> Result<T, FunctionError>,
) -> Result<T, FunctionError> {
    Python::try_attach(run).unwrap_or_else(|| Err(stopped_error()))
}
