//! Each verdict, and each way of a guard to fail.

use airlock_tests::{Setup, guests, wait};
use serde_json::json;

use super::{ANN, Guarded, guarded, limits, warden};

#[tokio::test]
async fn a_denied_call_is_not_made_and_its_error_has_the_code_and_the_reason_of_the_guard() {
    let guarded = Guarded::start(|setup| setup).await;
    let denied = guarded.call("server-note", "before:deny").await;
    let message = r#"the call of tool 'server-note' is denied by the guard "warden": the call says so (told)"#;
    assert_eq!((denied.refusal(), denied.code()), ((403, message), "guard_denied"));
    assert_eq!(guarded.noted(), "");
    assert_eq!(guarded.call("server-note", "plain").await.content(), "noted plain");
}

#[tokio::test]
async fn a_call_is_made_with_the_arguments_of_the_guard() {
    let guarded = Guarded::start(|setup| setup).await;
    let noted = guarded.call("server-note", "before:rewrite my secret").await;
    assert_eq!(noted.content(), "noted before:rewrite my hidden");
    assert_eq!(guarded.noted(), "before:rewrite my hidden\n");
}

#[tokio::test]
async fn a_result_is_replaced_or_withheld_after_the_call_was_made() {
    let guarded = Guarded::start(|setup| setup).await;
    let noted = guarded.call("server-note", "after:rewrite my secret").await;
    assert_eq!(noted.content(), "noted after:rewrite my hidden");
    let withheld = guarded.call("server-note", "after:deny").await;
    assert_eq!((withheld.status, withheld.code()), (403, "guard_denied"));
    assert!(withheld.refusal().1.contains("its outcome is withheld"), "{}", withheld.text);
    assert_eq!(guarded.noted(), "after:rewrite my secret\nafter:deny\n");
    // The tool's own error is an outcome too.
    assert_eq!(guarded.call("server-fail", "x").await.content(), "it did not work");
    let withheld = guarded.call("server-fail", "after:deny").await;
    assert_eq!((withheld.status, withheld.code()), (403, "guard_denied"));
}

#[tokio::test]
async fn a_guard_that_fails_before_a_call_refuses_it_and_the_next_call_works() {
    let guarded = Guarded::start(|setup| setup).await;
    for word in ["trap", "spin", "hoard", "big", "broken", "array"] {
        let refused = guarded.call("server-note", &format!("before:{word}")).await;
        let message = r#"tool 'server-note' did not run, because the guard "warden" failed"#;
        assert_eq!((refused.refusal(), refused.code()), ((403, message), "guard_failed"), "{word}");
    }
    assert_eq!(guarded.noted(), "");
    assert_eq!(guarded.call("server-note", "plain").await.content(), "noted plain");
    guarded.gateway.sandbox_is_empty().await;
}

#[tokio::test]
async fn a_guard_that_fails_after_a_call_withholds_its_result() {
    let guarded = Guarded::start(|setup| setup).await;
    for word in ["trap", "spin", "hoard", "big", "broken", "array", "ask"] {
        let refused = guarded.call("server-echo", &format!("after:{word}")).await;
        assert_eq!((refused.status, refused.code()), (403, "guard_failed"), "{word}");
        assert!(!refused.text.contains(&format!("after:{word}")), "{}", refused.text);
    }
}

