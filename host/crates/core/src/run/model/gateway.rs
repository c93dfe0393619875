//! A gateway: the script from its start, with answers from the journal, as `runs` of the gateway does
//! it. All of it is lost in a crash.

use super::{
    action::ModelAction,
    journal::{Journal, JournalStep, RunEnd},
    run::{ApprovalNeed, ModelRun},
};
use crate::run::{Refused, Stage};

/// A process that can run the script.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ModelGateway {
    Idle,
    Runs(RunningScript),
}

/// A script that runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RunningScript {
    pub(super) epoch: i64,
    /// Number of the block that the script has come to.
    block: u32,
    pub(super) calls: Vec<GatewayCall>,
    /// True if the run is not stored yet.
    pub(super) begins: bool,
    /// Answers that are not stored yet: the line, and the definition of its tool.
    pub(super) unstored: Vec<(usize, usize)>,
    pub(super) stop: Option<LastTransaction>,
}

/// A call as a gateway knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum GatewayCall {
    New {
        attempts: u32,
    },
    Approved {
        attempts: u32,
    },
    Retried {
        attempts: u32,
    },
    Pending,
    InDoubt,
    /// It is answered or denied.
    Answered,
    /// It was decided, and its intent comes next. The number is that of the definition.
    Due {
        attempts: u32,
        definition: usize,
        is_approved: bool,
    },
    /// Its intent is stored.
    Intended {
        attempt: u32,
        definition: usize,
        is_approved: bool,
    },
    /// It was sent.
    Sent {
        attempt: u32,
    },
    /// It is to wait for an approval.
    Waits {
        definition: usize,
    },
}

/// Last transaction of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum LastTransaction {
    Suspends,
    Ends(RunEnd),
}

impl ModelGateway {
    /// Begins the run.
    pub(super) fn begin(run: &ModelRun, definition: usize) -> Self {
        let calls = vec![GatewayCall::New { attempts: 0 }; run.script.len()];
        Self::start(RunningScript::new(1, calls, true), run, definition)
    }

    /// Continues the run that this gateway has just claimed.
    pub(super) fn claim(run: &ModelRun, journal: &Journal, definition: usize) -> Self {
        let script = RunningScript::new(journal.epoch(), known(journal), false);
        Self::start(script, run, definition)
    }

    fn start(mut script: RunningScript, run: &ModelRun, definition: usize) -> Self {
        script.advance(run, definition);
        Self::Runs(script)
    }

    /// Lists what this gateway, number `own`, may do next.
    pub(super) fn steps(&self, own: usize, steps: &mut Vec<ModelAction>) {
        let Self::Runs(script) = self else { return };
        if script.stop.is_some() {
            return steps.push(ModelAction::Stop(own));
        }
        for (line, known) in script.calls.iter().enumerate() {
            match known {
                GatewayCall::Due { .. } => steps.push(ModelAction::Intend(own, line)),
                GatewayCall::Intended { .. } => steps.push(ModelAction::Send(own, line)),
                GatewayCall::Sent { .. } => steps.push(ModelAction::Answer(own, line)),
                _ => {}
            }
        }
    }
}

/// Reads the calls of the journal.
fn known(journal: &Journal) -> Vec<GatewayCall> {
    let known = journal.rows.iter().map(|row| {
        let Some(call) = &row.call else { return GatewayCall::New { attempts: 0 } };
        match call.stage {
            Stage::Pending { .. } => GatewayCall::Pending,
            Stage::Approved { attempts, .. } => GatewayCall::Approved { attempts },
            Stage::Retried { attempts, .. } => GatewayCall::Retried { attempts },
            Stage::Denied | Stage::Answered => GatewayCall::Answered,
            Stage::Sent { attempt } => GatewayCall::New { attempts: attempt },
            Stage::InDoubt { .. } => GatewayCall::InDoubt,
        }
    });
    known.collect()
}

impl RunningScript {
    fn new(epoch: i64, calls: Vec<GatewayCall>, begins: bool) -> Self {
        Self { epoch, block: 1, calls, begins, unstored: Vec::new(), stop: None }
    }

