//! Makes the calls of one script: looks each up in the journal, has it decided by the door, and runs it.
//!
//! All calls of a block are decided before any runs, so if one of them waits for an approval, none has had an effect.

use std::{collections::VecDeque, mem, pin::pin, sync::Arc};

use airlock_catalog::check_members;
use airlock_core::{
    door::{Admitted, Arguments, CallId, Chain, Origin},
    run::AnswerError,
    threads,
    tool::{CallError, Content, ErrorKind, HostCode, ToolName, ToolOutput},
};
use airlock_json::schema::CompiledSchema;
use airlock_sandbox::{
    FailureKind, Lost, ScriptAnswer, ScriptCall, ScriptCalls, run_apart, run_beside,
};
use futures_util::{StreamExt as _, future::BoxFuture, stream};
use parking_lot::Mutex;
use tracing::{error, warn};

use crate::{
    FailedFunction, Functions, RunContext, ScriptFailure,
    function::{CONTEXT, NESTING},
    functions::FunctionEntry,
    journal::{CallState, FunctionAnswer, JournalLookup, RunJournal, RunStop},
    printed::PrintedText,
};

/// Failures of functions that are kept, to tell which of them a script did not handle: the last ones. A script may make
/// 20,000 calls that fail.
const MAX_FAILURES: usize = 64;

/// Makes the calls of one script.
pub(crate) struct FunctionCalls {
    /// Chain in which the script runs.
    pub(crate) chain: Chain,
    pub(crate) functions: Functions,
    pub(crate) printed: Arc<PrintedText>,
    /// Context of the run, for the functions.
    pub(crate) context: Option<RunContext>,
    /// Scripts in each other, this one included.
    pub(crate) nesting: u32,
    /// Memory of the sandbox.
    pub(crate) memory_bytes: u64,
    pub(crate) made: Mutex<MadeCalls>,
}

/// Calls of a script so far.
pub(crate) struct MadeCalls {
    pub(crate) journal: RunJournal,
    /// Reason that its calls have stopped the script.
    pub(crate) stop: Option<RunStop>,
    failures: VecDeque<FailedFunction>,
}

/// A call of a block, once it is decided.
enum FunctionDecision {
    /// It was answered before.
    Known(FunctionAnswer),
    /// It is not made, for this reason.
    Refused(AnswerError),
    /// It is made.
    Runs(Box<Admitted>),
    /// It waits for a decision of the program.
    Waits,
}

/// End of a call of a block.
struct FunctionEnd {
    answer: FunctionAnswer,
    /// Identifier of the call; `None` if it was not made.
    id: Option<CallId>,
    /// False for the answer that the journal has.
    is_new: bool,
}

impl FunctionEnd {
    fn not_made(refused: AnswerError) -> Self {
        Self { answer: Err(refused), id: None, is_new: true }
    }
}

impl FunctionCalls {
    /// Returns the calls that were made. The script has ended.
    pub(crate) fn take(&self) -> MadeCalls {
        let empty = MadeCalls::new(RunJournal::new(Vec::new(), false, false));
        mem::replace(&mut *self.made.lock(), empty)
    }

    async fn block(
        &self,
        calls: Vec<ScriptCall>,
        is_block: bool,
    ) -> Result<Vec<ScriptAnswer>, CallError> {
        let first = self.made.lock().journal.next(calls.len());
        let mut decided = Vec::with_capacity(calls.len());
        for (at, call) in (first..).zip(&calls) {
            decided.push(self.decide(at, call).await?);
        }
        if decided.iter().any(|decided| matches!(decided, FunctionDecision::Waits)) {
            return Err(self.suspend(first, &calls, &decided));
        }
        let mut answers = Vec::with_capacity(calls.len());
        // The script receives all results of a block at once, failures too: without a bound, a thousand calls would fill
        // the memory of the program before the sandbox refuses them.
        let mut room = is_block.then_some(self.memory_bytes);
        match <[_; 1]>::try_from(decided) {
            // Most calls are made one by one, and need no queue.
            Ok([decided]) => {
                let end = self.run(decided, is_block).await;
                answers.push(self.answered(first, &calls[0], end, &mut room)?);
            }
            Err(decided) => {
                let running = decided.into_iter().map(|decided| self.run(decided, is_block));
                let mut ended = pin!(stream::iter(running).buffered(self.chain.in_flight().max(1)));
                for (at, call) in (first..).zip(&calls) {
                    let Some(end) = ended.next().await else { break };
                    answers.push(self.answered(at, call, end, &mut room)?);
                }
            }
        }
        Ok(answers)
    }

