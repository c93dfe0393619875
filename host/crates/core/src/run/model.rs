//! Checks the protocol in every order of its steps, with a model checker.
//!
//! The model makes the steps with the functions that the store makes them with. Around them it has a
//! clock, an upstream that counts what it is sent, a person who decides about calls, an operator who
//! changes the definitions of tools, and two gateways that run the script. At each step, a gateway may
//! stall while the rest goes on, crash, or lose its caller.
//!
//! | file | purpose |
//! |---|---|
//! | `run` | the script of a run, and bounds on what happens to it |
//! | `journal` | the stored part of a run; each of its functions is one transaction, as in the store |
//! | `gateway` | a process that runs the script, and loses all that it knows in a crash |
//! | `state`, `action`, `steps` | everything there is at one moment, and the steps from it to the next |
//! | `record` | what happened to a call, kept apart from the protocol and compared with it |
//! | `properties` | what holds in every state, and what is reached in some |
//!
//! Two things are simpler than in a gateway, and neither hides an order of steps that matters. An
//! answer is received and stored in one step: a crash between the two leaves the same as a crash
//! before both. A repeatable call without an approval is made at once: only its answer is stored.

mod action;
mod gateway;
mod journal;
mod properties;
mod record;
mod run;
mod state;
mod steps;

use std::time::Instant;

use stateright::{Checker as _, Model, Property};

use self::{
    action::ModelAction,
    gateway::ModelGateway,
    journal::{Journal, PersonDecision},
    run::{ApprovalNeed, ModelRun},
    state::ModelState,
};

impl Model for ModelRun {
    type State = ModelState;
    type Action = ModelAction;

    fn init_states(&self) -> Vec<ModelState> {
        let mut state = ModelState {
            now_ms: 0,
            definition: 0,
            decisions: 0,
            journal: Journal::new(self.script.len()),
            gateways: [ModelGateway::Idle, ModelGateway::Idle],
            faults: Vec::new(),
        };
        state.gateways[1] = ModelGateway::begin(self, state.definition);
        vec![state]
    }

    fn actions(&self, state: &ModelState, actions: &mut Vec<ModelAction>) {
        if !state.faults.is_empty() {
            // Reported already.
            return;
        }
        for (number, gateway) in state.gateways.iter().enumerate() {
            gateway.steps(number, actions);
            match gateway {
                ModelGateway::Runs(_) => {
                    let others = [ModelAction::Renew, ModelAction::Abandon, ModelAction::Crash];
                    actions.extend(others.map(|action| action(number)));
                }
                ModelGateway::Idle if state.journal.epoch() < self.epochs => {
                    actions.push(ModelAction::Claim(number));
                }
                ModelGateway::Idle => {}
            }
        }
        if state.now_ms < self.end_ms {
            actions.push(ModelAction::Tick);
        }
        if self.redefines && state.definition == 0 {
            actions.push(ModelAction::Redefine);
        }
        if !state.journal.is_cancelled() {
            actions.push(ModelAction::Cancel);
        }
        if state.decisions < self.decisions {
            for line in 0..self.script.len() {
                actions.extend(
                    PersonDecision::ALL.map(|decision| ModelAction::Decide(line, decision)),
                );
            }
        }
    }

    fn next_state(&self, last: &ModelState, action: ModelAction) -> Option<ModelState> {
        let mut state = last.clone();
        state.take(self, action);
        state.gateways.sort_unstable();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        properties::all(self)
    }
}

/// Checks every state of a run, and prints how many there are.
fn check(name: &str, run: ModelRun) {
    let begun = Instant::now();
    let checker = run.checker().threads(2).spawn_bfs().join();
    let states = checker.unique_state_count();
    println!("{name}: {states} states, depth {}, in {:.1?}", checker.max_depth(), begun.elapsed());
    checker.assert_properties();
}

use ApprovalNeed::{Before, No, Within};

#[test]
fn a_write_is_made_once_whatever_crashes_or_stalls() {
    let script = [("1", true, No), ("2", false, No), ("3", true, No)];
    check("write", ModelRun { decisions: 2, ..ModelRun::new(&script) });
}

#[test]
fn an_approval_is_used_once_in_time_and_for_the_definition_that_was_shown() {
    let script = [("1", false, Before)];
    check("approval", ModelRun { redefines: true, ..ModelRun::new(&script) });
}

#[test]
fn an_approval_of_a_repeatable_call_is_used_once() {
    let script = [("1", true, Before)];
    check("repeatable", ModelRun { redefines: true, ..ModelRun::new(&script) });
}

#[test]
fn a_plugin_that_needs_an_approval_within_goes_on_with_it() {
    let script = [("1", false, Within)];
    check("within", ModelRun { epochs: 4, redefines: true, ..ModelRun::new(&script) });
}

#[test]
fn calls_that_run_at_the_same_time_are_each_made_once() {
    check(
        "block",
        ModelRun { end_ms: 2, ..ModelRun::new(&[("1.1", false, No), ("1.2", false, Before)]) },
    );
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
    check("script", ModelRun { epochs: 4, end_ms: 1, decisions: 3, ..ModelRun::new(&script) });
}
