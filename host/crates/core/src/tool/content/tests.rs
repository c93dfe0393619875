use serde_json::json;

use super::*;

#[test]
fn every_member_of_a_block_is_kept() {
    let common = json!({"audience": ["user"], "priority": 0.5});
    for block in [
        json!({"type": "text", "text": "a", "annotations": common, "_meta": {"k": 1}}),
        json!({"type": "image", "data": "AA==", "mimeType": "image/png", "annotations": common}),
        json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav", "_meta": {"k": null}}),
        json!({"type": "resource_link", "uri": "file:///x", "name": "x", "title": "X",
                   "description": "d", "mimeType": "text/plain", "size": 7, "icons": [{"src": "i"}]}),
        json!({"type": "resource", "resource": {"uri": "file:///y", "mimeType": "text/plain",
                   "text": "y", "_meta": {"k": 1}, "etag": "e"}, "annotations": common}),
        json!({"type": "resource", "resource": {"uri": "file:///z", "blob": "AA=="}}),
        json!({"type": "chart", "points": [1, 2], "annotations": common, "_meta": {"k": 1}}),
    ] {
        let read = Content::from_mcp(block.clone());
        assert_eq!(serde_json::to_value(&read).expect("JSON"), block);
    }
}

#[test]
fn a_malformed_block_is_repaired_or_becomes_text() {
    assert_eq!(rendered(json!("plain")), "plain");
    assert_eq!(rendered(json!(null)), "null");
    assert_eq!(rendered(json!({"type": "sql", "text": "SELECT 1"})), "SELECT 1");
    assert_eq!(rendered(json!({"text": "untyped"})), "untyped");
    assert_eq!(
        rendered(json!({"type": "chart", "points": [1]})),
        r#"{"type":"chart","points":[1]}"#
    );
    assert_eq!(
        rendered(json!({"type": "image", "data": "AA=="})),
        "[Image: application/octet-stream]"
    );
    assert_eq!(rendered(json!({"type": "image"})), r#"{"type":"image"}"#);
    assert_eq!(
        rendered(json!({"type": "resource_link", "uri": "a:b"})),
        "[Resource link: a:b a:b]"
    );
    let whole = json!({"type": "resource", "resource": {"uri": "a:b"}});
    assert_eq!(rendered(whole.clone()), whole.to_string());
}

fn rendered(block: Value) -> String {
    let mut text = String::new();
    Content::from_mcp(block).render(&mut text);
    text
}

#[test]
fn members_with_a_field_are_removed_from_the_others() {
    let extra = json!({"icons": [], "type": "image", "_meta": {}, "text": "b"});
    let extra = extra.as_object().cloned().map(Box::new);
    let part = Content { extra, ..Content::text("a") }.without_duplicates();
    let json = serde_json::to_string(&part).expect("JSON");
    assert_eq!(json, r#"{"type":"text","text":"a","icons":[]}"#);
}

#[test]
fn a_member_of_the_wrong_type_is_never_written_beside_its_field() {
    for (block, expected) in [
        (
            json!({"type": "image", "data": "AA==", "mimeType": 5, "title": "t"}),
            r#"{"type":"image","data":"AA==","mimeType":"application/octet-stream","title":"t"}"#,
        ),
        (
            json!({"type": "resource_link", "uri": "a:b", "name": 5, "size": "large"}),
            r#"{"type":"resource_link","uri":"a:b","name":"a:b"}"#,
        ),
        (
            json!({"type": "chart", "annotations": 1, "_meta": [], "points": []}),
            r#"{"type":"chart","points":[]}"#,
        ),
        (
            json!({"type": "resource", "resource": {"uri": "a:b", "text": "t", "blob": "AA==", "mimeType": 1}}),
            r#"{"type":"resource","resource":{"uri":"a:b","text":"t"}}"#,
        ),
    ] {
        let json = serde_json::to_string(&Content::from_mcp(block)).expect("JSON");
        assert_eq!(json, expected);
    }
}

#[test]
fn a_part_without_members_of_its_own_is_small() {
    assert!(size_of::<Content>() <= 96, "{}", size_of::<Content>());
}

#[test]
fn the_size_counts_every_member() {
    let plain = Content::text("four");
    assert_eq!(plain.size(), 4);
    let annotations = json!({"priority": 1});
    let annotated =
        Content { annotations: annotations.as_object().cloned().map(Box::new), ..plain };
    assert_eq!(annotated.size(), 4 + annotations.to_string().len());
}
