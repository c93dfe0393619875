//! A gateway: the script from its start, with answers from the journal, as `runs` of the gateway does
//! it. All of it is lost in a crash.

use super::{
    Action, Approval, Run, State,
    journal::{Journal, Outcome, Step},
    record::Fault,
};
use crate::run::{Phase, Refused, Stage};

/// A process that can run the script.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Gateway {
    Idle,
    Runs(Script),
}

/// A script that runs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Script {
    pub(super) epoch: i64,
    /// Number of the block that the script has come to.
    block: u32,
    pub(super) calls: Vec<Known>,
    /// True if the run is not stored yet.
    begins: bool,
    /// Answers that are not stored yet: the line, and the definition of its tool.
    unstored: Vec<(usize, usize)>,
    stop: Option<Stop>,
}

/// A call as a gateway knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Known {
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
enum Stop {
    Suspends,
    Ends(Outcome),
}

impl Gateway {
    /// Begins the run.
    pub(super) fn begin(run: &Run, state: &State) -> Self {
        let calls = vec![Known::New { attempts: 0 }; run.script.len()];
        Self::start(Script::new(1, calls, true), run, state)
    }

    /// Continues the run that this gateway has just claimed.
    pub(super) fn claim(run: &Run, state: &State) -> Self {
        let script = Script::new(state.journal.epoch(), known(&state.journal), false);
        Self::start(script, run, state)
    }

    fn start(mut script: Script, run: &Run, state: &State) -> Self {
        script.go_on(run, state.definition);
        Self::Runs(script)
    }

    /// Lists what this gateway, number `own`, may do next.
    pub(super) fn steps(&self, own: usize, steps: &mut Vec<Action>) {
        let Self::Runs(script) = self else { return };
        if script.stop.is_some() {
            return steps.push(Action::Stop(own));
        }
        for (line, known) in script.calls.iter().enumerate() {
            match known {
                Known::Due { .. } => steps.push(Action::Intend(own, line)),
                Known::Intended { .. } => steps.push(Action::Send(own, line)),
                Known::Sent { .. } => steps.push(Action::Answer(own, line)),
                _ => {}
            }
        }
    }
}

/// Reads the calls of the journal.
fn known(journal: &Journal) -> Vec<Known> {
    let known = journal.rows.iter().map(|row| {
        let Some(call) = &row.call else { return Known::New { attempts: 0 } };
        match call.stage {
            Stage::Pending { .. } => Known::Pending,
            Stage::Approved { attempts, .. } => Known::Approved { attempts },
            Stage::Retried { attempts, .. } => Known::Retried { attempts },
            Stage::Denied | Stage::Answered => Known::Answered,
            Stage::Sent { attempt } => Known::New { attempts: attempt },
            Stage::InDoubt { .. } => Known::InDoubt,
        }
    });
    known.collect()
}

impl Script {
    fn new(epoch: i64, calls: Vec<Known>, begins: bool) -> Self {
        Self { epoch, block: 1, calls, begins, unstored: Vec::new(), stop: None }
    }

    /// Runs the script until it waits for a transaction or for the upstream.
    fn go_on(&mut self, run: &Run, definition: usize) {
        while self.stop.is_none() {
            let lines = lines(run, self.block);
            let calls = &self.calls[lines.clone()];
            if calls.is_empty() {
                self.stop = Some(Stop::Ends(Outcome::Completed));
            } else if calls.iter().any(Known::is_running) {
                return;
            } else if calls.iter().any(|known| matches!(known, Known::Waits { .. })) {
                self.stop = Some(Stop::Suspends);
            } else if calls.iter().all(|known| *known == Known::Answered) {
                self.block += 1;
            } else {
                self.decide(run, lines, definition);
            }
        }
    }

    /// Decides the calls of a block. If one of them needs a decision of a person, none is made.
    fn decide(&mut self, run: &Run, lines: std::ops::Range<usize>, definition: usize) {
        let mut decided = self.calls.clone();
        for line in lines.clone() {
            decided[line] = self.calls[line].decided(run, line, definition);
        }
        let suspends = decided[lines.clone()]
            .iter()
            .any(|known| matches!(known, Known::Waits { .. } | Known::InDoubt));
        if suspends {
            for line in lines {
                if let Known::Waits { .. } = decided[line] {
                    self.calls[line] = decided[line];
                }
            }
            self.stop = Some(Stop::Suspends);
            return;
        }
        self.calls = decided;
        for line in lines {
            if let Known::Due { attempts, definition, is_approved: false } = self.calls[line]
                && run.script[line].is_repeatable
            {
                self.calls[line] = Known::Answered;
                // A call that the journal has is made again, and its answer is not stored.
                if attempts == 0 {
                    self.unstored.push((line, definition));
                }
            }
        }
    }

    /// Takes the steps that are not stored yet.
    fn unstored(&mut self, run: &Run) -> Vec<Step> {
        let begin = std::mem::take(&mut self.begins).then_some(Step::Begin);
        let records = std::mem::take(&mut self.unstored);
        let records = records
            .into_iter()
            .map(|(line, definition)| Step::Record(line, run.called[line][definition].clone()));
        begin.into_iter().chain(records).collect()
    }

    /// Notes that the store has refused a step.
    fn refused(&mut self, refused: Refused) {
        let outcome = match refused {
            Refused::Cancelled => Outcome::Cancelled,
            _ => Outcome::Failed,
        };
        self.stop = Some(Stop::Ends(outcome));
    }

