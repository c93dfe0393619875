//! Parts of the script executors that do not depend on the language of scripts.
//!
//! An executor implements [`Language`], and this crate makes a component of it. The same code builds
//! natively, with [`Tools`] in place of the host, for tests and for comparing speeds.
//!
//! - [`Language`]: a [`Script`] and its [`Tools`] in, JSON or a [`Failure`] out
//! - [`Bindings`]: the tools of a run by their names in the script, looked up when the script first
//!   uses each
//! - [`SourceCall`]: calls as the source shows them, which are looked at before the first is made
//! - [`ToolFlow`]: what the arguments of calls may come from, as the source shows it
//! - [`json`]: values of a script to JSON
//! - [`traceback`], [`first_hint`], [`advice`]: a [`Failure`] as people and models read it
//! - [`calendar`], [`floats`]: days, and numbers as text
//! - [`Lines`]: printed text, line by line
//! - [`warm_up()`], [`reserve_heap`]: the snapshot in which runs start
//! - `component`: the WIT world around an executor, in WebAssembly alone

pub mod advice;
mod bindings;
pub mod calendar;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod component;
mod failure;
pub mod floats;
mod heap;
mod hints;
pub mod json;
mod lines;
mod source_calls;
mod source_flow;
mod tools;
mod warm_up;

pub use bindings::{Binding, Bindings, Catalogue};
pub use failure::{Failure, FailureKind, traceback};
pub use heap::reserve_heap;
pub use hints::{Hint, first_hint, hint};
pub use lines::Lines;
pub use source_calls::{SourceCall, SourcePlace, SourceValue, WrongCall, refused_calls};
pub use source_flow::{ToolFlow, ValueFlow};
pub use tools::{Request, ToolAnswer, ToolError, Tools};
pub use warm_up::warm_up;

/// A script to run.
#[derive(Clone, Debug)]
pub struct Script {
    /// File name for messages.
    pub name: String,
    /// Source text.
    pub source: String,
    /// Every tool that exists for this run.
    pub bindings: Bindings,
    /// Variables that the script has before its first statement: the members of this JSON object.
    pub inputs: Option<String>,
    /// The time that the script sees, in milliseconds since 1970; `None` if the run has no clock.
    pub clock_ms: Option<i64>,
    /// Whether a script that assigns no global `result` has the value of its last statement, if that is
    /// an expression.
    pub last_expression: bool,
    /// Whether the host asks what the arguments of calls may come from.
    pub follows_values: bool,
}

impl Script {
    /// Creates a script without inputs and clock, whose value is that of its `result` alone.
    pub fn new(name: impl Into<String>, source: impl Into<String>, bindings: Bindings) -> Self {
        Self {
            name: name.into(),
            source: source.into(),
            bindings,
            inputs: None,
            clock_ms: None,
            last_expression: false,
            follows_values: false,
        }
    }
}

/// A language of scripts.
pub trait Language {
    /// Builds the state that all runs share, so that a snapshot taken afterwards contains it.
    ///
    /// # Panics
    ///
    /// If the language cannot run its own warm-up script; the executor must then not be built.
    fn prepare();

    /// Runs a script. Returns the value of the global `result` as JSON, or that of the last expression
    /// if [`Script::last_expression`] applies; `None` if it is missing or `None`.
    ///
    /// `print` receives each line at once. The sandbox handles a panic of the interpreter and an
    /// exhausted stack.
    fn run(
        script: &Script,
        tools: &dyn Tools,
        print: &dyn Fn(&str),
    ) -> Result<Option<String>, Failure>;
}
