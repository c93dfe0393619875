//! The methods of MCP. Those with which a server questions a client are those of the kinds of
//! questions, in `airlock-core`.

/// Begins a connection of the legacy era.
pub const INITIALIZE: &str = "initialize";
/// Checks a connection of the legacy era.
pub const PING: &str = "ping";
/// Describes a server of the modern era.
pub const DISCOVER: &str = "server/discover";
/// Sets the level of the log messages that a server sends, in the legacy era.
pub const SET_LEVEL: &str = "logging/setLevel";
/// Reads a page of the list of tools.
pub const TOOLS_LIST: &str = "tools/list";
/// Calls a tool.
pub const TOOLS_CALL: &str = "tools/call";
/// Reads a page of the list of resources.
pub const RESOURCES_LIST: &str = "resources/list";
/// Reads a page of the list of templates of resources.
pub const TEMPLATES_LIST: &str = "resources/templates/list";
/// Reads a resource.
pub const RESOURCES_READ: &str = "resources/read";
/// Subscribes to a resource, in the legacy era.
pub const RESOURCES_SUBSCRIBE: &str = "resources/subscribe";
/// Ends a subscription of [`RESOURCES_SUBSCRIBE`].
pub const RESOURCES_UNSUBSCRIBE: &str = "resources/unsubscribe";
/// Reads a page of the list of prompts.
pub const PROMPTS_LIST: &str = "prompts/list";
/// Expands a prompt.
pub const PROMPTS_GET: &str = "prompts/get";
/// Completes an argument of a prompt or a template.
pub const COMPLETE: &str = "completion/complete";
/// Subscribes to changes of lists and resources, in the modern era.
pub const LISTEN: &str = "subscriptions/listen";
/// Reads the state of a task.
pub const TASKS_GET: &str = "tasks/get";
/// Waits for the result of a task, in the legacy era.
pub const TASKS_RESULT: &str = "tasks/result";
/// Answers the questions of a task, in the modern era.
pub const TASKS_UPDATE: &str = "tasks/update";
/// Cancels a task.
pub const TASKS_CANCEL: &str = "tasks/cancel";

/// Ends the handshake of the legacy era.
pub const INITIALIZED: &str = "notifications/initialized";
/// Cancels a request.
pub const CANCELLED: &str = "notifications/cancelled";
/// Reports the progress of a request.
pub const PROGRESS: &str = "notifications/progress";
/// Passes a log message to the client.
pub const LOG_MESSAGE: &str = "notifications/message";
/// Announces a change of the list of tools.
pub const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
/// Announces a change of the lists of resources and templates.
pub const RESOURCES_CHANGED: &str = "notifications/resources/list_changed";
/// Announces a change of the list of prompts.
pub const PROMPTS_CHANGED: &str = "notifications/prompts/list_changed";
/// Announces a change of a resource.
pub const RESOURCE_UPDATED: &str = "notifications/resources/updated";
/// Acknowledges a subscription of [`LISTEN`].
pub const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// Methods of requests.
const REQUESTS: [&str; 19] = [
    INITIALIZE,
    PING,
    DISCOVER,
    SET_LEVEL,
    TOOLS_LIST,
    TOOLS_CALL,
    RESOURCES_LIST,
    TEMPLATES_LIST,
    RESOURCES_READ,
    RESOURCES_SUBSCRIBE,
    RESOURCES_UNSUBSCRIBE,
    PROMPTS_LIST,
    PROMPTS_GET,
    COMPLETE,
    LISTEN,
    TASKS_GET,
    TASKS_RESULT,
    TASKS_UPDATE,
    TASKS_CANCEL,
];

/// Returns the name of a method of a request that the protocol has; `None` for one that a client has invented.
pub fn known(method: &str) -> Option<&'static str> {
    REQUESTS.into_iter().find(|known| *known == method)
}

/// Returns the name of a method in metrics: `other` if the protocol does not have it, because a client sends any.
pub fn metric_name(method: &str) -> &'static str {
    known(method).unwrap_or("other")
}

/// Returns whether a request reads a page of a list.
pub fn is_list(method: &str) -> bool {
    matches!(method, TOOLS_LIST | RESOURCES_LIST | TEMPLATES_LIST | PROMPTS_LIST)
}

/// Returns whether a request needs the sources of tools, resources or prompts.
pub fn needs_sources(method: &str) -> bool {
    is_list(method)
        || matches!(
            method,
            TOOLS_CALL
                | RESOURCES_READ
                | RESOURCES_SUBSCRIBE
                | RESOURCES_UNSUBSCRIBE
                | PROMPTS_GET
                | COMPLETE
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_that_a_client_has_invented_is_not_known() {
        assert_eq!(known("tools/call"), Some(TOOLS_CALL));
        for invented in ["", "tools/call ", "secret/of/a/user"] {
            assert_eq!(known(invented), None, "{invented}");
            assert_eq!(metric_name(invented), "other");
        }
    }
}
