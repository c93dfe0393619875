//! Runs an admitted call until it ends or the client has to repeat it.

use std::{pin::pin, sync::Arc};

use super::reports::ToolReports;
use crate::{questions::Dialog, tasks::Deferral};
use airlock_core::{
    door::{Approved, Arguments, CallId, Caller, Event, Events},
    tool::{Answers, CallError, Tool, ToolOutput},
};

/// A call that is decided, from its admission to its end.
pub(super) struct RunningCall<'r> {
    pub(super) caller: Caller,
    pub(super) tool: Arc<Tool>,
    pub(super) arguments: Arguments,
    /// The decision about the call in the list of pending approvals; `None` if it did not wait there.
    pub(super) approved: Option<Approved>,
    pub(super) events: Option<Events>,
    pub(super) reports: ToolReports<'r>,
    /// Makes a task of the call; `None` if it cannot become one.
    pub(super) deferral: Option<Deferral>,
    /// The call that was admitted, which the source reports about; `None` before.
    pub(super) id: Option<CallId>,
}

impl RunningCall<'_> {
    /// Returns whether the call has become a task.
    pub(super) fn is_task(&self) -> bool {
        self.deferral.as_ref().is_some_and(|deferral| deferral.task().is_some())
    }

    /// Runs the call, or resumes it, until it ends or the client has to repeat it with answers.
    pub(super) async fn run(&mut self, dialog: &mut Dialog<'_>) -> Result<ToolOutput, CallError> {
        loop {
            let error = match self.step(dialog.take()).await {
                Ok(output) => return Ok(output),
                Err(error) => error,
            };
            // A source asks a bounded number of times.
            let Some(asked) = error.input_required() else { return Err(error) };
            let task = self.deferral.as_ref().and_then(Deferral::task);
            let asked = Box::new(asked.clone());
            let answered = dialog.answer(asked, task.map(|task| &**task), |token| {
                self.caller.forget(self.tool.name.as_str(), token);
            });
            if answered.await.is_err() {
                return Err(error);
            }
        }
    }

    async fn step(&mut self, answers: Option<Answers>) -> Result<ToolOutput, CallError> {
        let name = self.tool.name.as_str();
        match answers {
            None => {
                let admitted = match &self.approved {
                    Some(approved) => {
                        self.caller.admit_approved(name, &self.arguments, approved)?
                    }
                    None => self.caller.admit(name, &self.arguments)?,
                };
                // What a source reports belongs to this call, also after it has asked.
                let id = *self.id.insert(admitted.chain().id());
                self.report(id, admitted.run()).await
            }
            Some(answers) => {
                let resumed = self.caller.resume(name, &self.arguments, answers)?;
                self.report(self.id.unwrap_or(resumed.id()), resumed.run()).await
            }
        }
    }

    /// Waits for a call, and sends what its tool reports meanwhile.
    async fn report(
        &mut self,
        id: CallId,
        work: impl Future<Output = Result<ToolOutput, CallError>>,
    ) -> Result<ToolOutput, CallError> {
        let Some(events) = &mut self.events else { return work.await };
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                event = events.recv() => {
                    // The caller holds a sender, so the channel is open.
                    if let Some(event) = event {
                        handle(event, id, &mut self.reports, self.deferral.as_mut());
                    }
                }
                ran = &mut work => {
                    while let Ok(event) = events.try_recv() {
                        handle(event, id, &mut self.reports, self.deferral.as_mut());
                    }
                    return ran;
                }
            }
        }
    }
}

/// Handles an event of a running call.
fn handle(
    event: Event,
    id: CallId,
    reports: &mut ToolReports<'_>,
    deferral: Option<&mut Deferral>,
) {
    match (event, deferral) {
        (Event::Deferred { call }, Some(deferral)) if call == id => deferral.defer(),
        (event, _) => reports.send(id, event),
    }
}
