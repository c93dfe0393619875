//! `/v1/runs`: runs of scripts, and the decisions of a person about their calls.
//!
//! A run belongs to the virtual key of the request that began it; for any other caller it does not
//! exist. `approve`, `deny` and `resolve` store decisions and resume the script at once; the
//! response is the run as it is then. The rights are those of the request that resumes it.

use std::collections::BTreeSet;

use http::{Method, Request};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{App, options};
use airlock_conversation::Object;
use airlock_core::door::log_failure;
use airlock_core::{
    act::Actor,
    door::{Caller, Origin, Resumed},
    request_memory::RequestCharge,
    run::{BadPosition, Cancelled, Position},
    tool::CallError,
};
use airlock_http::{
    body,
    memory::for_stored,
    respond::{self, ApiError, Reply},
    work,
};
use airlock_ingress::RequestBody;
use airlock_operator_api::approvals;
use airlock_requests::Sender;
use airlock_scripts::runs::{self, Decisions, EXECUTE, Runs};
use airlock_store::{Unavailable, runs::RunError};

const PATH: &str = "/v1/runs";

/// Part of the API that a path means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunTarget {
    /// The runs of the caller.
    List,
    /// One run.
    Run,
    /// Approves calls that wait for it, and resumes the run.
    Approve,
    /// Denies calls that wait for an approval, and resumes the run.
    Deny,
    /// Decides about calls in doubt, and resumes the run.
    Resolve,
    /// Resumes the run without a decision.
    Resume,
    /// Ends the run.
    Cancel,
}

impl RunTarget {
    /// Returns the part that a path means and the run that it names; `None` for other paths.
    pub(super) fn parse(path: &str) -> Option<(Self, &str)> {
        let rest = path.strip_prefix(PATH)?;
        if rest.is_empty() {
            return Some((Self::List, ""));
        }
        let rest = rest.strip_prefix('/')?;
        let (id, action) = rest.split_once('/').unwrap_or((rest, ""));
        let target = match action {
            "" if !rest.ends_with('/') => Self::Run,
            "approve" => Self::Approve,
            "deny" => Self::Deny,
            "resolve" => Self::Resolve,
            "resume" => Self::Resume,
            "cancel" => Self::Cancel,
            _ => return None,
        };
        (!id.is_empty()).then_some((target, id))
    }

    pub(super) fn methods(self) -> &'static [Method] {
        match self {
            Self::List | Self::Run => &[Method::GET, Method::HEAD],
            _ => &[Method::POST],
        }
    }
}

/// Body of `approve` and `deny`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NamedCalls {
    /// Positions of the calls.
    calls: Vec<String>,
    /// State in which the run was shown. With it, nothing is decided about calls that were not shown.
    #[serde(default)]
    request_state: Option<String>,
    /// Reason of a denial, for the script.
    #[serde(default)]
    reason: Option<String>,
}

