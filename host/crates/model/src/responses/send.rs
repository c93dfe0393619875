//! The text of a request.

use crate::{
    Prompt,
    prompt::{member, separate, write},
};
use airlock_conversation::{
    read::Untranslatable,
    responses::{is_own_reasoning, write_items},
};
use airlock_core::tool::Tool;
use airlock_json::{RawObject, raw};

/// Value of `include` without which reasoning cannot be sent back: the service stores nothing.
const ENCRYPTED: &str = r#""reasoning.encrypted_content""#;
/// Members that the gateway sets, or acts on itself.
const OWN: [&str; 14] = [
    "model",
    "input",
    "tools",
    "include",
    "store",
    "stream",
    "stream_options",
    "previous_response_id",
    // State of the operator's account, which all callers share, and a way to tools that run there.
    "conversation",
    "prompt",
    "background",
    "max_tool_calls",
    "fallbacks",
    "airlock",
];

/// Returns the text of a request: its members, with the rounds and the tools that the gateway added.
/// Reasoning that the gateway made from the reply of another API is left out: the provider cannot read it.
/// The model is `model`, or else that of `prompt`, which the route has set. Fails if a round has no form in
/// this API.
pub(super) fn to_text(
    members: &RawObject,
    prompt: &Prompt,
    model: Option<&str>,
    is_streamed: bool,
    asks_reasoning: bool,
) -> Result<Vec<u8>, Untranslatable> {
    let mut out = Vec::with_capacity(members.text_len() + 2);
    out.push(b'{');
    if let Some(model) = model.or(prompt.body.get("model")) {
        set(&mut out, "model", model);
    }
    for (name, text) in members.iter().filter(|(name, _)| !OWN.contains(name)) {
        set(&mut out, name, text);
    }
    set(&mut out, "store", "false");
    if is_streamed {
        set(&mut out, "stream", "true");
    }
    member(&mut out, "input");
    list(&mut out, elements(members, "input").filter(|item| !is_own_reasoning(item)));
    out.pop();
    prompt.write_rounds(write_items, &mut out)?;
    out.push(b']');
    let include: Vec<&str> = elements(members, "include").collect();
    let is_asked = include.contains(&ENCRYPTED) || !asks_reasoning;
    let asked = include.into_iter().filter(|value| asks_reasoning || *value != ENCRYPTED);
    let include: Vec<&str> = asked.chain((!is_asked).then_some(ENCRYPTED)).collect();
    if !include.is_empty() {
        member(&mut out, "include");
        list(&mut out, include);
    }
    write_tools(&mut out, members, &prompt.tools);
    out.push(b'}');
    Ok(out)
}

fn set(out: &mut Vec<u8>, name: &str, text: &str) {
    member(out, name);
    out.extend_from_slice(text.as_bytes());
}

fn elements<'a>(members: &'a RawObject, name: &str) -> impl Iterator<Item = &'a str> {
    members.get(name).and_then(raw::elements).into_iter().flatten()
}

fn list<'a>(out: &mut Vec<u8>, elements: impl IntoIterator<Item = &'a str>) {
    out.push(b'[');
    for element in elements {
        separate(out, b'[');
        out.extend_from_slice(element.as_bytes());
    }
    out.push(b']');
}

/// Writes the caller's tools and then the gateway's. A value that is no list is left to the
/// provider.
fn write_tools(out: &mut Vec<u8>, members: &RawObject, tools: &[std::sync::Arc<Tool>]) {
    let own = members.get("tools");
    if tools.is_empty() {
        if let Some(own) = own {
            member(out, "tools");
            out.extend_from_slice(own.as_bytes());
        }
        return;
    }
    member(out, "tools");
    list(out, elements(members, "tools"));
    out.pop();
    for tool in tools {
        separate(out, b'[');
        write_definition(out, tool);
    }
    out.push(b']');
}

/// Writes the definition of a tool of the gateway. `strict` is off, because the Responses API
/// changes the schema of a tool otherwise.
fn write_definition(out: &mut Vec<u8>, tool: &Tool) {
    out.extend_from_slice(br#"{"type":"function","name":"#);
    write(out, tool.name.as_str());
    out.extend_from_slice(br#","description":"#);
    write(out, &tool.described());
    out.extend_from_slice(br#","parameters":"#);
    out.extend_from_slice(tool.parameters().as_str().as_bytes());
    out.extend_from_slice(br#","strict":false}"#);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use airlock_conversation::{Item, ToolResult};
    use airlock_json::Caps;

    fn text(members: &str, prompt: &Prompt, asks_reasoning: bool) -> String {
        let members = RawObject::parse(members.into(), &Caps::memory(1 << 20)).expect("an object");
        let text = to_text(&members.0, prompt, None, true, asks_reasoning);
        String::from_utf8(text.expect("items")).expect("it is text")
    }

    #[test]
    fn members_keep_their_text_and_those_of_the_gateway_are_replaced() {
        let mut prompt = Prompt::new(RawObject::default());
        prompt.body.set("model", r#""m""#);
        prompt.add_round([Item::ToolResult(ToolResult::new("c", Vec::new()))]);
        prompt.tools.push(Arc::new(Tool::own("x", "", json!({"type": "object"}))));
        let members = r#"{"model":"NAME/m","input":[{"n":0.10}],"tools":[{"max":18446744073709551616}],
            "store":true,"stream":false,"previous_response_id":"resp_1","max_tool_calls":3,
            "include":["a"],"truncation":"auto","seed":12345678901234567890123}"#;
        assert_eq!(
            text(members, &prompt, true),
            r#"{"model":"m","truncation":"auto","seed":12345678901234567890123,"store":false,"stream":true,"input":[{"n":0.10},{"type":"function_call_output","call_id":"c","output":""}],"include":["a","reasoning.encrypted_content"],"tools":[{"max":18446744073709551616},{"type":"function","name":"x","description":"","parameters":{"type":"object"},"strict":false}]}"#
        );
    }

    #[test]
    fn reasoning_that_the_gateway_made_is_left_out() {
        let own = r#"{"type":"reasoning","encrypted_content":"{\"thinking_blocks\":[]}"}"#;
        let unsealed =
            r#"{"type":"reasoning","id":"rs_0123456789abcdef0123456789abcdef0001","summary":[]}"#;
        let foreign = r#"{"type":"reasoning","id":"rs_1","encrypted_content":"gAAAA"}"#;
        let members = format!(r#"{{"input":[{own},{foreign},{unsealed}]}}"#);
        let text = text(&members, &Prompt::new(RawObject::default()), false);
        assert_eq!(text, format!(r#"{{"store":false,"stream":true,"input":[{foreign}]}}"#));
    }

    #[test]
    fn encrypted_reasoning_is_asked_for_once_and_not_of_models_that_have_none() {
        for (include, asks, expected) in [
            ("[]", true, r#""include":["reasoning.encrypted_content"]"#),
            (
                r#"["reasoning.encrypted_content","b"]"#,
                true,
                r#""include":["reasoning.encrypted_content","b"]"#,
            ),
            (r#"["reasoning.encrypted_content","b"]"#, false, r#""include":["b"]"#),
        ] {
            let text = text(
                &format!(r#"{{"include":{include}}}"#),
                &Prompt::new(RawObject::default()),
                asks,
            );
            assert!(text.contains(expected), "{text}");
        }
        assert!(!text("{}", &Prompt::new(RawObject::default()), false).contains("include"));
    }
}
