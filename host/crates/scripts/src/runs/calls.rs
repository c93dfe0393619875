//! Makes the calls of one script.
//!
//! Each block of calls is looked up in the journal first. The calls that are left are all decided
//! before any runs, so if one of them needs an approval, none has had an effect.

use std::{pin::pin, sync::Arc};

use futures_util::{StreamExt as _, future::BoxFuture, stream};
use tracing::{error, warn};

use super::{
    answer::CallAnswer,
    arguments,
    journal::{Journal, JournalRecord},
};
use airlock_core::{
    door::{Admitted, CallId, Chain, Origin},
    run::{Called, Position},
    tool::{CallError, ErrorKind, HostCode, Tool, ToolError, ToolName, ToolOutput},
};
use airlock_sandbox::{Lost, ScriptAnswer, ScriptCall, ScriptCalls, run_apart, run_beside};

/// Maximum bytes of the arguments of a refused call that the journal has. A script may make refused
/// calls in a loop, and they are decided again when it is resumed.
const MAX_REFUSED_BYTES: usize = 4 << 10;
/// Code of the error of a decided call whose tool is not there now.
pub(super) const TOOL_ABSENT: &str = "tool_absent";

/// Makes the calls of one script: those that its journal has no answer for.
pub struct RunCalls {
    chain: Chain,
    journal: Arc<Journal>,
}

/// A call of a block, once it is decided.
enum DecidedCall {
    /// The script receives this answer. It is stored if the call is here.
    Answered(CallAnswer, Option<Called>),
    /// The call runs.
    Runs {
        admitted: Box<Admitted>,
        called: Called,
        /// True if its intent is stored before it runs.
        is_intended: bool,
    },
}

/// End of a call that ran.
enum CallEnd {
    Answered(CallAnswer),
    /// The plugin that ran needs an approval for a call that it makes, and has done nothing before.
    NeedsApproval(Called),
    /// The same, and it has made other calls or has changed something before.
    Interrupted,
}

impl RunCalls {
    /// Creates the calls of the script that runs in `chain`.
    pub(crate) fn new(chain: Chain, journal: Arc<Journal>) -> Arc<Self> {
        Arc::new(Self { chain, journal })
    }

    async fn block(
        &self,
        calls: Vec<ScriptCall>,
        is_block: bool,
    ) -> Result<Vec<ScriptAnswer>, CallError> {
        let positions = self.journal.next_block(calls.len(), is_block);
        let mut decided = Vec::with_capacity(calls.len());
        let mut stops = BlockStops::default();
        for (position, call) in positions.iter().copied().zip(calls) {
            match self.decide(position, &call)? {
                CallDecision::Now(call) => decided.push((position, call)),
                CallDecision::AfterApproval(called) => stops.waiting.push((position, called)),
                CallDecision::InDoubt => stops.in_doubt.push(position),
            }
        }
        if !stops.is_empty() {
            return Err(self.stop(stops).await);
        }
        let running = decided.into_iter().map(|(position, call)| self.run(position, call));
        let mut ended = pin!(stream::iter(running).buffered(self.chain.in_flight().max(1)));
        let mut answers = Vec::with_capacity(positions.len());
        let mut stopped = None;
        for position in positions {
            match ended.next().await {
                Some(Ok(CallEnd::Answered(answer))) => answers.push(answer.into_result()),
                Some(Ok(CallEnd::NeedsApproval(called))) => stops.waiting.push((position, called)),
                Some(Ok(CallEnd::Interrupted)) => stops.in_doubt.push(position),
                // Another call of the block has the reason.
                Some(Err(stop)) if stop.code() == HostCode::Cancelled => stopped = Some(stop),
                Some(Err(stop)) => return Err(stop),
                None => break,
            }
        }
        if let Some(stopped) = stopped {
            return Err(stopped);
        }
        if stops.is_empty() { Ok(answers) } else { Err(self.stop(stops).await) }
    }

