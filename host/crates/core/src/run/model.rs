//! Checks the protocol in every order of its steps, with a model checker.
//!
//! The model makes the steps with the functions that the store makes them with. Around them it has a
//! clock, an upstream that counts what it is sent, a person who decides about calls, an operator who
//! changes the definitions of tools, and two gateways that run the script. At each step, a gateway may
//! stall while the rest goes on, crash, or lose its caller.
//!
//! | file | purpose |
//! |---|---|
//! | `journal` | the stored part of a run; each of its functions is one transaction, as in the store |
//! | `gateway` | a process that runs the script, and loses all that it knows in a crash |
//! | `record` | what happened to a call, kept apart from the protocol and compared with it |
//! | `properties` | what holds in every state, and what is reached in some |
//!
//! Two things are simpler than in a gateway, and neither hides an order of steps that matters. An
//! answer is received and stored in one step: a crash between the two leaves the same as a crash
//! before both. A repeatable call without an approval is made at once: only its answer is stored.

mod gateway;
mod journal;
mod properties;
mod record;

use std::time::Instant;

use stateright::{Checker as _, Model, Property};

use self::{
    gateway::Gateway,
    journal::{Decision, Journal},
    record::Fault,
};
use super::{Called, Position, Refused};

/// Time for which a gateway has a lease.
const LEASE_MS: i64 = 1;
/// Time for which an approval is valid.
const APPROVAL_MS: i64 = 2;

/// A call of the script.
#[derive(Debug, Clone, Copy)]
struct Line {
    position: Position,
    is_repeatable: bool,
    approval: Approval,
}

/// Need of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    No,
    /// Before the call is made.
    Before,
    /// A plugin runs, and its own call needs the approval. An approval of the plugin's call is enough;
    /// a decision to retry it is not.
    Within,
}

/// A run, with bounds on what happens to it.
struct Run {
    script: Vec<Line>,
    /// Each line with each definition of its tool.
    called: Vec<[Called; 2]>,
    /// Times that the run is begun or continued.
    epochs: i64,
    /// Time at which the clock stops.
    end_ms: i64,
    /// Decisions of the person about calls.
    decisions: u32,
    /// True if the definitions of the tools change once.
    redefines: bool,
}

/// Everything there is at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now_ms: i64,
    /// Index of the definition that each tool has.
    definition: usize,
    /// Decisions that the person has made.
    decisions: u32,
    journal: Journal,
    /// In order, because it does not matter which is which.
    gateways: [Gateway; 2],
    /// Properties that are broken.
    faults: Vec<Fault>,
}

/// A step. Gateways and lines are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Tick,
    Redefine,
    Decide(usize, Decision),
    Cancel,
    Claim(usize),
    /// The gateway stores the intent of a call.
    Intend(usize, usize),
    /// It sends the call.
    Send(usize, usize),
    /// It receives the answer of a call and stores it.
    Answer(usize, usize),
    /// It extends its lease.
    Renew(usize),
    /// It suspends or ends the run.
    Stop(usize),
    /// Its caller has gone: it ends the run, whatever the calls in flight do.
    Abandon(usize),
    /// It loses all that it knows.
    Crash(usize),
}

