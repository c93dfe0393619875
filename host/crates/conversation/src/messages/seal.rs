//! Proofs of reasoning in the `signature` of a block of thinking.
//!
//! The API has a signature of Anthropic's models alone. The proof of another provider is written as a
//! signature of the gateway, so that it comes back with the next request.

use airlock_json::{self as json, Caps, raw};
use serde_json::json;

use crate::{Object, Reasoning, Seal};

/// Beginning of a signature that holds the proof of another provider. Anthropic's are Base64, which has
/// no colon.
const FOREIGN: &str = "airlock:";
/// Maximum bytes of the identifier in such a signature, which the caller can replace. OpenAI's have
/// some fifty.
const MAX_ID: usize = 256;
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
    let text = signature.strip_prefix(FOREIGN)?;
    json::check(text.as_bytes(), &CAPS).ok()?;
    let string = |name| raw::member(text, name).and_then(raw::string);
    let encrypted = string("encrypted")?.into_owned();
    Some((string("id").filter(|id| id.len() <= MAX_ID).map(Into::into), encrypted))
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
        let long = format!("\"{}\"", "x".repeat(MAX_ID + 1));
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
    fn a_provider_cannot_write_the_proof_of_another_one() {
        let forged = "airlock:{\"id\":null,\"encrypted\":\"e\"}".to_owned();
        let reasoning = Reasoning { seal: Some(Seal::Signature(forged)), ..Reasoning::default() };
        assert_eq!(signature(&reasoning), "");
    }
}
