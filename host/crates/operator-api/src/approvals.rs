//! `/v1/approvals`: calls that wait for the decision of a person.
//!
//! A call belongs to the virtual key of its client; for any other caller it does not exist. An operator
//! decides about the calls of all callers, those of scripts included, and alone about those of clients whose approval
//! is `wait`. A decision is stored, and the call that waits finds it there: nothing runs here.
//!
//! | module | purpose |
//! |---|---|
//! | `item` | a call that waits: of a client, of a model, or of a script |
//! | `describe` | calls as JSON, with the state of their tools |
//! | `decide` | approvals and denials of one call and of several |

mod decide;
mod describe;
mod item;

use http::{Method, Request};
use serde_json::json;

pub use self::decide::reason;
use self::{
    decide::{decide_one, decide_several},
    describe::Describer,
    item::WaitingItem,
};
use super::{
    OperatorApi,
    operator::{self, RequestOperator},
};
use airlock_core::{
    operator::{Operator, Right},
    request_memory::RequestCharge,
};
use airlock_http::{
    listing::Page,
    respond::{self, ApiError, Reply},
    work,
};
use airlock_ingress::RequestBody;
use airlock_requests::Sender;
use airlock_store::{Database, Unavailable, approvals::Approvals};

const PATH: &str = "/v1/approvals";
/// The act of an operator here, as a verb with its object.
pub const WORDS: &str = "see calls that wait for an approval, and decide about them";
/// Copies of the texts of calls while they are listed: as stored, as the members of their documents,
/// and as the response. The fourth is for escapes.
const LIST_COPIES: usize = 4;

/// Part of the API that a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalTarget {
    /// The calls of the caller.
    List,
    /// One call.
    Show,
    /// Approves one call.
    Approve,
    /// Denies one call.
    Deny,
    /// Approves several calls of one tool.
    ApproveSeveral,
}

impl ApprovalTarget {
    /// Returns the part that a path means and the call that it names; `None` for other paths.
    pub fn parse(path: &str) -> Option<(Self, &str)> {
        let rest = path.strip_prefix(PATH)?;
        match rest {
            "" => return Some((Self::List, "")),
            "/approve" => return Some((Self::ApproveSeveral, "")),
            _ => {}
        }
        let rest = rest.strip_prefix('/')?;
        let (id, action) = rest.split_once('/').unwrap_or((rest, ""));
        let target = match action {
            "" if !rest.ends_with('/') => Self::Show,
            "approve" => Self::Approve,
            "deny" => Self::Deny,
            _ => return None,
        };
        (!id.is_empty()).then_some((target, id))
    }

    /// Returns the methods that the path takes.
    pub fn methods(self) -> &'static [Method] {
        match self {
            Self::List | Self::Show => &[Method::GET, Method::HEAD],
            Self::Approve | Self::Deny | Self::ApproveSeveral => &[Method::POST],
        }
    }
}

/// The calls about which a sender decides.
struct ApprovalQueue<'d> {
    api: &'d OperatorApi,
    sender: &'d Sender,
    /// The operator with its credential; `None` for a caller.
    actor: Option<&'d RequestOperator>,
    /// `None` for a caller, who sees only its own calls.
    operator: Option<&'d Operator>,
    database: &'d Database,
    calls: Approvals,
}

impl ApprovalQueue<'_> {
    /// Fails if the credential of an operator was revoked while the body of the request arrived.
    async fn confirm(&self) -> Result<(), ApiError> {
        match self.actor {
            Some(actor) => actor.confirm(self.api).await,
            None => Ok(()),
        }
    }

    fn sees_payloads(&self) -> bool {
        self.operator.is_none_or(|operator| operator.sees_payloads)
    }

    /// Returns the number of calls that wait; for an operator, those of scripts are among them.
    async fn waiting_count(&self) -> Result<u32, Unavailable> {
        let calls = self.calls.waiting_count().await?;
        if self.operator.is_none() {
            return Ok(calls);
        }
        Ok(calls.saturating_add(self.database.pending_run_call_count().await?))
    }

    /// Finds a call, decided or not. Those of scripts are found for operators alone.
    async fn find(&self, id: &str) -> Result<WaitingItem, ApiError> {
        let found = match item::run_call(id).filter(|_| self.operator.is_some()) {
            Some((run, position)) => {
                let found = self.database.pending_run_call(run, position).await;
                found.map(|call| call.map(WaitingItem::Script))
            }
            None => self.calls.find(id).await.map(|call| call.map(WaitingItem::Call)),
        };
        found.map_err(|error| unavailable(&error))?.ok_or_else(|| not_waiting(id))
    }
}