    /// Keeps the end of a call. Returns the answer for the script. Fails if it is larger than the `room` that is left for the
    /// answers of its block.
    fn answered(
        &self,
        at: usize,
        call: &ScriptCall,
        end: FunctionEnd,
        room: &mut Option<u64>,
    ) -> Result<ScriptAnswer, CallError> {
        let FunctionEnd { answer, id, is_new } = end;
        if let Err(failure) = &answer {
            self.note(call, failure, id);
        }
        if is_new {
            self.keep(at, call, &answer);
        }
        if let Some(room) = room {
            let bytes = answer.as_ref().map_or_else(AnswerError::bytes, ToolOutput::size);
            let left = room.checked_sub(bytes as u64);
            *room = left.ok_or_else(|| too_large(self.memory_bytes))?;
        }
        Ok(answer.map_err(CallError::from))
    }

    /// Decides one call. An error stops the script.
    async fn decide(&self, at: usize, call: &ScriptCall) -> Result<FunctionDecision, CallError> {
        let known = self.made.lock().journal.find(at, call);
        let is_approved = match known.map_err(|stop| self.stop(stop))? {
            JournalLookup::New => false,
            JournalLookup::Approved => true,
            JournalLookup::Waits => return Ok(FunctionDecision::Waits),
            JournalLookup::Denied(denied) => {
                self.chain.count_call()?;
                return Ok(FunctionDecision::Refused(denied));
            }
            JournalLookup::Answered(answer) => {
                self.chain.count_call()?;
                return Ok(FunctionDecision::Known(answer));
            }
        };
        let function = self.functions.entry(&call.tool);
        let is_repeatable = function.is_some_and(|function| function.is_repeatable);
        if !is_repeatable && !self.made.lock().journal.has_room(at) {
            return Err(self.stop(RunStop::Full));
        }
        let Some(function) = function else {
            self.chain.count_call()?;
            return Ok(refused(CallError::not_found(&call.tool), call));
        };
        let arguments = match self.checked(function, call, is_approved).await {
            Ok(arguments) => arguments,
            Err(misfit) => {
                self.chain.count_call()?;
                return Ok(refused(misfit, call));
            }
        };
        let approved = is_approved.then(|| function.approved(&call.arguments));
        let name = function.tool.as_str();
        let admitted =
            self.chain.admit_approved(&Origin::Script, name, &arguments, approved.as_ref());
        match admitted {
            Ok(admitted) => Ok(FunctionDecision::Runs(Box::new(admitted))),
            Err(error) if error.is_unapproved() => Ok(FunctionDecision::Waits),
            Err(stop) if stop.code() == HostCode::Budget => Err(stop),
            Err(error) => Ok(refused(error, call)),
        }
    }

    /// Reads the arguments of a call: long ones on a blocking thread. Those of a call that needs an approval are checked
    /// before the program is asked for it, those of other calls when they are made.
    async fn checked(
        &self,
        function: &FunctionEntry,
        call: &ScriptCall,
        is_approved: bool,
    ) -> Result<Arguments, CallError> {
        let tenant = self.chain.tenant();
        let arguments = threads::parse(tenant, &call.tool, &call.arguments).await?;
        let schema = function.approval_schema.as_ref().filter(|_| !is_approved);
        match schema {
            Some(schema) => self.fits(schema.clone(), call, arguments).await,
            None => Ok(arguments),
        }
    }

    /// Returns arguments that fit the schema.
    async fn fits(
        &self,
        schema: Arc<CompiledSchema>,
        call: &ScriptCall,
        arguments: Arguments,
    ) -> Result<Arguments, CallError> {
        let tenant = self.chain.tenant().clone();
        let name = ToolName::alias(&call.tool);
        let read = arguments.clone();
        // The stack of the guest is too small for a check.
        let checked = run_beside(async move {
            threads::check_arguments(&tenant, &schema, &read, check_members).await
        });
        match checked.await {
            Ok(Ok(())) => Ok(arguments),
            Ok(Err(violations)) => Err(CallError::invalid_arguments(name, &violations)),
            Err(lost) => Err(CallError::unavailable(name, lost)),
        }
    }