    /// Stops the script for decisions of a person.
    async fn stop(&self, stops: BlockStops) -> CallError {
        let BlockStops { waiting, in_doubt } = stops;
        if self.journal.can_suspend() {
            return self.journal.suspend(waiting, &in_doubt).await;
        }
        let first = waiting.into_iter().next();
        first.map_or_else(CallError::cancelled, |(_, called)| {
            let arguments = called.arguments.to_string();
            CallError::needs_approval(ToolName::alias(&called.tool), arguments)
        })
    }

    /// Decides one call. An error stops the script.
    fn decide(&self, position: Position, call: &ScriptCall) -> Result<CallDecision, CallError> {
        let approved = match self.journal.find(position, call)? {
            JournalRecord::Answered(answer) => {
                self.chain.count_call()?;
                return Ok(CallDecision::Now(DecidedCall::Answered(answer, None)));
            }
            JournalRecord::InDoubt => return Ok(CallDecision::InDoubt),
            JournalRecord::Pending => {
                let Some(called) = self.seen(call) else { return Err(absent(call)) };
                return Ok(CallDecision::AfterApproval(called));
            }
            JournalRecord::Approved(approved) => Some(approved),
            JournalRecord::New | JournalRecord::Again => {
                if let Some(misfit) = self.misfit(call) {
                    self.chain.count_call()?;
                    return Ok(self.refused(call, misfit));
                }
                None
            }
        };
        let admitted = self.chain.admit_approved(
            &Origin::Script,
            &call.tool,
            &call.arguments,
            approved.as_ref(),
        );
        match admitted {
            Ok(admitted) => {
                let is_intended = approved.is_some() || !is_repeatable(admitted.tool());
                let called = called(call, admitted.tool(), is_intended);
                let admitted = admitted.within(self.chain.call_timeout());
                let admitted = Box::new(admitted.in_run(self.journal.id(), position));
                Ok(CallDecision::Now(DecidedCall::Runs { admitted, called, is_intended }))
            }
            Err(error) if error.is_unapproved() => {
                Ok(CallDecision::AfterApproval(self.called(call)))
            }
            Err(stop) if stop.code() == HostCode::Budget => Err(stop),
            // A person has decided that it is made.
            Err(error) if error.code() == HostCode::NotFound && approved.is_some() => {
                Err(absent(call))
            }
            Err(refused) => Ok(self.refused(call, refused)),
        }
    }

    /// Returns the error of arguments that the tool cannot take; `None` also for a tool that the
    /// script may not call, which the door refuses.
    fn misfit(&self, call: &ScriptCall) -> Option<CallError> {
        let entry = self.chain.view().find(&Origin::Script, &call.tool)?;
        arguments::check(&entry.tool, &call.arguments).err()
    }

    /// Ends a call that is not made.
    fn refused(&self, call: &ScriptCall, refused: CallError) -> CallDecision {
        let answer = CallAnswer::new(Err(refused), &call.tool);
        // A refused call is decided again when the run is resumed; its arguments may be of any size,
        // and are not stored.
        let is_stored = call.arguments.len() <= MAX_REFUSED_BYTES;
        let called = is_stored.then(|| self.called(call));
        CallDecision::Now(DecidedCall::Answered(answer, called))
    }

    /// Returns a call with the definition of its tool, if the script may see the tool.
    fn called(&self, call: &ScriptCall) -> Called {
        self.seen(call).unwrap_or_else(|| Called {
            tool: call.tool.as_str().into(),
            arguments: call.arguments.as_str().into(),
            definition: "".into(),
            is_repeatable: true,
        })
    }

    /// Returns a call with the definition of its tool; `None` if the script may not see the tool.
    fn seen(&self, call: &ScriptCall) -> Option<Called> {
        let entry = self.chain.view().find(&Origin::Script, &call.tool)?;
        Some(called(call, &entry.tool, true))
    }

