//! Proofs of reasoning in the `signature` of a block of thinking.
//!
//! The API has a signature of Anthropic's models alone. The proof of another provider is written as a
//! signature of the gateway, so that it comes back with the next request.

use serde_json::{Value, json};

use crate::{Object, Reasoning, Seal};

/// Beginning of a signature that holds the proof of another provider. Anthropic's are Base64, which has
/// no colon.
const FOREIGN: &str = "airlock:";

/// Returns the signature of a block of thinking; empty if the reasoning has no proof. A redacted block
/// has none.
pub(super) fn signature(reasoning: &Reasoning) -> String {
    match &reasoning.seal {
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

/// Reads a block of thinking from its text and its signature.
pub(super) fn reasoning(text: String, signature: String) -> Reasoning {
    if let Some(mut foreign) = foreign(&signature)
        && let Some(Value::String(encrypted)) = foreign.shift_remove("encrypted")
    {
        let id = match foreign.shift_remove("id") {
            Some(Value::String(id)) => Some(id),
            _ => None,
        };
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

fn foreign(signature: &str) -> Option<Object> {
    serde_json::from_str(signature.strip_prefix(FOREIGN)?).ok()
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
        // A signature that only looks like one of the gateway is passed on.
        let odd = reasoning(String::new(), "airlock:{}".to_owned());
        assert_eq!(odd.seal, Some(Seal::Signature("airlock:{}".to_owned())));
    }
}
