//! `POST /api/mcp/try`: a call of a tool by an operator, with the tools and the limits of a virtual key.
//!
//! The call goes through the door as any other. The request is no approval: a call that needs one waits in the list
//! of pending approvals, where operators decide about it, and is made when the same request comes again.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use http::Request;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{OperatorApi, operator::RequestOperator};
use airlock_agent::{
    self as agent, ApprovalVerdict,
    approvals::{Approvals, Call},
    declined, denied,
};
use airlock_core::{
    act::{Act, ActKind, Actor},
    door::{Admitted, Approved, Arguments, Caller, Filter, Origin, VirtualKey, log_call},
    operator::{Operator, Right},
    request_memory::{ChargeRefused, RequestCharge},
    threads,
    tool::{CallError, CallFailure, Details, ToolOutput},
};
use airlock_http::{
    body,
    memory::AfterWork as _,
    respond::{self, ApiError, Reply},
};
use airlock_ingress::RequestBody;
use airlock_json::text_len;
use airlock_requests::Sender;
use airlock_strings::cut;

/// Maximum bytes of a name that an error repeats.
pub(crate) const SHOWN_BYTES: usize = 64;

/// Body of the request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TryBody {
    /// Name of the virtual key whose tools are called; absent for those of a request without one.
    #[serde(default)]
    key: Option<String>,
    tool: String,
    /// An object, or its JSON text.
    #[serde(default)]
    arguments: Value,
}

/// Makes a call, or lets it wait for an approval. Fails if the operator does not see results, or if there is no such
/// key. A call that fails is a response.
pub(super) async fn run(
    api: &OperatorApi,
    actor: &RequestOperator,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    if !actor.operator.sees_payloads {
        let message = "this operator does not see the results of calls: `sees_payloads` is a right of its own";
        return Err(ApiError::forbidden("payloads_hidden", message));
    }
    let body = body::object(request, api.settings.bodies, charge).await?;
    actor.confirm(api).await?;
    let TryBody { key, tool, arguments } = body::parsed(body.into())?;
    if key.is_some() {
        check_impersonation(&actor.operator)?;
    }
    let key = key.map(|name| find_key(api, &name)).transpose()?;
    let sender = Sender::new(key, Filter::none(), None);
    api.parts.wait_for_tool(&sender, &tool).await;
    let caller = api.parts.caller(&sender, Origin::Operator);
    record(api, actor, &sender, &tool);
    let begun = Instant::now();
    let operator = &actor.operator.name;
    let made = make(api, operator, &caller, &tool, &text_of(arguments)).await;
    let mut reply = match made {
        Ok(Made::Waiting(id)) => json!({"state": "waiting", "approval": id}),
        Ok(Made::Ended(result)) => {
            log_call(&tool, result.as_ref().err(), begun.elapsed());
            let bytes = result.as_ref().map_or(0, text_len);
            charge.grow(bytes.saturating_mul(2)).map_err(ChargeRefused::after_work)?;
            ended(result)
        }
        Err(error) => ended(Err(error)),
    };
    reply["duration_ms"] = agent::milliseconds(begun.elapsed()).into();
    Ok(respond::json(&reply))
}

/// A call that was admitted, or waits.
enum Made {
    Waiting(String),
    Ended(Result<ToolOutput, CallError>),
}

/// Fails if an operator may not act as the holder of a key, with whose logins at MCP servers calls are made.
fn check_impersonation(operator: &Operator) -> Result<(), ApiError> {
    if operator.role.has(Right::Administer) {
        return Ok(());
    }
    let Operator { name, role, .. } = operator;
    let message = format!(
        "the operator {name:?} may not call tools as the holder of a key: its role is \"{role}\""
    );
    Err(ApiError::forbidden("role_insufficient", message))
}

fn find_key(api: &OperatorApi, name: &str) -> Result<Arc<VirtualKey>, ApiError> {
    let found = api.keys.named(name).filter(|key| !key.has_expired(SystemTime::now()));
    found.ok_or_else(|| {
        let name = cut(name.to_owned(), SHOWN_BYTES);
        let message = format!("no virtual key that is valid now has the name {name:?}");
        ApiError::not_found("unknown_key", message)
    })
}

