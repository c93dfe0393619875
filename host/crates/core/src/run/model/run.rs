//! The script of a run, and bounds on what happens to it.

use crate::run::{Called, Position};

/// A call of the script.
#[derive(Debug, Clone, Copy)]
pub(super) struct ScriptLine {
    pub(super) position: Position,
    pub(super) is_repeatable: bool,
    pub(super) approval: ApprovalNeed,
}

/// Need of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApprovalNeed {
    No,
    /// Before the call is made.
    Before,
    /// A plugin runs, and its own call needs the approval. An approval of the plugin's call is
    /// enough; a decision to retry it is not.
    Within,
}

/// A run, with bounds on what happens to it.
pub(super) struct ModelRun {
    pub(super) script: Vec<ScriptLine>,
    /// Each line with each definition of its tool.
    pub(super) called: Vec<[Called; 2]>,
    /// Times that the run is begun or continued.
    pub(super) epochs: i64,
    /// Time at which the clock stops.
    pub(super) end_ms: i64,
    /// Decisions of the person about calls.
    pub(super) decisions: u32,
    /// True if the definitions of the tools change once.
    pub(super) redefines: bool,
}

impl ModelRun {
    pub(super) fn new(script: &[(&str, bool, ApprovalNeed)]) -> Self {
        let lines = script.iter().map(|&(position, is_repeatable, approval)| ScriptLine {
            position: position.parse().expect("a position"),
            is_repeatable,
            approval,
        });
        let called = script.iter().map(|&(position, is_repeatable, _)| {
            ["old", "new"].map(|definition| Called {
                tool: position.into(),
                arguments: "{}".into(),
                definition: definition.into(),
                is_repeatable,
                written: None,
                sources: None,
                asked_by: None,
            })
        });
        Self {
            script: lines.collect(),
            called: called.collect(),
            epochs: 3,
            end_ms: 3,
            decisions: 3,
            redefines: false,
        }
    }
}
