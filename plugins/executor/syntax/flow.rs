//! Finds what the arguments of a script's calls may come from, from its source alone.
//!
//! A value may come from the tools whose results it is made of, and from those that decide which value it is. The
//! analysis is sound for scripts that end well: what it leaves out does not reach the argument. It is run until nothing
//! is found any more, and fails if the script is too large for it, or has something that the source does not show; the
//! host then takes every argument to come from all that the script has read.
//!
//! - *Variables* are followed from statement to statement, and joined where branches meet. One that code reads which
//!   runs at another time has every value that it is ever given.
//! - *Objects* are all those that a part of the source makes. What is written into one of them is in all of them from the
//!   beginning, under every name.
//! - *Control*: what a branch or a loop does depends on its conditions; after `return`, `raise`, `assert`,
//!   `break` and `continue`, so does what follows. What a `try` or `with` statement does depends on everything that
//!   its body computes, because that decides how far it comes.
//! - *Tools* may return what the tools of their namespace were given, and tell by it whether these were called.
//! - *Functions* are followed with what all their calls pass. One that is a value may be called with anything that it
//!   meets, and at any time.
//!
//! A failure that nothing catches ends the script. That it has not ended is not followed.
//!
//! | file | purpose |
//! |---|---|
//! | `binder`, `scopes`, `children` | names: where they are bound, and what is not analysed |
//! | `values`, `heap`, `locals` | values, objects and variables |
//! | `state` | the state of the analysis, and its end |
//! | `statements`, `loops`, `catching` | statements |
//! | `expressions`, `calls`, `tools`, `functions` | expressions, and calls in them |
//! | `known` | functions and methods whose effects are known |

#[path = "flow/binder.rs"]
mod binder;
#[path = "flow/calls.rs"]
mod calls;
#[path = "flow/catching.rs"]
mod catching;
#[path = "flow/children.rs"]
mod children;
#[path = "flow/expressions.rs"]
mod expressions;
#[path = "flow/functions.rs"]
mod functions;
#[path = "flow/heap.rs"]
mod heap;
#[path = "flow/known.rs"]
mod known;
#[path = "flow/locals.rs"]
mod locals;
#[path = "flow/loops.rs"]
mod loops;
#[path = "flow/scopes.rs"]
mod scopes;
#[path = "flow/state.rs"]
mod state;
#[path = "flow/statements.rs"]
mod statements;
#[path = "flow/tools.rs"]
mod tools;
#[path = "flow/values.rs"]
mod values;

use airlock_executor::{Bindings, ToolFlow};
use ruff_python_ast::Stmt;

use self::state::FlowAnalysis;

/// Returns what the arguments of all calls of a script may come from, by their tools; `None` if that cannot be
/// decided. `is_input` returns true for the names that the script has from the start.
pub(crate) fn tool_flows(
    body: &[Stmt],
    bindings: &Bindings,
    is_input: &dyn Fn(&str) -> bool,
) -> Option<Vec<ToolFlow>> {
    let scopes = binder::names(body, bindings)?;
    let mut analysis = FlowAnalysis::new(scopes, bindings, is_input);
    analysis.run(body)?;
    Some(analysis.into_flows())
}

#[cfg(test)]
#[path = "flow/tests.rs"]
mod tests;

#[cfg(test)]
#[path = "flow/evasion_tests.rs"]
mod evasion_tests;