impl Run {
    fn new(script: &[(&str, bool, Approval)]) -> Self {
        let lines = script.iter().map(|&(position, is_repeatable, approval)| Line {
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

    /// Returns whether some sequence of steps ends the run, and none of them is a crash: to cancel the
    /// run once its lease has expired, and also to continue it then, with a person who decides about
    /// each call that needs it. The second one must complete the script. Only states without a
    /// gateway are examined: any other leads to one of them, because each gateway can crash.
    fn can_end(&self, state: &State) -> bool {
        if state.gateways != [Gateway::Idle, Gateway::Idle] || !state.journal.is_stored() {
            return true;
        }
        let mut state = state.clone();
        state.now_ms = state.journal.free_at(state.now_ms);
        let mut cancelled = state.clone();
        let is_cancelled = cancelled.cancel().is_ok() && cancelled.journal.has_ended();
        state.journal.has_ended()
            || is_cancelled && (state.journal.is_cancelled() || self.completes(state))
    }

    /// Continues a run that no gateway runs. Returns whether its script completes.
    fn completes(&self, mut state: State) -> bool {
        // Each round decides about the calls of at least one block.
        for _ in 0..=2 * self.script.len() {
            for line in 0..self.script.len() {
                for decision in [Decision::Approve, Decision::Skip] {
                    // Refused where there is nothing to decide.
                    let _ = state.decide(line, decision);
                }
            }
            if state.claim(self, 0).is_err() {
                return false;
            }
            while let Gateway::Runs(_) = state.gateways[0] {
                let mut steps = Vec::new();
                state.gateways[0].steps(0, &mut steps);
                let Some(step) = steps.first() else { return false };
                state.take(self, *step);
            }
            if state.journal.has_completed() {
                return state.faults.is_empty();
            }
        }
        false
    }
}

impl State {
    /// Takes a step. A step that is refused leaves the journal as it was.
    fn take(&mut self, run: &Run, action: Action) {
        // A decision that is refused changes nothing. A gateway notes its own refusals.
        let _: Result<(), Refused> = match action {
            Action::Tick => {
                self.now_ms += 1;
                Ok(())
            }
            Action::Redefine => {
                self.definition = 1;
                Ok(())
            }
            Action::Decide(line, decision) => {
                let decided = self.decide(line, decision);
                self.decisions += u32::from(decided.is_ok());
                decided
            }
            Action::Cancel => self.cancel(),
            Action::Claim(gateway) => self.claim(run, gateway),
            Action::Crash(gateway) => {
                self.gateways[gateway] = Gateway::Idle;
                Ok(())
            }
            Action::Intend(gateway, _)
            | Action::Send(gateway, _)
            | Action::Answer(gateway, _)
            | Action::Renew(gateway)
            | Action::Stop(gateway)
            | Action::Abandon(gateway) => {
                gateway::step(self, run, gateway, action);
                Ok(())
            }
        };
    }

    fn decide(&mut self, line: usize, decision: Decision) -> Result<(), Refused> {
        let decided = self.journal.decide(line, decision, self.now_ms)?;
        self.commit(decided);
        Ok(())
    }

    fn cancel(&mut self) -> Result<(), Refused> {
        let cancelled = self.journal.cancel(self.now_ms)?;
        self.commit(cancelled);
        Ok(())
    }

    fn claim(&mut self, run: &Run, gateway: usize) -> Result<(), Refused> {
        let claimed = self.journal.claim(self.now_ms)?;
        self.commit(claimed);
        self.gateways[gateway] = Gateway::claim(run, self);
        Ok(())
    }

    fn commit(&mut self, journal: Journal) {
        record::compare(&self.journal, &journal, &mut self.faults);
        self.journal = journal;
    }
}

impl Model for Run {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut state = State {
            now_ms: 0,
            definition: 0,
            decisions: 0,
            journal: Journal::new(self.script.len()),
            gateways: [Gateway::Idle, Gateway::Idle],
            faults: Vec::new(),
        };
        state.gateways[1] = Gateway::begin(self, &state);
        vec![state]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if !state.faults.is_empty() {
            // Reported already.
            return;
        }
        for (number, gateway) in state.gateways.iter().enumerate() {
            gateway.steps(number, actions);
            match gateway {
                Gateway::Runs(_) => {
                    let others = [Action::Renew, Action::Abandon, Action::Crash];
                    actions.extend(others.map(|action| action(number)));
                }
                Gateway::Idle if state.journal.epoch() < self.epochs => {
                    actions.push(Action::Claim(number));
                }
                Gateway::Idle => {}
            }
        }
        if state.now_ms < self.end_ms {
            actions.push(Action::Tick);
        }
        if self.redefines && state.definition == 0 {
            actions.push(Action::Redefine);
        }
        if !state.journal.is_cancelled() {
            actions.push(Action::Cancel);
        }
        if state.decisions < self.decisions {
            for line in 0..self.script.len() {
                actions.extend(Decision::ALL.map(|decision| Action::Decide(line, decision)));
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        state.take(self, action);
        state.gateways.sort_unstable();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::of(self)
    }
}

/// Checks every state of a run, and prints how many there are.
fn check(name: &str, run: Run) {
    let begun = Instant::now();
    let checker = run.checker().threads(2).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{name}: {states} states, depth {}, in {:.1?}", checker.max_depth(), begun.elapsed());
    checker.assert_properties();
}

use Approval::{Before, No, Within};

#[test]
fn a_write_is_made_once_whatever_crashes_or_stalls() {
    let script = [("1", true, No), ("2", false, No), ("3", true, No)];
    check("write", Run { decisions: 2, ..Run::new(&script) });
}

#[test]
fn an_approval_is_used_once_in_time_and_for_the_definition_that_was_shown() {
    let script = [("1", false, Before)];
    check("approval", Run { redefines: true, ..Run::new(&script) });
}

#[test]
fn an_approval_of_a_repeatable_call_is_used_once() {
    let script = [("1", true, Before)];
    check("repeatable", Run { redefines: true, ..Run::new(&script) });
}

#[test]
fn a_plugin_that_needs_an_approval_within_goes_on_with_it() {
    let script = [("1", false, Within)];
    check("within", Run { epochs: 4, redefines: true, ..Run::new(&script) });
}

#[test]
fn calls_that_run_at_the_same_time_are_each_made_once() {
    check("block", Run { end_ms: 2, ..Run::new(&[("1.1", false, No), ("1.2", false, Before)]) });
}

#[test]
fn a_whole_script_goes_on_where_it_stopped() {
    let script = [
        ("1", true, No),
        ("2", false, No),
        ("3", false, Before),
        ("4.1", false, No),
        ("4.2", false, Before),
    ];
    check("script", Run { epochs: 4, end_ms: 1, decisions: 3, ..Run::new(&script) });
}
