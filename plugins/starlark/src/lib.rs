//! The script executor: a Starlark interpreter that knows tools and nothing else.
//!
//! Compiled to WebAssembly it exports the world `script-executor` and imports no WASI, so a script
//! has no clock, no randomness, no files and no network; what it returns and the fuel it burns
//! follow from its source and the tools' answers alone. Which tools exist and whether a call is
//! allowed is decided by the host: nothing here is a policy check.
//!
//! The same code builds natively, with [`Tools`] in the place of the host, for tests and for
//! comparing speeds.
//!
//! - [`run`](run()): source and bindings in, JSON or a [`Failure`] out
//! - `tool`: what a script sees of tools: `files.read_file(path = "a")`
//! - `builtins`: the global functions, ours and Starlark's
//! - `convert`: JSON to Starlark values and back
//! - `hints`: what to write in place of the Python that Starlark lacks
//! - `component`: the WIT world around it, in WebAssembly alone

mod builtins;
#[cfg(target_arch = "wasm32")]
mod component;
mod convert;
mod failure;
mod hints;
mod run;
#[expect(
    unsafe_code,
    reason = "the derives that make a Starlark value implement unsafe marker traits"
)]
mod tool;

pub use failure::{Failure, FailureKind};
pub use run::{Binding, Script, prepare, run};
pub use tool::{Answer, Request, Tools};
