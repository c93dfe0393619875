//! Signatures of thoughts in the members of chat.
//!
//! Gemini signs the state of its reasoning and requires the signature of a call with the call's
//! result. In chat it is `extra_content.google.thought_signature` of the call or of the message, as
//! in Gemini's own endpoint for OpenAI's clients.

use serde_json::Value;

use crate::{Object, object_of};

/// Member of a call or a message in which chat has the signature.
pub(crate) const EXTRA_CONTENT: &str = "extra_content";

const GOOGLE: &str = "google";
const IN_CHAT: &str = "thought_signature";

/// Returns the value of `extra_content` for a signature.
pub(crate) fn write(signature: Value) -> Value {
    let google = object_of([(IN_CHAT, signature)]);
    object_of([(GOOGLE, google.into())]).into()
}

/// Takes the signature from the members of a call or a message; `None` if there is none.
pub(crate) fn take(extra: &mut Object) -> Option<Value> {
    let signature = extra.get_mut(EXTRA_CONTENT)?.get_mut(GOOGLE)?.get_mut(IN_CHAT)?.take();
    signature.as_str().is_some_and(|text| !text.is_empty()).then_some(signature)
}

/// Returns the signature in the members of a call; `None` if there is none.
pub(crate) fn get(extra: &Object) -> Option<&str> {
    let signature = extra.get(EXTRA_CONTENT)?.get(GOOGLE)?.get(IN_CHAT)?.as_str()?;
    (!signature.is_empty()).then_some(signature)
}

/// Returns the members of a call without all but the signature.
pub(crate) fn only(mut extra: Object) -> Object {
    let signature = take(&mut extra).map(|signature| (EXTRA_CONTENT.to_owned(), write(signature)));
    signature.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_signature_that_was_written_is_taken_and_other_values_are_none() {
        let of = |value: Value| Object::from_iter([(EXTRA_CONTENT.to_owned(), value)]);
        assert_eq!(write("s".into()), json!({"google": {"thought_signature": "s"}}));
        let mut written = of(write("s".into()));
        assert_eq!(get(&written), Some("s"));
        let mut members = written.clone();
        members.insert("x".to_owned(), 1.into());
        assert_eq!(only(members), written);
        assert_eq!(take(&mut written), Some("s".into()));
        for odd in [
            json!(null),
            json!("s"),
            json!({"google": null}),
            json!({"google": {"thought_signature": ""}}),
            json!({"google": {"thought_signature": 1}}),
            json!({"openai": {"thought_signature": "s"}}),
        ] {
            assert_eq!(get(&of(odd.clone())), None, "{odd}");
            assert_eq!(take(&mut of(odd.clone())), None, "{odd}");
        }
        assert_eq!(take(&mut Object::new()), None);
    }
}
