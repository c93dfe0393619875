//! The script executor: a Starlark interpreter that can call tools and nothing else.
//!
//! Compiled to WebAssembly, it exports the world `script-executor` and imports no WASI, so a script
//! has no clock, no randomness, no files and no network. Its result and its fuel depend only on its
//! source and on the results of tools. The host decides which tools exist and whether a call is
//! permitted: nothing here is a policy check.
//!
//! The same code builds natively, with [`Tools`](airlock_executor::Tools) in place of the host, for tests and for comparing
//! speeds. What does not depend on the language is in `airlock-executor`.
//!
//! - `run`: a script from source to result
//! - `tool`: tools as a script sees them: `files.read_file(path = "a")`
//! - `lower`: Python that Starlark lacks, rewritten before the run
//! - `airlock-starlark-library`, a crate of its own: Python's library on Starlark's values, and JSON to values and back
//! - `source_calls`: the calls that the source shows, which are looked at before the first is made
//! - `source_flow`: what the arguments of calls may come from, if the host asks for it
//! - `builtins`: the global functions, of this crate and of Starlark
//! - `hints`: hints for Python that Starlark lacks
//! - `component`: the WIT world around the interpreter, in WebAssembly alone

#[expect(clippy::unnecessary_wraps, reason = "Starlark's macro requires results")]
mod builtins;
#[cfg(target_arch = "wasm32")]
mod component;
mod failure;
mod hints;
#[expect(clippy::format_push_string, reason = "texts are short, and this reads best")]
mod lower;
mod run;
#[path = "../../executor/syntax/calls.rs"]
mod source_calls;
#[path = "../../executor/syntax/flow.rs"]
mod source_flow;
#[expect(
    unsafe_code,
    reason = "the derives that make a Starlark value implement unsafe marker traits"
)]
mod tool;

/// The language of this executor.
pub struct Starlark;
