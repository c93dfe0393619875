use serde_json::json;

use super::*;
use crate::limits::MAX_PAGES;
use airlock_core::secret::Secret;

impl ToolList {
    /// Adds a page with this result.
    #[allow(clippy::needless_pass_by_value, reason = "the callers make the values on the spot")]
    fn add_page(&mut self, result: impl ToString) -> Option<String> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{}}}"#, result.to_string());
        let page = read_page(text.as_bytes()).ok()?;
        self.add(&page, &Scrubber::default())
    }
}

fn read_page(text: &[u8]) -> Result<ListPage, AskError> {
    ListPage::read(text, "tools", MAX_TOOLS_PER_CLIENT)
}

#[test]
fn a_malformed_tool_is_left_out_and_the_others_are_kept() {
    let mut list = ToolList::default();
    let page = json!({"tools": [
        {"name": "no_schema"},
        {"name": "hint", "inputSchema": {}, "annotations": {"readOnlyHint": "yes"}},
        {"name": "good", "inputSchema": {"type": "object"}, "description": null, "execution": {"taskSupport": "optional"}},
        7,
    ]});
    assert_eq!(list.add_page(page), None);
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
    list.add_page(format!(r#"{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}"#));
    assert_eq!(list.tools[0].input_schema.to_string(), schema);
}

#[test]
fn paging_ends_at_the_last_page_a_known_cursor_or_the_bound() {
    let mut list = ToolList::default();
    assert_eq!(list.add_page(page("a")).as_deref(), Some("a"));
    assert_eq!(list.add_page(page("b")).as_deref(), Some("b"));
    assert_eq!(list.add_page(page("a")), None);
    assert_eq!(ToolList::default().add_page(json!({"tools": []})), None);
    assert_eq!(ToolList::default().add_page(json!("tools")), None);

    let mut endless = ToolList::default();
    let pages =
        (0..MAX_PAGES * 2).take_while(|n| endless.add_page(page(&n.to_string())).is_some()).count();
    assert_eq!(pages + 1, MAX_PAGES);
}

fn page(cursor: &str) -> Value {
    json!({"tools": [], "nextCursor": cursor})
}

#[test]
fn a_list_is_bounded_in_text_and_in_memory() {
    let text = filled(&json!({"x": "x".repeat(MAX_MESSAGE_BYTES / 8)}), 8);
    assert_eq!(text, (7, 1));
    let dense = filled(&json!({"x": vec![json!({"": 0}); 10_000]}), 8);
    assert!((1..8).contains(&dense.0) && dense.1 == 1, "{dense:?}");
}

/// Returns the numbers of listed and of skipped tools of a page with so many tools.
fn filled(schema: &Value, count: usize) -> (usize, usize) {
    let mut list = ToolList::default();
    let tools: Vec<Value> =
        (0..count).map(|n| json!({"name": n.to_string(), "inputSchema": schema})).collect();
    list.add_page(json!({"tools": tools}));
    (list.tools.len(), list.skipped.len())
}

#[test]
fn tools_beyond_the_bound_are_left_out() {
    let tools: Vec<Value> = (0..=MAX_TOOLS_PER_CLIENT)
        .map(|n| json!({"name": n.to_string(), "inputSchema": {}}))
        .collect();
    let mut list = ToolList::default();
    assert_eq!(list.add_page(json!({"tools": tools, "nextCursor": "more"})), None);
    assert_eq!((list.tools.len(), list.skipped.len()), (MAX_TOOLS_PER_CLIENT, 1));
}

#[test]
fn a_tool_that_cannot_be_parsed_is_left_out_alone() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let mut list = ToolList::default();
    list.add_page(format!(
        r#"{{"tools":[{{"name":"deep","inputSchema":{{"x":{deep}}}}},{{"name":"big","inputSchema":{{"x":1e999}}}},{{"name":"good","inputSchema":{{}}}}]}}"#
    ));
    assert_eq!(list.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["good"]);
    insta::assert_snapshot!(list.skipped.reasons().collect::<Vec<_>>().join("\n"), @r#"
    tool "big": expected a number that a double can hold at byte 33
    tool "deep": arrays and objects nested more than 127 deep, found at byte 159
    "#);
    assert!(!list.is_cut);
}

#[test]
fn secrets_in_a_tool_are_redacted() {
    let token = Secret::new("hunter2hunter2");
    let scrubber = Scrubber::new([("TOKEN", &token)]).expect("a good secret");
    let page = json!({"result": {"tools": [{"name": "t", "inputSchema": {}, "description": "hunter2hunter2"}]}});
    let page = read_page(page.to_string().as_bytes()).expect("a page");
    let mut list = ToolList::default();
    list.add(&page, &scrubber);
    assert_eq!(list.tools[0].description, "[secret TOKEN]");
}

#[test]
fn cursors_count_as_bytes_of_the_list() {
    let mut list = ToolList::default();
    let cursors = (1..9).map(|n: usize| n.to_string().repeat(MAX_MESSAGE_BYTES / 4));
    let read = cursors.take_while(|cursor| list.add_page(page(cursor)).is_some()).count();
    assert_eq!(read, 4);
    assert!(list.is_cut);
}

#[test]
fn a_response_without_a_list_is_an_error_or_an_empty_page() {
    assert!(matches!(
        read_page(br#"{"error":{"code":-32601,"message":"no"}}"#),
        Err(AskError::Refused(error)) if error.code == -32_601
    ));
    for bad in ["", "{", "7", r#"{"result":7}"#, r#"{"result":null}"#, "\u{0}"] {
        assert!(matches!(read_page(bad.as_bytes()), Err(AskError::Unreadable(_))), "{bad}");
    }
    let page = read_page(br#"{"result":{"tools":{},"ttlMs":1500}}"#).expect("a page");
    assert_eq!((page.items, page.ttl), (None, Some(Duration::from_millis(1_500))));
}