#[tokio::test]
async fn a_guard_knows_the_tool_the_origin_and_the_key_of_a_call() {
    let rows: &[(&str, &[&str])] = &[("server", &["*"])];
    let guarded = Guarded::start(|setup| setup.key("ann", ANN, rows)).await;
    let denied = guarded.call("server-echo", "before:facts").await;
    let facts = "tool=server-echo client=server origin=caller key=none tenant=anonymous read_only=None settings={}";
    assert!(denied.refusal().1.contains(facts), "{}", denied.text);
    let arguments = json!({"text": "before:facts"});
    let headers = [("x-bf-vk", ANN)];
    let denied = guarded.gateway.execute_with(&headers, "server-echo", &arguments).await;
    assert!(denied.refusal().1.contains(r#"key=ann tenant=key "ann""#), "{}", denied.text);
}

#[tokio::test]
async fn several_guards_are_asked_in_their_order_within_their_scopes() {
    let first = json!({
        "name": "first", "component": guests::WARDEN, "hooks": ["before"], "limits": limits(),
    });
    let second = json!({
        "name": "second", "component": guests::WARDEN, "on": {"tools": ["*-NOTE"]}, "hooks": ["after"],
        "limits": limits(),
    });
    let none = json!({"name": "none", "component": guests::WARDEN, "on": {"keys": ["nobody"]}});
    let guarded = Guarded::start(|setup| setup.set("/guards", json!([none, first, second]))).await;
    let rewritten = guarded.call("server-note", "before:rewrite after:rewrite secret").await;
    assert_eq!(rewritten.content(), "noted before:rewrite after:rewrite hidden");
    for (tool, text, guard) in [
        ("server-note", "before:deny", Some("first")),
        ("server-note", "after:deny", Some("second")),
        ("server-echo", "before:deny", Some("first")),
        ("server-echo", "after:deny", None),
    ] {
        let reply = guarded.call(tool, text).await;
        match guard {
            Some(guard) => assert!(reply.refusal().1.contains(&format!("guard {guard:?}"))),
            None => assert_eq!(reply.content(), text),
        }
    }
}

#[tokio::test]
async fn the_limits_of_a_guard_are_those_of_the_configuration() {
    let mut guard = warden(&json!({}));
    guard["limits"]["result"] = json!("1KiB");
    let guarded = Guarded::start(|setup| setup.set("/guards", json!([guard]))).await;
    let short = format!("before:rewrite {}", "x".repeat(900));
    assert_eq!(guarded.call("server-echo", &short).await.content(), short);
    let long = format!("before:rewrite {}", "x".repeat(1_100));
    assert_eq!(guarded.call("server-echo", &long).await.code(), "guard_failed");
}

#[tokio::test]
async fn a_guard_has_no_more_time_than_is_left_of_the_call() {
    let mut guard = warden(&json!({}));
    guard["limits"]["fuel"] = json!(10_000_000_000_u64);
    let guarded = Guarded::start(|setup| {
        let timeout = "/mcp/tool_manager_config/tool_execution_timeout";
        // Less than the time of the guard, and enough for the server to respond before the second hook.
        setup.set("/guards", json!([guard])).set(timeout, "900ms")
    })
    .await;
    for hook in ["before", "after"] {
        let refused = guarded.call("server-echo", &format!("{hook}:spin")).await;
        assert_eq!((refused.status, refused.code()), (403, "guard_failed"), "{hook}");
    }
    let failed = "a guard failed; the call is refused";
    let said = wait::until("the log to name the failures", async || {
        Some(guarded.gateway.said()).filter(|said| said.matches(failed).count() >= 2)
    })
    .await;
    assert!(said.contains("ran past its"), "{said}");
    for other in ["more than 1s of CPU time", "used up its fuel"] {
        assert!(!said.contains(other), "{said}");
    }
}

#[tokio::test]
async fn without_the_component_of_a_guard_a_command_ends_and_a_gateway_refuses_the_calls() {
    // It imports WASI.
    let guard =
        json!({"name": "bad", "component": guests::NOOP_WITH_WASI, "on": {"tools": ["*-note"]}});
    let setup = guarded(Setup::new()).set("/guards", json!([guard.clone()]));
    let run = setup.airlock("call").arg("server-echo").arg("{}").run().await.failed();
    let said = run.to_string();
    assert!(said.contains("guard \"bad\"") && said.contains("a guard imports nothing"), "{said}");
    let guarded = Guarded::start(|setup| setup.set("/guards", json!([guard]))).await;
    let refused = guarded.call("server-note", "plain").await;
    assert_eq!((refused.status, refused.code()), (403, "guard_failed"));
    assert_eq!(guarded.noted(), "");
    assert_eq!(guarded.call("server-echo", "plain").await.content(), "plain");
}

#[tokio::test]
async fn a_name_in_the_scope_of_a_guard_that_nothing_has_is_logged() {
    let scopes = [json!({"clients": ["mial"]}), json!({"tools": ["server-*"]})];
    let [misspelt, good] = scopes.map(|on| warden(&on));
    let named = json!({"name": "good", "component": good["component"], "on": good["on"]});
    let guarded = Guarded::start(|setup| setup.set("/guards", json!([misspelt, named]))).await;
    let warning = "a guard names a client, a key or an environment that does not exist";
    let said = wait::until("the log to name the client", async || {
        Some(guarded.gateway.said()).filter(|said| said.contains(warning))
    })
    .await;
    assert_eq!(said.matches(warning).count(), 1, "{said}");
    assert!(said.contains("mial"), "{said}");
}
