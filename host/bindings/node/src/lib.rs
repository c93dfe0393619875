//! The native module of the npm package: runs scripts, and sends their calls to the thread of JavaScript.
//!
//! The package beside it is the API: it makes schemas, checks options, converts values to JSON and back,
//! calls the functions of tools, and documents. This module gets tools with finished schemas and values
//! as JSON.
//!
//! A run is a task of the runtime, and never blocks the thread of JavaScript. It sends messages to one
//! function of the package, which the event loop calls: a call of a tool, the end of one that is no longer
//! wanted, a printed line, the end of the run. The package answers by methods of the running script. While
//! the run has the function, the event loop waits for it; a run that waits for a decision has none.
//!
//! | file | purpose |
//! |---|---|
//! | `tools` | sets of tools; scripts and limits as the package passes them |
//! | `run` | runs as objects, and scripts that run |
//! | `caller` | the thread of JavaScript as the caller of one run, and the calls that it makes |
//! | `gateway` | a gateway as an object, and its work |
//! | `program` | the functions that a gateway calls: tools, and a model |
//! | `convert` | values as text for JavaScript |
//! | `failure` | failures as text for JavaScript |
//! | `log` | the log of the program |

mod caller;
mod convert;
mod failure;
pub mod gateway;
mod log;
mod program;
pub mod run;
pub mod tools;
