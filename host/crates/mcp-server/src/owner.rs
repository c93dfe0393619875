//! The gateway that has what a request refers to: a task, or a request that waits for answers.
//!
//! Several gateways may share one store. What a handle opens is in the memory of the one that made
//! the handle.

use super::approval::state_owner;
use airlock_core::replica::ReplicaId;
use airlock_wire::{message::Request, method};

/// Returns the process that has what a request refers to; `None` if any gateway can handle the
/// request.
pub fn owner(request: &Request) -> Option<ReplicaId> {
    if let method::TASKS_GET | method::TASKS_RESULT | method::TASKS_UPDATE | method::TASKS_CANCEL =
        request.method.as_str()
    {
        return ReplicaId::of_text(&request.params.string("taskId")?);
    }
    let state = request.params.string("requestState")?;
    ReplicaId::of_text(&state).or_else(|| state_owner(&state))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_json::Caps;
    use airlock_wire::message::Message;

    fn owner_of(method: &str, params: &serde_json::Value) -> Option<ReplicaId> {
        let text = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        match Message::read(text.to_string().into(), &Caps::memory(1 << 16)) {
            Ok(Message::Request(request)) => owner(&request),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_handle_leads_to_its_gateway_and_everything_else_to_any() {
        let own = Some(ReplicaId::current());
        let handle = ReplicaId::handle();
        for method in ["tasks/get", "tasks/result", "tasks/cancel", "tasks/update"] {
            assert_eq!(owner_of(method, &json!({"taskId": handle.to_string()})), own, "{method}");
            assert_eq!(owner_of(method, &json!({"taskId": "x", "requestState": handle})), None);
            assert_eq!(owner_of(method, &json!({"taskId": 7})), None);
        }
        let question = format!("question.{}", handle.simple());
        for method in ["tools/call", "resources/read", "prompts/get"] {
            assert_eq!(owner_of(method, &json!({"requestState": question})), own, "{method}");
            for none in [json!("run_7.2"), json!(null), json!(7), json!("AAAA"), json!("")] {
                assert_eq!(owner_of(method, &json!({"requestState": none})), None, "{none}");
            }
            assert_eq!(owner_of(method, &json!({"taskId": handle})), None);
        }
    }
}