    /// Ends a decided call.
    async fn run(&self, decided: FunctionDecision, is_block: bool) -> FunctionEnd {
        match decided {
            FunctionDecision::Known(answer) => FunctionEnd { answer, id: None, is_new: false },
            FunctionDecision::Refused(refused) => FunctionEnd::not_made(refused),
            FunctionDecision::Runs(admitted) => {
                let id = Some(admitted.chain().id());
                FunctionEnd { answer: self.call(*admitted, is_block).await, id, is_new: true }
            }
            // A block with such a call is not run.
            FunctionDecision::Waits => FunctionEnd::not_made(CallError::cancelled().into()),
        }
    }

    /// Calls a function: beside the script, or apart from it if the call is one of a block. Dropping the future stops the
    /// call.
    async fn call(&self, admitted: Admitted, is_block: bool) -> FunctionAnswer {
        let function = admitted.tool().original.clone();
        let printed = self.printed.clone();
        let calling = CONTEXT.scope(self.context.clone(), async move {
            // What was printed before the call is seen before it.
            printed.deliver();
            admitted.run().await
        });
        // Boxed: it has some KB, and is moved several times.
        let running = Box::pin(NESTING.scope(self.nesting, calling));
        let ended = if is_block { run_apart(running).await } else { run_beside(running).await };
        let failed = match ended {
            Ok(Ok(output)) => return Ok(output),
            Ok(Err(error)) => error,
            Err(lost) => {
                if matches!(lost, Lost::Panicked) {
                    error!(%function, "a function of a script panicked");
                }
                CallError::unavailable(ToolName::alias(&function), lost)
            }
        };
        if let Some(cause) = std::error::Error::source(&failed) {
            let code = failed.code().as_str();
            warn!(%function, code, %cause, "the call of a function failed");
        }
        Err(failed.as_called(&function).into())
    }

    /// Notes a failure that the script receives.
    fn note(&self, called: &ScriptCall, failure: &AnswerError, call: Option<CallId>) {
        let name = called.tool.clone();
        let code = failure.code().map(str::to_owned);
        let message = failure.message().to_owned();
        let mut made = self.made.lock();
        if made.failures.len() == MAX_FAILURES {
            made.failures.pop_front();
        }
        made.failures.push_back(FailedFunction { name, code, message, call });
    }

    /// Keeps the answer of a call, if the journal keeps any.
    fn keep(&self, at: usize, call: &ScriptCall, answer: &FunctionAnswer) {
        let mut made = self.made.lock();
        if !made.journal.keeps() {
            return;
        }
        let function = self.functions.entry(&call.tool);
        let is_repeatable = function.is_some_and(|function| function.is_repeatable);
        let state = match answer {
            _ if is_repeatable && made.journal.is_full() => CallState::NotKept,
            Ok(output) => CallState::Value(text(output)),
            Err(failure) => CallState::Error(failure.clone()),
        };
        made.journal.put(at, call, state);
    }

    /// Stops the script at a block with calls that wait for a decision.
    fn suspend(
        &self,
        first: usize,
        calls: &[ScriptCall],
        decided: &[FunctionDecision],
    ) -> CallError {
        let mut made = self.made.lock();
        for (at, (call, decided)) in (first..).zip(calls.iter().zip(decided)) {
            match decided {
                FunctionDecision::Waits => made.journal.put(at, call, CallState::Pending),
                _ => made.journal.defer(at, call),
            }
        }
        made.stop = Some(RunStop::Pending);
        CallError::cancelled()
    }

    /// Stops the script. The reason is not that of the returned error.
    fn stop(&self, reason: RunStop) -> CallError {
        self.made.lock().stop = Some(reason);
        CallError::cancelled()
    }
}

impl ScriptCalls for FunctionCalls {
    fn make(
        &self,
        calls: Vec<ScriptCall>,
        is_block: bool,
    ) -> BoxFuture<'_, Result<Vec<ScriptAnswer>, CallError>> {
        Box::pin(self.block(calls, is_block))
    }

    fn print(&self, _chain: &Chain, line: String) {
        self.printed.push(line);
    }
}

impl MadeCalls {
    /// Creates the calls of a script that has made none.
    pub(crate) fn new(journal: RunJournal) -> Self {
        Self { journal, stop: None, failures: VecDeque::new() }
    }

