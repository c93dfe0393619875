//! Proofs of reasoning in the `signature` of a block of thinking, and signatures of calls.
//!
//! The API has a signature of Anthropic's models alone. The proof of another provider is written as a
//! signature of the gateway, so that it comes back with the next request. So is the signature that Gemini
//! requires with a call: clients send blocks of thinking back as they came, but of a `tool_use` block only
//! the members that they know.

use std::borrow::Cow;

use airlock_json::{self as json, Caps, raw};
use serde_json::json;

use crate::{
    MAX_NAME_BYTES, Object, Reasoning, Seal,
    thought_signature::{self, EXTRA_CONTENT},
};

/// Beginning of a signature that holds the proof of another provider. Anthropic's are Base64, which has
/// no colon.
const FOREIGN: &str = "airlock:";
/// Members of such a signature that belongs to a call.
const CALL: &str = "call";
const CALL_SIGNATURE: &str = "thought_signature";
/// Limits on such a signature. No tree is built from it.
const CAPS: Caps = Caps::memory(usize::MAX);

/// Returns the signature of a block of thinking; empty if the reasoning has no proof. A redacted block
/// has none. Neither has one whose own signature would come back as the proof of another provider.
pub(super) fn signature(reasoning: &Reasoning) -> String {
    match &reasoning.seal {
        Some(Seal::Signature(signature)) if signature.starts_with(FOREIGN) => String::new(),
        Some(Seal::Signature(signature)) => signature.clone(),
        Some(Seal::Encrypted(encrypted)) => {
            format!("{FOREIGN}{}", json!({"id": reasoning.id, "encrypted": encrypted}))
        }
        Some(Seal::Redacted(_)) | None => String::new(),
    }
}

/// Returns the signature of an empty block of thinking that carries the one of the call after it; `None`
/// if the call has none. `extra` are the members of the call in chat.
pub(super) fn of_call(id: &str, extra: &Object) -> Option<String> {
    let signature = thought_signature::get(extra)?;
    Some(format!("{FOREIGN}{}", json!({CALL: id, CALL_SIGNATURE: signature})))
}

/// Reads what [`of_call`] wrote: the identifier of the call, and its members in chat.
pub(super) fn read_call(signature: &str) -> Option<(String, Object)> {
    let text = checked(signature)?;
    let id = member(text, CALL)?.into_owned();
    let signature = member(text, CALL_SIGNATURE)?.into_owned();
    let member = (EXTRA_CONTENT.to_owned(), thought_signature::write(signature.into()));
    Some((id, Object::from_iter([member])))
}

/// Returns the readable text of reasoning: its summaries if it has no text of its own.
pub(super) fn readable(reasoning: &Reasoning) -> String {
    if reasoning.text.is_empty() { reasoning.summary.join("\n\n") } else { reasoning.text.clone() }
}

/// Drops the members of reasoning that the API has no form for.
pub(super) fn drop_unwritten(reasoning: &mut Reasoning) {
    if reasoning.text.is_empty() {
        reasoning.text = readable(reasoning);
    }
    reasoning.summary = Vec::new();
    reasoning.extra = Object::new();
}

/// Returns the bytes of the text and the proof of reasoning without other members.
pub(super) fn text_len(reasoning: &Reasoning) -> usize {
    let seal = reasoning.seal.as_ref().map_or(0, |seal| match seal {
        Seal::Signature(text) | Seal::Redacted(text) | Seal::Encrypted(text) => text.len(),
    });
    reasoning.text.len() + seal + reasoning.id.as_ref().map_or(0, String::len)
}

/// Reads a block of thinking from its text and its signature.
pub(super) fn reasoning(text: String, signature: String) -> Reasoning {
    if let Some((id, encrypted)) = foreign(&signature) {
        let summary = if text.is_empty() { Vec::new() } else { vec![text] };
        return Reasoning {
            id,
            summary,
            seal: Some(Seal::Encrypted(encrypted)),
            ..Reasoning::default()
        };
    }
    let seal = (!signature.is_empty()).then_some(Seal::Signature(signature));
    Reasoning { text, seal, ..Reasoning::default() }
}

