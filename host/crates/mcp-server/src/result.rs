//! The result of `tools/call`, as a client of one revision can read it.
//!
//! Clients check results against the types of their revision and refuse a whole result for one odd
//! member, so what a source got wrong is repaired here.

use std::sync::LazyLock;

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Map, Value, json};

use super::suspended::instructions;
use airlock_core::tool::{
    CallError, CallFailure, Content, ContentBlock, Details, Members, ToolOutput,
};
use airlock_wire::version::Version;

/// Key of the metadata that names the gateway (2026-07-28, section "Result metadata").
pub(crate) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Key of the metadata with the kind of a failure, for programs.
const ERROR: &str = "airlock/error";
/// Key of the metadata with the link at which the user of the client has to log in.
const LOGIN: &str = "airlock/login";
/// Key of the metadata with the run of a script that has stopped for a decision.
const RUN: &str = "airlock/run";

/// MCP's `CallToolResult`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallToolResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    result_type: Option<&'static str>,
    content: Vec<Content>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Value>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
    #[serde(rename = "_meta", skip_serializing_if = "ResultMeta::is_absent")]
    meta: ResultMeta,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    extra: Members,
}

/// `_meta` of a result.
struct ResultMeta {
    own: Option<Map<String, Value>>,
    /// The gateway; `None` before the modern era.
    server: Option<&'static Value>,
}

impl ResultMeta {
    fn is_absent(&self) -> bool {
        self.own.is_none() && self.server.is_none()
    }
}

impl Serialize for ResultMeta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(None)?;
        for (name, value) in self.own.iter().flatten() {
            // A source does not name the gateway.
            if self.server.is_none() || name != SERVER_INFO {
                members.serialize_entry(name, value)?;
            }
        }
        if let Some(server) = self.server {
            members.serialize_entry(SERVER_INFO, server)?;
        }
        members.end()
    }
}

/// Returns the result of a call that ran, as JSON text.
pub(crate) fn complete(output: ToolOutput, version: Version) -> String {
    let ToolOutput { content, structured, meta, extra } = output;
    write(ResultParts { content, structured, meta, extra, is_error: false }, version)
}

/// Returns the result of a call that failed, as JSON text: the model reads why.
pub(crate) fn failed(error: &CallError, version: Version) -> String {
    let message = Content::text(error.to_string());
    let parts = match error.details() {
        Details::Tool(own) => ResultParts {
            content: [message].into_iter().chain(own.content.iter().cloned()).collect(),
            structured: own.details.clone(),
            meta: own.meta.clone(),
            extra: own.extra.clone(),
            is_error: true,
        },
        Details::Suspended(suspension) => ResultParts {
            content: vec![message, Content::text(instructions(suspension))],
            meta: Some(Map::from_iter([(RUN.to_owned(), suspension.to_json())])),
            is_error: true,
            ..ResultParts::default()
        },
        Details::LoginRequired(login) => ResultParts {
            content: vec![message],
            meta: Some(Map::from_iter([(LOGIN.to_owned(), json!({"url": login.url}))])),
            is_error: true,
            ..ResultParts::default()
        },
        _ => ResultParts { content: vec![message], is_error: true, ..ResultParts::default() },
    };
    let mut meta = parts.meta.unwrap_or_default();
    meta.insert(ERROR.to_owned(), json!(CallFailure::from(error)));
    write(ResultParts { meta: Some(meta), ..parts }, version)
}

/// Parts of a result, as their source made them.
#[derive(Default)]
struct ResultParts {
    content: Vec<Content>,
    structured: Option<Value>,
    meta: Option<Map<String, Value>>,
    extra: Members,
    is_error: bool,
}

fn write(parts: ResultParts, version: Version) -> String {
    let ResultParts { content, structured, meta, extra, is_error } = parts;
    let mut content: Vec<Content> =
        content.into_iter().map(|part| repaired(part, version)).collect();
    if content.is_empty()
        && let Some(structured) = &structured
    {
        // For clients that show only content (2025-06-18, section "Structured Content").
        content.push(Content::text(structured.to_string()));
    }
    let server = version.is_modern().then(server_info);
    let result = CallToolResult {
        result_type: version.is_modern().then_some("complete"),
        content,
        // Before 2026-07-28 it is an object.
        structured_content: structured.filter(|value| version.is_modern() || value.is_object()),
        is_error,
        meta: ResultMeta { own: meta, server },
        extra,
    };
    serde_json::to_string(&result).unwrap_or_default()
}

