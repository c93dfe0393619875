//! The calls of one rehearsal of a script: each gets a described answer, and none is made.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{DescribedAnswers, example, flows, flows::RehearsedAnswers};
use crate::runs::{ahead, flow::RunFlow, known::KnownTools};
use airlock_core::{
    door::{Arguments, Chain, Entry, Origin},
    threads,
    tool::{CallError, ErrorKind, SourceSet, Tool, ToolError, ToolOutput, Trust},
};
use airlock_sandbox::{
    Bindings, ScriptAnswer, ScriptCall, ScriptCalls, ScriptError, SourceCall, ToolFlow, WrongCall,
};

/// Maximum bytes of the arguments of all calls of a rehearsal. They are kept until the next rehearsal has ended, as
/// trees that take up to 150 times as much memory. A script has 64 KiB, and described answers are short.
const MAX_ARGUMENTS: usize = 256 << 10;

/// The answers of a rehearsal.
pub(super) struct Rehearsing {
    /// Answers by the full names of their tools.
    pub(super) answers: Arc<DescribedAnswers>,
    /// Number of the rehearsal; others have other values.
    pub(super) variant: u32,
}

/// The calls of a script in a rehearsal.
pub(super) struct RehearsedCalls {
    /// The chain of the rehearsal, which has sources of its own.
    chain: Chain,
    rehearsing: Rehearsing,
    /// Where the values in the calls come from.
    flow: RunFlow,
    /// The tools that the script has called.
    known: KnownTools,
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
    pub(super) answers: RehearsedAnswers,
    /// Bytes of the arguments of the calls so far, of those that are refused too.
    pub(super) argument_bytes: usize,
}

/// A call that a script would make.
#[derive(Debug, Clone)]
pub(super) struct RehearsedCall {
    /// Full name of the tool.
    pub(super) tool: String,
    /// Digest of its definition.
    pub(super) definition: String,
    /// Arguments as the script writes them.
    pub(super) written: Map<String, Value>,
    /// Arguments as the guards leave them.
    pub(super) arguments: Map<String, Value>,
    /// Tools of whose answers the arguments have values, by the names of the arguments.
    pub(super) origins: BTreeMap<String, BTreeSet<String>>,
    pub(super) treatment: CallTreatment,
    pub(super) is_read_only: bool,
}

/// Treatment of a planned call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CallTreatment {
    /// True if each call waits for an approval.
    pub needs_approval: bool,
    /// Questions of guards because of which the call waits for an approval, on one line; `None` if no guard asks.
    pub question: Option<String>,
    /// Sources of untrusted content because of which a rule asks for an approval.
    pub sources: SourceSet,
    /// Reason for which the call is refused: a rule about sinks, or that two operators approve each call of the tool.
    /// `None` if it is not.
    pub refused: Option<String>,
}

impl CallTreatment {
    /// Adds the treatment of a call of another rehearsal.
    pub(super) fn add(&mut self, other: &Self) {
        self.needs_approval |= other.needs_approval;
        self.sources.extend(&other.sources);
        self.question = self.question.take().or_else(|| other.question.clone());
        self.refused = self.refused.take().or_else(|| other.refused.clone());
    }
}

