//! Failures as exceptions of the package, which `airlock/_errors.py` defines.

use airlock_binding::{BindingFailure, CallId, FailedScript};
use pyo3::{
    exceptions::{PyKeyError, PyValueError},
    prelude::*,
    sync::PyOnceLock,
    types::PyDict,
};

use crate::convert::to_python;

/// Makes the exception of a failure.
pub(crate) fn raise(py: Python<'_>, failure: &BindingFailure) -> PyErr {
    made(py, failure).unwrap_or_else(|error| error)
}

/// Makes the exception of a failure. That of a tool has as its cause what `take_raised` has for the call.
pub(crate) fn raise_from(
    py: Python<'_>,
    failure: &BindingFailure,
    take_raised: impl FnOnce(CallId) -> Option<PyErr>,
) -> PyErr {
    let error = raise(py, failure);
    if let BindingFailure::Script(script) = failure
        && let Some(call) = script.tool.as_ref().and_then(|tool| tool.call)
        && let Some(cause) = take_raised(call)
    {
        error.set_cause(py, Some(cause));
    }
    error
}

fn made(py: Python<'_>, failure: &BindingFailure) -> PyResult<PyErr> {
    static RAISED: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let details = PyDict::new(py);
    match failure {
        // Mistakes of the caller are exceptions of Python itself.
        BindingFailure::Invalid(message) => return Ok(PyValueError::new_err(message.clone())),
        BindingFailure::NoSuchCall(id) => return Ok(PyKeyError::new_err(*id)),
        BindingFailure::Script(script) => describe(script, &details)?,
        BindingFailure::Limit { limit, .. } => details.set_item("limit", *limit)?,
        BindingFailure::Gateway(failure) => {
            details.set_item("code", &failure.code)?;
            for (name, value) in &failure.details {
                details.set_item(name, to_python(py, value)?)?;
            }
        }
        _ => {}
    }
    let raised = RAISED.import(py, "airlock._errors", "raised")?;
    let error = raised.call1((failure.class_name(), failure.to_string(), details))?;
    Ok(PyErr::from_value(error))
}

fn describe(script: &FailedScript, details: &Bound<'_, PyDict>) -> PyResult<()> {
    details.set_item("kind", script.kind)?;
    details.set_item("line", script.line)?;
    details.set_item("column", script.column)?;
    details.set_item("rendered", &script.rendered)?;
    if let Some(tool) = &script.tool {
        details.set_item("tool", &tool.name)?;
        details.set_item("code", tool.code.as_deref())?;
    }
    Ok(())
}