    async fn run(&self, position: Position, decided: DecidedCall) -> Result<CallEnd, CallError> {
        let (admitted, called, is_intended) = match decided {
            DecidedCall::Answered(answer, None) => return Ok(CallEnd::Answered(answer)),
            DecidedCall::Answered(answer, Some(called)) => {
                self.journal.record(position, called, &answer).await?;
                return Ok(CallEnd::Answered(answer));
            }
            DecidedCall::Runs { admitted, called, is_intended } => (admitted, called, is_intended),
        };
        let attempt = if is_intended {
            Some(self.journal.intend(position, called.clone()).await?)
        } else {
            None
        };
        let id = admitted.chain().id();
        let answer = match ran(*admitted, position.branch > 0).await {
            Err(error) if error.is_unapproved() => return Ok(self.unapproved(id, called)),
            result => {
                report(result.as_ref().err());
                CallAnswer::new(result, &called.tool)
            }
        };
        match attempt {
            Some(attempt) => self.journal.answer(position, attempt, &answer).await?,
            None => self.journal.record(position, called, &answer).await?,
        }
        Ok(CallEnd::Answered(answer))
    }

    /// Ends a call of a plugin that stopped for an approval. It can run again only if it has done
    /// nothing yet, or if all that it has done is repeatable.
    fn unapproved(&self, id: CallId, mut called: Called) -> CallEnd {
        // It is compared with that of the approval.
        if let Some(entry) = self.chain.view().find(&Origin::Script, &called.tool) {
            called.definition = entry.tool.digest().into();
        }
        let has_acted = self.chain.ledger().may_have_acted(id);
        if has_acted && !called.is_repeatable {
            CallEnd::Interrupted
        } else {
            CallEnd::NeedsApproval(called)
        }
    }
}

/// Calls of a block that stop the script until a person has decided about them.
#[derive(Default)]
struct BlockStops {
    /// They need an approval.
    waiting: Vec<(Position, Called)>,
    /// They may have been made.
    in_doubt: Vec<Position>,
}

impl BlockStops {
    fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.in_doubt.is_empty()
    }
}

/// Decision about a call.
enum CallDecision {
    /// It is due.
    Now(DecidedCall),
    /// It needs an approval.
    AfterApproval(Called),
    /// It needs a decision, because it may have been made.
    InDoubt,
}

impl ScriptCalls for RunCalls {
    fn make(
        &self,
        calls: Vec<ScriptCall>,
        is_block: bool,
    ) -> BoxFuture<'_, Result<Vec<ScriptAnswer>, CallError>> {
        Box::pin(self.block(calls, is_block))
    }
}

/// Returns a call of a tool. `is_compared` tells whether its definition is compared with that of an
/// approval: of pending and refused calls, and those with an intent.
fn called(call: &ScriptCall, tool: &Tool, is_compared: bool) -> Called {
    let definition = if is_compared { tool.digest().into() } else { "".into() };
    let name = call.tool.as_str().into();
    let arguments = call.arguments.as_str().into();
    Called { tool: name, arguments, definition, is_repeatable: is_repeatable(tool) }
}

/// Returns the error of a decided call whose tool is not there now. The run is not ended by it.
fn absent(call: &ScriptCall) -> CallError {
    let name = ToolName::alias(&call.tool);
    let message = format!(
        "the tool '{name}' of a call that a person has decided about is not available now; the run \
         is still suspended, and can be resumed once the tool is there"
    );
    ToolError::new(ErrorKind::Unavailable, message).with_code(TOOL_ABSENT).into()
}

/// Returns whether a call may be repeated if its answer is lost. The source of the tool says so.
fn is_repeatable(tool: &Tool) -> bool {
    tool.annotations.read_only == Some(true) || tool.annotations.idempotent == Some(true)
}

/// Logs the cause of a failure, which the script does not receive.
fn report(failed: Option<&CallError>) {
    if let Some(error) = failed
        && let Some(cause) = std::error::Error::source(error)
    {
        warn!(code = error.code().as_str(), cause = %cause, "nested tool call failed");
    }
}

/// Runs a call: beside the script, or apart from it if it is one of a block. Dropping the future stops
/// the call.
async fn ran(admitted: Admitted, is_block: bool) -> Result<ToolOutput, CallError> {
    let tool = admitted.tool().name.clone();
    let running = admitted.run();
    let ended = if is_block { run_apart(running).await } else { run_beside(running).await };
    ended.unwrap_or_else(|lost| {
        if matches!(lost, Lost::Panicked) {
            error!(%tool, "a tool call panicked");
        }
        Err(CallError::unavailable(tool, lost))
    })
}
