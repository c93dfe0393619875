//! The ends of the calls of a block.

use super::answers::BlockAnswers;
use airlock_core::{
    run::{Called, Position},
    tool::{CallError, HostCode},
};
use airlock_sandbox::ScriptAnswer;

/// End of a call that ran.
pub(super) enum ScriptCallEnd {
    Answered(ScriptAnswer),
    /// The plugin that ran needs an approval for a call that it makes, and has done nothing before.
    NeedsApproval(Called),
    /// The same, and it has made other calls or has changed something before.
    Interrupted,
}

/// Calls of a block that stop the script until a person has decided about them.
#[derive(Default)]
pub(super) struct BlockStops {
    /// They need an approval.
    pub(super) waiting: Vec<(Position, Called)>,
    /// They may have been made.
    pub(super) in_doubt: Vec<Position>,
}

impl BlockStops {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_doubt.is_empty()
    }
}

/// Ends of the calls of a block so far.
#[derive(Default)]
pub(super) struct BlockEnds {
    pub(super) answers: BlockAnswers,
    pub(super) stops: BlockStops,
    /// Error of a call that was stopped with the script. Another call of the block may have the reason.
    pub(super) stopped: Option<CallError>,
}

impl BlockEnds {
    /// Adds the end of a call. Fails if it stops the script.
    pub(super) fn add(
        &mut self,
        position: Position,
        end: Result<ScriptCallEnd, CallError>,
    ) -> Result<(), CallError> {
        match end {
            Ok(ScriptCallEnd::Answered(answer)) => self.answers.push(answer),
            Ok(ScriptCallEnd::NeedsApproval(called)) => self.stops.waiting.push((position, called)),
            Ok(ScriptCallEnd::Interrupted) => self.stops.in_doubt.push(position),
            Err(stop) if stop.code() == HostCode::Cancelled => self.stopped = Some(stop),
            Err(stop) => return Err(stop),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_stops_for_an_error_and_at_the_end_of_its_block_for_a_call_that_was_stopped() {
        let position = Position { block: 1, branch: 1 };
        let mut ends = BlockEnds::default();
        assert!(ends.add(position, Err(CallError::cancelled())).is_ok());
        assert!(ends.add(position, Ok(ScriptCallEnd::Interrupted)).is_ok());
        let error = ends.add(position, Err(CallError::budget("calls", 1)));
        assert_eq!(error.expect_err("it stops the script").code(), HostCode::Budget);
        assert_eq!(ends.stopped.map(|stopped| stopped.code()), Some(HostCode::Cancelled));
        assert_eq!(ends.stops.in_doubt, [position]);
    }
}
