//! A step of the model.

use super::journal::PersonDecision;

/// A step. Gateways and lines are counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ModelAction {
    Tick,
    Redefine,
    Decide(usize, PersonDecision),
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
