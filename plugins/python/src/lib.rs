//! The script executor for Python: an interpreter of a subset that can call tools and nothing else.
//!
//! Compiled to WebAssembly, it exports the world `script-executor` and imports no WASI, so a script
//! has no clock but the moment that the host gives it, no randomness, no files and no network. Its
//! result and its fuel depend only on its source, that moment and the results of tools. The host
//! decides which tools exist and whether a call is permitted: nothing here is a policy check.
//!
//! The same code builds natively, with [`Tools`](airlock_executor::Tools) in place of the host, for tests. What does not depend
//! on the language is in `airlock-executor`.
//!
//! - `run`: a script from source to result
//! - `session`: answers the interpreter wherever it stops: names, calls of tools, files and clocks
//! - `tool`: tools and their results as values of the interpreter
//! - `lower`: changes in a script that the interpreter does not take as it is, with `lower::flow`
//!   (calls that are awaited), `lower::concurrency` (the rest of `asyncio`), `lower::errors`
//!   (attributes of a failed tool), `lower::habits` and `lower::deletions` (expressions and
//!   statements), `lower::numbers` (truth values in sums), `lower::methods` (methods of texts, dates,
//!   sets and regular expressions), `lower::calls` (tools in key functions), `lower::percent` (`%`),
//!   `lower::library` and `lower::dataclasses` (modules), `lower::decorators` (of methods), `lower::prelude` (functions in Python that a
//!   changed script calls), `lower::names` (what the script binds), `lower::lacks` (what is missing),
//!   `lower::unawaited` (what is never called or awaited), `lower::syntax` (the tree and the tokens of the
//!   script) and `lower::source` (places in the changed text and in the script)
//! - `protocol`: names and values by which a changed script asks its session
//! - `source_calls`: the calls that the source shows, which are looked at before the first is made
//! - `source_flow`: what the arguments of calls may come from, if the host asks for it
//! - `clock`: the moment that a run sees, if it sees one
//! - `convert`: JSON to Python values and back
//! - `failure`, `hints`: a failed script as people and models read it
//! - `component`: the WIT world around the interpreter, in WebAssembly alone

mod clock;
#[cfg(target_arch = "wasm32")]
mod component;
mod convert;
mod failure;
mod hints;
mod lower;
mod protocol;
mod run;
mod session;
#[path = "../../executor/syntax/calls.rs"]
mod source_calls;
#[path = "../../executor/syntax/flow.rs"]
mod source_flow;
mod tool;

/// The language of this executor.
pub struct Python;
