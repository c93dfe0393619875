//! Several policies of calls that act as one.

use std::sync::Arc;

use airlock_core::door::{CallPolicy, PolicyVerdict, ProposedCall};

/// Policies of calls, in their order.
pub(super) struct CallPolicies(Arc<[Arc<dyn CallPolicy>]>);

impl CallPolicies {
    pub(super) fn new(policies: &[Arc<dyn CallPolicy>]) -> Self {
        Self(policies.into())
    }
}

impl CallPolicy for CallPolicies {
    /// Returns the first refusal; without one, whether any of them requires an approval.
    fn narrow(&self, call: &ProposedCall<'_>) -> PolicyVerdict {
        let mut verdict = PolicyVerdict::Unchanged;
        for policy in &*self.0 {
            match policy.narrow(call) {
                PolicyVerdict::Unchanged => {}
                PolicyVerdict::RequireApproval => verdict = PolicyVerdict::RequireApproval,
                refused @ PolicyVerdict::Refuse { .. } => return refused,
            }
        }
        verdict
    }
}
