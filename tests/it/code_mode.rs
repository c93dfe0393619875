//! Scripts: they can call the tools that the door permits, however they name them.

use std::fs;

use airlock_tests::{Client, Setup, guests, misbehaving, peers, wait};
use serde_json::{Value, json};

/// Returns a server whose tool `note` appends to a file, which the gateway cannot undo, and the
/// path of that file.
fn noting(setup: &Setup) -> (Client, std::path::PathBuf) {
    let notes = setup.directory().join("notes");
    let mode = format!("notes={}", notes.display());
    (misbehaving("server", [mode.as_str()]).code_mode(), notes)
}

fn names(run: &Value) -> Vec<&str> {
    run["calls"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|call| call["name"].as_str())
        .collect()
}

/// Ways to call `server.note`, most of which a search of the script's text would miss.
const SPELLINGS: [(&str, &str); 8] = [
    ("plain", "server.note(text = \"x\")"),
    ("an alias", "f = server.note\nf(text = \"x\")"),
    ("stored", "d = {\"f\": [server.note]}\nd[\"f\"][0](text = \"x\")"),
    ("getattr", "getattr(server, \"note\")(text = \"x\")"),
    ("a computed name", "getattr(server, \"\".join([\"no\", \"te\"]))(text = \"x\")"),
    ("in a function", "def g(h):\n    return h(text = \"x\")\ng(server.note)"),
    ("attempted", "attempt(server.note, {\"text\": \"x\"})"),
    ("gathered", "gather([(server.note, {\"text\": \"x\"})], attempt = True)"),
];

#[tokio::test]
async fn a_script_combines_a_plugin_and_a_server_from_npm() {
    let setup = Setup::new()
        .client(Client::wasm("text", guests::TEXT).code_mode().auto(&["*"]))
        .client(peers::everything("everything").code_mode().auto(&["*"]));
    let source = r#"
echoed = everything.echo(message = "one two three")
counted = text.word_count(text = echoed)
print(echoed)
print("words:", counted["words"])
result = {"words": counted["words"], "sums": [everything.get_sum(a = n, b = n) for n in range(3)]}
"#;
    let run = setup.script(source).await;
    assert_eq!(run["status"], "ok", "{run:#}");
    let sums: Vec<_> = [0, 2, 4]
        .iter()
        .zip(0..)
        .map(|(sum, n)| format!("The sum of {n} and {n} is {sum}."))
        .collect();
    assert_eq!(run["result"], json!({"words": 4, "sums": sums}));
    assert_eq!(run["output"], "Echo: one two three\nwords: 4");
    assert_eq!(
        names(&run),
        [
            "everything-echo",
            "text-word_count",
            "everything-get-sum",
            "everything-get-sum",
            "everything-get-sum"
        ]
    );
}

#[tokio::test]
async fn a_tool_that_needs_approval_suspends_the_run_however_it_is_called() {
    let setup = Setup::new();
    let (server, notes) = noting(&setup);
    let setup = setup.client(server.auto(&["echo"]));
    for (what, spelling) in SPELLINGS {
        let run = setup
            .script(&format!(
                "server.echo(text = \"before\")\n{spelling}\nserver.echo(text = \"after\")"
            ))
            .await;
        assert_eq!(
            (&run["status"], &run["error"], &run["waits"]["pending"][0]["tool"]),
            (&json!("needs_approval"), &Value::Null, &json!("server-note")),
            "{what}: {run:#}"
        );
        assert_eq!(names(&run), ["server-echo"], "{what}: something ran that should not have");
        assert!(!notes.exists(), "{what}: the tool ran");
    }
}

#[tokio::test]
async fn a_tool_outside_the_view_does_not_exist_however_it_is_called() {
    let setup = Setup::new();
    let (server, notes) = noting(&setup);
    let setup = setup.client(server.execute(&["echo", "pid"]).auto(&["echo", "pid"]));
    for (what, spelling) in SPELLINGS {
        let run = setup
            .script(&format!(
                "server.echo(text = \"before\")\n{spelling}\nserver.echo(text = \"after\")"
            ))
            .await;
        assert_eq!(
            (&run["status"], &run["error"]["code"]),
            (&json!("error"), &json!("script_runtime")),
            "{what}: {run:#}"
        );
        // A call that the source shows is refused before the first is made.
        let made = if what == "plain" { &[][..] } else { &["server-echo"][..] };
        assert_eq!(names(&run), made, "{what}: something ran that should not have");
        assert!(!notes.exists(), "{what}: the tool ran");
    }
    let seen = setup.script("result = dir(server)").await;
    assert!(!seen.to_string().contains("note"), "{seen:#}");
}