    /// Returns the failure of the script, with the function that it names.
    pub(crate) fn failure(&self, failure: airlock_sandbox::ScriptFailure) -> ScriptFailure {
        let airlock_sandbox::ScriptFailure { kind, message, line, column, rendered } = failure;
        let function = if kind == FailureKind::Tool { self.unhandled(&message) } else { None };
        ScriptFailure { kind, message, line, column, rendered, function }
    }

    /// Finds the failure that a script has passed on, which its message names as `function: message`: the last one with the
    /// same message, or else the last one of the function.
    fn unhandled(&self, message: &str) -> Option<FailedFunction> {
        let (name, message) = message.split_once(": ")?;
        let first_line = message.lines().next().unwrap_or_default();
        let failures = self.failures.iter().rev();
        let of_function: Vec<_> = failures.filter(|failed| failed.name == name).collect();
        let mut same = of_function.iter();
        let same = same.find(|failed| failed.message.starts_with(first_line));
        same.or(of_function.first()).map(|failed| (*failed).clone())
    }
}

/// Ends a call that is refused before it is made.
fn refused(error: CallError, call: &ScriptCall) -> FunctionDecision {
    FunctionDecision::Refused(error.as_called(&call.tool).into())
}

/// Returns the error of a block whose results the sandbox has no memory for.
fn too_large(memory_bytes: u64) -> CallError {
    let message = format!(
        "the results of calls at the same time take more than the {memory_bytes} bytes of memory of the sandbox; make fewer \
         calls at the same time"
    );
    CallError::new(ErrorKind::LimitReached, HostCode::Memory, message)
}

/// Returns the value of a function as JSON text.
fn text(output: &ToolOutput) -> String {
    output.content.first().and_then(Content::as_text).unwrap_or("null").to_owned()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::{Function, RunLimits};

    /// Returns the calls of a script that has the functions `free` and `asked`, which needs an approval.
    fn calls() -> FunctionCalls {
        let schema = json!({"properties": {"a": {"type": "string"}}});
        let free = Function::new("free", "", schema.clone(), async |_| Ok(json!(1)));
        let asked = Function::new("asked", "", schema, async |_| Ok(json!(1))).needs_approval();
        let functions = Functions::new([free, asked]).expect("functions");
        let script = functions.admit_script(&RunLimits::default()).expect("it is admitted");
        FunctionCalls {
            chain: script.chain().clone(),
            functions,
            printed: Arc::new(PrintedText::new(None, 1 << 10, 0)),
            context: None,
            nesting: 1,
            memory_bytes: 1 << 20,
            made: Mutex::new(MadeCalls::new(RunJournal::new(Vec::new(), false, false))),
        }
    }

    fn call(function: &str, arguments: &str) -> ScriptCall {
        ScriptCall { tool: function.to_owned(), arguments: arguments.to_owned() }
    }

    #[tokio::test]
    async fn a_value_is_passed_and_kept_as_text() {
        let calls = calls();
        *calls.made.lock() = MadeCalls::new(RunJournal::new(Vec::new(), true, false));
        let answers = calls.make(vec![call("free", "{}")], false).await;
        let answers = answers.expect("the script goes on");
        assert_eq!(*answers[0].as_ref().expect("it succeeds"), ToolOutput::text("1"));
        let entries = calls.take().journal.into_entries();
        assert_eq!(entries[0].state, CallState::Value("1".to_owned()));
    }

    #[tokio::test]
    async fn long_arguments_wait_for_a_blocking_thread() {
        let calls = calls();
        let long = "x".repeat(threads::INLINE_BYTES);
        // Refused: such a call does not wait for its function.
        let twice = format!(r#"{{"a":"{long}","a":1}}"#);
        for function in ["free", "asked"] {
            let held = threads::occupy(calls.chain.tenant()).await;
            let mut made = calls.make(vec![call(function, &twice)], false);
            assert!((&mut made).now_or_never().is_none(), "{function} waits for a thread");
            let short = calls.make(vec![call(function, r#"{"a":"2","a":1}"#)], false);
            let answers = short.now_or_never().expect("it needs no thread");
            assert!(answers.expect("the script goes on")[0].is_err());
            drop(held);
            let answers = made.await.expect("the script goes on");
            let refused = answers[0].as_ref().expect_err("a key is there twice").to_string();
            assert!(refused.contains("cannot be used"), "{refused}");
        }
    }
}