/// Returns arguments as JSON text. A string is the text itself, in which numbers are as they were written.
fn text_of(arguments: Value) -> String {
    match arguments {
        Value::Null => "{}".to_owned(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Records who makes the call, which the call log has with the key alone.
fn record(api: &OperatorApi, actor: &RequestOperator, sender: &Sender, tool: &str) {
    api.hooks.approvals.acts().record(|| {
        let tool = cut(tool.to_owned(), SHOWN_BYTES);
        Act::new(ActKind::ToolTried, Actor::from(&*actor.operator), tool)
            .with("caller", sender.tenant().to_string())
    });
}

async fn make(
    api: &OperatorApi,
    operator: &str,
    caller: &Caller,
    name: &str,
    arguments: &str,
) -> Result<Made, CallError> {
    let checked = threads::arguments(caller, name, arguments).await;
    let arguments = checked.inspect_err(|error| caller.report_refusal(name, error))?;
    // If this fails, so does the admission, which tells the records.
    let needs_approval = caller.call_needs_approval(name, &arguments).unwrap_or(false);
    let admitted: Admitted = if needs_approval {
        match approval(api, operator, caller, name, &arguments).await? {
            Ok(approved) => caller.admit_approved(name, &arguments, &approved)?,
            Err(id) => {
                caller.report_wait(name);
                return Ok(Made::Waiting(id));
            }
        }
    } else {
        caller.admit(name, &arguments)?
    };
    Ok(Made::Ended(admitted.run().await))
}

/// Returns the approval of a call, or the identifier under which it waits for one. Fails if operators have denied the
/// call, or if it cannot wait.
async fn approval(
    api: &OperatorApi,
    operator: &str,
    caller: &Caller,
    name: &str,
    arguments: &Arguments,
) -> Result<Result<Approved, String>, CallError> {
    let found = caller.view().find(&Origin::Operator, name);
    let entry = found.ok_or_else(|| CallError::not_found(name))?;
    let sources = caller.context();
    let call = Call {
        entry,
        arguments: arguments.as_str(),
        tenant: caller.view().tenant(),
        // An approval of this call is not that of another operator's.
        client: Some(operator),
        origin: Origin::Operator.name(),
        // The holder of the key has not asked for the call.
        is_for_operators: true,
        sources: &sources,
        asked_by: arguments.questions(),
    };
    let list: &Approvals = &api.hooks.approvals;
    match list.decision(&call, Duration::ZERO).await {
        ApprovalVerdict::Approved(decided_by) => {
            Ok(Ok(Approved::new(entry, arguments.as_str(), decided_by).with_sources(sources)))
        }
        ApprovalVerdict::Waiting(id) => Ok(Err(id)),
        ApprovalVerdict::Denied(reason) => {
            let error = declined(name, &denied(reason.as_deref()));
            caller.report_refusal(name, &error);
            Err(error)
        }
        ApprovalVerdict::Refused(reason) => Err(declined(name, reason)),
    }
}

/// Describes the end of a call.
fn ended(result: Result<ToolOutput, CallError>) -> Value {
    let error = match result {
        Ok(output) => return json!({"state": "completed", "result": output}),
        Err(error) => error,
    };
    let CallFailure { code, .. } = CallFailure::from(&error);
    let mut ended = json!({
        "state": "failed",
        "error": {"code": code, "message": error.to_string()},
    });
    match error.details() {
        Details::Tool(own) => ended["result"] = agent::raw_error(own),
        Details::Suspended(suspension) => ended["run"] = suspension.to_json(),
        _ => {}
    }
    ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_an_object_or_its_text() {
        assert_eq!(text_of(Value::Null), "{}");
        assert_eq!(text_of(json!({"a": 1})), r#"{"a":1}"#);
        assert_eq!(text_of(json!(r#"{"a": 1.10}"#)), r#"{"a": 1.10}"#);
        assert_eq!(text_of(json!([1])), "[1]", "the door refuses it");
    }

    #[test]
    fn a_failed_call_has_its_code() {
        let failed = ended(Err(CallError::not_found("a-b")));
        assert_eq!(failed["state"], "failed");
        assert_eq!(failed["error"]["code"], "airlock.not_found");
    }
}