#[tokio::test]
async fn an_approved_run_makes_every_call() {
    let setup = Setup::new();
    let (server, notes) = noting(&setup);
    let setup = setup.client(server);
    let file = setup
        .file("script.star", "[server.note(text = str(n)) for n in range(3)]\nresult = \"done\"");
    let run = setup.airlock("run").arg(file).arg("--approve").arg("--json").run().await.ok().json();
    assert_eq!(run["result"], "done", "{run:#}");
    assert_eq!(fs::read_to_string(notes).expect("it was written"), "0\n1\n2\n");
}

#[tokio::test]
async fn without_a_code_mode_client_a_script_ends_with_not_found() {
    let setup = Setup::new().client(misbehaving("server", []));
    let run = setup.script("result = 1").await;
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&json!("error"), &json!("airlock.not_found")),
        "{run:#}"
    );
}

#[tokio::test]
async fn a_vast_schema_does_not_block_the_gateway_and_its_file_is_readable() {
    let gateway = Setup::new()
        .client(misbehaving("server", ["vast"]).code_mode().auto(&["*"]))
        .serve_connected()
        .await;
    let arguments = json!({"fileName": "servers/server.pyi"});
    let read = async || gateway.execute("readToolFile", &arguments).await.content();
    let health = async || gateway.get("/health").await.ok();
    // Each read used to take minutes on one of the threads that handle requests; there are as many
    // of these as processors.
    let all = async { tokio::join!(read(), read(), read(), read(), health(), read(), health()) };
    let (file, .., another, _) =
        tokio::time::timeout(wait::SOON, all).await.expect("the gateway answers");
    assert_eq!(file, another);
    assert!(file.contains("\ndef vast(p0: dict = None, p1: dict = None, "), "{file}");
    assert!(file.contains("\ndef echo("), "{file}");
    let docs = gateway
        .execute("getToolDocs", &json!({"server": "server", "tool": "vast"}))
        .await
        .content();
    assert!(docs.contains("    p0 (dict): p0 parameter (optional)\n"), "{docs}");
}

#[tokio::test]
async fn a_script_that_never_ends_is_stopped_by_a_limit() {
    let setup = Setup::new().client(misbehaving("server", []).code_mode());
    for (source, codes) in [
        ("for _ in range(1000000000): pass", &["airlock.out_of_fuel", "airlock.cpu_time"][..]),
        ("def f(n): return f(n + 1)\nf(0)", &["script_runtime"]),
        ("x = \"x\" * 1000000\ny = [x + str(n) for n in range(1000)]", &["airlock.memory"]),
        ("result = \"x\" * 3000000", &["airlock.result_too_large"]),
    ] {
        let run = setup.script(source).await;
        let code = run["error"]["code"].as_str().unwrap_or_default();
        assert!(codes.contains(&code), "{source}: {run:#}");
        let status = if code == "script_runtime" { "error" } else { "limit" };
        assert_eq!(run["status"], status, "{source}: {run:#}");
    }
}

#[tokio::test]
async fn output_before_a_limit_is_reported() {
    let setup = Setup::new().client(misbehaving("server", []).code_mode());
    let run = setup.script("print(\"here\")\nfor _ in range(1000000000): pass").await;
    assert_eq!((&run["status"], &run["output"]), (&json!("limit"), &json!("here")), "{run:#}");
}

#[tokio::test]
async fn a_failure_names_the_line_and_the_calls_before_it() {
    let setup = Setup::new().client(misbehaving("server", []).code_mode().auto(&["*"]));
    let run = setup.script("server.echo(text = \"a\")\nx = {}\nx[\"missing\"]").await;
    assert_eq!(
        (&run["status"], &run["error"]["code"]),
        (&json!("error"), &json!("script_runtime")),
        "{run:#}"
    );
    let message = run["error"]["message"].as_str().expect("a message");
    assert!(message.contains("code.star:3") && message.contains("server.echo"), "{message}");
}

#[tokio::test]
async fn a_positional_argument_is_answered_with_the_names_of_the_parameters_in_both_languages() {
    let setup = Setup::new().client(Client::wasm("text", guests::TEXT).code_mode().auto(&["*"]));
    for file in ["script.star", "script.py"] {
        let run = setup.script_named(file, "result = text.word_count(\"one two\")").await;
        let message = run["error"]["message"].as_str().expect("a message");
        assert!(message.contains("like `text.word_count(text=\"...\")`"), "{file}: {message}");
    }
}

#[tokio::test]
async fn a_script_can_handle_the_failure_of_a_tool() {
    let setup = Setup::new().client(misbehaving("server", []).code_mode().auto(&["*"]));
    let handled = setup
        .script("tried = attempt(server.fail, {})\nresult = [tried.ok, str(tried.error)]")
        .await;
    assert_eq!(handled["result"][0], false, "{handled:#}");
    assert!(
        handled["result"][1].as_str().is_some_and(|error| error.contains("it did not work")),
        "{handled:#}"
    );
    let unhandled = setup.script("server.fail()\nserver.echo(text = \"after\")").await;
    assert_eq!(unhandled["status"], "error", "{unhandled:#}");
    assert_eq!(names(&unhandled), ["server-fail"]);
}