impl RehearsedCalls {
    pub(super) fn new(chain: Chain, rehearsing: Rehearsing) -> Self {
        let flow = RunFlow::new(chain.nested_context());
        let known = KnownTools::default();
        Self { chain, rehearsing, flow, known, rehearsal: Mutex::default() }
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

    /// Answers one call of a block, before which the script has read content of the sources in `context`. An error
    /// stops the script.
    async fn answer(
        &self,
        call: &ScriptCall,
        context: &SourceSet,
    ) -> Result<ScriptAnswer, CallError> {
        self.chain.count_call()?;
        self.rehearsal.lock().take_room(call.arguments.len())?;
        let Some(entry) = self.chain.view().find(&Origin::Script, &call.tool) else {
            return Ok(Err(CallError::not_found(&call.tool)));
        };
        let (arguments, mut treatment) = match self.decided(entry, call).await {
            Ok(decided) => decided,
            Err(refused) => return Ok(Err(refused)),
        };
        let values = self.flow.of_call(call, arguments.as_str(), context);
        let view = self.chain.view();
        let asking = view.asking_sources(entry, context, &arguments, values.as_ref());
        let asking = asking.and_then(|sources| entry.check_nested().map(|()| sources));
        match &asking {
            Ok(sources) => {
                treatment.needs_approval |= !sources.is_empty();
                treatment.sources = sources.clone();
            }
            Err(refused) => treatment.refused = Some(refused.message()),
        }
        let definition = self.known.digest(&entry.tool);
        let mut rehearsal = self.rehearsal.lock();
        rehearsal.add(entry, &definition, call, &arguments, treatment);
        if let Err(refused) = asking {
            return Ok(Err(refused));
        }
        if entry.is_server
            && entry.trust == Trust::Untrusted
            && let Some(client) = &entry.tool.client
        {
            let sources = SourceSet::from(client);
            self.chain.receive(&sources);
            self.flow.receive(&call.tool, &sources);
        }
        let number = rehearsal.answers.next();
        let described = self.described(&entry.tool, &call.tool, number);
        if described.is_none() && !rehearsal.undescribed.contains(&call.tool) {
            rehearsal.undescribed.push(call.tool.clone());
        }
        rehearsal.answers.add(&call.tool, described.as_ref().unwrap_or(&Value::Null));
        Ok(Ok(if let Some(answer) = described {
            ToolOutput { structured: Some(answer), ..ToolOutput::default() }
        } else {
            let n = self.rehearsing.variant + 1;
            let mark = flows::mark(number);
            ToolOutput::text(format!("undescribed{mark}{n} result of {}", call.tool))
        }))
    }

    /// Returns the arguments of a call as guards leave them, and its treatment but for the rules about sinks. Fails if a
    /// guard, the check of its arguments or the policy refuses it.
    async fn decided(
        &self,
        entry: &Entry,
        call: &ScriptCall,
    ) -> Result<(Arguments, CallTreatment), CallError> {
        let view = self.chain.view();
        let origin = &Origin::Script;
        let arguments = threads::parse(view.tenant(), &call.tool, &call.arguments).await?;
        let deadline = self.chain.deadline();
        let arguments = threads::guarded(view, origin, entry, arguments, deadline).await?;
        self.known.check(&entry.tool, arguments.as_str())?;
        let needs_approval = !view.is_automatic(origin, entry, &arguments)?;
        let questions = arguments.questions();
        let question = (!questions.is_empty()).then(|| questions.to_string());
        Ok((arguments, CallTreatment { needs_approval, question, ..CallTreatment::default() }))
    }

    /// Returns the answer that the caller or the tool describes.
    fn described(&self, tool: &Tool, name: &str, number: usize) -> Option<Value> {
        let Rehearsing { answers, variant } = &self.rehearsing;
        answers.get(name).cloned().or_else(|| {
            let schema = tool.output_schema.as_ref()?.to_value().ok()?;
            Some(example::value(&schema, *variant, number))
        })
    }
}

impl Rehearsal {
    /// Counts the arguments of a call. Fails if the calls have too many.
    fn take_room(&mut self, bytes: usize) -> Result<(), CallError> {
        self.argument_bytes = self.argument_bytes.saturating_add(bytes);
        if self.argument_bytes <= MAX_ARGUMENTS {
            return Ok(());
        }
        let message = format!(
            "the rehearsal was stopped before this call: its calls have more than {} KiB of arguments",
            MAX_ARGUMENTS >> 10
        );
        Err(ToolError::new(ErrorKind::LimitReached, message).into())
    }

    fn add(
        &mut self,
        entry: &Entry,
        definition: &str,
        call: &ScriptCall,
        arguments: &Arguments,
        treatment: CallTreatment,
    ) {
        let arguments = arguments.to_object();
        let origins = arguments
            .iter()
            .map(|(name, value)| (name.clone(), self.answers.origins(value)))
            .filter(|(_, tools)| !tools.is_empty());
        let origins = origins.collect();
        self.calls.push(RehearsedCall {
            tool: call.tool.clone(),
            definition: definition.to_owned(),
            // The door has read them as an object.
            written: serde_json::from_str(&call.arguments).unwrap_or_default(),
            arguments,
            origins,
            treatment,
            is_read_only: entry.tool.annotations.read_only == Some(true),
        });
    }
}

impl ScriptCalls for RehearsedCalls {
    fn make(
        &self,
        calls: Vec<ScriptCall>,
        is_block: bool,
    ) -> BoxFuture<'_, Result<Vec<ScriptAnswer>, CallError>> {
        Box::pin(async move {
            // All calls of a block are decided before the first of them runs.
            let context = self.chain.nested_context();
            let mut answers = Vec::with_capacity(calls.len());
            for call in &calls {
                answers.push(self.answer(call, &context).await?);
                // The script has to be stopped at its deadline while guards decide about its calls, or the calls of a block
                // are answered.
                if is_block || self.chain.view().has_guards() {
                    tokio::task::yield_now().await;
                }
            }
            Ok(answers)
        })
    }

    fn check(&self, bindings: &Bindings, calls: &[SourceCall]) -> Vec<WrongCall> {
        ahead::wrong_calls(self.chain.view(), bindings, calls)
    }

    fn follow(&self, flows: Vec<ToolFlow>) {
        self.flow.follow(flows);
    }

    /// A plan has no printed text.
    fn print(&self, _chain: &Chain, _line: String) {}
}

#[cfg(test)]
mod tests;
