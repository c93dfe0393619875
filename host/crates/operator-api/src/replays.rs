//! `POST /api/runs/{id}/replay`: runs the script of a run that has ended again, with the answers of its journal alone,
//! and compares the ends.

use http::{HeaderValue, header};
use serde_json::{Value, json};
use tracing::info;

use super::{NotReplayed, OperatorApi, operator::RequestOperator, operator_runs};
use airlock_core::request_memory::RequestCharge;
use airlock_http::respond::{self, ApiError, Reply};
use airlock_scripts::runs::{RunEnding, RunOutcome};

/// Copies of the texts of a run while it is replayed: as stored, in the journal, and in the script.
const COPIES: usize = 3;
/// Time after which another attempt is worth it.
const RETRY_SECONDS: u64 = 5;

/// Handles a request of an operator who may replay runs. Fails if the operator does not see arguments, or if the run has
/// no end that could be compared.
pub(super) async fn run(
    api: &OperatorApi,
    actor: &RequestOperator,
    id: &str,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    operator_runs::check_payloads(actor)?;
    let Some(replays) = api.hooks.replays.clone() else { return Err(ApiError::internal()) };
    let database = operator_runs::database(api).await?;
    let shown = database.show_any_run(id).await;
    let shown = shown.map_err(|error| operator_runs::refusal(id, &error))?.run;
    let ended = ended(id, shown.outcome.as_deref())?;
    let bytes = usize::try_from(shown.bytes).unwrap_or(usize::MAX);
    charge.grow(bytes.saturating_mul(COPIES))?;
    let stored = database.any_run(id).await.map_err(|error| operator_runs::refusal(id, &error))?;
    info!(run = stored.id, operator = actor.operator.name, "a run is replayed");
    let derived = replays.replay(stored, api.parts.budget).await;
    let derived = derived.map_err(|error| not_replayed(&error))?;
    if derived.has_not_run() && ended != derived {
        let reason = derived.reason().unwrap_or_default().to_owned();
        return Err(not_replayed(&NotReplayed::Failed(reason)));
    }
    Ok(respond::json(&compared(id, &ended, &derived)))
}

/// Returns the end of a run. Fails if it has none, or if it was cancelled: where is not known.
fn ended(id: &str, outcome: Option<&str>) -> Result<RunOutcome, ApiError> {
    let outcome = outcome.and_then(RunOutcome::read);
    match outcome {
        Some(outcome) if outcome.status != RunEnding::Cancelled => Ok(outcome),
        cancelled => {
            let state = if cancelled.is_some() { "was cancelled" } else { "has not ended" };
            let id = respond::excerpt(id);
            let message = format!("the run {id:?} {state}, so there is nothing to compare");
            Err(ApiError::conflict("run_not_replayable", message))
        }
    }
}

fn compared(id: &str, ended: &RunOutcome, derived: &RunOutcome) -> Value {
    let differences = ended.differences(derived);
    json!({
        "run": id,
        "identical": differences.is_empty(),
        "differences": differences,
        "first_difference": ended.first_difference(derived),
        "fuel": derived.fuel,
    })
}

fn not_replayed(error: &NotReplayed) -> ApiError {
    let code = match error {
        NotReplayed::Busy => "replay_busy",
        NotReplayed::Failed(_) => "replay_failed",
    };
    let error = ApiError::unavailable(code, error.to_string());
    error.with_header(header::RETRY_AFTER, HeaderValue::from(RETRY_SECONDS))
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    #[test]
    fn only_a_run_that_has_ended_by_itself_is_compared() {
        let completed = json!({"status": "completed", "result": 1, "fuel": 9}).to_string();
        let cancelled = json!({"status": "cancelled"}).to_string();
        for outcome in [None, Some("no JSON"), Some(&*cancelled)] {
            let refused = ended("run_1", outcome).expect_err("there is nothing to compare");
            assert_eq!(refused.status(), StatusCode::CONFLICT, "{outcome:?}");
        }
        let stored = ended("run_1", Some(&completed)).expect("an end");
        let same = compared("run_1", &stored, &stored);
        assert_eq!((&same["identical"], &same["first_difference"]), (&json!(true), &Value::Null));
        let other = json!({"status": "completed", "result": 2, "fuel": 9}).to_string();
        let other = ended("run_1", Some(&other)).expect("an end");
        let found = compared("run_1", &stored, &other);
        assert_eq!(found["differences"], json!(["result"]));
        assert_eq!(
            found["first_difference"],
            json!({"part": "result", "line": 1, "stored": "1", "derived": "2"})
        );
    }
}
