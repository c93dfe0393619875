//! Several controls of requests to models that act as one.

use std::{mem, sync::Arc};

use futures_util::future::BoxFuture;

use airlock_core::{
    door::Membership,
    model_control::{
        ControlRefusal, ControlledModelRequest, ModelControl, ModelOutcome, ModelRequest,
    },
    tool::HostCode,
};

/// Controls of requests, in their order.
pub(super) struct ModelControls(Arc<[Arc<dyn ModelControl>]>);

/// A request that several controls accompany. If it is dropped, so are its parts: each learns that the request
/// was cut off.
struct ControlledRequests(Vec<Box<dyn ControlledModelRequest>>);

/// The parts of a request that is not permitted yet by all. It is not sent if this is dropped.
struct BegunRequests(Vec<Box<dyn ControlledModelRequest>>);

impl ModelControls {
    pub(super) fn new(controls: &[Arc<dyn ModelControl>]) -> Self {
        Self(controls.into())
    }
}

impl ModelControl for ModelControls {
    fn applies(&self, membership: &Membership) -> bool {
        self.0.iter().any(|control| control.applies(membership))
    }

    fn begin<'c>(
        &'c self,
        request: ModelRequest<'c>,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledModelRequest>, ControlRefusal>> {
        Box::pin(async move {
            let mut begun = BegunRequests(Vec::with_capacity(self.0.len()));
            for control in &*self.0 {
                match control.begin(request).await {
                    Ok(controlled) => begun.0.push(controlled),
                    Err(refusal) => {
                        begun.end(refusal.code);
                        return Err(refusal);
                    }
                }
            }
            let controlled: Box<dyn ControlledModelRequest> = Box::new(begun.admit());
            Ok(controlled)
        })
    }
}

impl BegunRequests {
    fn admit(mut self) -> ControlledRequests {
        ControlledRequests(mem::take(&mut self.0))
    }

    /// Ends the parts of a request that is not sent.
    fn end(&mut self, code: HostCode) {
        let error = Some(code.as_str());
        let outcome = ModelOutcome { error, has_not_begun: true, ..ModelOutcome::default() };
        for controlled in mem::take(&mut self.0) {
            controlled.end(&outcome);
        }
    }
}

impl Drop for BegunRequests {
    fn drop(&mut self) {
        self.end(HostCode::Cancelled);
    }
}

impl ControlledModelRequest for ControlledRequests {
    fn needs_outcome(&self) -> bool {
        self.0.iter().any(|controlled| controlled.needs_outcome())
    }

    fn receives_part(&mut self) {
        self.0.iter_mut().for_each(|controlled| controlled.receives_part());
    }

    /// Returns the cost that the first of them knows.
    fn cost(&self, outcome: &ModelOutcome<'_>) -> Option<u64> {
        self.0.iter().find_map(|controlled| controlled.cost(outcome))
    }

    fn end(self: Box<Self>, outcome: &ModelOutcome<'_>) {
        for controlled in self.0 {
            controlled.end(outcome);
        }
    }
}
