//! The controls of calls and of requests to models: each kind is a list whose elements act as one.
//!
//! They begin in the order of the list. If one refuses, those before it have begun what does not happen: they
//! are ended with the refusal, and those after it are not asked. What runs is ended in the same order.

mod calls;
mod models;

use std::sync::Arc;

use self::{calls::CallControls, models::ModelControls};
use airlock_core::{door::CallControl, model_control::ModelControl};

/// The controls of a gateway.
#[derive(Default)]
pub(super) struct Controls {
    calls: Vec<Arc<dyn CallControl>>,
    models: Vec<Arc<dyn ModelControl>>,
}

impl Controls {
    /// Adds a control of calls after the others.
    pub(super) fn add_calls(&mut self, control: Arc<dyn CallControl>) {
        self.calls.push(control);
    }

    /// Adds a control of requests to models after the others.
    pub(super) fn add_models(&mut self, control: Arc<dyn ModelControl>) {
        self.models.push(control);
    }

    /// Adds controls after the others.
    pub(super) fn append(&mut self, others: Self) {
        self.calls.extend(others.calls);
        self.models.extend(others.models);
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
