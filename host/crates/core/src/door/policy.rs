//! A policy of the program that embeds the gateway: a step after the rules of the configuration, which can
//! only narrow what they permit.

use std::fmt;

use super::{Arguments, Membership, Origin};
use crate::{
    tenant::Tenant,
    tool::{CallError, ErrorKind, HostCode, Tool},
};
use airlock_strings::{MAX_LINE_BYTES, cut};

/// Narrows the calls that the rules of the configuration permit. It can refuse a call or require an
/// approval for it, and can neither admit a call nor waive an approval.
pub trait CallPolicy: Send + Sync + 'static {
    /// Decides about one call, at the moment of the call, whatever makes it: a request, a model, a script
    /// or a plugin. It may be asked more than once about the same call, should return the same each time, and must
    /// neither block nor panic.
    fn narrow(&self, call: &ProposedCall<'_>) -> PolicyVerdict;
}

/// A call that the rules of the configuration permit, with an approval or without one.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct ProposedCall<'c> {
    /// The tool. A tool of the gateway itself has no client.
    pub tool: &'c Tool,
    /// The arguments. They are not checked against the schema of the tool yet.
    pub arguments: &'c Arguments,
    /// The origin of the call.
    pub origin: &'c Origin,
    /// The party that the call is accounted to.
    pub tenant: &'c Tenant,
    /// The key that the request came with; the default if it came with none.
    pub membership: &'c Membership,
}

/// Verdict of a policy about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyVerdict {
    /// The rules of the configuration decide.
    Unchanged,
    /// The call needs an approval, even if the configuration requires none.
    RequireApproval,
    /// The call is not made.
    Refuse {
        /// Reason, for the caller and the model.
        reason: String,
    },
}

impl<'c> ProposedCall<'c> {
    /// Returns the same call with other arguments.
    #[must_use]
    pub fn with_arguments<'a>(&self, arguments: &'a Arguments) -> ProposedCall<'a>
    where
        'c: 'a,
    {
        let Self { tool, origin, tenant, membership, .. } = *self;
        ProposedCall { tool, arguments, origin, tenant, membership }
    }
}

impl fmt::Debug for ProposedCall<'_> {
    /// Leaves the arguments out, which may have secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProposedCall")
            .field("tool", &self.tool.name)
            .field("origin", self.origin)
            .finish_non_exhaustive()
    }
}

impl PolicyVerdict {
    /// Returns whether the call needs an approval. Fails if it is refused.
    pub(super) fn needs_approval(self, tool: &Tool) -> Result<bool, CallError> {
        match self {
            Self::Unchanged => Ok(false),
            Self::RequireApproval => Ok(true),
            Self::Refuse { reason } => Err(refused(tool, reason)),
        }
    }
}

fn refused(tool: &Tool, reason: String) -> CallError {
    let reason = cut(reason, MAX_LINE_BYTES);
    let message = ("tool '", format!("' is refused by the policy of this gateway: {reason}"));
    CallError::about(tool.name.clone(), ErrorKind::Denied, HostCode::PolicyRefused, message)
}

#[cfg(test)]
mod tests;
