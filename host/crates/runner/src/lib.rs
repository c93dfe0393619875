//! Untrusted scripts inside a program, with functions of the program as their tools. No configuration, no server, no store.
//!
//! A [`Runner`] has the sandbox. A [`RunRequest`] is a script in Starlark or Python with its inputs, its [`Functions`] and
//! its [`RunLimits`]. Each run has a fresh instance without clock, randomness, files and network; all that it can reach are
//! its functions. Each call of one is decided by the [`door`](airlock_core::door), like every call of a gateway's tools.
//!
//! ```no_run
//! use airlock_runner::{Function, Functions, RunRequest, RunState, Runner, RunnerSettings, ScriptLanguage};
//! use serde_json::json;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let runner = Runner::new(RunnerSettings::default())?;
//! let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
//! let functions = Functions::new([Function::new("degrees", "Returns the temperature.", schema, async |call| {
//!     Ok(json!(if call.arguments()["city"] == "Oslo" { 4 } else { 20 }))
//! })])?;
//! let request = RunRequest::new(ScriptLanguage::Python, "degrees('Oslo') + offset")
//!     .with_functions(functions)
//!     .with_input("offset", 10);
//! let RunState::Finished(run) = runner.run(request).await? else { unreachable!("no function needs an approval") };
//! assert_eq!(run.value, Some(json!(14)));
//! # Ok(())
//! # }
//! ```
//!
//! A function that [needs an approval](Function::needs_approval) is not called at once. The script stops, nothing of it is
//! left in the sandbox, and the run is a [`PendingRun`]: an object with the calls that wait. It can be kept as bytes
//! ([`RunDump`]), and is resumed with [`Runner::resume`] once the calls are decided about: the script runs again, and calls
//! that were answered get their answers from the journal and are not made again.
//!
//! | file | purpose |
//! |---|---|
//! | `runner`, `settings` | runs scripts in the sandbox, with an executor for each language |
//! | `request`, `limits` | a script with all that it gets, and the bounds on it |
//! | `function`, `functions` | functions as tools, prepared once for all runs |
//! | `calls` | makes the calls of one script: known answers, the decision at the door, the call itself |
//! | `journal` | the calls of a run, with their answers and the decisions about them |
//! | `printed` | the printed text of a run |
//! | `state`, `dump` | ends of a run: finished, or waiting; a run as bytes |
//! | `error` | failures of a run |
//! | `depth` | bounds the nesting of values |

mod calls;
mod depth;
mod dump;
mod error;
mod function;
mod functions;
mod journal;
mod limits;
mod printed;
mod request;
mod runner;
mod settings;
mod state;

pub use self::{
    dump::{BadDump, MAX_DUMP_BYTES, RunDump},
    error::{FailedFunction, InputProblem, RunError, ScriptFailure},
    function::{Function, FunctionCall, FunctionError, RunContext},
    functions::{BadFunction, Functions},
    limits::RunLimits,
    request::{MAX_CODE_BYTES, MAX_INPUT_BYTES, PrintHook, RunRequest},
    runner::Runner,
    settings::{MessageHook, RunnerError, RunnerSettings},
    state::{FinishedRun, NoSuchCall, PendingCall, PendingDecision, PendingRun, RunState},
};
pub use airlock_core::{
    door::{CallId, ScriptLanguage},
    tool::ErrorKind,
};
pub use airlock_sandbox::FailureKind;