/// Returns MCP's `Implementation` object of the gateway.
pub(crate) fn server_info() -> &'static Value {
    static INFO: LazyLock<Value> = LazyLock::new(
        || json!({"name": "airlock", "title": "Airlock", "version": env!("CARGO_PKG_VERSION")}),
    );
    &INFO
}

/// Returns a part that every client of the revision can read. A block that the revision does not
/// know becomes text; annotations of a wrong type are left out.
pub(super) fn repaired(mut part: Content, version: Version) -> Content {
    let is_known = match &part.block {
        ContentBlock::Text { .. } | ContentBlock::Image { .. } | ContentBlock::Resource { .. } => {
            true
        }
        ContentBlock::Audio { .. } => version >= Version::V2025_03_26,
        ContentBlock::ResourceLink(_) => version >= Version::V2025_06_18,
        ContentBlock::Other(_) => false,
    };
    if !is_known {
        let mut text = String::new();
        part.render(&mut text);
        part = Content { annotations: part.annotations, meta: part.meta, ..Content::text(text) };
    }
    if let Some(annotations) = &mut part.annotations {
        annotations.retain(|name, value| is_valid_annotation(name, value));
        if annotations.is_empty() {
            part.annotations = None;
        }
    }
    part
}

fn is_valid_annotation(name: &str, value: &Value) -> bool {
    match name {
        "audience" => value.as_array().is_some_and(|roles| {
            roles.iter().all(|role| matches!(role.as_str(), Some("user" | "assistant")))
        }),
        "priority" => value.as_f64().is_some_and(|priority| (0.0..=1.0).contains(&priority)),
        "lastModified" => value.is_string(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::run::Position;
    use airlock_core::tool::{
        ErrorKind, GuardQuestions, RunCall, SourceSet, Suspension, ToolError, ToolName,
    };

    fn output(blocks: &Value, structured: Option<Value>) -> ToolOutput {
        let blocks = blocks.as_array().expect("an array").clone();
        let content = blocks.into_iter().map(Content::from_mcp).collect();
        ToolOutput { content, structured, ..ToolOutput::default() }
    }

    fn read(text: &str) -> Value {
        serde_json::from_str(text).expect("JSON")
    }

    const LEGACY: Version = Version::V2025_11_25;
    const MODERN: Version = Version::V2026_07_28;

    #[test]
    fn blocks_and_members_leave_as_they_came() {
        let blocks = json!([
            {"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 1, "x": 1}, "_meta": {"k": 1}},
            {"type": "image", "data": "AA==", "mimeType": "image/png", "note": "n"},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "x:y", "name": "n", "icons": []},
            {"type": "resource", "resource": {"uri": "x:y", "blob": "AA==", "etag": "e"}},
        ]);
        let mut result = output(&blocks, Some(json!({"n": 1})));
        result.meta = Some(Map::from_iter([("k".to_owned(), json!(2))]));
        result.extra = Some(Box::new(Map::from_iter([("vendor".to_owned(), json!([1]))])));
        let expected = json!({"content": blocks, "structuredContent": {"n": 1}, "_meta": {"k": 2}, "vendor": [1]});
        assert_eq!(read(&complete(result.clone(), LEGACY)), expected);
        let modern = read(&complete(result, MODERN));
        assert_eq!((&modern["resultType"], &modern["_meta"]["k"]), (&json!("complete"), &json!(2)));
        assert_eq!(modern["_meta"][SERVER_INFO]["name"], "airlock");
        assert_eq!(modern["content"], blocks);
    }

    #[test]
    fn a_source_does_not_name_the_gateway() {
        let mut result = output(&json!([]), None);
        result.meta = Some(Map::from_iter([(SERVER_INFO.to_owned(), json!({"name": "forged"}))]));
        let text = complete(result, MODERN);
        assert_eq!(read(&text)["_meta"][SERVER_INFO]["name"], "airlock");
        assert!(!text.contains("forged"), "{text}");
    }

    #[test]
    fn what_a_revision_does_not_know_becomes_text() {
        let blocks = json!([
            {"type": "resource_link", "uri": "x:y", "name": "n"},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
            {"type": "chart", "points": [1]},
        ]);
        for (version, expected) in [
            (Version::V2024_11_05, ["text", "text", "text"]),
            (Version::V2025_03_26, ["text", "audio", "text"]),
            (Version::V2025_06_18, ["resource_link", "audio", "text"]),
        ] {
            let result = read(&complete(output(&blocks, None), version));
            let blocks = result["content"].as_array().expect("blocks").iter();
            let kinds: Vec<_> = blocks.map(|block| &block["type"]).collect();
            assert_eq!(kinds, expected, "{version:?}");
        }
    }

    #[test]
    fn annotations_of_a_wrong_type_are_left_out() {
        let annotations =
            json!({"audience": ["system"], "priority": "high", "lastModified": 7, "x": {}});
        let blocks = json!([{"type": "text", "text": "a", "annotations": annotations},
                            {"type": "text", "text": "b", "annotations": {"priority": 2}}]);
        let result = read(&complete(output(&blocks, None), LEGACY));
        let expected = json!([{"type": "text", "text": "a", "annotations": {"x": {}}}, {"type": "text", "text": "b"}]);
        assert_eq!(result["content"], expected);
    }

    #[test]
    fn data_without_content_is_shown_as_text_and_must_be_an_object_for_old_clients() {
        let output = output(&json!([]), Some(json!([1, 2])));
        let legacy = read(&complete(output.clone(), LEGACY));
        assert_eq!(legacy, json!({"content": [{"type": "text", "text": "[1,2]"}]}));
        assert_eq!(read(&complete(output, MODERN))["structuredContent"], json!([1, 2]));
    }

    #[test]
    fn a_run_that_waits_has_its_calls_and_the_ways_to_decide() {
        let call = RunCall {
            position: Position { block: 1, branch: 0 },
            tool: "rec-write".to_owned(),
            arguments: r#"{"n":3}"#.to_owned(),
            sources: SourceSet::default(),
            argument_sources: None,
            manifest: Vec::new(),
            asked_by: GuardQuestions::new(),
        };
        let suspension = Suspension {
            run: "run_1".to_owned(),
            token: "run_1.1".to_owned(),
            completed: Vec::new(),
            pending: vec![call],
            in_doubt: Vec::new(),
        };
        let result = read(&failed(&suspension.into(), LEGACY));
        let pending = json!([{"position": "1", "tool": "rec-write", "arguments": {"n": 3}}]);
        let run =
            json!({"id": "run_1", "request_state": "run_1.1", "completed": [], "pending": pending});
        assert_eq!(result["_meta"][RUN], run);
        assert_eq!(result["_meta"][ERROR]["code"], "airlock.needs_approval");
        let text = result["content"][1]["text"].as_str().expect("a text");
        assert!(text.contains("n: 3") && text.contains("/v1/runs/run_1/approve"), "{text}");
    }

    #[test]
    fn a_failure_says_why_to_models_and_to_programs() {
        let error = CallError::from(ToolError {
            code: Some("E1".into()),
            content: vec![Content::text("more")],
            details: Some(json!({"n": 1})),
            retry_after_ms: Some(5),
            ..ToolError::new(ErrorKind::Conflict, "no")
        });
        let expected = json!({
            "content": [{"type": "text", "text": "no"}, {"type": "text", "text": "more"}],
            "structuredContent": {"n": 1},
            "isError": true,
            "_meta": {ERROR: {"code": "E1", "kind": "conflict", "retry_after_ms": 5}},
        });
        assert_eq!(read(&failed(&error, LEGACY)), expected);
        let tool = ToolName::own("t");
        let busy = CallError::unavailable(tool, "secret path");
        let result = failed(&busy, LEGACY);
        assert!(
            !result.contains("secret") && result.contains(r#""code":"airlock.unavailable""#),
            "{result}"
        );
    }
}
