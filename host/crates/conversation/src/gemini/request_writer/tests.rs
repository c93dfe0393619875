mod members;

use serde_json::{Value, json};

use super::*;
use crate::{
    Content, FunctionTool, Item, Media, Message, NativeItem, Part, Reasoning, Reply, Role,
    Settings, ToolCall, ToolChoice, ToolDefinition, ToolResult, Wire, gemini::ReplyReader,
};
use airlock_json::object;

const NEW: &str = "gemini-3-pro-preview";
const OLD: &str = "gemini-2.5-flash";

fn user(text: &str) -> Item {
    Item::Message(Message::new(Role::User, vec![Part::text(text)]))
}

fn message(role: Role, parts: Vec<Content>) -> Item {
    Item::Message(Message::new(role, parts.into_iter().map(Part::new).collect()))
}

fn call(id: &str, arguments: &str, extra: Value) -> Item {
    Item::ToolCall(ToolCall { extra: object(extra), ..ToolCall::function(id, "get", arguments) })
}

fn signed(signature: &str) -> Value {
    json!({"extra_content": {"google": {"thought_signature": signature}}})
}

fn result(call_id: &str, parts: Vec<Content>) -> ToolResult {
    ToolResult {
        call_id: call_id.to_owned(),
        parts: parts.into_iter().map(Part::new).collect(),
        is_error: None,
        cache_control: None,
        extra: Object::new(),
    }
}

fn text(text: &str) -> Content {
    Content::Text(text.to_owned())
}

fn image(media: Media) -> Content {
    Content::Image { media, detail: Some("high".to_owned()) }
}

fn png() -> Media {
    Media::Base64 { media_type: "image/png".to_owned(), data: "AA==".to_owned() }
}

fn with_items(model: &str, items: Vec<Item>) -> Conversation {
    Conversation { items, ..Conversation::new(Wire::Chat, model) }
}

fn contents(model: &str, items: Vec<Item>) -> Value {
    write_request(with_items(model, items))
        .expect("a good request")
        .remove("contents")
        .expect("contents")
}

/// Writes a request with settings and members, and returns it without its contents.
fn members(settings: Settings, extra: Value) -> Result<Value, Untranslatable> {
    members_for(NEW, settings, extra)
}

fn members_for(model: &str, settings: Settings, extra: Value) -> Result<Value, Untranslatable> {
    let conversation =
        Conversation { settings, extra: object(extra), ..with_items(model, vec![user("hi")]) };
    let mut body = write_request(conversation)?;
    body.shift_remove("contents").expect("contents");
    Ok(body.into())
}

fn tool(name: &str, parameters: Option<Value>) -> ToolDefinition {
    ToolDefinition::Function(FunctionTool {
        name: name.to_owned(),
        description: Some("Does it.".to_owned()),
        parameters,
        strict: Some(true),
        cache_control: Some(json!({"type": "ephemeral"})),
        extra: Object::new(),
    })
}

