//! The native module of the Python package: runs scripts and gateways, converts values, and calls tools.
//!
//! The package `airlock` beside it is the API: it reads functions, makes schemas, and documents. This
//! module gets tools with finished schemas, and functions that take keyword arguments.
//!
//! A run without an event loop is polled on the thread of its caller, detached from the interpreter: a
//! plain function is called on that thread, and no other thread is woken for it. A run with an event loop
//! is a task of the runtime. In both cases a tool is called attached, and its result is converted before
//! the thread detaches again.
//!
//! | file | purpose |
//! |---|---|
//! | `run` | the runs and functions that the package calls |
//! | `caller` | the caller of one run: its functions, its event loop, what they raised |
//! | `gateway` | a gateway, and streamed chats |
//! | `work` | work of a gateway, on the thread of its caller or beside an event loop |
//! | `program` | the functions of the program that a gateway calls |
//! | `function` | calls of functions: their form, their arguments, their exceptions |
//! | `reply` | ends of calls on an event loop |
//! | `interrupt` | exceptions that end what a caller waits for |
//! | `drive` | polls a run on the thread of its caller, and checks for signals |
//! | `spawn` | runs a script beside an event loop |
//! | `tools` | sets of tools |
//! | `convert` | Python values to JSON and back |
//! | `log` | the log of the program |
//! | `raise` | failures as exceptions of the package |

mod caller;
mod convert;
mod drive;
mod function;
mod gateway;
mod interrupt;
mod log;
mod program;
mod raise;
mod reply;
mod run;
mod spawn;
mod tools;
mod work;

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_airlock")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    airlock_binding::forward_log(log::deliver);
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("MAX_VALUE_BYTES", airlock_binding::MAX_VALUE_BYTES)?;
    module.add_class::<tools::ToolSet>()?;
    module.add_class::<tools::CheckedLimits>()?;
    module.add_class::<run::RunHandle>()?;
    module.add_class::<spawn::SpawnedRun>()?;
    module.add_class::<reply::CallReply>()?;
    module.add_class::<caller::LineQueue>()?;
    module.add_class::<gateway::GatewayHandle>()?;
    module.add_class::<gateway::ChatHandle>()?;
    module.add_class::<work::GatewayWork>()?;
    module.add_function(wrap_pyfunction!(gateway::start_gateway, module)?)?;
    module.add_function(wrap_pyfunction!(run::run, module)?)?;
    module.add_function(wrap_pyfunction!(run::resume, module)?)?;
    module.add_function(wrap_pyfunction!(run::close, module)?)?;
    module.add_function(wrap_pyfunction!(run::forked, module)?)?;
    module.add_function(wrap_pyfunction!(run::load, module)?)?;
    module.add_function(wrap_pyfunction!(run::replay, module)?)?;
    module.add_function(wrap_pyfunction!(spawn::spawn_run, module)?)?;
    module.add_function(wrap_pyfunction!(spawn::spawn_resume, module)?)?;
    Ok(())
}
