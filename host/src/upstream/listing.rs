//! Reads `tools/list`: all pages, within bounds, one tool at a time.

use std::collections::HashSet;

use rmcp::{
    model::{ClientRequest, ErrorCode, ListToolsRequest, PaginatedRequestParams},
    service::ServiceError,
};
use serde_json::Value;

use super::{
    limits::{MAX_LIST_BYTES, MAX_PAGES, MAX_TREE_BYTES},
    sender::RequestSender,
    skipped::SkippedTools,
};
use crate::{catalog::MAX_TOOLS_PER_CLIENT, json, text::cut, tool::ToolDefinition};

/// Reads the whole list. Tools that cannot be used are left out, with a reason.
pub(super) async fn read(sender: &RequestSender) -> Result<ToolList, ServiceError> {
    let mut list = ToolList::default();
    let mut cursor = None;
    loop {
        let params =
            cursor.map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let request = ListToolsRequest { params, ..ListToolsRequest::default() };
        match sender.ask(ClientRequest::ListToolsRequest(request)).await {
            Ok(page) => cursor = list.add(page),
            // A server without tools need not know the method.
            Err(ServiceError::McpError(error))
                if error.code == ErrorCode::METHOD_NOT_FOUND && list.pages == 0 =>
            {
                break;
            }
            Err(error) => return Err(error),
        }
        if cursor.is_none() {
            break;
        }
    }
    Ok(list)
}

/// The part of a list that has been read.
#[derive(Default)]
pub(super) struct ToolList {
    /// The tools that can be used.
    pub(super) tools: Vec<ToolDefinition>,
    /// Reasons that other tools cannot be used.
    pub(super) skipped: SkippedTools,
    cursors: HashSet<String>,
    pages: usize,
    bytes: usize,
    tree_bytes: usize,
}

impl ToolList {
    /// Adds a page. Returns the cursor of the next page; `None` if no further page is to be read.
    fn add(&mut self, page: Value) -> Option<String> {
        self.pages += 1;
        let Value::Object(mut page) = page else {
            self.skipped.push("a page that is no object");
            return None;
        };
        let tools = match page.remove("tools") {
            Some(Value::Array(tools)) => tools,
            None => Vec::new(),
            Some(_) => {
                self.skipped.push("a page whose tools are no list");
                Vec::new()
            }
        };
        for tool in tools {
            if !self.add_tool(tool) {
                return None;
            }
        }
        match page.remove("nextCursor") {
            Some(Value::String(cursor)) => self.next(cursor),
            _ => None,
        }
    }

    /// Adds a tool, or a reason if it cannot be used. Returns false if a bound of the list is
    /// reached.
    fn add_tool(&mut self, tool: Value) -> bool {
        let text = tool.to_string();
        self.bytes += text.len();
        let memory = json::Caps::memory(MAX_TREE_BYTES - self.tree_bytes);
        let cost =
            json::check(text.as_bytes(), &memory).ok().filter(|_| self.bytes <= MAX_LIST_BYTES);
        let Some(cost) = cost.filter(|_| self.tools.len() < MAX_TOOLS_PER_CLIENT) else {
            let (tools, bytes, memory) = (MAX_TOOLS_PER_CLIENT, MAX_LIST_BYTES, MAX_TREE_BYTES);
            self.skipped.push(&format!(
                "all beyond {tools} tools, {bytes} bytes or {memory} bytes of memory"
            ));
            return false;
        };
        self.tree_bytes += cost.tree_bytes;
        match decode(tool) {
            Ok(tool) => self.tools.push(tool),
            Err(reason) => self.skipped.push(&reason),
        }
        true
    }

    fn next(&mut self, cursor: String) -> Option<String> {
        if self.pages >= MAX_PAGES {
            self.skipped.push(&format!("all beyond {MAX_PAGES} pages"));
            return None;
        }
        self.bytes += cursor.len();
        if self.bytes > MAX_LIST_BYTES {
            self.skipped.push(&format!("all beyond {MAX_LIST_BYTES} bytes"));
            return None;
        }
        if !self.cursors.insert(cursor.clone()) {
            self.skipped.push("a page that was read already");
            return None;
        }
        Some(cursor)
    }
}

