//! The schema of the configuration that a plugin's code declares.
//!
//! The SDKs put it beside the vendor keys of the first tool, because the contract has no place of its own
//! for it. A build moves it to the embedded manifest, so that the embedded tools are without it.

use serde_json::Value;

use airlock_core::tool::ToolDefinition;

/// Vendor key of a tool with the schema of the configuration.
const KEY: &str = "airlock/config_schema";

/// Removes the schema of the configuration from the tools that a plugin describes, and returns it;
/// `None` if its code declares none.
pub(crate) fn take(tools: &mut [ToolDefinition]) -> Option<Value> {
    tools.iter_mut().find_map(|tool| {
        let mut meta = tool.meta.as_ref()?.to_value().ok()?;
        let members = meta.as_object_mut()?;
        let schema = members.shift_remove(KEY)?;
        tool.meta = (!members.is_empty()).then(|| meta.into());
        Some(schema)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_is_removed_from_the_tools_and_other_vendor_keys_are_kept() {
        let mut tools: Vec<ToolDefinition> = serde_json::from_value(json!([
            tool("one", &json!({KEY: {"type": "object"}, "example.org/a": 1})),
            tool("two", &json!({"example.org/b": 2})),
        ]))
        .expect("tools");
        assert_eq!(take(&mut tools), Some(json!({"type": "object"})));
        assert_eq!(take(&mut tools), None);
        assert_eq!(meta(&tools[0]), Some(json!({"example.org/a": 1})));
        assert_eq!(meta(&tools[1]), Some(json!({"example.org/b": 2})));

        let alone = json!([tool("one", &json!({KEY: {"type": "object"}}))]);
        let mut tools: Vec<ToolDefinition> = serde_json::from_value(alone).expect("tools");
        assert_eq!(take(&mut tools), Some(json!({"type": "object"})));
        assert_eq!(meta(&tools[0]), None);
    }

    fn tool(name: &str, meta: &Value) -> Value {
        json!({"name": name, "description": "A tool.", "inputSchema": {}, "_meta": meta})
    }

    fn meta(tool: &ToolDefinition) -> Option<Value> {
        tool.meta.as_ref().map(|meta| meta.to_value().expect("JSON"))
    }
}
