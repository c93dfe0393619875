//! Recorded replies of other APIs as chat completions.

mod messages_as_chat;
mod responses_as_chat;

use serde_json::Value;

use crate::Object;

/// A recorded stream of an API, and the reply to the same request without `stream`.
struct Recorded {
    name: &'static str,
    stream: &'static str,
    whole: &'static str,
}

/// Returns recorded replies of a directory by their names.
macro_rules! recorded {
    ($api:literal: $($name:literal),*) => {
        [$($crate::tests::Recorded {
            name: $name,
            stream: include_str!(concat!("../../../../../tests/fixtures/chat_streams/", $api, "/", $name, ".sse")),
            whole: include_str!(concat!("../../../../../tests/fixtures/chat_streams/", $api, "/", $name, ".json")),
        }),*]
    };
}
use recorded;

fn parse(text: &str) -> Object {
    serde_json::from_str(text).expect("a JSON object")
}

fn events(stream: &str) -> impl Iterator<Item = Object> {
    stream.lines().filter_map(|line| line.strip_prefix("data: ")).map(parse)
}

/// Returns the events of a recorded stream.
fn events_of(recorded: &[Recorded], name: &str) -> impl Iterator<Item = Object> {
    let found = recorded.iter().find(|recorded| recorded.name == name);
    events(found.expect("a recorded stream").stream)
}

/// Returns the choices of chunks, each as the text of its delta, with the reason of its end.
pub(crate) fn lines(chunks: &[Object]) -> Vec<String> {
    let choices = chunks.iter().filter_map(|chunk| chunk["choices"].get(0));
    choices
        .map(|choice| match &choice["finish_reason"] {
            Value::Null => choice["delta"].to_string(),
            reason => format!("{} {reason}", choice["delta"]),
        })
        .collect()
}
