//! The members of a request that its Response repeats.

use serde_json::{Value, json};

use airlock_conversation::Object;
use airlock_json::object;

/// The members of a request that its Response repeats, each with the default of OpenAI's API if the
/// request does not have it.
#[derive(Debug, Clone)]
pub struct Echo(Object);

impl Echo {
    fn new() -> Self {
        Self(object(json!({
            "background": false,
            "instructions": null,
            "max_output_tokens": null,
            "max_tool_calls": null,
            "metadata": {},
            "model": "",
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "prompt_cache_key": null,
            "reasoning": {"effort": null, "summary": null},
            "safety_identifier": null,
            "service_tier": null,
            "store": true,
            "temperature": null,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_logprobs": null,
            "top_p": null,
            "truncation": "disabled",
            "user": null,
        })))
    }

    /// Reads the members of a request.
    pub(super) fn from_request(request: &Object) -> Self {
        let mut echo = Self::new();
        for (name, value) in request.iter().filter(|(_, value)| !value.is_null()) {
            match (name.as_str(), value) {
                ("reasoning" | "text", Value::Object(values)) => echo.merge(name, values),
                ("prompt_cache_retention", _) => echo.set(name, value.clone()),
                _ if echo.0.contains_key(name) => echo.set(name, value.clone()),
                _ => {}
            }
        }
        echo
    }

    /// Sets a member.
    pub fn set(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }

    /// Sets members of the object `name`. Members that are absent or null keep their defaults.
    fn merge(&mut self, name: &str, values: &Object) {
        if let Some(Value::Object(members)) = self.0.get_mut(name) {
            let values = values.iter().filter(|(_, value)| !value.is_null());
            members.extend(values.map(|(name, value)| (name.clone(), value.clone())));
        }
    }

    /// Returns all members.
    pub fn members(&self) -> &Object {
        &self.0
    }
}
