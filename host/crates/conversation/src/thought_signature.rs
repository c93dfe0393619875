//! Signatures of thoughts in the members of chat.
//!
//! Gemini signs the state of its reasoning and requires the signature of a call with the call's
//! result. In chat it is `extra_content.google.thought_signature` of the call or of the message, as
//! in Gemini's own endpoint for OpenAI's clients.

use serde_json::Value;

use super::object_of;
use crate::Object;

/// Member of a call or a message in which chat has the signature.
pub(super) const EXTRA_CONTENT: &str = "extra_content";
/// Member of a part in which Gemini has it.
pub(super) const THOUGHT_SIGNATURE: &str = "thoughtSignature";

const GOOGLE: &str = "google";
const IN_CHAT: &str = "thought_signature";

/// Returns the value of `extra_content` for a signature.
pub(super) fn write(signature: Value) -> Value {
    let google = object_of([(IN_CHAT, signature)]);
    object_of([(GOOGLE, google.into())]).into()
}

/// Takes the signature from the members of a call or a message; `None` if there is none.
pub(super) fn take(extra: &mut Object) -> Option<Value> {
    let signature = extra.get_mut(EXTRA_CONTENT)?.get_mut(GOOGLE)?.get_mut(IN_CHAT)?.take();
    signature.as_str().is_some_and(|text| !text.is_empty()).then_some(signature)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_signature_that_was_written_is_taken_and_other_values_are_none() {
        let of = |value: Value| Object::from_iter([(EXTRA_CONTENT.to_owned(), value)]);
        assert_eq!(write("s".into()), json!({"google": {"thought_signature": "s"}}));
        assert_eq!(take(&mut of(write("s".into()))), Some("s".into()));
        for odd in [
            json!(null),
            json!("s"),
            json!({"google": null}),
            json!({"google": {"thought_signature": ""}}),
            json!({"google": {"thought_signature": 1}}),
            json!({"openai": {"thought_signature": "s"}}),
        ] {
            assert_eq!(take(&mut of(odd.clone())), None, "{odd}");
        }
        assert_eq!(take(&mut Object::new()), None);
    }
}
