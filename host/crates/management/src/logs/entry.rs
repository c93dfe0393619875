//! Rows and sums of the call log as JSON, with the members of Bifrost's.

use serde_json::{Map, Value, json};

use crate::timestamp::rfc3339;
use airlock_store::call_log::{
    CallContents, CallStatus, LogKind, LogSums, LoggedModelCall, LoggedParty, LoggedToolCall,
};
use airlock_strings::hex;

/// Returns an amount of millionths of a dollar in dollars.
#[expect(clippy::cast_precision_loss, reason = "it is shown, and below 2^53 in practice")]
pub(super) fn dollars(millionths: i64) -> f64 {
    millionths as f64 / 1e6
}

/// Returns a time in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "it is shown, and below 2^53 in practice")]
pub(super) fn latency(microseconds: i64) -> f64 {
    microseconds as f64 / 1e3
}

/// Returns the average time in milliseconds; 0 if there is none.
#[expect(clippy::cast_precision_loss, reason = "it is shown, and below 2^53 in practice")]
pub(super) fn average(sums: &LogSums) -> f64 {
    if sums.timed == 0 { 0.0 } else { latency(sums.duration_us) / sums.timed as f64 }
}

/// Returns the part of the calls that have ended with a result, in percent.
#[expect(clippy::cast_precision_loss, reason = "it is shown, and below 2^53 in practice")]
pub(super) fn success_rate(sums: &LogSums) -> f64 {
    let ended = sums.successes.saturating_add(sums.errors);
    if ended == 0 { 0.0 } else { sums.successes as f64 * 100.0 / ended as f64 }
}

pub(super) fn stats(kind: LogKind, sums: &LogSums) -> Value {
    let total = match kind {
        LogKind::Tools => "total_executions",
        LogKind::Models => "total_requests",
    };
    json!({
        total: sums.count,
        "success_rate": success_rate(sums),
        "average_latency": average(sums),
        "total_cost": dollars(sums.cost),
    })
}

/// Describes a call without its contents.
pub(super) fn tool_call(call: &LoggedToolCall) -> Value {
    Value::Object(tool_members(call))
}

fn tool_members(call: &LoggedToolCall) -> Map<String, Value> {
    let mut members = common(call.status, call.at_ms, &call.id, &call.party);
    members.extend(
        [
            ("request_id", json!(call.id)),
            ("parent_request_id", json!(call.parent)),
            ("tool_name", json!(call.tool)),
            ("server_label", json!(call.client)),
            ("origin", json!(call.origin)),
            ("decision", json!(call.decision)),
            ("decided_by", json!(call.decided_by)),
            ("guards", call.guards.as_deref().map_or(Value::Null, parsed)),
            ("sources", call.sources.as_deref().map_or(Value::Null, parsed)),
            ("run_id", json!(call.run)),
            ("latency", json!(call.duration_us.map(latency))),
            ("cost", json!(call.cost.map(dollars))),
            ("fuel", json!(call.fuel)),
            ("memory_bytes", json!(call.memory_bytes)),
            ("error_details", json!(call.code.as_ref().map(|code| json!({"code": code})))),
            ("arguments_digest", json!(call.arguments_digest.as_ref().map(|digest| hex(digest)))),
            ("result_digest", json!(call.result_digest.as_ref().map(|digest| hex(digest)))),
            ("erased_at", json!(call.erased_ms.map(rfc3339))),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    members
}

/// Returns a value that the row has as JSON text: the decisions of guards, sources, or tokens of tools.
fn parsed(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Describes a call with its contents, and the salts of its digests, if its reader may see them.
pub(super) fn whole_tool_call(
    call: &LoggedToolCall,
    contents: Option<&CallContents>,
    sees_payloads: bool,
) -> Value {
    let mut members = tool_members(call);
    let state = match (call.erased_ms, sees_payloads, contents) {
        (Some(_), ..) => "erased",
        (None, false, _) => "hidden",
        (None, true, Some(_)) => "shown",
        (None, true, None) => "none",
    };
    members.insert("contents".to_owned(), state.into());
    if let Some(contents) = contents {
        // As text: a parsed one would lose its spaces and the order of its members, which are digested.
        members.insert("arguments".to_owned(), json!(contents.arguments));
        members.insert("result".to_owned(), json!(contents.result));
    }
    if let Some(salt) = call.salt.filter(|_| sees_payloads) {
        members.insert("arguments_salt".to_owned(), hex(&salt[..16]).into());
        members.insert("result_salt".to_owned(), hex(&salt[16..]).into());
    }
    Value::Object(members)
}

/// Describes a request to a model.
pub(super) fn model_call(call: &LoggedModelCall) -> Value {
    let mut members = common(call.status, call.at_ms, &call.id, &call.party);
    let tokens = call.tokens.map(|tokens| {
        json!({
            "prompt_tokens": tokens.input,
            "cached_read_tokens": tokens.cached,
            "completion_tokens": tokens.output,
            "reasoning_tokens": tokens.reasoning,
            "total_tokens": tokens.input.saturating_add(tokens.output),
        })
    });
    members.extend(
        [
            ("model", json!(call.model)),
            ("provider", json!(call.provider)),
            ("served_model", json!(call.served_model)),
            ("stream", json!(call.is_streamed)),
            ("latency", json!(call.duration_us.map(latency))),
            ("cost", json!(call.cost.map(dollars))),
            ("token_usage", json!(tokens)),
            ("guards", call.guards.as_deref().map_or(Value::Null, parsed)),
            ("tool_tokens", call.tool_tokens.as_deref().map_or(Value::Null, parsed)),
            ("error_details", json!(call.code.as_ref().map(|code| json!({"code": code})))),
        ]
        .map(|(name, value)| (name.to_owned(), value)),
    );
    Value::Object(members)
}

/// Members of both kinds of rows.
fn common(status: CallStatus, at_ms: i64, id: &str, party: &LoggedParty) -> Map<String, Value> {
    let LoggedParty { key_id, key_name, team, customer, user_issuer, user_subject } = party;
    let user =
        user_subject.as_ref().map(|subject| json!({"issuer": user_issuer, "subject": subject}));
    [
        ("id", json!(id)),
        ("timestamp", json!(rfc3339(at_ms))),
        ("timestamp_ms", json!(at_ms)),
        // Bifrost has three states; `outcome` has them all.
        ("status", json!(bifrost_status(status))),
        ("outcome", json!(status.name())),
        ("virtual_key_id", json!(key_id)),
        ("virtual_key_name", json!(key_name)),
        ("team_id", json!(team)),
        ("customer_id", json!(customer)),
        ("user", json!(user)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

fn bifrost_status(status: CallStatus) -> &'static str {
    match status {
        CallStatus::Processing => "processing",
        CallStatus::Success => "success",
        CallStatus::Error | CallStatus::Refused | CallStatus::Cancelled => "error",
    }
}
