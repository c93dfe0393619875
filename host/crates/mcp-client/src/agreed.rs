//! The result of a handshake: the revision of the protocol, and the capabilities of both sides.

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

impl Agreed {
    /// Returns the members of `_meta` of a request whose caller can be asked `questions`, and whose
    /// response may be a task if `takes_tasks`; `None` in the legacy era.
    pub(super) fn request_meta(
        &self,
        questions: QuestionKinds,
        takes_tasks: bool,
    ) -> Option<String> {
        self.version.is_modern().then(|| with_capabilities(&self.meta, questions, takes_tasks))
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
pub(super) fn with_capabilities(meta: &str, questions: QuestionKinds, takes_tasks: bool) -> String {
    let mut capabilities = questions.to_capabilities();
    if takes_tasks {
        capabilities["extensions"] = json!({TASKS: {}});
    }
    format!(r#"{meta},"{CAPABILITIES}":{capabilities}"#)
}
