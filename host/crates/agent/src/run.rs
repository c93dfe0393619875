//! The loop of one request: asks the model, runs its calls and asks again.

use std::sync::Arc;

use super::{
    AgentError, Event, Failure, Request, Run, Settings,
    allowance::Allowance,
    calls, conversation,
    dialog::{Dialog, LoopEnd},
    event::Reports,
    names::CallOwner,
    round::{self, CallQuota, Listener, PendingCall, PendingReason, RoundConditions, SortedCalls},
    trace::Trace,
};
use airlock_core::door::Caller;
use airlock_model::Models;

/// Runs a chat completion. Nothing happens until the returned [`Run`] is polled. Its last event is
/// [`Event::Done`], or [`Event::Failed`] with the reason. Dropping it cancels the request.
pub fn run(models: Arc<Models>, caller: Caller, request: Request, settings: Settings) -> Run {
    Run::new(|emitter| async move {
        let mut request = request;
        let listener = Listener { emitter, reports: Reports::new(request.reports.take()) };
        let mut trace = Trace::new(caller.ledger(), request.notes.clone());
        let ended = converse(&models, &caller, request, &settings, &mut trace, &listener).await;
        let last = match ended {
            Ok(LoopEnd::Whole { answer, pending, is_in_text }) => {
                trace.finish(answer, &pending, is_in_text)
            }
            Ok(LoopEnd::Streamed { relay, answer, pending, is_in_text }) => {
                let emitter = &listener.emitter;
                trace.finish_stream(*relay, &answer, &pending, is_in_text, emitter).await
            }
            Err(error) => {
                let airlock = trace.extension(&[]);
                let failed = Event::Failed(Box::new(AgentError { error, airlock }));
                return listener.emitter.emit(failed).await;
            }
        };
        listener.emitter.emit(Event::Done(Box::new(last))).await;
    })
}

/// Asks the model and runs its calls until the loop ends.
async fn converse(
    models: &Models,
    caller: &Caller,
    mut request: Request,
    settings: &Settings,
    trace: &mut Trace<'_>,
    listener: &Listener,
) -> Result<LoopEnd, Failure> {
    let allowance = Allowance::new(settings, &request.budget);
    let mut route = models.route(&mut request.body)?;
    let mut quota = CallQuota::new(settings.calls_per_answer, request.max_tool_calls);
    let results = request.results.take();
    let approver = request.approver.take();
    let mut dialog = Dialog::begin(request, caller, settings).await;
    loop {
        let is_last = trace.rounds == settings.max_depth;
        let mut answer =
            dialog.ask(&mut route, &allowance, trace.rounds, is_last, listener).await?;
        trace.usage.add(answer.object());
        calls::check_count(answer.object())?;
        let calls = dialog.calls(&mut answer);
        // Charged before the calls are parsed, and before a tool is run whose result the model
        // could not receive. A response that ends the loop adds nothing to the conversation.
        if !is_last && calls.iter().any(|call| call.owner != CallOwner::Caller) {
            allowance.take(conversation::message_bytes(&answer))?;
        }
        let SortedCalls { batch, mut pending } =
            round::sort(calls, caller, approver.is_some(), &mut quota).await;
        let style = settings.results_as_text;
        if batch.is_empty() {
            return Ok(dialog.end(answer, pending, &[], style, &allowance).await);
        }
        if is_last {
            trace.depth_limit_reached = true;
            pending.extend(
                batch.into_calls().map(|call| PendingCall::new(call, PendingReason::DepthLimit)),
            );
            return Ok(dialog.end(answer, pending, &[], style, &allowance).await);
        }
        let reads_images = route.reads_images();
        let results = results.as_ref();
        let allowance = &allowance;
        let approver = approver.as_ref();
        let conditions = RoundConditions {
            caller,
            settings,
            allowance,
            listener,
            names: &dialog.conversation.names,
            results,
            reads_images,
            approver,
        };
        // Boxed: a request without calls of the gateway's tools needs no room for it.
        let ended = Box::pin(round::run(batch, &conditions)).await;
        pending.extend(trace.record_round(&ended));
        if allowance.is_over() {
            return Err(allowance.timeout(trace.rounds));
        }
        if !pending.is_empty() {
            return Ok(dialog.end(answer, pending, &ended, style, allowance).await);
        }
        dialog.add_round(answer, &ended, trace.rounds, listener).await;
    }
}
