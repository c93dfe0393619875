//! Requests for chat completions, as a provider receives them.

use std::sync::Arc;

use serde_json::Value;

use super::Object;
use crate::tool::Tool;

/// Member that holds the definitions of tools.
const TOOLS: &str = "tools";

/// Request for a chat completion: the members that the caller sent, and the gateway's tools. The
/// tools are shared with the catalog, and the text of their schemas is copied into the request
/// unchanged.
#[derive(Debug, Clone, Default)]
pub struct Prompt {
    /// The caller's members. Its own `tools`, if any, are offered before the gateway's.
    pub body: Object,
    /// The gateway's tools.
    pub tools: Vec<Arc<Tool>>,
}

impl Prompt {
    /// Returns the names of all offered tools.
    pub(crate) fn offered(&self) -> impl Iterator<Item = &str> {
        self.own_tools()
            .iter()
            .filter_map(name_of)
            .chain(self.tools.iter().map(|tool| tool.name.as_str()))
    }

    /// Returns the caller's own definitions of tools.
    pub(crate) fn own_tools(&self) -> &[Value] {
        self.body.get(TOOLS).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns whether definitions can be added to the caller's. If `tools` is not a list, the
    /// provider reports the error.
    pub(crate) fn takes_tools(&self) -> bool {
        matches!(self.body.get(TOOLS), None | Some(Value::Null | Value::Array(_)))
    }

    /// Returns the request as JSON text: the caller's members in their order, with `tools` last if
    /// the gateway adds some.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut out = vec![b'{'];
        for (name, value) in &self.body {
            if name != TOOLS || self.tools.is_empty() {
                member(&mut out, name);
                write(&mut out, value);
            }
        }
        if !self.tools.is_empty() {
            member(&mut out, TOOLS);
            self.write_tools(&mut out);
        }
        out.push(b'}');
        out
    }

    fn write_tools(&self, out: &mut Vec<u8>) {
        out.push(b'[');
        for tool in self.own_tools() {
            separate(out, b'[');
            write(out, tool);
        }
        for tool in &self.tools {
            separate(out, b'[');
            write_definition(out, tool);
        }
        out.push(b']');
    }
}

/// Returns the name of a tool that a caller defines.
fn name_of(tool: &Value) -> Option<&str> {
    tool.get("function").or_else(|| tool.get("custom"))?.get("name")?.as_str()
}

fn write_definition(out: &mut Vec<u8>, tool: &Tool) {
    out.extend_from_slice(br#"{"type":"function","function":{"name":"#);
    write(out, tool.name.as_str());
    out.extend_from_slice(br#","description":"#);
    write(out, tool.description.as_str());
    out.extend_from_slice(br#","parameters":"#);
    out.extend_from_slice(tool.input_schema.as_str().as_bytes());
    out.extend_from_slice(b"}}");
}

fn member(out: &mut Vec<u8>, name: &str) {
    separate(out, b'{');
    write(out, name);
    out.push(b':');
}

/// Writes a comma, unless the next item is the first after `opening`.
fn separate(out: &mut Vec<u8>, opening: u8) {
    if out.last() != Some(&opening) {
        out.push(b',');
    }
}

fn write(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("text and JSON values can be written to memory");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::object;

    fn prompt(body: Value, tools: &[&'static str]) -> Prompt {
        let tool = |name: &&'static str| {
            Arc::new(Tool::own(
                name,
                "Says \"hi\".\n",
                json!({"type": "object", "z": [{}], "a": 1}),
            ))
        };
        Prompt { body: object(body), tools: tools.iter().map(tool).collect() }
    }

    #[test]
    fn members_stay_as_they_are_and_the_gateways_tools_follow_the_callers() {
        let own = json!({"type": "function", "function": {"name": "own"}});
        let text = |prompt: Prompt| String::from_utf8(prompt.to_json()).expect("it is text");
        assert_eq!(text(prompt(json!({}), &[])), "{}");
        assert_eq!(
            text(prompt(json!({"b": 1, "tools": "odd", "a": [null]}), &[])),
            r#"{"b":1,"tools":"odd","a":[null]}"#
        );
        let both = prompt(json!({"b\"": 1, "tools": [own], "a": {}}), &["x", "y"]);
        assert_eq!(both.offered().collect::<Vec<_>>(), ["own", "x", "y"]);
        let text = text(both);
        let read: Value = serde_json::from_str(&text).expect("it is JSON");
        let definition = |name| {
            let schema = json!({"type": "object", "z": [{}], "a": 1});
            json!({"type": "function", "function": {"name": name, "description": "Says \"hi\".\n", "parameters": schema}})
        };
        assert_eq!(
            read,
            json!({"b\"": 1, "a": {}, "tools": [own, definition("x"), definition("y")]})
        );
        assert!(
            text.contains(r#""parameters":{"type":"object","z":[{}],"a":1}"#),
            "the schema's text is not changed: {text}"
        );
    }

    #[test]
    fn tools_that_are_not_a_list_are_left_to_the_provider() {
        for (tools, takes) in
            [(json!([]), true), (Value::Null, true), (json!({}), false), (json!("auto"), false)]
        {
            assert_eq!(prompt(json!({"tools": tools}), &[]).takes_tools(), takes, "{tools}");
        }
        assert_eq!(
            prompt(json!({"tools": null}), &["x"]).to_json().first_chunk(),
            Some(br#"{"tools":[{"type":"#)
        );
    }

    #[test]
    fn a_prompt_shares_its_tools_with_the_catalog() {
        let tool = Arc::new(Tool::own("x", "", json!({"type": "object"})));
        let prompt = Prompt { body: Object::new(), tools: vec![tool.clone()] };
        assert!(Arc::ptr_eq(&prompt.clone().tools[0], &tool));
    }
}