    /// Runs the script until it waits for a transaction or for the upstream.
    pub(super) fn advance(&mut self, run: &ModelRun, definition: usize) {
        while self.stop.is_none() {
            let lines = lines(run, self.block);
            let calls = &self.calls[lines.clone()];
            if calls.is_empty() {
                self.stop = Some(LastTransaction::Ends(RunEnd::Completed));
            } else if calls.iter().any(GatewayCall::is_running) {
                return;
            } else if calls.iter().any(|known| matches!(known, GatewayCall::Waits { .. })) {
                self.stop = Some(LastTransaction::Suspends);
            } else if calls.iter().all(|known| *known == GatewayCall::Answered) {
                self.block += 1;
            } else {
                self.decide(run, lines, definition);
            }
        }
    }

    /// Decides the calls of a block. If one of them needs a decision of a person, none is made.
    fn decide(&mut self, run: &ModelRun, lines: std::ops::Range<usize>, definition: usize) {
        let mut decided = self.calls.clone();
        for line in lines.clone() {
            decided[line] = self.calls[line].decided(run, line, definition);
        }
        let suspends = decided[lines.clone()]
            .iter()
            .any(|known| matches!(known, GatewayCall::Waits { .. } | GatewayCall::InDoubt));
        if suspends {
            for line in lines {
                if let GatewayCall::Waits { .. } = decided[line] {
                    self.calls[line] = decided[line];
                }
            }
            self.stop = Some(LastTransaction::Suspends);
            return;
        }
        self.calls = decided;
        for line in lines {
            if let GatewayCall::Due { attempts, definition, is_approved: false } = self.calls[line]
                && run.script[line].is_repeatable
            {
                self.calls[line] = GatewayCall::Answered;
                // A call that the journal has is made again, and its answer is not stored.
                if attempts == 0 {
                    self.unstored.push((line, definition));
                }
            }
        }
    }

    /// Takes the steps that are not stored yet.
    pub(super) fn unstored(&mut self, run: &ModelRun) -> Vec<JournalStep> {
        let begin = std::mem::take(&mut self.begins).then_some(JournalStep::Begin);
        let records = std::mem::take(&mut self.unstored);
        let records = records.into_iter().map(|(line, definition)| {
            JournalStep::Record(line, run.called[line][definition].clone())
        });
        begin.into_iter().chain(records).collect()
    }

    /// Notes that the store has refused a step.
    pub(super) fn refused(&mut self, refused: Refused) {
        let outcome = match refused {
            Refused::Cancelled => RunEnd::Cancelled,
            _ => RunEnd::Failed,
        };
        self.stop = Some(LastTransaction::Ends(outcome));
    }

    /// Returns the steps that ask for approvals.
    pub(super) fn asks(&self, run: &ModelRun) -> impl Iterator<Item = JournalStep> {
        self.calls.iter().enumerate().filter_map(|(line, known)| match known {
            GatewayCall::Waits { definition } => {
                Some(JournalStep::Ask(line, run.called[line][*definition].clone()))
            }
            _ => None,
        })
    }
}

impl GatewayCall {
    fn is_running(&self) -> bool {
        matches!(self, Self::Due { .. } | Self::Intended { .. } | Self::Sent { .. })
    }

    /// Returns the call after it is decided.
    fn decided(self, run: &ModelRun, line: usize, current: usize) -> Self {
        let needs_approval = run.script[line].approval == ApprovalNeed::Before;
        match self {
            // The protocol alone decides whether the approval is good.
            Self::Approved { attempts } => {
                Self::Due { attempts, definition: current, is_approved: true }
            }
            Self::Pending => Self::Waits { definition: current },
            Self::New { .. } if needs_approval => Self::Waits { definition: current },
            // One that is retried may be made; a call that a plugin makes in it still needs an approval.
            Self::New { attempts } | Self::Retried { attempts } => {
                Self::Due { attempts, definition: current, is_approved: false }
            }
            other => other,
        }
    }
}

/// Lines of a block.
fn lines(run: &ModelRun, block: u32) -> std::ops::Range<usize> {
    let start = run.script.partition_point(|line| line.position.block < block);
    let end = run.script.partition_point(|line| line.position.block <= block);
    start..end
}