/// Body of `resolve`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResolvedCalls {
    calls: Vec<Resolution>,
    #[serde(default)]
    request_state: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resolution {
    position: String,
    action: ResolutionAction,
    /// Answer of a call that is skipped.
    #[serde(default)]
    value: Value,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ResolutionAction {
    /// Makes the call once more.
    Retry,
    /// The same, and approves the calls that a plugin makes in it.
    Approve,
    /// Stores a value as the answer of the call.
    Skip,
    /// Ends the run.
    Abort,
}

/// Handles a request. Fails if the caller has no such run, or if the protocol of runs refuses the
/// decision.
pub(super) async fn run(
    app: &App,
    sender: &Sender,
    target: RunTarget,
    id: &str,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let runs = app.parts.runs.as_ref().ok_or_else(keeps_nothing)?;
    let tenant = sender.tenant();
    let own = runs.own(&tenant);
    match target {
        RunTarget::List => {
            let listed = own.list().await.map_err(|error| refusal(&error.into()))?;
            let data: Vec<_> = listed.iter().map(runs::summary).collect();
            Ok(respond::json(&json!({"object": "list", "data": data})))
        }
        RunTarget::Run => show(runs, sender, id, charge).await,
        RunTarget::Cancel => cancel(runs, sender, id, charge).await,
        RunTarget::Approve | RunTarget::Deny | RunTarget::Resolve | RunTarget::Resume => {
            let timeout = options::timeout(request.headers(), app.parts.budget.script)?;
            let decided = if target == RunTarget::Resume {
                Some(Decisions::default())
            } else {
                let body = body::object(request, app.settings.bodies(), charge).await?;
                decisions(target, id, body)?
            };
            let Some(decisions) = decided else {
                return cancel(runs, sender, id, charge).await;
            };
            if needs_approver(&decisions, sender.key.is_some()) {
                check_approver(app, sender)?;
            }
            let script = own.head(id).await.map_err(|error| refusal(&error))?.script;
            let caller = Caller::new(
                app.parts.view(sender),
                Origin::Caller,
                app.parts.budget.within(timeout),
            );
            // Before the decisions are stored: a caller that cannot resume the run decides nothing.
            let resumed = runs::resume(&caller, id, &script).map_err(|error| {
                ApiError::conflict("run_refused", format!("the run cannot be resumed: {error}"))
            })?;
            let decided = own.decide(id, decisions, &Actor::from(&tenant)).await;
            decided.map_err(|error| refusal(&error))?;
            finish(resumed).await?;
            show(runs, sender, id, charge).await
        }
    }
}

/// Returns whether only those who may approve calls make these decisions. A call in doubt of a run without a
/// key may be one that an operator has approved, once and not once more.
fn needs_approver(decisions: &Decisions, has_key: bool) -> bool {
    decisions.approves() || (decisions.retries() && !has_key)
}

/// Fails if calls of the sender's clients wait for operators: then the sender approves no call of a script
/// either.
pub(super) fn check_approver(app: &App, sender: &Sender) -> Result<(), ApiError> {
    let key = sender.key.as_deref().map(|key| key.name.as_str());
    if !app.settings.mcp.waits_for_operators(key) {
        return Ok(());
    }
    let message = "a caller whose `mcp_server.approval` is \"wait\" approves no calls of its scripts: an operator does with `airlock runs`, of runs without a virtual key; a call that a client makes by itself, outside of a script, waits for an operator";
    Err(ApiError::forbidden("operator_required", message))
}

/// Resumes a run until it ends or stops again, also if the caller disconnects: what a person has
/// approved is not left half done. Fails if the script does not run.
async fn finish(resumed: Resumed) -> Result<(), ApiError> {
    let ran = tokio::spawn(resumed.run()).await.unwrap_or_else(|_| Err(CallError::cancelled()));
    log_failure(EXECUTE, ran.as_ref().err());
    match ran {
        Err(error) if error.tool_code() == Some("run_running") => {
            Err(ApiError::conflict("run_running", error.to_string()))
        }
        Err(error) if runs::can_wait(&error) => Err(postponed(&error)),
        // The run has the outcome.
        _ => Ok(()),
    }
}

/// Ends a run, or requests that from the process that runs its script.
async fn cancel(
    runs: &Runs,
    sender: &Sender,
    id: &str,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let tenant = sender.tenant();
    let cancelled = runs.own(&tenant).cancel(id).await.map_err(|error| refusal(&error))?;
    if cancelled == Cancelled::Requested {
        return Ok(respond::json(&json!({
            "id": id, "object": "airlock.run", "state": "running", "cancel_requested": true,
        })));
    }
    show(runs, sender, id, charge).await
}

/// Returns a run as it is now. Its texts are charged before they are read. Fails if there is no memory
/// for them.
async fn show(
    runs: &Runs,
    sender: &Sender,
    id: &str,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let tenant = sender.tenant();
    let runs = runs.own(&tenant);
    let shown = runs.show_within(id, for_stored(charge, 1));
    let shown = shown.await.map_err(|error| refusal(&error))??;
    let made = work::on_tree(charge, move |_| Ok(runs::document_text(&shown)));
    Ok(respond::json_text(made.await?))
}

/// Reads the decisions of a body; `None` if the run is to end.
fn decisions(target: RunTarget, id: &str, body: Object) -> Result<Option<Decisions>, ApiError> {
    let body = Value::from(body);
    let mut decisions = Decisions::default();
    let mut named = BTreeSet::new();
    let shown = if target == RunTarget::Resolve {
        let ResolvedCalls { calls, request_state } = body::parsed(body)?;
        if calls.iter().any(|call| call.action == ResolutionAction::Abort) {
            return Ok(None);
        }
        let mut actions = calls.iter().map(|call| &call.action);
        if request_state.is_none()
            && actions
                .any(|action| matches!(action, ResolutionAction::Retry | ResolutionAction::Approve))
        {
            let message = "to make a call again needs the `request_state` that the run shows: a client that repeats the \
                           request must not make the call twice";
            return Err(
                ApiError::bad_request("missing_request_state", message).about("request_state")
            );
        }
        for Resolution { position, action, value } in calls {
            let position = named_position(&position, &mut named)?;
            decisions = match action {
                ResolutionAction::Skip => decisions.skip(position, value).map_err(|error| {
                    ApiError::bad_request("invalid_value", error.to_string()).about("calls")
                })?,
                ResolutionAction::Approve => decisions.retry_approved(position),
                ResolutionAction::Retry | ResolutionAction::Abort => decisions.retry(position),
            };
        }
        request_state
    } else {
        let NamedCalls { calls, request_state, reason } = body::parsed(body)?;
        let reason = approvals::reason(reason, target != RunTarget::Deny)?;
        for position in calls {
            let position = named_position(&position, &mut named)?;
            decisions = match target {
                RunTarget::Deny => decisions.deny(position, reason.as_deref()),
                _ => decisions.approve(position),
            };
        }
        request_state
    };
    if decisions.is_empty() {
        let message = "`calls` is empty; expected the positions of calls that the run shows";
        return Err(ApiError::bad_request("missing_calls", message).about("calls"));
    }
    let Some(state) = shown else { return Ok(Some(decisions)) };
    decisions.shown_in(id, &state).map(Some).ok_or_else(|| {
        let message =
            "`request_state` is not of this run; expected the `request_state` that the run shows";
        ApiError::bad_request("invalid_request_state", message).about("request_state")
    })
}

/// Reads the position of a call. Fails if it is among those that are `named` already: each decision reads its call with all
/// arguments, and all decisions of a request are made in one transaction.
fn named_position(text: &str, named: &mut BTreeSet<Position>) -> Result<Position, ApiError> {
    let position = text.parse::<Position>().map_err(|cause: BadPosition| {
        let found = respond::excerpt(text);
        let message = format!("{found:?} is not the position of a call: {cause}");
        ApiError::bad_request("invalid_position", message).about("calls")
    })?;
    if !named.insert(position) {
        let message =
            format!("`calls` names the call {position} more than once; expected each call once");
        return Err(ApiError::bad_request("invalid_value", message).about("calls"));
    }
    Ok(position)
}

fn refusal(error: &RunError) -> ApiError {
    let code = runs::code(error);
    let message = error.to_string();
    match error {
        RunError::Unknown | RunError::NoCall(_) => ApiError::not_found(code, message),
        RunError::Refused { .. } => ApiError::conflict(code, message),
        RunError::Unavailable(cause) => unavailable(cause),
    }
}

/// Returns the error of a run that is as it was before, and can be resumed later.
fn postponed(error: &CallError) -> ApiError {
    let code = error.tool_code().unwrap_or_else(|| error.code().as_str());
    ApiError::unavailable(code, error.message())
}

fn unavailable(cause: &Unavailable) -> ApiError {
    let message = format!("the runs cannot be reached right now: {cause}");
    ApiError::unavailable("store_unavailable", message)
}

fn keeps_nothing() -> ApiError {
    let message = "this gateway keeps no runs: `code_mode_journal` is false";
    ApiError::not_found("runs_not_kept", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_an_operator_may_have_approved_is_not_made_again_without_one() {
        let call: Position = "1".parse().expect("a position");
        let skips = Decisions::default().skip(call, Value::Null).expect("a short value");
        for (decisions, without_key, with_key) in [
            (Decisions::default().approve(call), true, true),
            (Decisions::default().retry_approved(call), true, true),
            (Decisions::default().retry(call), true, false),
            (skips.deny(call, None), false, false),
        ] {
            let found = [false, true].map(|has_key| needs_approver(&decisions, has_key));
            assert_eq!(found, [without_key, with_key], "{decisions:?}");
        }
    }

    #[test]
    fn a_request_decides_once_about_each_call() {
        for (target, calls, is_read) in [
            (RunTarget::Approve, json!(["2", "1.1", "1.2"]), true),
            (RunTarget::Approve, json!(["2", "1", "2"]), false),
            (RunTarget::Deny, json!(["1.1", "1.1"]), false),
            (RunTarget::Resolve, json!([skipped("1"), skipped("2")]), true),
            (RunTarget::Resolve, json!([skipped("1"), skipped("1")]), false),
        ] {
            let Value::Object(body) = json!({"calls": calls}) else { panic!("an object") };
            match decisions(target, "run_1", body) {
                Ok(read) => assert!(is_read && read.is_some(), "{calls}"),
                Err(error) => {
                    let body = error.into_body();
                    assert!(!is_read, "{calls}");
                    assert_eq!(body["error"]["code"], "invalid_value", "{calls}");
                    assert_eq!(body["error"]["param"], "calls", "{calls}");
                }
            }
        }
    }

    #[test]
    fn values_of_skipped_calls_that_no_run_could_be_resumed_with_are_refused() {
        let mut call = skipped("1");
        call["value"] = "x".repeat(1 << 20).into();
        let Value::Object(body) = json!({"calls": [call]}) else { panic!("an object") };
        let refused = decisions(RunTarget::Resolve, "run_1", body).expect_err("it is too large");
        assert_eq!(refused.into_body()["error"]["code"], "invalid_value");
    }

    fn skipped(position: &str) -> Value {
        json!({"position": position, "action": "skip"})
    }

    #[test]
    fn a_path_names_a_run_and_an_action() {
        for (path, found) in [
            ("/v1/runs", Some((RunTarget::List, ""))),
            ("/v1/runs/run_1", Some((RunTarget::Run, "run_1"))),
            ("/v1/runs/run_1/approve", Some((RunTarget::Approve, "run_1"))),
            ("/v1/runs/run_1/deny", Some((RunTarget::Deny, "run_1"))),
            ("/v1/runs/run_1/resolve", Some((RunTarget::Resolve, "run_1"))),
            ("/v1/runs/run_1/resume", Some((RunTarget::Resume, "run_1"))),
            ("/v1/runs/run_1/cancel", Some((RunTarget::Cancel, "run_1"))),
            ("/v1/runs/", None),
            ("/v1/runs/run_1/", None),
            ("/v1/runs//approve", None),
            ("/v1/runs/run_1/approve/x", None),
            ("/v1/running", None),
        ] {
            assert_eq!(RunTarget::parse(path), found, "{path}");
        }
    }
}
