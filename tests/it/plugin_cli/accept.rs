//! Changes of an installed component are shown, and accepted or not.

use airlock_tests::guests;
use serde_json::{Value, json};

use super::{Workspace, poisoned, proposed, write_sender};

#[tokio::test]
async fn a_build_that_cannot_be_loaded_is_not_accepted_and_the_proposed_installation_grants_it() {
    let workspace = Workspace::new();
    let store = json!({"max_bytes": "1KiB", "reason": "r"});
    let build = |file: &str, request: Value| {
        workspace.write_plugin(file, "keeper", &request);
    };
    build("one.wasm", json!({"kv": {"notes": store}}));
    let _ = workspace.install("one.wasm", &["--grant-all"]).await.ok();
    let lock = workspace.read("airlock.lock");
    build("plugins/keeper.wasm", json!({"kv": {"notes": store, "cache": store}}));

    let checked = workspace.airlock(&["check"]).await.failed();
    let told = "wasm_config.component: the gateway does not load it, because it changed since it was accepted: ";
    assert!(checked.stderr.contains(told), "{checked}");
    assert!(checked.stderr.contains("`airlock plugin accept keeper` accepts it"), "{checked}");
    let told = "kv.cache is required and not granted";
    let differs = workspace.airlock(&["plugin", "diff"]).await.failed();
    assert!(differs.stdout.contains(&format!("\n  cannot be loaded: {told}\n")), "{differs}");
    let command = ["plugin", "install", "plugins/keeper.wasm", "--grant", "kv.cache", "--replace"];
    assert_eq!(proposed(&differs), command);
    let document = workspace.airlock(&["plugin", "diff", "--json"]).await.failed().json();
    assert_eq!(document["plugins"][0]["obstacles"], json!([told]), "{document:#}");

    let refused = workspace.airlock(&["plugin", "accept", "keeper"]).await.failed();
    assert!(refused.stderr.contains(&format!("\n  keeper: {told}\n")), "{refused}");
    assert_eq!(
        (workspace.read("airlock.lock"), proposed(&refused)),
        (lock, command.map(Into::into).into())
    );
    let _ = workspace.airlock(&command).await.ok();
    let _ = workspace.airlock(&["check"]).await.ok();
    let again = ["plugin", "accept", "keeper", "--yes", "--regrant", "kv.notes"];
    let again = workspace.airlock(&again).await.ok();
    assert!(again.stderr.contains("--regrant kv.notes has no effect: "), "{again}");
}

#[tokio::test]
async fn what_is_granted_is_shown_where_it_differs_from_what_is_requested() {
    let workspace = Workspace::new();
    let request = json!({
        "http": {"api": {"url": "https://api.example.com", "reason": "Reads."}},
        "kv": {"notes": {"max_bytes": "1MiB", "reason": "Remembers."}},
        "clocks": {"reason": "Dates.", "optional": true},
    });
    workspace.write_plugin("reader.wasm", "reader", &request);
    let grants = json!({
        "http": [{"url": "https://api.example.com", "paths": ["/v1/**"]}],
        "kv": {"notes": {"max_bytes": "64KiB"}},
    });
    let client = json!({
        "name": "reader", "connection_type": "wasm",
        "wasm_config": {"component": "reader.wasm", "grants": grants},
    });
    let config = json!({"mcp": {"client_configs": [client]}});
    workspace.write("airlock.json", config.to_string());
    let differs = workspace.airlock(&["plugin", "diff", "--json"]).await.failed().json();
    assert_eq!(differs["plugins"][0]["notes"].as_array().map(Vec::len), Some(3), "{differs:#}");
    let accepted = workspace.airlock(&["plugin", "accept", "--all", "--yes"]).await.ok();
    for note in [
        "\n    +it requests http.api https://api.example.com GET,HEAD /**\n",
        "\n  note: http.api is granted for https://api.example.com GET,HEAD /v1/**; the plugin requests https://api.example.com GET,HEAD /**\n",
        "\n  note: kv.notes holds 64KiB; the plugin requests 1MiB\n",
        "\n  note: clocks is not granted, and the plugin can do without\n",
    ] {
        assert!(accepted.stdout.contains(note), "{note}: {accepted}");
    }
    let again = workspace.airlock(&["plugin", "accept", "--all", "--yes"]).await.ok();
    assert!(!again.stdout.contains("note: "), "nothing is accepted: {again}");
}

