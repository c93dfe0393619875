//! Sets of tools, and limits, as Python objects.

use std::sync::Arc;

use airlock_binding::{
    BindingFailure, HostRuntime, LimitValues, NameStyle, RunLimits, ToolPool, ToolSpec,
    parsed_schema,
};
use pyo3::{PyTraverseError, PyVisit, prelude::*};

use crate::{function::CallForm, raise::raise};

/// A tool as the package describes it: name, description, JSON Schema as text, names for positional
/// arguments, whether it needs an approval, is read-only, is `async def`, and what converts its arguments
/// in place.
type ToolFields = (String, String, String, Vec<String>, bool, bool, bool, Option<Py<PyAny>>);

/// Tools whose schemas are compiled. It has no functions: each run brings its own.
#[pyclass(frozen, module = "airlock._airlock")]
pub(crate) struct ToolSet {
    pub(crate) pool: Arc<ToolPool>,
    /// They belong to this object alone, whose references the garbage collector knows.
    pub(crate) forms: Vec<CallForm>,
}

#[pymethods]
impl ToolSet {
    #[new]
    fn new(py: Python<'_>, tools: Vec<ToolFields>) -> PyResult<Self> {
        // Before a schema is compiled, which takes locks.
        HostRuntime::check_fork().map_err(|failure| raise(py, &failure))?;
        let mut specs = Vec::with_capacity(tools.len());
        let mut forms = Vec::with_capacity(tools.len());
        for tool in tools {
            let (spec, form) = described(tool).map_err(|failure| raise(py, &failure))?;
            specs.push(spec);
            forms.push(form);
        }
        let pool = ToolPool::new(specs).map_err(|failure| raise(py, &failure))?;
        Ok(Self { pool: Arc::new(pool), forms })
    }

    /// Returns whether a tool is `async def`.
    #[getter]
    fn has_async(&self) -> bool {
        self.forms.iter().any(|form| form.is_async)
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.forms.iter().try_for_each(|form| visit.call(&form.convert))
    }
}

fn described(tool: ToolFields) -> Result<(ToolSpec, CallForm), BindingFailure> {
    let (name, description, schema, parameters, needs_approval, is_read_only, is_async, convert) =
        tool;
    let input_schema = parsed_schema(&name, &schema)?;
    let spec =
        ToolSpec { name, description, input_schema, parameters, needs_approval, is_read_only };
    Ok((spec, CallForm { is_async, convert }))
}

/// Limits that were checked when they were made.
#[pyclass(frozen, module = "airlock._airlock")]
pub(crate) struct CheckedLimits(pub(crate) RunLimits);

#[pymethods]
impl CheckedLimits {
    #[new]
    fn new(
        py: Python<'_>,
        memory_mb: Option<f64>,
        cpu_seconds: Option<f64>,
        seconds: Option<f64>,
        calls: Option<f64>,
        parallel_calls: Option<f64>,
        nesting: Option<f64>,
    ) -> PyResult<Self> {
        let values =
            LimitValues { memory_mb, cpu_seconds, seconds, calls, parallel_calls, nesting };
        let checked = values.checked(NameStyle::Snake);
        checked.map(Self).map_err(|failure| raise(py, &failure))
    }
}
