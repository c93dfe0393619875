//! Several controls of calls that act as one.

use std::{mem, sync::Arc};

use futures_util::future::BoxFuture;

use airlock_core::{
    door::{Admitted, CallControl, ControlledCall, Refusal},
    tool::{CallError, ToolOutput},
};

/// Controls of calls, in their order.
pub(super) struct CallControls(Arc<[Arc<dyn CallControl>]>);

/// A call that several controls accompany. If it is dropped, so are its parts: each learns that the call was
/// cancelled.
struct ControlledCalls(Vec<Box<dyn ControlledCall>>);

/// The parts of a call that is not admitted yet by all. It does not run if this is dropped.
struct BegunCalls(Vec<Box<dyn ControlledCall>>);

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
            let mut begun = BegunCalls(Vec::with_capacity(self.0.len()));
            for control in &*self.0 {
                match control.begin(call).await {
                    Ok(controlled) => begun.0.push(controlled),
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
}

impl BegunCalls {
    fn admit(mut self) -> ControlledCalls {
        ControlledCalls(mem::take(&mut self.0))
    }

    /// Ends the parts with a refusal, and returns it: the call is not made.
    fn refuse(mut self, refusal: CallError) -> CallError {
        let result = Err(refusal.not_begun());
        end(&mut self.0, &result);
        match result {
            Err(refusal) => refusal,
            Ok(_) => unreachable!("it is an error"),
        }
    }
}

impl Drop for BegunCalls {
    fn drop(&mut self) {
        if !self.0.is_empty() {
            end(&mut self.0, &Err(CallError::cancelled().not_begun()));
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