#[tokio::test]
async fn calls_of_a_script_end_at_its_budget() {
    let setup = Setup::new()
        .set("/mcp/tool_manager_config/max_nested_calls", 5)
        .client(misbehaving("server", []).code_mode().auto(&["*"]));
    let within =
        setup.script("result = [server.echo(text = \"n\" + str(n)) for n in range(5)]").await;
    assert_eq!(within["result"], json!(["n0", "n1", "n2", "n3", "n4"]), "{within:#}");
    let beyond = setup.script("result = [server.echo(text = str(n)) for n in range(6)]").await;
    assert_ne!(beyond["status"], "ok", "{beyond:#}");
    assert_eq!(names(&beyond).len(), 5, "{beyond:#}");
    assert!(
        beyond["error"]["message"].as_str().is_some_and(|message| message
            .contains("the script reached its limit of 5 tool calls;")
            && message.contains("server.echo (5 times)")),
        "{beyond:#}"
    );
}

#[tokio::test]
async fn the_same_run_consumes_the_same_fuel() {
    let setup = Setup::new().client(misbehaving("server", []).code_mode().auto(&["*"]));
    let source = "result = sum([server.echo(text = str(n)) for n in range(20)])";
    let first = setup.script(source).await;
    let second = setup.script(source).await;
    assert_eq!(first["result"], 190, "{first:#}");
    assert!(first["fuel"].as_u64().is_some_and(|fuel| fuel > 0), "{first:#}");
    assert_eq!(first["fuel"], second["fuel"]);
}

#[tokio::test]
async fn a_model_writes_a_script_and_reads_what_it_returned() {
    let service = airlock_tests::Service::saying([
        airlock_tests::service::asking_for(&[(
            "executeToolCode",
            json!({"code": "result = server.echo(text = \"deep\")"}),
        )]),
        airlock_tests::service::text("done"),
    ])
    .await;
    let gateway = Setup::new()
        .openai("fake", service.base_url())
        .client(misbehaving("server", []).code_mode().auto(&["echo"]))
        .serve_connected()
        .await;
    let answer = gateway.chat("fake/model", "go").await.ok();
    assert_eq!(answer["choices"][0]["message"]["content"], "done", "{answer:#}");
    let calls: Vec<_> = answer["airlock"]["calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| &call["name"])
        .collect();
    assert_eq!(calls, ["executeToolCode", "server-echo"]);
    let asked = service.asked();
    let offered: Vec<_> = asked[0].body["tools"]
        .as_array()
        .expect("tools")
        .iter()
        .map(|tool| &tool["function"]["name"])
        .collect();
    assert_eq!(offered, ["executeToolCode", "getToolDocs", "listToolFiles", "readToolFile"]);
    let told = asked[1].body["messages"].to_string();
    assert!(told.contains("Return value: \\\"deep\\\""), "{told}");
}

#[tokio::test]
async fn a_result_that_a_script_got_is_the_declared_type_of_the_next_one() {
    let gateway = Setup::new()
        .client(misbehaving("server", []).code_mode().auto(&["*"]))
        .serve_connected()
        .await;
    let read = async || {
        gateway.execute("readToolFile", &json!({"fileName": "server/echo"})).await.content()
    };
    let before = read().await;
    assert!(before.contains(") -> Any: ..."), "{before}");
    let code = r#"result = server.echo(text = "{\"id\": 7, \"owner\": \"secret\"}")"#;
    let ran = gateway.execute("executeToolCode", &json!({"code": code})).await.content();
    assert!(ran.contains("\"owner\": \"secret\""), "{ran}");
    // The result is read after the script has ended.
    let after = wait::until("the result to be read", async || {
        let file = read().await;
        (file != before).then_some(file)
    });
    let after = after.await;
    assert!(after.contains("class echo_Result(TypedDict): id: int; owner: str\n"), "{after}");
    assert!(
        after.contains("(result observed in 1 result)") && !after.contains("secret"),
        "{after}"
    );
}

#[tokio::test]
async fn tools_are_found_by_words_once_there_are_enough_of_them() {
    let setup = || Setup::new().client(misbehaving("server", []).code_mode().auto(&["*"]));
    let query = json!({"query": "echo", "limit": 1});
    let few = setup().serve_connected().await;
    let unknown = few.execute("searchTools", &query).await;
    assert_eq!(unknown.code(), "not_found");
    let gateway = setup()
        .set("/mcp/tool_manager_config/code_mode_search_threshold", 1)
        .serve_connected()
        .await;
    let found = gateway.execute("searchTools", &query).await.content();
    assert!(
        found.contains("\n# server server tools\n") && found.contains("\ndef echo("),
        "{found}"
    );
}
