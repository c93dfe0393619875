//! The user: a program that sends requests to the gateway, and a person who is asked about calls.
//!
//! The person is tired. A call is approved if its tool is one that the present request needs, by its name alone,
//! whatever its arguments are; all other calls are declined.

use airlock_tests::{
    Gateway, Reply,
    lab::{Key, LabFailure, Turn},
};
use reqwest::Method;
use serde_json::{Value, json};

/// Most requests of one turn: more than any case needs.
const MOST_REQUESTS: usize = 60;

/// A user, with the conversation so far.
#[derive(Default)]
pub(crate) struct User {
    key: Option<String>,
    messages: Vec<Value>,
    failures: Vec<LabFailure>,
}

impl User {
    /// Sends the request of a turn, and decides about calls until the model has ended. Returns troubles.
    pub(crate) async fn take(&mut self, gateway: &Gateway, turn: &Turn) -> Vec<String> {
        if self.key != turn.key {
            self.key.clone_from(&turn.key);
            self.messages.clear();
        }
        self.messages.push(json!({"role": "user", "content": turn.user}));
        for _ in 0..MOST_REQUESTS {
            let body = json!({"model": "lab/model", "messages": self.messages});
            let reply = self.post(gateway, "/v1/chat/completions", &body).await;
            if reply.status != 200 {
                return vec![format!("{:?}: {}", turn.user, reply.text)];
            }
            self.failures.extend(LabFailure::of_completion(&reply.body));
            let message = &reply.body["choices"][0]["message"];
            self.messages.push(message.clone());
            let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
            if calls.is_empty() {
                return Vec::new();
            }
            for call in calls {
                let content = self.decide(gateway, turn, &call).await;
                let id = &call["id"];
                let result = json!({"role": "tool", "tool_call_id": id, "content": content});
                self.messages.push(result);
            }
        }
        vec![format!("{:?}: no end after {MOST_REQUESTS} requests", turn.user)]
    }

    /// Returns the calls so far that have no result of their tool.
    pub(crate) fn into_failures(self) -> Vec<LabFailure> {
        self.failures
    }

    /// Approves or declines a call. Returns its result for the model.
    async fn decide(&mut self, gateway: &Gateway, turn: &Turn, call: &Value) -> Value {
        let name = call["function"]["name"].as_str().unwrap_or_default();
        if !turn.calls.iter().any(|wanted| name == wanted.tool) {
            self.failures.push(LabFailure::declined(name));
            return "The user declined this call.".into();
        }
        let mut reply = self.post(gateway, "/v1/mcp/tool/execute", call).await;
        self.failures.extend(LabFailure::of_execution(name, reply.status, &reply.body));
        match reply.status {
            200 => reply.body["content"].take(),
            _ => reply.body["error"]["message"].take(),
        }
    }

    async fn post(&self, gateway: &Gateway, path: &str, body: &Value) -> Reply {
        let request = gateway.request(Method::POST, path).json(body);
        let request = match &self.key {
            Some(key) => request.header("x-bf-vk", Key::value_of(key)),
            None => request,
        };
        Reply::fetch(request).await
    }
}
