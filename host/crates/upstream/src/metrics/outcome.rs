//! Outcomes of calls, and their counters.

use prometheus_client::metrics::counter::Counter;

use airlock_core::tool::{CallError, HostCode, ToolOutput};

/// Codes of the errors that are counted apart.
const COUNTED: [HostCode; 9] = [
    HostCode::ToolError,
    HostCode::Unavailable,
    HostCode::Deadline,
    HostCode::Busy,
    HostCode::Cancelled,
    HostCode::ResultTooLarge,
    HostCode::BadResult,
    HostCode::InvalidResult,
    HostCode::InputRequired,
];

/// Outcome of a call, as metrics distinguish it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallOutcome {
    /// The tool returned a result.
    Ok,
    /// The call failed with an error that is counted apart.
    Failed(HostCode),
    /// The call failed with any other error.
    Other,
}

impl CallOutcome {
    fn all() -> impl Iterator<Item = Self> {
        [Self::Ok].into_iter().chain(COUNTED.map(Self::Failed)).chain([Self::Other])
    }

    /// Returns the name in metrics: `ok`, `other`, or the code of the error.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Failed(code) => code.as_str(),
            Self::Other => "other",
        }
    }

    pub(super) fn new(result: &Result<ToolOutput, CallError>) -> Self {
        match result.as_ref().map_err(CallError::code) {
            Ok(_) => Self::Ok,
            Err(code) if COUNTED.contains(&code) => Self::Failed(code),
            Err(_) => Self::Other,
        }
    }
}

/// One counter for each outcome.
#[derive(Debug, Default)]
pub(super) struct Counters([Counter; COUNTED.len() + 2]);

impl Counters {
    pub(super) fn add(&self, outcome: CallOutcome) {
        let mut all = CallOutcome::all().zip(&self.0);
        if let Some((_, counter)) = all.find(|(known, _)| *known == outcome) {
            counter.inc();
        }
    }

    /// Returns the counters that are not zero.
    pub(super) fn nonzero(&self) -> impl Iterator<Item = (CallOutcome, Counter)> {
        let counters = CallOutcome::all().zip(self.0.iter().cloned());
        counters.filter(|(_, counter)| counter.get() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_outcome_has_its_own_counter_and_the_name_of_its_error() {
        assert_eq!(CallOutcome::all().count(), Counters::default().0.len());
        let counters = Counters::default();
        counters.add(CallOutcome::Other);
        counters.add(CallOutcome::Other);
        let counted = counters.nonzero().map(|(outcome, counter)| (outcome, counter.get()));
        assert_eq!(counted.collect::<Vec<_>>(), [(CallOutcome::Other, 2)]);
        for error in [CallError::busy(), CallError::cancelled()] {
            let code = error.code();
            assert_eq!(CallOutcome::new(&Err(error)).name(), code.as_str());
        }
        assert_eq!(CallOutcome::new(&Err(CallError::not_found("a"))), CallOutcome::Other);
    }
}
