//! The calls of one rehearsal of a script: each gets a described answer, and none is made.

use std::{future::ready, sync::Arc};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::{DescribedAnswers, example};
use crate::runs::{ahead, arguments};
use airlock_core::{
    door::{Arguments, Chain, Entry, Origin},
    tool::{CallError, Tool, ToolOutput},
};
use airlock_sandbox::{
    Bindings, ScriptAnswer, ScriptCall, ScriptCalls, ScriptError, SourceCall, WrongCall,
};

/// The answers of a rehearsal.
pub(super) struct Rehearsing {
    /// Answers by the full names of their tools.
    pub(super) answers: Arc<DescribedAnswers>,
    /// Number of the rehearsal; others have other values.
    pub(super) variant: u32,
}

/// The calls of a script in a rehearsal.
pub(super) struct RehearsedCalls {
    chain: Chain,
    rehearsing: Rehearsing,
    rehearsal: Mutex<Rehearsal>,
}

/// A rehearsal that has ended.
#[derive(Debug, Default)]
pub(super) struct Rehearsal {
    /// The calls, in the order in which the script asked for them.
    pub(super) calls: Vec<RehearsedCall>,
    /// Tools that were called, and for which nothing describes an answer.
    pub(super) undescribed: Vec<String>,
    /// Line and message of the failure of the script; `None` if it ran to its end.
    pub(super) failure: Option<(Option<u32>, String)>,
}

/// A call that a script would make.
#[derive(Debug, Clone)]
pub(super) struct RehearsedCall {
    /// Full name of the tool.
    pub(super) tool: String,
    pub(super) arguments: Map<String, Value>,
    pub(super) needs_approval: bool,
    pub(super) is_read_only: bool,
}

impl RehearsedCalls {
    pub(super) fn new(chain: Chain, rehearsing: Rehearsing) -> Self {
        Self { chain, rehearsing, rehearsal: Mutex::default() }
    }

    /// Returns the rehearsal, once the script has ended with this error or none.
    pub(super) fn end(&self, error: Option<ScriptError>) -> Rehearsal {
        let mut rehearsal = std::mem::take(&mut *self.rehearsal.lock());
        rehearsal.failure = error.map(|error| match error {
            ScriptError::Failed(failure) => (failure.line, failure.message),
            ScriptError::Stopped(error) => (None, error.message()),
        });
        rehearsal
    }

    /// Answers one call. An error stops the script.
    fn answer(&self, call: &ScriptCall) -> Result<ScriptAnswer, CallError> {
        self.chain.count_call()?;
        let Some(entry) = self.chain.view().find(&Origin::Script, &call.tool) else {
            return Ok(Err(CallError::not_found(&call.tool)));
        };
        let (arguments, needs_approval) = match self.decided(entry, call) {
            Ok(decided) => decided,
            Err(refused) => return Ok(Err(refused)),
        };
        let mut rehearsal = self.rehearsal.lock();
        rehearsal.calls.push(RehearsedCall {
            tool: call.tool.clone(),
            arguments: serde_json::from_str(arguments.as_str()).unwrap_or_default(),
            needs_approval,
            is_read_only: entry.tool.annotations.read_only == Some(true),
        });
        let Some(answer) = self.described(&entry.tool, &call.tool) else {
            if !rehearsal.undescribed.contains(&call.tool) {
                rehearsal.undescribed.push(call.tool.clone());
            }
            let n = self.rehearsing.variant + 1;
            return Ok(Ok(ToolOutput::text(format!("undescribed result {n} of {}", call.tool))));
        };
        Ok(Ok(ToolOutput { structured: Some(answer), ..ToolOutput::default() }))
    }

    /// Returns the arguments of a call as guards leave them, and whether it needs an approval. Fails if a guard, the check of
    /// its arguments or the policy refuses it.
    fn decided(&self, entry: &Entry, call: &ScriptCall) -> Result<(Arguments, bool), CallError> {
        let view = self.chain.view();
        let arguments = Arguments::parse(&call.tool, &call.arguments)?;
        let arguments = view.guarded(&Origin::Script, entry, arguments)?;
        arguments::check(&entry.tool, arguments.as_str())?;
        let is_automatic = view.is_automatic(&Origin::Script, entry, &arguments)?;
        Ok((arguments, !is_automatic))
    }

    /// Returns the answer that the caller or the tool describes.
    fn described(&self, tool: &Tool, name: &str) -> Option<Value> {
        let Rehearsing { answers, variant } = &self.rehearsing;
        answers.get(name).cloned().or_else(|| {
            let schema = tool.output_schema.as_ref()?.to_value().ok()?;
            Some(example::value(&schema, *variant))
        })
    }
}

impl ScriptCalls for RehearsedCalls {
    fn make(
        &self,
        calls: Vec<ScriptCall>,
        _is_block: bool,
    ) -> BoxFuture<'_, Result<Vec<ScriptAnswer>, CallError>> {
        Box::pin(ready(calls.iter().map(|call| self.answer(call)).collect()))
    }

    fn check(&self, bindings: &Bindings, calls: &[SourceCall]) -> Vec<WrongCall> {
        ahead::wrong_calls(self.chain.view(), bindings, calls)
    }

    /// A plan has no printed text.
    fn print(&self, _chain: &Chain, _line: String) {}
}
