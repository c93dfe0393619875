use serde_json::json;

use super::*;

fn definition(json: Value) -> ToolDefinition {
    serde_json::from_value(json).expect("a definition")
}

fn adopt(json: Value) -> Result<Tool, BadTool> {
    Tool::adopt(&ClientName::parse("fs").expect("a good name"), definition(json))
}

#[test]
fn a_schema_without_a_type_gets_it_and_keeps_the_rest() {
    let tool =
        adopt(json!({"name": "t", "inputSchema": {"$defs": {"a": {}}}})).expect("a good tool");
    assert_eq!(tool.input_schema, json!({"$defs": {"a": {}}, "type": "object"}));
    assert_eq!(
        tool.input_schema.as_str(),
        r#"{"$defs":{"a":{}},"type":"object"}"#,
        "the order is kept"
    );
}

#[test]
fn vendor_keys_and_other_members_are_kept_up_to_their_limit() {
    let tool = adopted_with(MAX_META);
    assert_eq!(tool.annotations.extra.map(|extra| extra.as_str().len()), Some(MAX_META));
    assert_eq!(tool.meta.map(|meta| meta.as_str().len()), Some(MAX_META));
    assert_eq!(tool.extra.map(|extra| extra.as_str().len()), Some(MAX_META));
    let tool = adopted_with(MAX_META + 1);
    assert_eq!((tool.meta, tool.extra), (None, None));
    let hints = Annotations { read_only: Some(true), ..Annotations::default() };
    assert_eq!(tool.annotations, hints);
    let small = json!({"readOnlyHint": true, "more": [1]});
    let tool = adopt(json!({"name": "t", "inputSchema": {}, "annotations": small}));
    let annotations = tool.expect("a good tool").annotations;
    assert_eq!(serde_json::to_value(annotations).expect("JSON"), small);
    let plain = adopt(json!({"name": "t", "inputSchema": {}, "_meta": []})).expect("a tool");
    assert_eq!((plain.meta, plain.extra), (None, None));
}