    /// Returns the steps that ask for approvals.
    fn asks(&self, run: &Run) -> impl Iterator<Item = Step> {
        self.calls.iter().enumerate().filter_map(|(line, known)| match known {
            Known::Waits { definition } => {
                Some(Step::Ask(line, run.called[line][*definition].clone()))
            }
            _ => None,
        })
    }
}

impl Known {
    fn is_running(&self) -> bool {
        matches!(self, Self::Due { .. } | Self::Intended { .. } | Self::Sent { .. })
    }

    /// Returns the call after it is decided.
    fn decided(self, run: &Run, line: usize, current: usize) -> Self {
        let needs_approval = run.script[line].approval == Approval::Before;
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
fn lines(run: &Run, block: u32) -> std::ops::Range<usize> {
    let start = run.script.partition_point(|line| line.position.block < block);
    let end = run.script.partition_point(|line| line.position.block <= block);
    start..end
}

/// Takes a step of gateway `own`.
pub(super) fn step(state: &mut State, run: &Run, own: usize, action: Action) {
    let Gateway::Runs(mut script) = state.gateways[own].clone() else { return };
    let stopped = match action {
        Action::Intend(_, line) => script.intend(state, run, line),
        Action::Send(_, line) => {
            script.send(state, run, line);
            Ok(false)
        }
        Action::Answer(_, line) => script.answer(state, run, line),
        Action::Renew(_) => script.store(state, run, vec![Step::Renew]).map(|()| false),
        Action::Stop(_) => script.finish(state, run),
        Action::Abandon(_) => {
            script.end(state, run, Outcome::Cancelled);
            Ok(true)
        }
        _ => return,
    };
    state.gateways[own] = match stopped {
        // Its end would be refused too, once another gateway has the run.
        Ok(true) | Err(Refused::Superseded | Refused::Ended) => Gateway::Idle,
        Ok(false) => {
            script.go_on(run, state.definition);
            Gateway::Runs(script)
        }
        Err(refused) => {
            script.refused(refused);
            Gateway::Runs(script)
        }
    };
}

/// Result of a step: whether the script is done.
type Stopped = Result<bool, Refused>;

impl Script {
    /// Stores `steps`, after those that are not stored yet. All of them are lost if they are refused.
    fn store(&mut self, state: &mut State, run: &Run, steps: Vec<Step>) -> Result<(), Refused> {
        let is_answer = matches!(steps[..], [Step::Answer(..)]) && self.unstored.is_empty();
        let all = self.unstored(run).into_iter().chain(steps);
        let stored = state.journal.steps(self.epoch, all, state.now_ms)?;
        if !is_answer && stored.epoch() != self.epoch {
            state.faults.push(Fault::ChangedByOther);
        }
        state.commit(stored);
        Ok(())
    }

    fn intend(&mut self, state: &mut State, run: &Run, line: usize) -> Stopped {
        let Known::Due { attempts, definition, is_approved } = self.calls[line] else {
            return Ok(false);
        };
        let called = run.called[line][definition].clone();
        let stored = self.store(state, run, vec![Step::Intend(line, called)]);
        self.calls[line] = match stored {
            Ok(()) => Known::Intended { attempt: attempts + 1, definition, is_approved },
            // It is asked for again.
            Err(Refused::Expired | Refused::Redefined) => Known::Waits { definition },
            Err(refused) => return Err(refused),
        };
        Ok(false)
    }

    fn send(&mut self, state: &mut State, run: &Run, line: usize) {
        let Known::Intended { attempt, definition, is_approved } = self.calls[line] else {
            return;
        };
        if run.script[line].approval == Approval::Within && !is_approved {
            self.calls[line] = Known::Waits { definition };
        } else {
            state.faults.extend(state.journal.rows[line].record.is_sent(attempt));
            self.calls[line] = Known::Sent { attempt };
        }
    }

    fn answer(&mut self, state: &mut State, run: &Run, line: usize) -> Stopped {
        let Known::Sent { attempt } = self.calls[line] else { return Ok(false) };
        // What waits to be stored before it needs the lease, and is refused with it.
        let is_due = self.unstored.is_empty() || self.has_run(state);
        let stored = self.store(state, run, vec![Step::Answer(line, attempt)]);
        let waiting = [Stage::Sent { attempt }, Stage::InDoubt { attempt }].map(Some);
        if stored.is_err() && is_due && waiting.contains(&state.journal.rows[line].stage()) {
            state.faults.push(Fault::AnswerRefused);
        }
        stored?;
        self.calls[line] = Known::Answered;
        Ok(false)
    }

    /// Suspends or ends the run. A suspension that is refused is followed by the end.
    fn finish(&mut self, state: &mut State, run: &Run) -> Stopped {
        match self.stop {
            None => Ok(false),
            Some(Stop::Suspends) => {
                let asks = self.asks(run).chain([Step::Suspend]).collect();
                self.store(state, run, asks).map(|()| true)
            }
            Some(Stop::Ends(outcome)) => {
                self.end(state, run, outcome);
                Ok(true)
            }
        }
    }

    fn end(&mut self, state: &mut State, run: &Run, outcome: Outcome) {
        // Before the run is stored, it is this gateway's.
        let has_run = self.begins || self.has_run(state);
        if self.store(state, run, vec![Step::End(outcome)]).is_err() && has_run {
            state.faults.push(Fault::EndRefused);
        }
    }

    /// Returns whether no other gateway has taken the run over, and it has not ended.
    fn has_run(&self, state: &State) -> bool {
        state.journal.lease.is_some_and(|lease| {
            lease.epoch == self.epoch && matches!(lease.phase, Phase::Running { .. })
        })
    }
}
