//! The control of the calls of a view, and what is reported to it before a call is admitted.

use std::sync::Arc;

use airlock_strings::{MAX_NAME_BYTES, cut};

use super::View;
use crate::{
    door::{CallControl, CallId, Origin, Refusal, trace},
    tool::CallError,
};

impl View {
    /// The control of calls; `None` if there is none.
    pub fn control(&self) -> Option<&Arc<dyn CallControl>> {
        self.shared.control.as_ref()
    }

    /// Notifies the control of a call of the request that is refused before [`Caller::admit`](crate::door::Caller::admit)
    /// is asked: there is no such tool, its arguments cannot be read, or a person has denied it.
    pub fn report_refusal(&self, origin: &Origin, name: &str, error: &CallError) {
        self.tell_refused(origin, None, name, error);
    }

    /// Notifies the control of a call of the request that waits for an approval, and records its span.
    pub fn report_wait(&self, origin: &Origin, name: &str) {
        self.trace_not_admitted(origin, name, None);
        if let Some(control) = &self.shared.control {
            control.asked(origin, name);
        }
    }

    fn trace_not_admitted(&self, origin: &Origin, name: &str, error: Option<&CallError>) {
        if airlock_telemetry::is_on() {
            let offered = self.find(origin, name).map(|entry| entry.tool.name.as_str());
            trace::not_admitted(offered, name, origin, &self.membership, error);
        }
    }

    /// Notifies the control of a call that is refused.
    pub(in crate::door) fn tell_refused(
        &self,
        origin: &Origin,
        parent: Option<CallId>,
        name: &str,
        error: &CallError,
    ) {
        self.trace_not_admitted(origin, name, Some(error));
        let Some(control) = &self.shared.control else { return };
        let name = &cut(name.to_owned(), MAX_NAME_BYTES);
        let membership = &self.membership;
        control.refused(&Refusal { tenant: &self.tenant, membership, origin, parent, name, error });
    }
}
