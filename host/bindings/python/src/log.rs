//! The log of the program: `logging`, with the logger `airlock`.

use airlock_binding::LogRecord;
use pyo3::prelude::*;

const INFO: u32 = 20;
const WARNING: u32 = 30;
const ERROR: u32 = 40;

/// Tells the log of the program that a run takes longer.
pub(crate) fn log_compiling(message: &str) {
    // A log that fails must not end a run.
    let _ = Python::try_attach(|py| log(&logger(py)?, INFO, message));
}

/// Passes on warnings and errors.
pub(crate) fn deliver(records: Vec<LogRecord>) {
    // Without an interpreter, the program ends.
    let _ = Python::try_attach(|py| -> PyResult<()> {
        let logger = logger(py)?;
        for LogRecord { is_error, text } in records {
            // A handler that fails must not take the other records along.
            let _ = log(&logger, if is_error { ERROR } else { WARNING }, &text);
        }
        Ok(())
    });
}

fn logger(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import("airlock._log")?.getattr("logger")
}

fn log(logger: &Bound<'_, PyAny>, level: u32, message: &str) -> PyResult<()> {
    logger.call_method1("log", (level, "%s", message)).map(drop)
}
