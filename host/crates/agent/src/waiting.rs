//! Calls that wait for a person's decision while their request stays open.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use tokio::time::timeout_at;

use super::allowance::Allowance;
use airlock_core::{
    door::{Approved, Arguments, Caller, Entry, Origin},
    tenant::Tenant,
    tool::{CallError, ErrorKind, HostCode, SourceSet, ToolError},
};

/// A list of calls that wait for a person's decision.
pub trait ApprovalList: Send + Sync {
    /// Waits for the decision about a call, at most `limit`. The arguments are those that the guards have left, with
    /// the reasons for which they ask. Dropping the future leaves the call in the list until it expires.
    fn decide<'a>(
        &'a self,
        entry: &'a Entry,
        arguments: &'a Arguments,
        sources: &'a SourceSet,
        tenant: &'a Tenant,
        limit: Duration,
    ) -> BoxFuture<'a, ApprovalVerdict>;
}

/// Decision about a call that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalVerdict {
    /// It may run, once. The parties that have approved it, if they are known.
    Approved(Option<String>),
    /// It may not run, for the reason that the person has given.
    Denied(Option<String>),
    /// The call was undecided at the limit. The identifier under which the call waits.
    Waiting(String),
    /// It cannot wait, for this reason.
    Refused(&'static str),
}

/// Waits for the decisions about the calls of a request.
#[derive(Clone)]
pub struct Approver {
    /// The list that persons decide from.
    pub list: Arc<dyn ApprovalList>,
    /// Longest wait of one call.
    pub limit: Duration,
}

impl Approver {
    /// Waits for the decision about a call, at most until the deadline of the request, and returns
    /// the approval. Fails with an error for the model if there is none.
    pub(super) async fn approval(
        &self,
        caller: &Caller,
        name: &str,
        arguments: &Arguments,
        allowance: &Allowance,
    ) -> Result<Approved, CallError> {
        let view = caller.view();
        let entry =
            view.find(&Origin::Model, name).ok_or_else(|| view.absent(&Origin::Model, name))?;
        let tenant = caller.view().tenant();
        caller.report_wait(name);
        let sources = caller.context();
        let deciding = self.list.decide(entry, arguments, &sources, tenant, self.limit);
        let verdict = timeout_at(allowance.deadline, deciding).await;
        match verdict.map_err(|_| CallError::cancelled())? {
            ApprovalVerdict::Approved(decided_by) => {
                Ok(Approved::new(entry, arguments.as_str(), decided_by).with_sources(sources))
            }
            ApprovalVerdict::Denied(reason) => {
                let error = declined(name, &denied(reason.as_deref()));
                caller.report_refusal(name, &error);
                Err(error)
            }
            ApprovalVerdict::Waiting(id) => Err(declined(
                name,
                &format!(
                    "no person has approved it yet. It waits as {id}: after `airlock approvals approve {id}`, the same call may be \
                     repeated"
                ),
            )),
            ApprovalVerdict::Refused(reason) => Err(declined(name, reason)),
        }
    }
}

airlock_strings::debug_fields!(Approver { limit });

/// Returns the reason of a call that a person has denied, with the person's own reason.
pub fn denied(reason: Option<&str>) -> String {
    let denied = "the person who was asked refused it";
    reason.map_or_else(|| denied.to_owned(), |reason| format!("{denied}: {reason}"))
}

/// Returns the error of a call of the tool `name` that did not run, because no person has approved it.
pub fn declined(name: &str, reason: &str) -> CallError {
    let message = format!("tool '{name}' did not run: {reason}");
    ToolError::new(ErrorKind::Denied, message).with_code(&HostCode::Declined.prefixed()).into()
}