/// Handles a request. Fails if the caller has no such call that waits, or if the list cannot be used.
pub async fn run(
    api: &OperatorApi,
    sender: &Sender,
    actor: Option<&RequestOperator>,
    target: ApprovalTarget,
    id: &str,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let operator = actor.map(|actor| &*actor.operator);
    operator.map(|own| operator::check_right(own, Right::Approve, WORDS)).transpose()?;
    let database = api.hooks.approvals.database().await.map_err(|error| unavailable(&error))?;
    let calls = match operator {
        Some(_) => database.all_approvals(),
        None => database.approvals(sender.tenant().scope()),
    };
    let queue = ApprovalQueue { api, sender, actor, operator, database, calls };
    match target {
        ApprovalTarget::List => list(&queue, request, charge).await,
        ApprovalTarget::Show => show(&queue, id, charge).await,
        ApprovalTarget::Approve => decide_one(&queue, id, true, request, charge).await,
        ApprovalTarget::Deny => decide_one(&queue, id, false, request, charge).await,
        ApprovalTarget::ApproveSeveral => decide_several(&queue, request, charge).await,
    }
}

/// Lists a part of the calls: for an operator, those of scripts are behind the others. Its texts have a bounded
/// size, so a list has room in the share of one caller.
async fn list(
    queue: &ApprovalQueue<'_>,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let Page { limit, offset, .. } = Page::parse(request.uri().query().unwrap_or_default())?;
    drop(request);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    let page = queue.calls.list(limit, offset).await.map_err(|error| unavailable(&error))?;
    let mut items: Vec<_> = page.calls.into_iter().map(WaitingItem::Call).collect();
    let mut has_more = page.has_more;
    if !has_more && queue.operator.is_some() {
        let count = queue.calls.count().await.map_err(|error| unavailable(&error))?;
        let left = limit.saturating_sub(u32::try_from(items.len()).unwrap_or(limit));
        let scripts = queue.database.pending_run_calls(left, offset.saturating_sub(count)).await;
        let (scripts, goes_on) = scripts.map_err(|error| unavailable(&error))?;
        items.extend(scripts.into_iter().map(WaitingItem::Script));
        has_more = goes_on;
    }
    let waiting_count = queue.waiting_count().await.map_err(|error| unavailable(&error))?;
    let bytes: usize = items.iter().map(WaitingItem::bytes).sum();
    charge.grow(bytes.saturating_mul(LIST_COPIES))?;
    let mut describer = Describer::new(queue);
    let listed = work::on_tree(charge, move |_| {
        let data: Vec<_> = items.iter().map(|item| describer.describe(item)).collect();
        Ok(respond::json(&json!({
            "object": "list",
            "data": data,
            "has_more": has_more,
            "waiting_count": waiting_count,
        })))
    });
    listed.await
}

/// Shows one call, decided or not; of a script, with the script and its calls so far.
async fn show(
    queue: &ApprovalQueue<'_>,
    id: &str,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let item = queue.find(id).await?;
    charge.grow(item.bytes().saturating_mul(LIST_COPIES))?;
    let mut document = Describer::new(queue).describe(&item);
    if let WaitingItem::Script(call) = &item {
        let shown = queue.database.show_any_run(&call.run).await.map_err(|_| not_waiting(id))?;
        charge.grow(shown.bytes().saturating_mul(LIST_COPIES))?;
        describe::add_script(&mut document, call, &shown, queue.sees_payloads());
    }
    Ok(respond::json(&document))
}

fn not_waiting(id: &str) -> ApiError {
    let message = format!(
        "no call {:?} waits for an approval: it has expired, or was decided about",
        respond::excerpt(id)
    );
    ApiError::not_found("approval_not_found", message)
}

fn unavailable(error: &Unavailable) -> ApiError {
    let message = format!("the list of pending approvals cannot be used: {error}");
    ApiError::unavailable("store_unavailable", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_a_call_and_an_action() {
        for (path, found) in [
            ("/v1/approvals", Some((ApprovalTarget::List, ""))),
            ("/v1/approvals/approve", Some((ApprovalTarget::ApproveSeveral, ""))),
            ("/v1/approvals/call_1", Some((ApprovalTarget::Show, "call_1"))),
            ("/v1/approvals/run_1:2.1", Some((ApprovalTarget::Show, "run_1:2.1"))),
            ("/v1/approvals/call_1/approve", Some((ApprovalTarget::Approve, "call_1"))),
            ("/v1/approvals/call_1/deny", Some((ApprovalTarget::Deny, "call_1"))),
            ("/v1/approvals/", None),
            ("/v1/approvals/call_1/", None),
            ("/v1/approvals//approve", None),
            ("/v1/approvals/call_1/approve/x", None),
            ("/v1/approvalsx", None),
        ] {
            assert_eq!(ApprovalTarget::parse(path), found, "{path}");
        }
    }
}
