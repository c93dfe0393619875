//! A call as its script writes it, and as the guards leave it: the journal knows the first, and the second is decided.

use std::sync::Arc;

use airlock_core::{
    door::{Admitted, Approved, ArgumentSources, Arguments, Chain},
    run::Called,
    tool::CallError,
};
use airlock_sandbox::ScriptCall;

/// A call as a script writes it, and what the guards leave of its arguments.
pub(super) struct WrittenCall {
    /// The call as the script writes it.
    pub(super) call: ScriptCall,
    /// Its arguments, checked, with the decision of the guards if there are any; `None` if the door is to check them.
    pub(super) checked: Option<Arguments>,
}

impl From<ScriptCall> for WrittenCall {
    /// Creates a call about which no guard has decided.
    fn from(call: ScriptCall) -> Self {
        Self { call, checked: None }
    }
}

impl WrittenCall {
    pub(super) fn tool(&self) -> &str {
        &self.call.tool
    }

    /// The arguments as the guards have left them.
    pub(super) fn arguments(&self) -> &str {
        self.checked.as_ref().map_or(self.call.arguments.as_str(), Arguments::as_str)
    }

    /// Returns whether guards require an approval of the call.
    pub(super) fn is_asked_about(&self) -> bool {
        self.checked.as_ref().is_some_and(|checked| !checked.questions().is_empty())
    }

    /// Returns whether the guards have left the arguments as the script writes them.
    pub(super) fn is_as_written(&self) -> bool {
        self.arguments() == self.call.arguments
    }

    /// Decides the call, with this approval of it if there is one, and the sources that the values in its arguments may
    /// have, as the guards leave them; `None` stands for all that the script has read.
    pub(super) fn admit(
        &self,
        chain: &Chain,
        approved: Option<&Approved>,
        values: Option<ArgumentSources>,
    ) -> Result<Admitted, CallError> {
        let tool = self.tool();
        if let Some(checked) = &self.checked {
            return chain.admit_of_script(tool, checked, approved, values);
        }
        chain.admit_of_script(tool, self.call.arguments.as_str(), approved, values)
    }

    /// Returns the call as the journal has it.
    pub(super) fn to_called(
        &self,
        definition: Arc<str>,
        is_repeatable: bool,
        sources: Option<Arc<str>>,
    ) -> Called {
        let asked_by = self.checked.as_ref().and_then(|checked| checked.questions().to_json());
        let called = Called {
            tool: self.tool().into(),
            arguments: self.arguments().into(),
            written: None,
            definition,
            is_repeatable,
            sources,
            asked_by: asked_by.map(Into::into),
        };
        if self.is_as_written() { called } else { called.written_as(&self.call.arguments) }
    }
}
