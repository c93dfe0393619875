//! Definitions that sources list.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

/// A tool as its source lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedTool {
    /// Full name of the tool: the client, `-`, and its name at the source.
    pub tool: String,
    /// The client that has the tool.
    pub client: String,
    /// True if the operator trusts the source.
    pub trusted: bool,
    /// The definition: the JSON text of MCP's `Tool`, with `name`, `title`, `description`, `inputSchema`,
    /// `outputSchema`, `annotations` and further members.
    pub definition: String,
    /// The settings of the guard: the JSON text of an object, empty if there are none.
    pub settings: String,
    /// Further members of later gateways: the JSON text of an object.
    pub extra: Option<String>,
}

impl ListedTool {
    /// Creates a tool of a source that is not trusted, for tests of a guard without settings. Its name at the source is
    /// the `name` of the definition.
    pub fn new(client: &str, definition: &Value) -> Self {
        let name = definition["name"].as_str().unwrap_or_default();
        Self {
            tool: format!("{client}-{name}"),
            client: client.to_owned(),
            trusted: false,
            definition: definition.to_string(),
            settings: "{}".to_owned(),
            extra: None,
        }
    }

    /// Parses the definition. Integers beyond 64 bits become floating-point numbers.
    pub fn definition<T: DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_str(&self.definition)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_definition_is_parsed_and_named_by_its_client() {
        let definition = json!({"name": "send", "description": "Sends."});
        let listed = ListedTool::new("mail", &definition).with_settings(&json!([1]));
        assert_eq!(listed.tool, "mail-send");
        assert_eq!(listed.definition::<Value>(), Ok(definition));
        assert_eq!(listed.settings::<Vec<u8>>(), Ok(vec![1]));
        assert!(listed.definition::<Vec<u8>>().is_err());
    }
}
