//! Recorded responses of Anthropic's API, for tests.

/// A recorded stream, and the message of the same request without `stream`.
macro_rules! recorded {
    ($($name:literal),*) => {
        [$((
            $name,
            include_str!(concat!("../../../../../tests/fixtures/chat_streams/anthropic/", $name, ".sse")),
            include_str!(concat!("../../../../../tests/fixtures/chat_streams/anthropic/", $name, ".json")),
        )),*]
    };
}

/// The names of recorded streams, the streams and their messages.
pub(super) const RECORDED: [(&str, &str, &str); 7] = recorded![
    "text",
    "tool_use",
    "thinking",
    "thinking_omitted",
    "citations",
    "server_tool",
    "refusal"
];
