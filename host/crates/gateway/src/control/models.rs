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

/// A request that several controls accompany. If it is dropped, so are its parts, to each of which the request
/// counts as cut off.
struct ControlledRequests(Vec<Box<dyn ControlledModelRequest>>);

/// A request that is not permitted yet by all. It is not sent if this is dropped.
struct BegunRequests<'c> {
    request: ModelRequest<'c>,
    /// All controls; none once they have decided.
    controls: &'c [Arc<dyn ModelControl>],
    /// The parts of those that have begun it. The next one is asked.
    parts: Vec<Box<dyn ControlledModelRequest>>,
}

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
            let parts = Vec::with_capacity(self.0.len());
            let mut begun = BegunRequests { request, controls: &self.0, parts };
            for control in &*self.0 {
                match control.begin(request).await {
                    Ok(controlled) => begun.parts.push(controlled),
                    Err(refusal) => {
                        begun.refuse(&refusal);
                        return Err(refusal);
                    }
                }
            }
            let controlled: Box<dyn ControlledModelRequest> = Box::new(begun.permit());
            Ok(controlled)
        })
    }
}

impl BegunRequests<'_> {
    fn permit(mut self) -> ControlledRequests {
        self.controls = &[];
        ControlledRequests(mem::take(&mut self.parts))
    }

    /// Notifies all controls of a refusal, except the one that was asked last: the request is not sent.
    fn refuse(&mut self, refusal: &ControlRefusal) {
        let controls = mem::take(&mut self.controls);
        let others = controls.get(self.parts.len() + 1..).unwrap_or_default();
        let error = Some(refusal.code.as_str());
        let outcome = ModelOutcome { error, has_not_begun: true, ..ModelOutcome::default() };
        for controlled in mem::take(&mut self.parts) {
            controlled.end(&outcome);
        }
        for control in others {
            control.request_refused(self.request, refusal);
        }
    }
}

impl Drop for BegunRequests<'_> {
    fn drop(&mut self) {
        if !self.controls.is_empty() {
            self.refuse(&ControlRefusal {
                code: HostCode::Cancelled,
                message: "the request was cancelled".to_owned(),
                retry_after: None,
            });
        }
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
