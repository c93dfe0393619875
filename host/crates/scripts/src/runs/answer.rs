//! The answer of a call, as the script receives it and as the journal stores it.

use std::{borrow::Cow, fmt::Write as _};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use airlock_core::{
    run::AnswerError,
    tool::{CallError, Content, ContentBlock, ResourceContents, SourceSet, ToolOutput},
};
use airlock_json::raw;
use airlock_store::runs::RunDecision;

/// Answer of a call. Binary content is a handle with its type and size: a script cannot use the
/// bytes, and they are not for the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CallAnswer {
    /// Data: structured content, or parts of several kinds.
    Value(Value),
    /// Text. The script receives data if it is JSON.
    Text(String),
    /// The call failed.
    Error(AnswerError),
}

/// Member of a stored answer with the sources of untrusted content that it has; absent for none.
const SOURCES: &str = "sources";

/// Text that is stored for the answer of a repeatable call if the answer is too large.
pub(super) const NOT_KEPT: &str = "\"not_kept\"";

/// A stored answer, as it is read.
pub(super) enum StoredAnswer {
    /// The answer, and the sources of untrusted content that it has.
    Answer(CallAnswer, SourceSet),
    /// It was too large. The call is repeatable.
    NotKept,
    /// Another version of this program has stored it.
    Unreadable,
}

impl CallAnswer {
    /// Returns the answer that a script receives for the result of the tool that it calls `called`.
    pub(super) fn new(result: Result<ToolOutput, CallError>, called: &str) -> Self {
        match result {
            Ok(ToolOutput { structured: Some(value), .. }) => Self::Value(value),
            Ok(output) => Self::of_content(output.content),
            Err(error) => Self::Error(error.as_called(called).into()),
        }
    }

    fn of_content(mut content: Vec<Content>) -> Self {
        if let [only] = &mut content[..]
            && let ContentBlock::Text { text } = &mut only.block
        {
            return Self::Text(std::mem::take(text));
        }
        let mut parts: Vec<Value> = content.into_iter().map(|part| handle(part.block)).collect();
        match &mut parts[..] {
            [only] => Self::Value(only.take()),
            parts if parts.iter().all(Value::is_string) => {
                let texts: Vec<_> = parts.iter().filter_map(Value::as_str).collect();
                Self::Text(texts.join("\n"))
            }
            _ => Self::Value(parts.into()),
        }
    }

    /// Returns the answer of a call that a person has denied for a reason; empty for none.
    pub(super) fn denied(reason: &str) -> Self {
        Self::Error(AnswerError::denied(reason))
    }

    /// Returns the result for the script. Data becomes its JSON text, from which the executor makes the same value: the
    /// results of a block wait for each other, and as trees they take up to 150 times as much memory.
    pub(super) fn into_result(self) -> Result<ToolOutput, CallError> {
        match self {
            Self::Value(value) => Ok(ToolOutput::text(value.to_string())),
            Self::Text(text) => Ok(ToolOutput::text(text)),
            Self::Error(failure) => Err(failure.into()),
        }
    }

    /// Returns whether the call has succeeded.
    pub(super) fn has_succeeded(&self) -> bool {
        !matches!(self, Self::Error(_))
    }

    /// Returns the JSON that is stored.
    pub(super) fn to_stored(&self) -> String {
        serde_json::to_string(self).expect("keys are strings, and memory takes the text")
    }

    /// Returns the JSON that is stored of an answer that has content of untrusted sources.
    pub(super) fn to_stored_with(&self, sources: &SourceSet) -> String {
        let mut text = self.to_stored();
        if let Some(sources) = sources.to_json() {
            text.pop();
            // Writing to a String cannot fail.
            let _ = write!(text, ",\"{SOURCES}\":{sources}}}");
        }
        text
    }

    /// Returns whether stored JSON is that of a call that has succeeded, without parsing it.
    pub(super) fn is_success(text: &str) -> bool {
        ["{\"value\":", "{\"text\":"].iter().any(|tag| text.starts_with(tag))
    }
}

/// Returns the decision to deny a call, whose script receives the reason.
pub fn denial(reason: Option<&str>) -> RunDecision {
    RunDecision::Deny(reason.map(|reason| CallAnswer::denied(reason).to_stored()))
}

impl StoredAnswer {
    /// Returns the answer of a denied call. A denial without a reason stores none.
    pub(super) fn of_denial(stored: Option<&str>) -> CallAnswer {
        match stored.map(Self::read) {
            Some(Self::Answer(answer @ CallAnswer::Error(_), _)) => answer,
            _ => CallAnswer::denied(""),
        }
    }

    /// Reads what is stored of an answer.
    pub(super) fn read(text: &str) -> Self {
        let (answer, sources) = without_sources(text);
        match serde_json::from_str(&answer) {
            Ok(answer) => Self::Answer(answer, sources),
            Err(_) if text == NOT_KEPT => Self::NotKept,
            Err(_) => Self::Unreadable,
        }
    }
}

/// Returns what is stored of an answer without its sources, and the sources.
fn without_sources(text: &str) -> (Cow<'_, str>, SourceSet) {
    let sources = text.ends_with("]}").then(|| raw::member(text, SOURCES)).flatten();
    if sources.is_none() {
        return (text.into(), SourceSet::default());
    }
    let mut answer = text.to_owned();
    raw::remove_member(&mut answer, SOURCES);
    (answer.into(), SourceSet::from_json(sources))
}

/// Returns a part as data: a text, or the description of anything else.
fn handle(block: ContentBlock) -> Value {
    match block {
        ContentBlock::Text { text } => text.into(),
        ContentBlock::Image { data, mime_type } => {
            json!({"type": "image", "mime_type": mime_type, "size": decoded_bytes(&data)})
        }
        ContentBlock::Audio { data, mime_type } => {
            json!({"type": "audio", "mime_type": mime_type, "size": decoded_bytes(&data)})
        }
        ContentBlock::ResourceLink(link) => {
            json!({"type": "resource_link", "uri": link.uri, "name": link.name})
        }
        ContentBlock::Resource { resource } => match resource.contents {
            ResourceContents::Text(text) => text.into(),
            ResourceContents::Blob(blob) => {
                json!({"type": "resource", "uri": resource.uri, "mime_type": resource.mime_type, "size": decoded_bytes(&blob)})
            }
        },
        ContentBlock::Other(members) => members.into(),
    }
}

/// Returns the length of what a text in base64 encodes.
fn decoded_bytes(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_stored_with_its_sources_and_without_them_as_before() {
        let sources = SourceSet::from_iter(["mail", "web"]);
        let failed = CallAnswer::new(Err(CallError::cancelled()), "a-b");
        for answer in [
            CallAnswer::Text("x".to_owned()),
            CallAnswer::Value(json!({"sources": [1], "list": []})),
            CallAnswer::Value(json!([])),
            failed,
        ] {
            for sources in [&sources, &SourceSet::default()] {
                let text = answer.to_stored_with(sources);
                let StoredAnswer::Answer(read, kept) = StoredAnswer::read(&text) else {
                    panic!("{text}");
                };
                assert_eq!((&read, &kept), (&answer, sources), "{text}");
                assert_eq!(CallAnswer::is_success(&text), answer.has_succeeded());
            }
            assert_eq!(answer.to_stored_with(&SourceSet::default()), answer.to_stored());
        }
    }
}