#[tokio::test]
async fn a_wider_request_or_another_id_is_accepted_only_if_it_is_named() {
    let workspace = Workspace::new();
    write_sender(&workspace, "one.wasm", "sender", &json!({"url": "https://api.example.com"}));
    let grants = ["--grant", "http.api", "--grant", "secret.token=env:AIRLOCK_TEST_TOKEN"];
    let _ = workspace.install("one.wasm", &grants).await.ok();
    let lock = workspace.read("airlock.lock");
    let accept = async |more: &[&str]| {
        workspace.airlock(&[&["plugin", "accept", "sender", "--yes"], more].concat()).await
    };

    let moved = json!({"url": "https://api.example.org", "methods": ["POST"]});
    write_sender(&workspace, "plugins/sender.wasm", "sender", &moved);
    let differs = workspace.airlock(&["plugin", "diff"]).await.failed();
    let told = "http.api https://api.example.org POST /** (granted, with secret.token)";
    assert!(differs.stdout.contains(told), "{differs}");
    assert!(
        differs.stderr.contains("airlock plugin accept sender --regrant http.api"),
        "{differs}"
    );
    let unloaded = workspace.airlock(&["call", "sender-ok"]).await.failed();
    assert!(unloaded.stderr.contains(told), "{unloaded}");
    for more in [&[][..], &["--change-id"], &["--regrant", "secret.token"]] {
        let refused = accept(more).await.failed();
        assert!(refused.stderr.contains(told), "{refused}");
        assert_eq!(proposed(&refused), ["plugin", "accept", "sender", "--regrant", "http.api"]);
    }
    let all = workspace.airlock(&["plugin", "accept", "--all"]).await.failed();
    assert!(all.stderr.contains(told), "{all}");
    assert_eq!(workspace.read("airlock.lock"), lock, "what is refused changes nothing");
    let _ = accept(&["--regrant", "http.api"]).await.ok();

    write_sender(&workspace, "plugins/sender.wasm", "stranger", &moved);
    let refused = accept(&[]).await.failed();
    assert!(refused.stderr.contains("its id (sender is now stranger)"), "{refused}");
    let _ = accept(&["--change-id"]).await.ok();
    write_sender(&workspace, "other.wasm", "sender", &moved);
    let refused = workspace.install("other.wasm", &["--name", "sender"]).await.failed();
    let command = proposed(&refused);
    assert_eq!(command[5..], ["--replace", "--change-id"], "{refused}");
    let _ = workspace.airlock(&command).await.ok();
}

#[tokio::test]
async fn a_changed_component_is_not_loaded_until_the_operator_accepts_it() {
    let workspace = Workspace::new();
    let _ = workspace.install(guests::HOSTILE, &["--name", "guest"]).await.ok();
    workspace.write("plugins/guest.wasm", poisoned().await);
    let refused = workspace.airlock(&["call", "guest-ok"]).await.failed();
    assert!(refused.stderr.contains("the description of tool ok, new tool steal"), "{refused}");
    assert!(refused.stderr.contains("airlock plugin accept guest"), "{refused}");
    let differs = workspace.airlock(&["plugin", "diff", "guest"]).await.failed();
    for line in
        ["    +Takes what it finds.", "    -Answers at once.", "    +Answers at once.⟨U+200B⟩"]
    {
        assert!(differs.stdout.lines().any(|found| found == line), "{line:?} is not in {differs}");
    }
    let document = workspace.airlock(&["plugin", "diff", "--json"]).await.failed().json();
    assert_eq!(document["plugins"][0]["changes"][1]["change"], "tool_changed", "{document:#}");
    let accepted = workspace.airlock(&["plugin", "accept", "guest", "--yes"]).await.ok();
    assert!(accepted.stdout.contains("+Answers at once.⟨U+200B⟩"), "{accepted}");
    assert_eq!(workspace.airlock(&["call", "guest-ok"]).await.ok().stdout, "ok\n");
    let unknown = workspace.airlock(&["plugin", "accept", "nobody"]).await.failed();
    assert!(unknown.stderr.contains("configured: guest"), "{unknown}");
    let unnamed = workspace.airlock(&["plugin", "accept"]).await.failed();
    assert!(unnamed.stderr.contains("airlock plugin accept [OPTIONS] --all"), "{unnamed}");
}
