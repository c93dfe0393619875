//! The policies and the controls of calls, and the controls of requests to models: each kind is a list whose
//! elements act as one.
//!
//! The strictest verdict of the policies counts. Controls begin in the order of the list. If one refuses, those before
//! it have begun a call or request that does not happen: they are ended with the refusal, and those after it are notified
//! of it. Calls and requests that run are ended in the order of the list.

mod calls;
mod models;
mod policies;

use std::sync::Arc;

use self::{calls::CallControls, models::ModelControls, policies::CallPolicies};
use airlock_core::{
    door::{CallControl, CallPolicy},
    model_control::ModelControl,
};

/// The policies and controls of a gateway.
#[derive(Default)]
pub(super) struct Controls {
    policies: Vec<Arc<dyn CallPolicy>>,
    calls: Vec<Arc<dyn CallControl>>,
    models: Vec<Arc<dyn ModelControl>>,
}

impl Controls {
    /// Adds a policy.
    pub(super) fn add_policy(&mut self, policy: Arc<dyn CallPolicy>) {
        self.policies.push(policy);
    }

    /// Adds a control of calls after the others.
    pub(super) fn add_calls(&mut self, control: Arc<dyn CallControl>) {
        self.calls.push(control);
    }

    /// Adds a control of requests to models after the others.
    pub(super) fn add_models(&mut self, control: Arc<dyn ModelControl>) {
        self.models.push(control);
    }

    /// Returns these controls between the one that is asked first, which has the limits, and the one that is
    /// asked last, which has the records.
    pub(super) fn between<F, L>(self, first: &Arc<F>, last: Option<&Arc<L>>) -> Self
    where
        F: CallControl + ModelControl,
        L: CallControl + ModelControl,
    {
        let mut controls = Self { policies: self.policies, ..Self::default() };
        controls.add_calls(first.clone());
        controls.add_models(first.clone());
        controls.calls.extend(self.calls);
        controls.models.extend(self.models);
        if let Some(last) = last {
            controls.add_calls(last.clone());
            controls.add_models(last.clone());
        }
        controls
    }

    /// Returns these controls after an observer of calls, which refuses none and sees the refusals of all others.
    pub(super) fn observed_by(mut self, observer: Arc<dyn CallControl>) -> Self {
        self.calls.insert(0, observer);
        self
    }

    /// Returns the policies as one; `None` if there are none.
    pub(super) fn of_policies(&self) -> Option<Arc<dyn CallPolicy>> {
        match self.policies.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            several => Some(Arc::new(CallPolicies::new(several))),
        }
    }

    /// Returns the controls of calls as one; `None` if there are none.
    pub(super) fn of_calls(&self) -> Option<Arc<dyn CallControl>> {
        match self.calls.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            several => Some(Arc::new(CallControls::new(several))),
        }
    }

    /// Returns the controls of requests to models as one; `None` if there are none.
    pub(super) fn of_models(&self) -> Option<Arc<dyn ModelControl>> {
        match self.models.as_slice() {
            [] => None,
            [only] => Some(only.clone()),
            several => Some(Arc::new(ModelControls::new(several))),
        }
    }
}

#[cfg(test)]
mod tests;
