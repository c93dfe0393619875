//! `GET /api/runs`: the runs of scripts of all callers, for operators.

use std::collections::BTreeMap;

use serde_json::json;
use url::form_urlencoded;

use super::{OperatorApi, operator::RequestOperator};
use airlock_core::{request_memory::RequestCharge, tenant::Tenant};
use airlock_http::{
    listing::Page,
    respond::{self, ApiError, Reply},
    work,
};
use airlock_scripts::runs::{self, Runs};
use airlock_store::{Database, OwnerId, Unavailable, entries::MAX_LISTED, runs::RunError};
use airlock_strings::visible_line;

/// Copies of the texts of a run while it is shown.
const COPIES: usize = 4;

/// Lists the latest runs, the newest first. Fails if none are kept.
pub(super) async fn list(api: &OperatorApi, query: &str) -> Result<Reply, ApiError> {
    let page = Page::parse(query)?;
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    let state = parameters.find(|(name, _)| name == "state").map(|(_, state)| state.into_owned());
    let database = database(api).await?;
    let mut listed = Vec::new();
    for run in database.any_runs(MAX_LISTED).await.map_err(|error| unavailable(&error))? {
        let summary = runs::summary(&run);
        if state.as_ref().is_none_or(|state| summary["state"] == **state) {
            listed.push(summary);
        }
    }
    let (mut data, total) = page.select(listed);
    let names = callers(api);
    let owners = database.run_owners(MAX_LISTED).await.map_err(|error| unavailable(&error))?;
    for run in &mut data {
        let owner = run["id"].as_str().and_then(|id| owners.get(id));
        run["key"] = owner.and_then(|owner| names.get(owner)).cloned().into();
    }
    let has_more = page.offset.saturating_add(data.len()) < total;
    let list = json!({"object": "list", "data": data, "has_more": has_more, "total_count": total});
    Ok(respond::json(&list))
}

/// Shows one run. Fails if the operator does not see arguments, or if there is no such run.
pub(super) async fn show(
    api: &OperatorApi,
    actor: &RequestOperator,
    id: &str,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    check_payloads(actor)?;
    let shown = database(api).await?.show_any_run(id).await.map_err(|error| refusal(id, &error))?;
    charge.grow(shown.bytes().saturating_mul(COPIES))?;
    let made = work::on_tree(charge, move |_| Ok(runs::document_text(&shown)));
    Ok(respond::json_text(made.await?))
}

/// Fails if an operator does not see the contents of runs.
pub(super) fn check_payloads(actor: &RequestOperator) -> Result<(), ApiError> {
    if actor.operator.sees_payloads {
        return Ok(());
    }
    let message =
        "this operator does not see the arguments of calls: `sees_payloads` is a right of its own";
    Err(ApiError::forbidden("payloads_hidden", message))
}

/// Returns the names of callers by the identifier of what they own.
fn callers(api: &OperatorApi) -> BTreeMap<OwnerId, String> {
    let keys = api.keys.snapshot();
    let anonymous = Tenant::ANONYMOUS;
    let tenants = keys.iter().map(airlock_core::door::VirtualKey::tenant).chain([&anonymous]);
    tenants.map(|tenant| (tenant.scope(), visible_line(&tenant.to_string()))).collect()
}

pub(super) async fn database(api: &OperatorApi) -> Result<&Database, ApiError> {
    let runs: &Runs = api.parts.runs.as_ref().ok_or_else(keeps_none)?;
    runs.database().await.map_err(|error| unavailable(&error))
}

/// Returns the error of a run that was not read.
pub(super) fn refusal(id: &str, error: &RunError) -> ApiError {
    match error {
        RunError::Unavailable(error) => unavailable(error),
        _ => unknown(id),
    }
}

fn unavailable(error: &Unavailable) -> ApiError {
    let message = format!("the runs cannot be reached right now: {error}");
    ApiError::unavailable("store_unavailable", message)
}

fn unknown(id: &str) -> ApiError {
    let message = format!("there is no run {:?}", respond::excerpt(id));
    ApiError::not_found("run_not_found", message)
}

fn keeps_none() -> ApiError {
    let message = "this gateway keeps no runs: `code_mode_journal` is false";
    ApiError::not_found("runs_not_kept", message)
}
