//! Events → rows of the call log. On the thread of its writer alone.

use std::collections::HashSet;

use crate::{
    event::{
        CallCode, CallEnd, CallFacts, ModelEnd, RecordEvent, RefusedCall, ShortText, logged_party,
    },
    lines::microseconds,
    queue::QueuedEvent,
};
use airlock_core::{door::CallId, tool::GuardAct, unix_time::unix_milliseconds};
use airlock_store::call_log::{
    CallContents, CallStatus, LogBatch, LoggedModelCall, LoggedTokens, LoggedToolCall,
    MAX_CONTENT_BYTES,
};

/// Renders a batch of events, with arguments and results if the log keeps them.
pub(crate) fn render(events: &[QueuedEvent], keeps_contents: bool) -> LogBatch {
    let mut rows = LogBatch::default();
    // The row of a call that has ended in the same batch has all that the row of its admission has.
    let ended: HashSet<CallId> = events.iter().filter_map(ended_call).collect();
    for event in events {
        match &*event.event {
            RecordEvent::Admitted(facts) if !ended.contains(&facts.id) => {
                rows.tools.push(admitted(facts));
            }
            RecordEvent::Ended(end) => {
                let row = self::ended(end);
                if keeps_contents {
                    rows.contents.push((row.id.clone(), contents(end)));
                }
                rows.tools.push(row);
            }
            RecordEvent::Refused(call) => {
                let row = refused(call);
                if keeps_contents && let Some(result) = call.result_text() {
                    let contents = CallContents { arguments: None, result: Some(result) };
                    rows.contents.push((row.id.clone(), contents));
                }
                rows.tools.push(row);
            }
            RecordEvent::Model(end) => rows.models.push(model(end)),
            RecordEvent::Admitted(_)
            | RecordEvent::Act(_)
            | RecordEvent::Counted(_)
            | RecordEvent::Lost(_) => {}
        }
    }
    rows
}

fn ended_call(event: &QueuedEvent) -> Option<CallId> {
    match &*event.event {
        RecordEvent::Ended(end) => Some(end.facts.id),
        _ => None,
    }
}

fn admitted(facts: &CallFacts) -> LoggedToolCall {
    let committed = facts.committed();
    LoggedToolCall {
        id: facts.id.to_string(),
        at_ms: unix_milliseconds(facts.at),
        status: CallStatus::Processing,
        tool: facts.tool.full_name.as_str().to_owned(),
        client: facts.tool.client.as_ref().map(|client| client.as_str().to_owned()),
        origin: facts.origin.to_owned(),
        decision: facts.permission.name().to_owned(),
        decided_by: facts.decided_by.as_ref().map(text),
        guards: guards(&facts.guards),
        sources: facts.sources.to_json(),
        party: logged_party(&facts.tenant, &facts.membership),
        parent: facts.parent.map(|parent| parent.to_string()),
        run: None,
        code: None,
        duration_us: None,
        cost: None,
        fuel: None,
        memory_bytes: None,
        arguments_digest: committed.map(|committed| committed.arguments),
        result_digest: None,
        salt: committed.map(|committed| *committed.salts.bytes()),
        erased_ms: None,
    }
}

fn ended(end: &CallEnd) -> LoggedToolCall {
    LoggedToolCall {
        status: end.status,
        run: end.run.as_ref().map(text),
        guards: guards(&end.guards),
        code: end.code.as_ref().map(CallCode::name),
        duration_us: Some(signed(microseconds(end.duration))),
        cost: end.cost.map(signed),
        fuel: end.fuel.map(signed),
        memory_bytes: end.memory_bytes.map(signed),
        result_digest: end.committed_result().map(|result| result.digest),
        ..admitted(&end.facts)
    }
}

fn contents(end: &CallEnd) -> CallContents {
    let arguments = Some(end.facts.arguments.as_str().to_owned());
    let result = end.result.as_ref().and_then(|result| result.text());
    CallContents {
        arguments: arguments.filter(|text| text.len() <= MAX_CONTENT_BYTES),
        result: result.filter(|text| text.len() <= MAX_CONTENT_BYTES),
    }
}

fn refused(refused: &RefusedCall) -> LoggedToolCall {
    LoggedToolCall {
        id: refused.id.to_string(),
        at_ms: unix_milliseconds(refused.at),
        status: CallStatus::Refused,
        tool: text(&refused.name),
        client: refused.client.as_ref().map(text),
        origin: refused.origin.to_owned(),
        decision: "refused".to_owned(),
        decided_by: None,
        guards: guards(&refused.guards),
        sources: refused.sources.to_json(),
        party: logged_party(&refused.tenant, &refused.membership),
        parent: refused.parent.map(|parent| parent.to_string()),
        run: None,
        code: Some(refused.code.name()),
        duration_us: None,
        cost: None,
        fuel: None,
        memory_bytes: None,
        arguments_digest: None,
        result_digest: None,
        salt: None,
        erased_ms: None,
    }
}

fn model(end: &ModelEnd) -> LoggedModelCall {
    LoggedModelCall {
        id: end.id.to_string(),
        at_ms: unix_milliseconds(end.begun),
        status: end.status,
        model: text(&end.model),
        provider: end.provider.as_ref().map(text),
        served_model: end.served_model.as_ref().map(text),
        guards: guards(&end.guards),
        party: logged_party(&end.tenant, &end.membership),
        is_streamed: end.is_streamed,
        code: end.code.as_ref().map(text),
        duration_us: Some(signed(microseconds(end.duration))),
        cost: end.cost.map(signed),
        tokens: end.usage.map(|usage| LoggedTokens {
            input: signed(usage.input),
            cached: signed(usage.cached_input),
            output: signed(usage.output),
            reasoning: signed(usage.reasoning),
        }),
        tool_tokens: end.tool_tokens.map(|tokens| tokens.to_json().to_string()),
    }
}

/// Returns the decisions of guards as a JSON array; `None` if there are none.
fn guards(acts: &[GuardAct]) -> Option<String> {
    let text = (!acts.is_empty()).then(|| serde_json::to_string(acts));
    text.and_then(Result::ok)
}

fn text(text: &ShortText) -> String {
    text.as_str().to_owned()
}

/// Converts a number, which a provider or a tool may have made up: sums of as many rows as a query reads must
/// not overflow, and 2^43 is more than any real one.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX).min(i64::MAX >> 20)
}