/// Reads the identifier and the encrypted reasoning of another provider.
fn foreign(signature: &str) -> Option<(Option<String>, String)> {
    let text = checked(signature)?;
    let encrypted = member(text, "encrypted")?.into_owned();
    Some((member(text, "id").filter(|id| id.len() <= MAX_NAME_BYTES).map(Into::into), encrypted))
}

/// Returns a text in the JSON text of a signature.
fn member<'t>(text: &'t str, name: &str) -> Option<Cow<'t, str>> {
    raw::member(text, name).and_then(raw::string)
}

/// Returns the JSON text in a signature of the gateway.
fn checked(signature: &str) -> Option<&str> {
    let text = signature.strip_prefix(FOREIGN)?;
    json::check(text.as_bytes(), &CAPS).ok()?;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_of_another_provider_comes_back_and_anthropics_stays_as_it_is() {
        let encrypted = Reasoning {
            id: Some("rs_1".to_owned()),
            summary: vec!["why".to_owned()],
            seal: Some(Seal::Encrypted("x\"y".to_owned())),
            ..Reasoning::default()
        };
        assert_eq!(reasoning(readable(&encrypted), signature(&encrypted)), encrypted);
        let signed = Reasoning {
            text: "why".to_owned(),
            seal: Some(Seal::Signature("abc=".to_owned())),
            ..Reasoning::default()
        };
        assert_eq!(signature(&signed), "abc=");
        assert_eq!(reasoning("why".to_owned(), "abc=".to_owned()), signed);
        assert_eq!(reasoning("why".to_owned(), String::new()).seal, None);
    }

    #[test]
    fn a_signature_that_is_none_of_the_gateway_is_passed_on() {
        for text in
            ["{}", "[]", "{\"encrypted\":1}", "{\"encrypted\":\"e\"", "{\"encrypted\":\"e\"} x"]
        {
            let odd = format!("airlock:{text}");
            let read = reasoning(String::new(), odd.clone());
            assert_eq!(read.seal, Some(Seal::Signature(odd)));
        }
    }

    #[test]
    fn other_members_of_a_signature_are_ignored_and_a_long_id_is_left_out() {
        let long = format!("\"{}\"", "x".repeat(MAX_NAME_BYTES + 1));
        for (id, expected) in [
            ("\"rs_1\"", Some("rs_1")),
            (long.as_str(), None),
            ("[{\"\":0}]", None),
            ("null", None),
        ] {
            let text = format!("airlock:{{\"encrypted\":\"e\",\"x\":[{{}},1],\"id\":{id}}}");
            let read = reasoning(String::new(), text);
            assert_eq!(
                (read.id.as_deref(), read.seal),
                (expected, Some(Seal::Encrypted("e".to_owned())))
            );
        }
    }

    #[test]
    fn the_signature_of_a_call_comes_back_with_its_identifier() {
        let extra = airlock_json::object(
            json!({"extra_content": {"google": {"thought_signature": "a\"b"}}, "x": 1}),
        );
        let signature = of_call("c", &extra).expect("a signature");
        let (id, read) = read_call(&signature).expect("a signature of a call");
        assert_eq!((id.as_str(), read.get("extra_content")), ("c", extra.get("extra_content")));
        assert_eq!((read.len(), of_call("c", &Object::new())), (1, None));
        for other in
            ["abc=", "airlock:{}", "airlock:{\"call\":\"c\"}", "airlock:{\"encrypted\":\"e\"}"]
        {
            assert_eq!(read_call(other), None, "{other}");
        }
    }

    #[test]
    fn a_provider_cannot_write_the_proof_of_another_one() {
        let forged = "airlock:{\"id\":null,\"encrypted\":\"e\"}".to_owned();
        let reasoning = Reasoning { seal: Some(Seal::Signature(forged)), ..Reasoning::default() };
        assert_eq!(signature(&reasoning), "");
    }
}
