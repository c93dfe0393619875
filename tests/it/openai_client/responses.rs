//! The Responses API, whole, streamed, stored and continued.

use serde_json::{Value, json};

/// Replaces the identifiers of responses, which differ between runs.
fn masked(value: Value) -> Value {
    match value {
        Value::String(text) => match text.split_once("resp_") {
            Some((before, rest)) => {
                let after = rest.trim_start_matches(|letter: char| letter.is_ascii_hexdigit());
                format!("{before}resp_ID{after}").into()
            }
            None => text.into(),
        },
        Value::Array(items) => items.into_iter().map(masked).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(name, value)| (name, masked(value))).collect()
        }
        other => other,
    }
}

/// Returns a complete response as the programs print it.
fn response(text: &str, output: &Value, calls: &Value) -> Value {
    json!({"object": "response", "status": "completed", "text": text, "output": output, "usage": true, "error": null, "calls": calls})
}

#[tokio::test]
async fn every_client_gets_the_same_responses_whole_and_streamed() {
    let gateway = super::gateway().await;
    let seen = masked(super::seen(&gateway, "responses").await.into());
    assert_eq!((&seen["sync"], &seen["sync"]), (&seen["async"], &seen["node"]));
    let seen = &seen["sync"];
    check_conversations(seen);
    check_own_tool(&seen["own_tool"]);
    check_stored(&seen["stored"]);
    assert_eq!(seen["abort"]["first"], "one ");
    assert_eq!(seen["abort"]["after"]["text"], "hello yourself");
    check_errors(&seen["errors"]);
    let text = "hello yourself";
    assert_eq!(
        seen["parts"],
        json!({"image": "a picture", "image_streamed": "a picture", "large": text, "large_streamed": text})
    );
}

fn check_conversations(seen: &Value) {
    let said = "It says: The sum of 1 and 2 is 3.";
    let sum = |a: u32, b: u32| {
        let text = format!("The sum of {a} and {b} is {}.", a + b);
        json!(["mcp_call", "everything", "everything-get-sum", {"a": a, "b": b}, text, null])
    };
    let environment = json!(["function_call", "completed", "everything-get-env", {}]);
    let message = |text: &str| json!(["message", "completed", text]);
    let ran = json!(["everything-get-sum"]);
    let waiting = super::WAITING;
    for (name, expected) in [
        ("hello", response("hello yourself", &json!([message("hello yourself")]), &Value::Null)),
        ("auto", response(said, &json!([sum(1, 2), message(said)]), &ran)),
        ("waiting", response(waiting, &json!([message(waiting), environment]), &json!([]))),
        ("mixed", response("", &json!([sum(20, 22), environment]), &ran)),
    ] {
        let seen = &seen[name];
        assert_eq!(seen["plain"], expected, "{name}");
        assert_eq!(seen["streamed"]["final"], expected, "{name}, streamed");
        assert_eq!(seen["streamed"]["dense"], true, "{name}: sequence numbers");
        assert_eq!(seen["helper"]["output"], expected["output"], "{name}, by the helper");
        assert_eq!(seen["streamed"]["types"][0], "response.created", "{name}");
    }
}

/// A call of the client's own tool is answered in a request that continues the response.
fn check_own_tool(seen: &Value) {
    let call = json!([["function_call", "completed", "get_weather", {"city": "Bern"}]]);
    for form in ["plain", "streamed"] {
        assert_eq!(seen[form]["first"]["output"], call, "{form}");
        assert_eq!(seen[form]["final"]["text"], "It says: 12 degrees", "{form}");
        assert_eq!(seen[form]["previous"], true, "{form}");
    }
}

fn check_stored(seen: &Value) {
    assert_eq!((&seen["same"], &seen["metadata"]), (&json!(true), &json!({"purpose": "test"})));
    for (name, status, code) in
        [("retrieved", 404, "response_not_found"), ("deleted", 404, "response_not_found")]
    {
        assert_eq!(
            (&seen[name]["status"], &seen[name]["code"]),
            (&json!(status), &json!(code)),
            "{name}"
        );
    }
}

fn check_errors(seen: &Value) {
    for (name, class, status) in [
        ("rate_limit", "RateLimitError", 429),
        ("rate_limit_streamed", "RateLimitError", 429),
        ("server_error", "InternalServerError", 500),
        ("server_error_streamed", "InternalServerError", 500),
    ] {
        assert_eq!(
            (&seen[name]["class"], &seen[name]["status"]),
            (&json!(class), &json!(status)),
            "{name}"
        );
    }
}