#[test]
fn messages_become_contents_and_instructions() {
    let items = vec![
        message(Role::System, vec![text("Be kind."), text("")]),
        user("hi"),
        message(
            Role::User,
            vec![
                text("see"),
                image(png()),
                image(Media::Url("https://h/a.PNG?x=.pdf".to_owned())),
                Content::File { media: Media::FileId("files/f".to_owned()), name: None },
                Content::File {
                    media: Media::Base64 { media_type: String::new(), data: "JVBERi0=".to_owned() },
                    name: Some("a.pdf".to_owned()),
                },
            ],
        ),
        Item::Reasoning(Reasoning { text: "hm".to_owned(), ..Reasoning::default() }),
        message(Role::Assistant, vec![text("yes"), Content::Refusal("no".to_owned())]),
        message(Role::Assistant, vec![text("")]),
        message(Role::Developer, vec![text("Be short.")]),
    ];
    let body = write_request(with_items(NEW, items)).expect("a good request");
    assert_eq!(
        Value::from(body),
        json!({
            "systemInstruction": {"parts": [{"text": "Be kind."}, {"text": "Be short."}]},
            "contents": [
                {"role": "user", "parts": [
                    {"text": "hi"},
                    {"text": "see"},
                    {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
                    {"fileData": {"fileUri": "https://h/a.PNG?x=.pdf", "mimeType": "image/png"}},
                    {"fileData": {"fileUri": "files/f"}},
                    {"inlineData": {"mimeType": "application/pdf", "data": "JVBERi0="}}
                ]},
                {"role": "model", "parts": [{"text": "yes"}, {"text": "no"}]}
            ]
        })
    );
}

/// The example "Parallel function calling" of Google's page on thought signatures.
#[test]
fn parallel_calls_and_their_results_are_one_content_each() {
    let items = vec![
        user("Check the weather in Paris and London."),
        call("fc1", r#"{"location":"Paris"}"#, signed("A")),
        call("fc2", r#"{"location":"London"}"#, json!({})),
        Item::ToolResult(result("fc1", vec![text("15C")])),
        Item::ToolResult(ToolResult {
            is_error: Some(true),
            ..result("fc2", vec![text("no"), text("network")])
        }),
    ];
    assert_eq!(
        contents(NEW, items),
        json!([
            {"role": "user", "parts": [{"text": "Check the weather in Paris and London."}]},
            {"role": "model", "parts": [
                {"functionCall": {"id": "fc1", "name": "get", "args": {"location": "Paris"}},
                 "thoughtSignature": "A"},
                {"functionCall": {"id": "fc2", "name": "get", "args": {"location": "London"}}}
            ]},
            {"role": "user", "parts": [
                {"functionResponse": {"name": "get", "response": {"result": "15C"}, "id": "fc1"}},
                {"functionResponse": {"name": "get", "response": {"error": "no\nnetwork"}, "id": "fc2"}}
            ]}
        ])
    );
}

/// Returns the signatures of the calls of a conversation.
fn signatures(model: &str, items: Vec<Item>) -> Vec<Value> {
    let contents = contents(model, items);
    let parts = contents
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|content| content["parts"].as_array().into_iter().flatten());
    parts
        .filter(|part| part.get("functionCall").is_some())
        .map(|part| part.get("thoughtSignature").cloned().unwrap_or_default())
        .collect()
}

#[test]
fn the_first_foreign_call_of_each_step_of_the_last_turn_is_marked_for_gemini_3() {
    let items = || {
        vec![
            user("a"),
            call("1", "{}", json!({})),
            Item::ToolResult(result("1", vec![text("x")])),
            message(Role::Assistant, vec![text("done")]),
            user("b"),
            call("2", "{}", json!({})),
            call("3", "{}", json!({})),
            Item::ToolResult(result("2", vec![text("x")])),
            Item::ToolResult(result("3", vec![text("x")])),
            call("4", "{}", signed("S")),
            Item::ToolResult(result("4", vec![text("x")])),
        ]
    };
    let dummy = json!("skip_thought_signature_validator");
    let none = Value::Null;
    assert_eq!(signatures(NEW, items()), [none.clone(), dummy.clone(), none.clone(), json!("S")]);
    let kept = [none.clone(), none.clone(), none, json!("S")];
    assert_eq!(signatures(OLD, items()), kept);
    assert_eq!(signatures("models/gemma-3-27b-it", items()), kept);
    assert_eq!(signatures("gemini-flash-latest", items())[1], dummy);
}

#[test]
fn a_turn_of_the_model_returns_as_gemini_wrote_it() {
    let parts = json!([
        {"text": "I look."},
        {"functionCall": {"id": "1", "name": "get", "args": {"b": 1.5, "a": []}}, "thoughtSignature": "A"},
        {"functionCall": {"id": "2", "name": "get", "args": {}}}
    ]);
    let candidate = json!({"content": {"role": "model", "parts": parts}, "finishReason": "STOP"});
    let response = object(json!({"candidates": [candidate]}));
    let mut reply = Reply::default();
    reply.extend(ReplyReader::default().response(response).expect("a good response"));
    let mut items = vec![user("hi")];
    items.extend(reply.choices.remove(&0).expect("a choice").items);
    assert_eq!(contents(NEW, items)[1], json!({"role": "model", "parts": parts}));
}

#[test]
fn the_signature_of_a_message_returns_to_its_last_text() {
    let mut message = Message::new(Role::Assistant, vec![Part::text("a"), Part::text("b")]);
    message.extra = object(signed("S"));
    assert_eq!(
        contents(NEW, vec![user("hi"), Item::Message(message)])[1],
        json!({"role": "model", "parts": [{"text": "a"}, {"text": "b", "thoughtSignature": "S"}]})
    );
}

#[test]
fn arguments_that_are_not_an_object_are_wrapped() {
    for (arguments, args) in [
        ("", json!({})),
        (" \n", json!({})),
        ("{\"a\":1}", json!({"a": 1})),
        ("[1]", json!({"INVALID_JSON": "[1]"})),
        ("{\"a\":", json!({"INVALID_JSON": "{\"a\":"})),
    ] {
        let contents = contents(OLD, vec![user("hi"), call("", arguments, json!({}))]);
        let function = &contents[1]["parts"][0]["functionCall"];
        assert_eq!(*function, json!({"name": "get", "args": args}), "{arguments}");
    }
}

#[test]
fn media_of_a_result_are_in_it_for_gemini_3_and_after_all_results_for_older_models() {
    let items = || {
        vec![
            user("hi"),
            call("1", "{}", signed("S")),
            call("2", "{}", json!({})),
            Item::ToolResult(result("1", vec![text("a"), image(png())])),
            Item::ToolResult(result("2", vec![text("b")])),
        ]
    };
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
    let second =
        json!({"functionResponse": {"name": "get", "response": {"result": "b"}, "id": "2"}});
    assert_eq!(
        contents(NEW, items())[2]["parts"],
        json!([
            {"functionResponse": {
                "name": "get", "response": {"result": "a"}, "parts": [inline], "id": "1"
            }},
            second
        ])
    );
    assert_eq!(
        contents(OLD, items())[2]["parts"],
        json!([
            {"functionResponse": {"name": "get", "response": {"result": "a"}, "id": "1"}},
            second, inline
        ])
    );
}

#[test]
fn the_name_of_a_result_is_that_of_its_call_or_its_own() {
    let own = ToolResult { extra: object(json!({"name": "own"})), ..result("x", vec![]) };
    let contents = contents(OLD, vec![user("hi"), Item::ToolResult(own)]);
    assert_eq!(
        contents[1]["parts"][0]["functionResponse"],
        json!({"name": "own", "response": {"result": ""}, "id": "x"})
    );
    let lost = vec![user("hi"), Item::ToolResult(result("x", vec![]))];
    assert_eq!(
        write_request(with_items(OLD, lost)).expect_err("no call").param,
        "messages.tool_call_id"
    );
}

#[test]
fn items_without_a_form_are_refused() {
    let native = |kind: &str| {
        let object = object(json!({"type": kind}));
        NativeItem::new(Wire::Responses, object)
    };
    let named = Message {
        extra: object(json!({"name": "Ann"})),
        ..Message::new(Role::User, vec![Part::text("a")])
    };
    for (items, param) in [
        (vec![], "messages"),
        (vec![message(Role::System, vec![text("a")])], "messages"),
        (vec![user("")], "messages"),
        (vec![Item::Native(native("item_reference"))], "messages"),
        (vec![message(Role::User, vec![Content::Native(native("odd"))])], "messages"),
        (vec![message(Role::Assistant, vec![image(png())])], "messages"),
        (vec![message(Role::User, vec![image(Media::Url("file:///etc".to_owned()))])], "messages"),
        (vec![message(Role::User, vec![image(Media::FileId("gs://b/o".to_owned()))])], "messages"),
        (
            vec![message(
                Role::User,
                vec![image(Media::Base64 { media_type: String::new(), data: "AA".to_owned() })],
            )],
            "messages",
        ),
        (vec![Item::Message(named)], "messages.name"),
        (vec![Item::ToolCall(ToolCall::function("1", "x".repeat(257), "{}"))], "messages"),
    ] {
        let error = write_request(with_items(NEW, items)).expect_err(param);
        assert_eq!(error.param, param, "{error}");
    }
}

#[test]
fn tools_become_declarations_with_their_whole_schema() {
    let schema =
        json!({"type": "object", "$defs": {"a": {"const": 1}}, "additionalProperties": false});
    let conversation = Conversation {
        tools: vec![tool("get", Some(schema.clone())), tool("now", None)],
        tool_choice: Some(ToolChoice::Auto),
        ..with_items(NEW, vec![user("hi")])
    };
    let body = write_request(conversation).expect("a good request");
    assert_eq!(
        body["tools"],
        json!([{"functionDeclarations": [
            {"name": "get", "description": "Does it.", "parametersJsonSchema": schema},
            {"name": "now", "description": "Does it."}
        ]}])
    );
    assert_eq!(body["toolConfig"], json!({"functionCallingConfig": {"mode": "AUTO"}}));
}

#[test]
fn each_choice_among_the_tools_is_translated() {
    let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
    let of_choice = |tools: &[&str], choice| {
        let tools = tools.iter().map(|name| tool(name, None)).collect();
        let tool_choice = Some(choice);
        let conversation = Conversation { tools, tool_choice, ..with_items(NEW, vec![user("hi")]) };
        let body = write_request(conversation).expect("a good request");
        let declared = body
            .get("tools")
            .map_or(0, |tools| tools[0]["functionDeclarations"].as_array().map_or(0, Vec::len));
        let config = body.get("toolConfig").cloned().unwrap_or_default();
        (declared, config["functionCallingConfig"].clone())
    };
    let allowed = |is_required| ToolChoice::Allowed { is_required, names: named(&["b", "x"]) };
    for (tools, choice, expected) in [
        (&["a", "b"][..], ToolChoice::None, (2, json!({"mode": "NONE"}))),
        (&["a", "b"], ToolChoice::Required, (2, json!({"mode": "ANY"}))),
        (
            &["a", "b"],
            ToolChoice::Function("b".to_owned()),
            (2, json!({"mode": "ANY", "allowedFunctionNames": ["b"]})),
        ),
        (&["a", "b"], allowed(false), (1, json!({"mode": "AUTO"}))),
        (&["a", "b"], allowed(true), (1, json!({"mode": "ANY"}))),
        (&["a"], allowed(false), (0, json!(null))),
        // Without tools, the provider reports that none can be called.
        (&["a"], allowed(true), (0, json!({"mode": "ANY"}))),
        (&[], ToolChoice::Auto, (0, json!(null))),
        (&[], ToolChoice::None, (0, json!(null))),
    ] {
        assert_eq!(of_choice(tools, choice.clone()), expected, "{choice:?}");
    }
}

#[test]
fn tools_and_choices_of_another_api_are_refused() {
    let native = |kind: &str| NativeItem::new(Wire::Chat, object(json!({"type": kind})));
    let conversation = Conversation {
        tools: vec![tool("get", None), ToolDefinition::Native(native("custom"))],
        ..with_items(NEW, vec![user("hi")])
    };
    assert_eq!(write_request(conversation).expect_err("refused").param, "tools[1].type");
    let conversation = Conversation {
        tool_choice: Some(ToolChoice::Native(native("custom"))),
        ..with_items(NEW, vec![user("hi")])
    };
    assert_eq!(write_request(conversation).expect_err("refused").param, "tool_choice");
}
