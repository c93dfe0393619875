//! The control of calls across requests: limits, which refuse a call that the door has admitted, and
//! the record of each call.

use futures_util::future::BoxFuture;

use super::{Admitted, CallId, Membership, Origin};
use crate::{
    tenant::Tenant,
    tool::{CallError, ToolOutput},
};

/// Accompanies the calls of a gateway, from the decision to the end. It stands behind the door: it can
/// refuse an admitted call, and cannot admit one.
///
/// The controls of a gateway are asked one after the other: first its limits, then those of the embedding
/// program in the order in which they were added, and last its records, which have a call as admitted only if
/// all others permit it. If one refuses a call, or its caller leaves before all permit it, those that have
/// begun it are ended with an error that [has not begun](CallError::has_not_begun), so that they return what
/// they have taken, and those that were not asked are notified by [`Self::call_refused`].
pub trait CallControl: Send + Sync + 'static {
    /// Controls an admitted call that is about to run, whatever made it: a request, a script or a
    /// plugin. The call runs only if this succeeds; otherwise it fails with the error, which is marked as
    /// that of a call that has not begun. Dropping the future means that the call does not run.
    fn begin<'c>(
        &'c self,
        call: &'c Admitted,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledCall>, CallError>>;

    /// Takes note of a call that the door has refused: of the nested calls of one chain that are beyond its
    /// budget, the first. Must neither block nor fail.
    fn refused(&self, refusal: &Refusal<'_>);

    /// Takes note of a call that waits for an approval: it is neither admitted nor refused yet. If its caller
    /// repeats it while it waits, of each repetition. Must neither block nor fail.
    fn asked(&self, _origin: &Origin, _name: &str) {}

    /// Takes note of a call that the door has admitted and that does not run, because of a control before this
    /// one. Must neither block nor fail.
    fn call_refused(&self, _call: &Admitted, _refusal: &CallError) {}
}

/// A call that runs under control. Dropping the value without [`Self::end`] means that the call was
/// cancelled: it may have had its effect.
pub trait ControlledCall: Send {
    /// Takes note of the result, which the caller receives next. Must not block.
    fn end(self: Box<Self>, result: &Result<ToolOutput, CallError>);
}

/// A call that the door has refused.
#[derive(Clone, Copy)]
pub struct Refusal<'r> {
    /// The party that made the request.
    pub tenant: &'r Tenant,
    /// The key that it came with.
    pub membership: &'r Membership,
    /// The origin of the call.
    pub origin: &'r Origin,
    /// The running call that wanted to make it; `None` if it is a request's own.
    pub parent: Option<CallId>,
    /// The name that was called, cut to a bounded length. No such tool may exist.
    pub name: &'r str,
    /// The reason.
    pub error: &'r CallError,
}

#[cfg(test)]
mod tests;
