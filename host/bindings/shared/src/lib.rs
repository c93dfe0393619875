//! The parts that the bindings for Python and Node.js share: the runtime and the sandbox of the process,
//! tools that are prepared once for all runs, runs that wait, printed lines for an event loop, failures as data, bounds on
//! limits and values, and warnings for the log of the program. With the feature `gateway`, also a gateway with functions of the program.
//!
//! This crate knows no interpreter. A binding converts values, makes the calls, and raises the failures.

mod failure;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(feature = "gateway")]
mod gateway_failure;
mod limits;
mod log;
#[cfg(feature = "gateway")]
mod model;
mod printed;
mod process;
#[cfg(feature = "gateway")]
mod request;
mod run;
mod threads;
mod tools;
mod value;

#[cfg(feature = "gateway")]
pub use airlock::{
    ModelFailure, ToolContext,
    door::call_depth,
    tool::{ErrorKind, ToolError},
};
pub use airlock_json::MAX_DEPTH;
pub use airlock_runner::{
    CallId, FunctionCall, FunctionError, MAX_DUMP_BYTES, RunDump, RunLimits, RunRequest,
    RunnerSettings, ScriptLanguage,
};

pub use self::{
    failure::{
        BindingFailure, FailedScript, FailedTool, lost_error, raised_error, raised_message,
        stopped_error,
    },
    limits::{LimitValues, NameStyle},
    log::{LogDelivery, LogRecord, flush_log, forward_log},
    printed::PrintedBatches,
    process::{HostProcess, HostRuntime, RunningScript},
    run::{BindingRun, WaitingRun, read_dump, script_language},
    threads::{FunctionLost, FunctionThreads},
    tools::{CallTarget, ToolPool, ToolSpec, parsed_schema},
    value::{BadValue, MAX_VALUE_BYTES, ValueBudget, parse_value},
};
#[cfg(feature = "gateway")]
pub use self::{
    gateway::{BindingGateway, GatewayChoices, GatewayConfig, GatewayProgram},
    gateway_failure::GatewayFailure,
    model::ModelAnswer,
    request::{BindingChat, RequestOptions},
};
