//! Chat completions, whole and streamed.

use serde_json::{Map, Value, json};

/// Returns a choice as the programs print it.
fn choice(index: u32, content: &str, finish_reason: &str, calls: &Value) -> Value {
    json!({"index": index, "role": "assistant", "content": content, "finish_reason": finish_reason, "tool_calls": calls})
}

/// Returns a response with these choices and the names in its `airlock` object, whole and streamed.
fn responses(choices: &[Value], calls: &Value) -> (Value, Value) {
    let plain = json!({"object": "chat.completion", "choices": choices, "calls": calls});
    let streamed = json!({
        "object": ["chat.completion.chunk"], "choices": choices, "calls": calls, "ids": 1,
        "roles": choices.len(), "usages": [],
    });
    (plain, streamed)
}

/// Returns the three views of one answer.
fn conversation(content: &str, finish_reason: &str, pending: &Value, calls: &Value) -> Value {
    let choice = choice(0, content, finish_reason, pending);
    let (mut plain, streamed) = responses(std::slice::from_ref(&choice), calls);
    let helper = json!({"object": "chat.completion", "choices": [choice]});
    if content.is_empty() {
        // A stream begins with a role and an empty text.
        plain["choices"][0]["content"] = Value::Null;
    }
    json!({"plain": plain, "streamed": streamed, "helper": helper})
}

/// Returns an error as the programs print it: its class, status, message, type and `code`.
fn error(class: &str, status: u16, message: &str, kind: &str, code: &str) -> Value {
    json!({"class": class, "status": status, "message": message, "type": kind, "param": null, "code": code, "calls": null})
}

/// Removes a member of every client's view.
fn take(seen: &mut Map<String, Value>, member: &str) -> Vec<Value> {
    seen.values_mut().map(|seen| seen[member].take()).collect()
}

#[tokio::test]
async fn every_client_gets_the_same_answers_whole_and_streamed() {
    let gateway = super::gateway().await;
    let mut seen = super::seen(&gateway, "chat").await;
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["sync", "async", "node"]);
    for events in take(&mut seen, "events") {
        check_events(&events);
    }
    for (client, seen) in &seen {
        check_answers(client, seen);
        check_usage(client, &seen["usage"]);
        check_errors(client, &seen["errors"]);
    }
    assert_eq!((&seen["sync"], &seen["sync"]), (&seen["async"], &seen["node"]));
}

fn check_answers(client: &str, seen: &Value) {
    let none = json!([]);
    let environment = json!([["everything-get-env", {}]]);
    let mixed = "The Output from allowed tools calls is - {\"everything-get-sum\":\"The sum of 20 and 22 is 42.\"}\n\n\
                 Now I shall call these tools next...";
    let (two, two_streamed) = responses(
        &[choice(0, "hello yourself", "stop", &none), choice(1, "hello yourself", "stop", &none)],
        &Value::Null,
    );
    let own = json!({"call": ["get_weather", {"city": "Bern"}], "final": "It says: 12 degrees"});
    let (after, _) = responses(&[choice(0, "hello yourself", "stop", &none)], &Value::Null);
    for (member, expected) in [
        ("models", json!(["script/script"])),
        ("hello", conversation("hello yourself", "stop", &none, &Value::Null)),
        (
            "auto",
            conversation(
                "It says: The sum of 1 and 2 is 3.",
                "stop",
                &none,
                &json!(["everything-get-sum"]),
            ),
        ),
        ("waiting", conversation(super::WAITING, "tool_calls", &environment, &json!([]))),
        ("mixed", conversation(mixed, "tool_calls", &environment, &json!(["everything-get-sum"]))),
        ("two_choices", json!({"plain": two, "streamed": two_streamed})),
        ("own_tool", json!({"plain": own, "streamed": own})),
        ("abort", json!({"first": "one ", "after": after})),
        (
            "parts",
            json!({
                "image": "a picture", "image_streamed": "a picture",
                "large": "hello yourself", "large_streamed": "hello yourself",
            }),
        ),
    ] {
        assert_eq!(seen[member], expected, "{client}: {member}");
    }
}

/// The usage is the sum of two rounds, and is in a stream only if it was asked for.
fn check_usage(client: &str, usage: &Value) {
    let asked = &usage["asked"][0];
    assert_eq!((usage["asked"].as_array().map(Vec::len), &asked["choices"]), (Some(1), &json!(0)));
    for sum in [&usage["plain"], &asked["usage"]] {
        let tokens = |member: &str| sum[member].as_u64().expect("a number");
        assert_eq!(tokens("total_tokens"), tokens("prompt_tokens") + tokens("completion_tokens"));
        let both_rounds = &usage["plain"]["completion_tokens"];
        assert_eq!(sum["completion_tokens"], *both_rounds, "{client}: {usage}");
    }
    assert_eq!(usage["not_asked"], json!([]), "{client}");
}

fn check_errors(client: &str, errors: &Value) {
    let invalid = "invalid_request_error";
    let bad_key = error(
        "AuthenticationError",
        401,
        "virtual key not found",
        "authentication_error",
        "invalid_api_key",
    );
    let mut bad_request =
        error("BadRequestError", 400, "`messages` must be an array", invalid, "invalid_type");
    bad_request["param"] = "messages".into();
    let broken = error("InternalServerError", 500, "broken", "server_error", "scripted");
    let slow = error("RateLimitError", 429, "slow down", invalid, "scripted");
    for (name, expected) in [
        ("rate_limit", &slow),
        ("rate_limit_streamed", &slow),
        ("server_error", &broken),
        ("server_error_streamed", &broken),
        ("bad_request", &bad_request),
        ("bad_request_streamed", &bad_request),
        ("bad_key", &bad_key),
        ("bad_key_streamed", &bad_key),
    ] {
        assert_eq!(errors[name], *expected, "{client}: {name}");
    }
    let unknown = &errors["unknown_path"];
    assert_eq!((&unknown["class"], &unknown["status"]), (&json!("NotFoundError"), &json!(404)));
    for (name, text, calls) in [
        ("midway", "Once upon ", Value::Null),
        ("midway_after_a_tool", "It ", json!(["everything-get-sum"])),
    ] {
        let before = &errors[name]["before"];
        let error = &errors[name]["error"];
        assert_eq!(before[0]["content"], text, "{client}: {name}");
        assert_eq!(before[0]["finish_reason"], Value::Null, "{client}: {name}");
        assert_eq!(
            (&error["class"], &error["message"], &error["calls"]),
            (&json!("APIError"), &json!("died"), &calls),
            "{client}: {name}"
        );
    }
}

/// The events are there if they were asked for. The last chunk has the record of the calls in any case.
fn check_events(seen: &Value) {
    let asked = seen["asked"].as_array().expect("a list");
    let types: Vec<_> = asked.iter().filter_map(|asked| asked["event"]["type"].as_str()).collect();
    assert_eq!(types, ["call_started", "call_ended", "round"], "{seen:#}");
    let ended = &asked[1]["event"];
    assert_eq!(
        (&ended["name"], &ended["status"], &ended["result"]),
        (&json!("everything-get-sum"), &json!("ok"), &json!("The sum of 1 and 2 is 3."))
    );
    let not_asked = seen["not_asked"].as_array().expect("a list");
    assert_eq!((asked.len(), not_asked.len()), (4, 1), "{seen:#}");
    for last in [&asked[3], &not_asked[0]] {
        assert_eq!(last["calls"][0]["name"], "everything-get-sum", "{seen:#}");
        assert_eq!(last["rounds"], 1, "{seen:#}");
    }
    assert_eq!(seen["content"], "It says: The sum of 1 and 2 is 3.");
}
