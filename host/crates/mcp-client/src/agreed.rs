//! The result of a handshake: the revision of the protocol, and the capabilities of both sides.

use std::fmt::Write as _;

use serde_json::{Value, json};

use airlock_core::tool::QuestionKinds;
use airlock_wire::version::Version;

/// Result of a handshake. Texts of the server are cut and on one line.
#[derive(Debug, Clone, PartialEq)]
pub struct Agreed {
    /// Revision of the protocol.
    pub version: Version,
    /// Capabilities of the server that the gateway uses.
    pub(super) capabilities: [bool; USED.len()],
    /// Name and version of the server's software.
    pub software: String,
    /// Instructions of the server for models.
    pub instructions: Option<String>,
    /// Members of `_meta` of every request of the modern era but the capabilities, as JSON text.
    pub(super) meta: String,
}

/// Member of `_meta` with the capabilities of the client, of which each request has its own.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// The extension for tasks, of the modern era.
const TASKS: &str = "io.modelcontextprotocol/tasks";
/// The capabilities of a client that takes tasks, and cannot be asked.
const TASKS_ALONE: &str = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

impl Agreed {
    /// Adds the members of `_meta` of a request of the modern era to a text. Its caller can be asked
    /// `questions`, and its response may be a task if `takes_tasks`.
    pub(super) fn push_request_meta(
        &self,
        text: &mut String,
        questions: QuestionKinds,
        takes_tasks: bool,
    ) {
        text.push_str(&self.meta);
        push_capabilities(text, questions, takes_tasks);
    }

    /// Returns whether the server has a capability.
    pub fn has(&self, capability: Capability) -> bool {
        self.capabilities[capability as usize]
    }
}

/// A capability of a server that the gateway uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Reports of changes of the list of tools.
    ToolChanges,
    /// Resources.
    Resources,
    /// Reports of changes of the list of resources.
    ResourceChanges,
    /// Subscriptions to resources.
    ResourceSubscriptions,
    /// Prompts.
    Prompts,
    /// Reports of changes of the list of prompts.
    PromptChanges,
    /// Log messages.
    Logging,
    /// Tasks of the legacy era for calls of tools.
    ToolTasks,
}

/// Paths of the capabilities, in the order of [`Capability`].
const USED: [&str; 8] = [
    "/tools/listChanged",
    "/resources",
    "/resources/listChanged",
    "/resources/subscribe",
    "/prompts",
    "/prompts/listChanged",
    "/logging",
    "/tasks/requests/tools/call",
];

/// Reads the capabilities that are used. The others are not kept: a server may send megabytes.
pub(super) fn used(capabilities: Option<&Value>) -> [bool; USED.len()] {
    USED.map(|path| {
        let found = capabilities.and_then(|capabilities| capabilities.pointer(path));
        found.is_some_and(|found| found.is_object() || found.as_bool() == Some(true))
    })
}

/// Adds the capabilities of the client to members of `_meta`.
pub(super) fn push_capabilities(text: &mut String, questions: QuestionKinds, takes_tasks: bool) {
    // Writing to a string does not fail.
    let _ = write!(text, r#","{CAPABILITIES}":"#);
    if questions.is_empty() {
        // Those of most calls, without a tree.
        text.push_str(if takes_tasks { TASKS_ALONE } else { "{}" });
        return;
    }
    let mut capabilities = questions.to_capabilities();
    if takes_tasks {
        capabilities["extensions"] = json!({TASKS: {}});
    }
    let _ = write!(text, "{capabilities}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capabilities(questions: QuestionKinds, takes_tasks: bool) -> Value {
        let mut text = r#"{"v":1"#.to_owned();
        push_capabilities(&mut text, questions, takes_tasks);
        text.push('}');
        let meta: Value = serde_json::from_str(&text).expect("an object");
        meta[CAPABILITIES].clone()
    }

    #[test]
    fn the_capabilities_have_the_questions_and_tasks_of_the_request() {
        assert_eq!(capabilities(QuestionKinds::NONE, false), json!({}));
        let tasks = json!({"extensions": {TASKS: {}}});
        assert_eq!(capabilities(QuestionKinds::NONE, true), tasks);
        let asking = json!({"elicitation": {"form": {}, "url": {}}});
        assert_eq!(capabilities(QuestionKinds::ELICITATION, false), asking);
        let both = json!({"elicitation": {"form": {}, "url": {}}, "extensions": {TASKS: {}}});
        assert_eq!(capabilities(QuestionKinds::ELICITATION, true), both);
    }
}
