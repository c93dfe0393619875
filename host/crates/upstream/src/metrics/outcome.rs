//! Outcomes of calls, and their counters.

use prometheus_client::metrics::counter::Counter;

use airlock_core::tool::{CallError, ToolOutput};

/// Outcome of a call, as metrics distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// The tool returned a result.
    Ok,
    /// The tool returned an error.
    ToolError,
    /// The server was not connected, or the connection broke.
    Unavailable,
    /// The call reached its time limit.
    Deadline,
    /// Too many calls were running and waiting.
    Busy,
    /// The caller disconnected or cancelled the call.
    Cancelled,
    /// The result was too large.
    ResultTooLarge,
    /// The result was malformed.
    BadResult,
    /// The result did not fit the tool's output schema.
    InvalidResult,
    /// The server asked its caller first.
    InputRequired,
    /// Any other error.
    Other,
}

impl Outcome {
    /// Number of outcomes.
    const COUNT: usize = 11;
    /// All outcomes.
    const ALL: [Self; Self::COUNT] = [
        Self::Ok,
        Self::ToolError,
        Self::Unavailable,
        Self::Deadline,
        Self::Busy,
        Self::Cancelled,
        Self::ResultTooLarge,
        Self::BadResult,
        Self::InvalidResult,
        Self::InputRequired,
        Self::Other,
    ];

    /// Returns the name in metrics: `ok`, or the code of the error.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::Unavailable => "unavailable",
            Self::Deadline => "deadline",
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::ResultTooLarge => "result_too_large",
            Self::BadResult => "bad_result",
            Self::InvalidResult => "invalid_result",
            Self::InputRequired => "input_required",
            Self::Other => "other",
        }
    }

    pub(super) fn of(result: &Result<ToolOutput, CallError>) -> Self {
        match result {
            Ok(_) => Self::Ok,
            Err(error) => match error.code() {
                CallError::TOOL_ERROR => Self::ToolError,
                CallError::UNAVAILABLE => Self::Unavailable,
                CallError::DEADLINE => Self::Deadline,
                CallError::BUSY => Self::Busy,
                CallError::CANCELLED => Self::Cancelled,
                CallError::RESULT_TOO_LARGE => Self::ResultTooLarge,
                CallError::BAD_RESULT => Self::BadResult,
                CallError::INVALID_RESULT => Self::InvalidResult,
                CallError::INPUT_REQUIRED => Self::InputRequired,
                _ => Self::Other,
            },
        }
    }
}

/// One counter for each outcome.
#[derive(Debug, Default)]
pub(super) struct Counters([Counter; Outcome::COUNT]);

impl Counters {
    pub(super) fn add(&self, outcome: Outcome) {
        self.0[outcome as usize].inc();
    }

    /// Returns the counters that are not zero.
    pub(super) fn nonzero(&self) -> impl Iterator<Item = (Outcome, Counter)> {
        let counters = Outcome::ALL.into_iter().zip(self.0.iter().cloned());
        counters.filter(|(_, counter)| counter.get() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_its_own_counter_and_the_name_of_its_error() {
        assert!(Outcome::ALL.iter().enumerate().all(|(at, outcome)| *outcome as usize == at));
        let counters = Counters::default();
        counters.add(Outcome::Other);
        counters.add(Outcome::Other);
        let counted = counters.nonzero().map(|(outcome, counter)| (outcome, counter.get()));
        assert_eq!(counted.collect::<Vec<_>>(), [(Outcome::Other, 2)]);
        for error in [CallError::busy(), CallError::cancelled()] {
            let code = error.code();
            assert_eq!(Outcome::of(&Err(error)).name(), code);
        }
    }
}