fn decode(mut tool: Value) -> Result<ToolDefinition, String> {
    let name = match tool.get("name") {
        Some(Value::String(name)) => format!("{:?}", cut(name.clone(), 128)),
        _ => "without a name".into(),
    };
    // Some servers write absent members as null.
    if let Some(fields) = tool.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    serde_json::from_value(tool).map_err(|error| format!("tool {name}: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_malformed_tool_is_left_out_and_the_others_are_kept() {
        let mut list = ToolList::default();
        let page = json!({"tools": [
            {"name": "no_schema"},
            {"name": "hint", "inputSchema": {}, "annotations": {"readOnlyHint": "yes"}},
            {"name": "good", "inputSchema": {"type": "object"}, "description": null, "execution": {"taskSupport": "optional"}},
            7,
        ]});
        assert_eq!(list.add(page), None);
        assert_eq!(list.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["good"]);
        insta::assert_snapshot!(list.skipped.reasons().collect::<Vec<_>>().join("\n"), @r#"
        tool "hint": invalid type: string "yes", expected a boolean
        tool "no_schema": missing field `inputSchema`
        tool without a name: invalid type: integer `7`, expected struct ToolDefinition
        "#);
    }

    #[test]
    fn a_schema_keeps_its_keywords_and_their_order() {
        let schema = r##"{"type":"object","$defs":{"z":{},"a":{}},"properties":{"q":{"$ref":"#/$defs/z"}},"x-more":[1.5]}"##;
        let mut list = ToolList::default();
        list.add(
            serde_json::from_str(&format!(
                r#"{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}"#
            ))
            .expect("JSON"),
        );
        assert_eq!(list.tools[0].input_schema.to_string(), schema);
    }

    #[test]
    fn paging_ends_at_the_last_page_a_known_cursor_or_the_bound() {
        let page = |cursor: &str| json!({"tools": [], "nextCursor": cursor});
        let mut list = ToolList::default();
        assert_eq!(list.add(page("a")).as_deref(), Some("a"));
        assert_eq!(list.add(page("b")).as_deref(), Some("b"));
        assert_eq!(list.add(page("a")), None);
        assert_eq!(ToolList::default().add(json!({"tools": []})), None);
        assert_eq!(ToolList::default().add(json!("tools")), None);

        let mut endless = ToolList::default();
        let pages =
            (0..MAX_PAGES * 2).take_while(|n| endless.add(page(&n.to_string())).is_some()).count();
        assert_eq!(pages + 1, MAX_PAGES);
    }

    #[test]
    fn a_list_is_bounded_in_text_and_in_memory() {
        let filled = |schema: Value, count: usize| {
            let mut list = ToolList::default();
            let tools: Vec<Value> =
                (0..count).map(|n| json!({"name": n.to_string(), "inputSchema": schema})).collect();
            list.add(json!({"tools": tools}));
            (list.tools.len(), list.skipped.len())
        };
        let text = filled(json!({"x": "x".repeat(MAX_LIST_BYTES / 8)}), 8);
        assert_eq!(text, (7, 1));
        let dense = filled(json!({"x": vec![json!({"": 0}); 10_000]}), 8);
        assert!((1..8).contains(&dense.0) && dense.1 == 1, "{dense:?}");
    }

    #[test]
    fn tools_beyond_the_bound_are_left_out() {
        let tools: Vec<Value> = (0..=MAX_TOOLS_PER_CLIENT)
            .map(|n| json!({"name": n.to_string(), "inputSchema": {}}))
            .collect();
        let mut list = ToolList::default();
        assert_eq!(list.add(json!({"tools": tools, "nextCursor": "more"})), None);
        assert_eq!((list.tools.len(), list.skipped.len()), (MAX_TOOLS_PER_CLIENT, 1));
    }
}