fn adopted_with(bytes: usize) -> Tool {
    let text = "x".repeat(bytes - r#"{"k":""}"#.len());
    let hints = json!({"readOnlyHint": true, "k": text});
    adopt(json!({"name": "t", "inputSchema": {}, "_meta": {"k": text}, "k": text, "annotations": hints}))
        .expect("a good tool")
}

#[test]
fn a_tool_of_the_wrong_shape_is_refused_with_the_reason() {
    for schema in [json!(true), json!({"type": "string"}), json!({"type": ["object"]})] {
        assert!(matches!(
            adopt(json!({"name": "t", "inputSchema": schema})),
            Err(BadTool::Schema { .. })
        ));
    }
    for name in ["a\nb", &"x".repeat(129)] {
        assert!(
            matches!(adopt(json!({"name": name, "inputSchema": {}})), Err(BadTool::Name(_))),
            "{name}"
        );
    }
    let huge = json!({"description": "x".repeat(MAX_SCHEMA_BYTES)});
    assert!(matches!(
        adopt(json!({"name": "t", "inputSchema": huge})),
        Err(BadTool::SchemaTooLarge { .. })
    ));
}

#[test]
fn hidden_text_is_removed_everywhere_and_kept_for_the_operator() {
    let hidden = "a\u{200b}b\u{e0041}\u{202e}c";
    let schema = json!({
        "type": "object", "title": hidden, "$defs": {"d": {"description": hidden}},
        "properties": {"p": {"enum": [hidden, 1], "default": [{"x": hidden}], "const": hidden}},
    });
    let tool = adopt(json!({
        "name": hidden, "title": hidden, "description": hidden, "inputSchema": schema, "outputSchema": schema,
        "annotations": {"title": hidden}, "icons": [{"src": hidden}], "_meta": {"k": hidden},
    }))
    .expect("a good tool");
    for text in [
        tool.title.as_deref().unwrap_or_default(),
        &tool.description,
        &tool.described(),
        tool.input_schema.as_str(),
        tool.parameters().as_str(),
        tool.output_schema.as_ref().map(JsonText::as_str).unwrap_or_default(),
        tool.annotations.extra.as_ref().map(JsonText::as_str).unwrap_or_default(),
        tool.extra.as_ref().map(JsonText::as_str).unwrap_or_default(),
        &tool.shown_original(),
    ] {
        assert!(text.contains("abc") && airlock_strings::stripped(text) == text, "{text:?}");
    }
    assert_eq!(tool.repairs, ["hidden characters removed"]);
    assert_eq!((tool.announced_title(), tool.announced_description()), (Some(hidden), hidden));
    let visible = tool.visible_schema();
    assert_eq!(visible.as_str().matches("a⟨U+200B⟩b⟨U+E0041⟩⟨U+202E⟩c").count(), 5, "{visible}");
    // Vendor keys are data for programs, not text.
    assert_eq!(tool.meta, Some(json!({"k": hidden}).into()));
    assert_eq!(tool.original, hidden, "the server is called by this name");
}

#[test]
fn a_hidden_character_in_the_name_of_a_member_drops_the_tool() {
    for (input, output) in [
        (json!({"properties": {"a\u{200b}": {}}}), json!({})),
        (json!({"$defs": {"a\u{202e}": {}}}), json!({})),
        (json!({}), json!({"properties": {"x": {"default": {"a\u{e0041}": 1}}}})),
    ] {
        let refused = adopt(json!({"name": "t", "inputSchema": input, "outputSchema": output}));
        let Err(BadTool::HiddenKey { key, .. }) = refused else { panic!("{refused:?}") };
        assert!(key.starts_with('a'), "{key:?}");
    }
    let kept = adopt(json!({"name": "t", "inputSchema": {"properties": {"می\u{200c}خواهم": {}}}}));
    assert!(kept.is_ok(), "a joiner that its language needs is not hidden text");
    let tool = adopt(json!({"name": "t", "inputSchema": {}, "x\u{200b}": 1})).expect("a tool");
    assert_eq!(tool.extra, None);
}

#[test]
fn the_description_of_a_server_that_is_not_trusted_is_marked_for_models() {
    assert_eq!(described("t", "Reads.", Trust::Untrusted), "[MCP Service: fs (external)] Reads.");
    assert_eq!(described("t", " \u{200b}", Trust::Untrusted), "[MCP Service: fs (external)] t");
    assert_eq!(described("", "", Trust::Untrusted), "[MCP Service: fs (external)] fs-_e3b0c442");
    assert_eq!(described("t", "Reads.", Trust::Trusted), "Reads.");
    assert_eq!(described("t", "", Trust::Trusted), "");
    assert_eq!(Tool::own("t", "Runs.", json!({})).described(), "Runs.");
}

fn described(name: &str, description: &str, trust: Trust) -> String {
    let tool = adopt(json!({"name": name, "description": description, "inputSchema": {}}));
    Tool { trust, ..tool.expect("a good tool") }.described().into_owned()
}

#[test]
fn the_tokens_of_a_definition_grow_with_its_texts_and_its_mark() {
    let bare = tokens_of("", &json!({}), Trust::Trusted);
    assert!((15..=35).contains(&bare), "{bare}");
    assert_eq!(tokens_of("four words of text", &json!({}), Trust::Trusted), bare + 4);
    assert_eq!(tokens_of("", &json!({}), Trust::Untrusted), bare + MARKER_TOKENS + 1);
    assert!(
        tokens_of("", &json!({"properties": {"path": {"type": "string"}}}), Trust::Trusted) > bare
    );
    // Models get another schema than the one that the source has announced.
    let combined = json!({"anyOf": [{"properties": {"path": {"type": "string"}}}]});
    let repaired = adopt(json!({"name": "t", "inputSchema": combined})).expect("a good tool");
    let read = airlock_strings::estimated_tokens(repaired.parameters().as_str());
    assert_eq!(repaired.text_tokens, read);
    let own = Tool::own("t", "Runs.", json!({"type": "object"}));
    assert!(own.definition_tokens() > FRAME_TOKENS + 1);
}

fn tokens_of(description: &str, schema: &Value, trust: Trust) -> u64 {
    let tool = adopt(json!({"name": "t", "description": description, "inputSchema": schema}));
    Tool { trust, ..tool.expect("a good tool") }.definition_tokens()
}
