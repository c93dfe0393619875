//! The command line: exit codes, and one JSON document on stdout with `--json`.

use std::path::Path;

use airlock_tests::{Airlock, Client, Setup, component, guests, misbehaving, wait};
use serde_json::{Value, json};

#[tokio::test]
async fn help_and_version_work_and_an_unknown_command_exits_with_2() {
    let help = Airlock::new().arg("--help").run().await.ok();
    for command in ["serve", "demo", "tools", "call", "run", "check", "plugin", "schema"] {
        assert!(help.stdout.contains(command), "{help}");
    }
    assert!(Airlock::new().arg("--version").run().await.ok().stdout.starts_with("airlock "));
    let nonsense = Airlock::new().arg("frobnicate").run().await;
    assert_eq!((nonsense.code, nonsense.stdout.as_str()), (Some(2), ""), "{nonsense}");
}

#[tokio::test]
async fn a_call_prints_one_document_on_success_and_on_failure() {
    let setup =
        Setup::new().client(Client::wasm("text", guests::TEXT)).client(misbehaving("server", []));
    let good = setup
        .airlock("call")
        .arg("text-word_count")
        .arg(r#"{"text": "one two"}"#)
        .arg("--json")
        .run()
        .await
        .ok()
        .json();
    assert_eq!(
        (&good["ok"], &good["structured"]["words"], &good["error"]),
        (&json!(true), &json!(2), &Value::Null),
        "{good:#}"
    );
    assert!(
        good["fuel"].as_u64().is_some_and(|fuel| fuel > 0) && good["duration_ms"].is_number(),
        "{good:#}"
    );
    let table = [
        ("text-nothing", "{}", "airlock.not_found"),
        ("text-word_count", "[1]", "airlock.bad_arguments"),
        ("text-word_count", r#"{"txt": "x"}"#, "airlock.bad_arguments"),
        ("server-die", "{}", "airlock.unavailable"),
        ("server-fail", "{}", "airlock.tool_error"),
    ];
    for (name, arguments, code) in table {
        let run = setup.airlock("call").arg(name).arg(arguments).arg("--json").run().await.failed();
        let document = run.json();
        assert_eq!(
            (&document["ok"], &document["error"]["code"]),
            (&json!(false), &json!(code)),
            "{name}: {run}"
        );
        assert!(
            document["error"]["message"].as_str().is_some_and(|message| !message.is_empty()),
            "{name}: {run}"
        );
    }
}

#[tokio::test]
async fn without_json_stdout_has_the_result_alone() {
    let setup = Setup::new().client(misbehaving("server", []));
    let good =
        setup.airlock("call").arg("server-echo").arg(r#"{"text": "just this"}"#).run().await.ok();
    assert_eq!(good.stdout, "just this\n");
    let bad = setup.airlock("call").arg("server-fail").run().await.failed();
    assert_eq!(bad.stdout, "", "{bad}");
    assert!(bad.stderr.contains("it did not work"), "{bad}");
}

#[tokio::test]
async fn a_call_of_a_failed_source_names_the_source() {
    let setup = Setup::new().client(misbehaving("dead", ["die"]));
    let run = setup.airlock("call").arg("dead-echo").run().await.failed();
    assert!(run.stderr.contains("dead (stdio) is not connected"), "{run}");
}

#[tokio::test]
async fn a_call_of_a_tool_that_is_not_permitted_names_its_client_and_no_other_source() {
    let setup = Setup::new()
        .client(misbehaving("server", []).execute(&["echo"]))
        .client(misbehaving("dead", ["die"]));
    let run = setup.airlock("call").arg("server-fail").run().await.failed();
    assert!(run.stderr.contains("the client server has no tool of this name"), "{run}");
    assert!(!run.stderr.contains("(stdio)") && !run.stderr.contains("caused by"), "{run}");
    let run = setup.airlock("call").arg("server-ecoh").run().await.failed();
    assert!(run.stderr.contains(r#"did you mean "server-echo"?"#), "{run}");
}

#[tokio::test]
async fn a_run_exits_with_0_only_if_the_script_succeeds() {
    let setup = Setup::new().client(misbehaving("server", []).code_mode().auto(&["echo"]));
    let run = async |source: &str| {
        let file = setup.file("script.star", source);
        setup.airlock("run").arg(file).arg("--json").run().await
    };
    let good = run("result = 6 * 7").await.ok().json();
    assert_eq!(
        (&good["status"], &good["result"], &good["error"]),
        (&json!("ok"), &json!(42), &Value::Null),
        "{good:#}"
    );
    for (source, status) in [
        ("1 / 0", "error"),
        ("this is no script", "error"),
        ("server.note(text = \"x\")", "needs_approval"),
        ("for _ in range(1000000000): pass", "limit"),
    ] {
        let run = run(source).await.failed();
        assert_eq!(run.json()["status"], status, "{source}: {run}");
    }
    let missing = setup.airlock("run").arg("/no/such/script").arg("--json").run().await.failed();
    assert_eq!(missing.json()["status"], "error", "{missing}");
}

#[tokio::test]
async fn the_first_run_prepares_the_executor_within_the_limits_of_the_compiler_process() {
    let setup = Setup::new().client(misbehaving("server", []).code_mode().auto(&["echo"]));
    let cache = tempfile::tempdir().expect("a directory");
    let script = setup.file("script.star", "result = 6 * 7");
    let run = setup.airlock("run").arg(script).arg("--json").env("AIRLOCK_CACHE_DIR", cache.path());
    assert_eq!(run.run().await.ok().json()["result"], 42);
}

#[tokio::test]
async fn a_call_compiles_the_executor_only_if_it_runs_a_script() {
    let setup = Setup::new().client(misbehaving("server", []).code_mode().auto(&["echo"]));
    let cache = tempfile::tempdir().expect("a directory");
    let call = setup.airlock("call").arg("server-echo").arg(r#"{"text": "one"}"#);
    let called = call.env("AIRLOCK_CACHE_DIR", cache.path()).run().await.ok();
    assert!(called.stdout.contains("one"), "{called}");
    assert_eq!(compiled(cache.path()), 0, "{called}");
    let script = setup.airlock("call").arg("executeToolCode").arg(r#"{"code": "result = 6 * 7"}"#);
    let ran = script.env("AIRLOCK_CACHE_DIR", cache.path()).run().await.ok();
    assert!(ran.stdout.contains("42"), "{ran}");
    assert!(compiled(cache.path()) > 0, "{ran}");
}

/// Returns the number of files in a cache of compiled code.
fn compiled(cache: &Path) -> usize {
    let files = std::fs::read_dir(cache.join("code")).into_iter().flatten().flatten();
    files.filter(|file| file.path().extension().is_some_and(|suffix| suffix == "cwasm")).count()
}

#[tokio::test]
async fn check_names_every_problem_with_its_key_and_what_would_be_valid() {
    let setup = Setup::new()
        .set("/server/listen", "somewhere")
        .client(Client::wasm("two-words", "/no/such/plugin.wasm"))
        .client(misbehaving("server", []).execute(&["echo"]).auto(&["pid"]));
    let run = setup.airlock("check").arg("--json").run().await.failed();
    let report = run.json();
    assert_eq!(report["ok"], false);
    let errors = report["errors"].as_array().expect("errors");
    let keys: Vec<_> = errors.iter().filter_map(|error| error["key"].as_str()).collect();
    for key in ["server.listen", "mcp.client_configs", "tools_to_auto_execute"] {
        assert!(keys.iter().any(|found| found.contains(key)), "{key} is not among {keys:?}: {run}");
    }
    let sizes =
        Setup::new().set("/server/max_body", "10 bananas").airlock("check").run().await.failed();
    assert!(sizes.stderr.contains("server.max_body") && sizes.stderr.contains("64MiB"), "{sizes}");
}

#[tokio::test]
async fn check_suggests_the_key_that_was_meant() {
    let run = Setup::new().set("/servers", json!({})).airlock("check").run().await.failed();
    assert!(run.stderr.contains("servers") && run.stderr.contains("server"), "{run}");
    let run =
        Setup::new().set("/mcp/client_config", json!([])).airlock("check").run().await.failed();
    assert!(run.stderr.contains("client_configs"), "{run}");
}

#[tokio::test]
async fn check_reports_missing_files_and_variables() {
    let missing = Setup::new()
        .client(Client::wasm("text", "/no/such/plugin.wasm"))
        .airlock("check")
        .run()
        .await
        .failed();
    assert!(missing.stderr.contains("/no/such/plugin.wasm"), "{missing}");
    let setup = Setup::new().client(Client::http("remote", "env.AIRLOCK_TEST_URL"));
    let unset = setup.airlock("check").run().await.failed();
    assert!(
        unset.stderr.contains("AIRLOCK_TEST_URL") && unset.stderr.contains("connection_string"),
        "{unset}"
    );
    let _ =
        setup.airlock("check").env("AIRLOCK_TEST_URL", "http://127.0.0.1:9/mcp").run().await.ok();
}

#[tokio::test]
async fn check_and_serve_agree_on_a_secret_without_a_value() {
    let request = json!({"secret": {"token": {"reveal": true, "reason": "Signs in."}}});
    let setup = Setup::new();
    let wasm = setup.directory().join("mail.wasm");
    std::fs::write(&wasm, component::with_manifest(guests::HOSTILE, "mail", &request))
        .expect("a file");
    let grants = json!({"secret": {"token": {"from": "env:AIRLOCK_TEST_TOKEN"}}});
    let setup = setup.client(Client::wasm("mail", &wasm).set("/wasm_config/grants", grants));
    let unset = setup.airlock("check").run().await.failed();
    assert!(
        unset.stderr.contains(
            "grants.secret.token.from: the secret \"token\" of the plugin mail has no value"
        ) && unset.stderr.contains("AIRLOCK_TEST_TOKEN is not set"),
        "{unset}"
    );
    let tools = setup.airlock("tools").run().await.ok();
    assert!(tools.stdout.contains("AIRLOCK_TEST_TOKEN is not set"), "{tools}");
    for command in ["check", "tools"] {
        let run = setup.airlock(command).env("AIRLOCK_TEST_TOKEN", "hush-hush").run().await.ok();
        assert!(!run.stdout.contains("is not set"), "{run}");
    }
}

#[tokio::test]
async fn tools_shows_the_invisible_characters_of_a_description() {
    let wasm = component::with_tools(guests::HOSTILE, |tools| {
        tools.iter_mut().find(|tool| tool["name"] == "ok").expect("it has the tool")["description"] =
            json!("Answers\n at once.\u{200b}\u{202e}");
    })
    .await;
    let setup = Setup::new();
    let path = setup.directory().join("guest.wasm");
    std::fs::write(&path, wasm).expect("a file");
    let tools = setup.client(Client::wasm("guest", &path)).airlock("tools").run().await.ok();
    let line = tools.stdout.lines().find(|line| line.starts_with("guest-ok ")).expect("a line");
    assert!(line.ends_with("  Answers at once.⟨U+200B⟩⟨U+202E⟩"), "{tools}");
}

#[tokio::test]
async fn a_secret_is_never_printed() {
    let setup = Setup::new()
        .set("/providers/p", json!({"kind": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key": "env.AIRLOCK_TEST_KEY"}))
        .client(
            Client::http("remote", "http://127.0.0.1:9/mcp").set("/headers", json!({"Authorization": "env.AIRLOCK_TEST_KEY"})),
        );
    for command in ["check", "tools"] {
        let run = setup
            .airlock(command)
            .env("AIRLOCK_TEST_KEY", "hush-hush")
            .env("AIRLOCK_LOG", "trace")
            .run()
            .await;
        assert!(
            !run.stdout.contains("hush-hush") && !run.stderr.contains("hush-hush"),
            "{command} printed it"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_no_component_puts_its_source_in_error() {
    let setup = Setup::new();
    let text = setup.file("text.wasm", "this is a text");
    let module = setup.file("module.wasm", "\0asm\u{1}\0\0\0");
    let setup = setup.client(Client::wasm("text", text)).client(Client::wasm("module", module));
    let document = setup.airlock("tools").arg("--json").run().await.ok().json();
    for source in document["sources"].as_array().expect("sources") {
        assert_eq!(source["state"], "error", "{source:#}");
        assert!(source["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{source:#}");
    }
}

#[tokio::test]
async fn the_published_schema_matches_the_printed_one() {
    let printed = Airlock::new().arg("schema").run().await.ok().json();
    let file = airlock_tests::root().join("host/config.schema.json");
    let published: Value =
        serde_json::from_str(&std::fs::read_to_string(file).expect("it is there")).expect("JSON");
    assert_eq!(printed, published);
}

#[tokio::test]
async fn only_check_and_serve_report_plugins_that_are_not_pinned() {
    let setup = Setup::new().client(Client::wasm("text", guests::TEXT));
    let config = setup.write();
    let tools = setup.airlock("tools").run().await.ok();
    assert!(!tools.stderr.contains("pinned"), "{tools}");
    let checked = setup.airlock("check").run().await.ok();
    let accept = format!("`airlock plugin accept --all --config {}`", config.display());
    assert!(
        checked.stderr.contains("not pinned: text") && checked.stderr.contains(&accept),
        "{checked}"
    );
    let document = setup.airlock("check").arg("--json").run().await.ok().json();
    assert_eq!((&document["ok"], &document["unpinned"]), (&json!(true), &json!(["text"])));
    let _ = accept_all(&config).arg("--yes").run().await.ok();
    let checked = setup.airlock("check").run().await.ok();
    assert_eq!(checked.stderr, "", "{checked}");
}

fn accept_all(config: &Path) -> Airlock {
    Airlock::new().arg("plugin").arg("accept").arg("--all").arg("--config").arg(config)
}

#[tokio::test]
async fn plugins_are_shown_and_not_accepted_without_a_terminal_to_ask_on_or_yes() {
    let setup = Setup::new().client(Client::wasm("text", guests::TEXT));
    let config = setup.write();
    let lock = config.with_file_name("airlock.lock");
    let refused = accept_all(&config).run().await.failed();
    assert!(refused.stdout.contains("+sha256:"), "{refused}");
    assert!(refused.stderr.contains("`--yes` accepts without a question"), "{refused}");
    assert!(!lock.exists(), "{refused}");
    let _ = accept_all(&config).arg("--yes").run().await.ok();
    assert!(lock.exists());
    // Nothing is written, so nothing is asked.
    let _ = accept_all(&config).run().await.ok();
}

#[tokio::test]
async fn a_gateway_that_serves_logs_which_plugins_are_not_pinned() {
    let setup = Setup::new().client(Client::wasm("text", guests::TEXT));
    let gateway = setup.serve_connected().await;
    // The warning precedes the first request, but another thread reads the log.
    let warned = async || gateway.said().contains("plugins are not pinned").then_some(());
    wait::until("the warning", warned).await;
    assert!(gateway.said().contains("clients=\"text\""), "{}", gateway.said());
}
