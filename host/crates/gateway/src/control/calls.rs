//! Several controls of calls that act as one.

use std::{mem, sync::Arc};

use futures_util::future::BoxFuture;

use airlock_core::{
    door::{Admitted, CallControl, ControlledCall, Origin, Refusal},
    tool::{CallError, ToolOutput},
};

/// Controls of calls, in their order.
pub(super) struct CallControls(Arc<[Arc<dyn CallControl>]>);

/// A call that several controls accompany. If it is dropped, so are its parts, to each of which the call counts
/// as cancelled.
struct ControlledCalls(Vec<Box<dyn ControlledCall>>);

/// A call that is not permitted yet by all. It does not run if this is dropped.
struct BegunCalls<'c> {
    call: &'c Admitted,
    /// All controls; none once they have decided.
    controls: &'c [Arc<dyn CallControl>],
    /// The parts of those that have begun it. The next one is asked.
    parts: Vec<Box<dyn ControlledCall>>,
}

impl CallControls {
    pub(super) fn new(controls: &[Arc<dyn CallControl>]) -> Self {
        Self(controls.into())
    }
}

impl CallControl for CallControls {
    fn begin<'c>(
        &'c self,
        call: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>> {
        Box::pin(async move {
            let parts = Vec::with_capacity(self.0.len());
            let mut begun = BegunCalls { call, controls: &self.0, parts };
            for control in &*self.0 {
                match control.begin(call).await {
                    Ok(controlled) => begun.parts.push(controlled),
                    Err(refusal) => return Err(begun.refuse(refusal)),
                }
            }
            let controlled: Box<dyn ControlledCall> = Box::new(begun.admit());
            Ok(controlled)
        })
    }

    fn refused(&self, refusal: &Refusal<'_>) {
        for control in &*self.0 {
            control.refused(refusal);
        }
    }

    fn asked(&self, origin: &Origin, name: &str) {
        for control in &*self.0 {
            control.asked(origin, name);
        }
    }
}

impl BegunCalls<'_> {
    fn admit(mut self) -> ControlledCalls {
        self.controls = &[];
        ControlledCalls(mem::take(&mut self.parts))
    }

    /// Notifies all controls of a refusal, except the one that was asked last, and returns it: the call is not
    /// made.
    fn refuse(&mut self, refusal: CallError) -> CallError {
        let controls = mem::take(&mut self.controls);
        let others = controls.get(self.parts.len() + 1..).unwrap_or_default();
        let result = Err(refusal.not_begun());
        end(&mut self.parts, &result);
        let Err(refusal) = result else { unreachable!("it is an error") };
        for control in others {
            control.call_refused(self.call, &refusal);
        }
        refusal
    }
}

impl Drop for BegunCalls<'_> {
    fn drop(&mut self) {
        if !self.controls.is_empty() {
            drop(self.refuse(CallError::cancelled()));
        }
    }
}

impl ControlledCall for ControlledCalls {
    fn end(mut self: Box<Self>, result: &Result<ToolOutput, CallError>) {
        end(&mut self.0, result);
    }
}

fn end(parts: &mut Vec<Box<dyn ControlledCall>>, result: &Result<ToolOutput, CallError>) {
    for controlled in mem::take(parts) {
        controlled.end(result);
    }
}
