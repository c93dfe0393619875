//! Information flow: calls of sinks after results of untrusted servers, for each author of calls.

use std::{fs, path::PathBuf};

use airlock::door::ScriptLanguage;
use airlock_tests::{
    Airlock, Embedded, Gateway, Reply, Service, Setup, mcp::Endpoint, misbehaving, service, wait,
};
use reqwest::Method;
use serde_json::{Value, json};

/// Text in the refusal of a sink.
const DENIED: &str = "is not called after untrusted content was read";
/// Setting of approvals of a script's calls.
const APPROVAL: &str = "/mcp/tool_manager_config/code_mode_approval";

/// A gateway with the servers `web`, whose results are no trusted ones, and `mail`, whose tool `note` is a sink and
/// appends to a file.
struct Flow {
    gateway: Gateway,
    notes: PathBuf,
}

impl Flow {
    /// Starts a gateway. `decision` is that about `mail-note` after results of `web`.
    async fn start(decision: &str, change: impl FnOnce(Setup) -> Setup) -> Self {
        Self::with(decision, |_| false, change).await
    }

    /// Starts a gateway that offers the tools of some servers to scripts alone.
    async fn with(
        decision: &str,
        is_scripted: fn(&str) -> bool,
        change: impl FnOnce(Setup) -> Setup,
    ) -> Self {
        let setup = Self::setup(decision, is_scripted);
        let notes = setup.directory().join("notes");
        Self { gateway: change(setup).serve_connected().await, notes }
    }

    fn setup(decision: &str, is_scripted: fn(&str) -> bool) -> Setup {
        let setup = Setup::new();
        let mode = format!("notes={}", setup.directory().join("notes").display());
        let sink = json!({"tools": ["mail-note"], "from": ["web"], "decision": decision});
        let web = misbehaving("web", [mode.as_str()]).execute(&["echo"]).auto(&["echo"]);
        let mail = misbehaving("mail", [mode.as_str()]).execute(&["echo", "note"]).auto(&["note"]);
        setup
            .client(if is_scripted("web") { web.code_mode() } else { web })
            .client(if is_scripted("mail") { mail.code_mode() } else { mail })
            .set("/mcp/information_flow/sinks", json!([sink]))
            .set("/records/call_log/enabled", true)
    }

    /// Starts a gateway whose rule is about the argument `text` of `mail-note`, for scripts alone.
    async fn about_arguments(decision: &str, language: &str) -> Self {
        let rules = about_text(decision);
        let language = language.to_owned();
        Self::with(
            decision,
            |_| true,
            |setup| {
                setup
                    .set("/mcp/information_flow/sinks", rules)
                    .set("/mcp/tool_manager_config/code_mode_language", language)
            },
        )
        .await
    }

    /// Returns what was noted.
    fn noted(&self) -> String {
        fs::read_to_string(&self.notes).unwrap_or_default()
    }

    async fn run(&self, code: &str) -> Reply {
        self.gateway.execute("executeToolCode", &json!({"code": code})).await
    }

    /// Returns the latest row of a call of `mail-note` with an outcome in the call log.
    async fn row(&self, outcome: &str) -> Value {
        wait::until("the row to be written", async || {
            let listed = self.gateway.get("/api/mcp-logs?limit=20").await.ok();
            let rows = listed["logs"].as_array().expect("rows");
            let mut notes = rows.iter().filter(|row| row["tool_name"] == "mail-note");
            notes.find(|row| row["outcome"] == outcome).cloned()
        })
        .await
    }
}

/// Returns the rules about the argument `text` of `mail-note`.
fn about_text(decision: &str) -> Value {
    let text = json!(["text"]);
    json!([{"tools": ["mail-note"], "from": ["web"], "arguments": text, "decision": decision}])
}

fn echo() -> (&'static str, Value) {
    ("web-echo", json!({"text": "page"}))
}

fn note(text: &str) -> (&'static str, Value) {
    ("mail-note", json!({"text": text}))
}

/// Returns the parameters of a call of a client.
fn call((name, arguments): &(&str, Value)) -> Value {
    json!({"name": name, "arguments": arguments})
}

#[tokio::test]
async fn a_model_calls_no_sink_in_the_round_after_it_has_read() {
    let model = Service::saying([
        service::asking_for(&[note("before")]),
        service::asking_for(&[echo(), note("same round")]),
        service::asking_for(&[note("after")]),
        service::text("done"),
    ])
    .await;
    let flow = Flow::start("deny", |setup| setup.openai("fake", model.base_url())).await;
    let _ = flow.gateway.chat("fake/model", "go").await.ok();
    assert_eq!(flow.noted(), "before\nsame round\n");
    let told = model.asked().pop().expect("the model was asked again").body.to_string();
    assert!(told.contains(DENIED) && told.contains("from web"), "{told}");
    let row = flow.row("refused").await;
    assert_eq!(row["sources"], json!(["web"]), "{row}");
    assert_eq!(row["error_details"]["code"], "airlock.untrusted_context");
}

#[tokio::test]
async fn a_model_has_read_the_results_that_its_caller_sends() {
    for (tool, is_denied) in [("web-echo", true), ("mail-echo", false)] {
        let model =
            Service::saying([service::asking_for(&[note("x")]), service::text("end")]).await;
        let flow = Flow::start("deny", |setup| setup.openai("fake", model.base_url())).await;
        let call =
            json!({"id": "c", "type": "function", "function": {"name": tool, "arguments": "{}"}});
        let messages = json!([
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "page"},
        ]);
        let body = json!({"model": "fake/model", "messages": messages});
        let _ = flow.gateway.post("/v1/chat/completions", &body).await.ok();
        assert_eq!(flow.noted().is_empty(), is_denied, "{tool}");
    }
}

#[tokio::test]
async fn a_call_that_is_asked_about_is_returned_with_its_sources() {
    let model =
        Service::saying([service::asking_for(&[echo()]), service::asking_for(&[note("asked")])])
            .await;
    let flow = Flow::start("ask", |setup| setup.openai("fake", model.base_url())).await;
    let answer = flow.gateway.chat("fake/model", "go").await.ok();
    let pending = &answer["airlock"]["pending"][0];
    assert_eq!(
        (&pending["name"], &pending["reason"], &pending["sources"]),
        (&json!("mail-note"), &json!("needs_approval"), &json!(["web"])),
        "{answer:#}"
    );
    assert_eq!(flow.noted(), "");
    // The caller's request is the approval.
    let (name, arguments) = note("asked");
    assert_eq!(flow.gateway.execute(name, &arguments).await.status, 200);
    assert_eq!(flow.noted(), "asked\n");
}

#[tokio::test]
async fn a_script_calls_no_sink_after_it_has_read_in_either_language() {
    for language in ["starlark", "python"] {
        let flow = Flow::with(
            "deny",
            |_| true,
            |setup| setup.set("/mcp/tool_manager_config/code_mode_language", language),
        )
        .await;
        let read = "a = web.echo(text='page')";
        let made = flow.run(&format!("b = mail.note(text='before')\n{read}")).await;
        assert_eq!((made.status, flow.noted().as_str()), (200, "before\n"), "{}", made.text);
        let denied = flow.run(&format!("{read}\nb = mail.note(text='after')")).await;
        assert!(denied.text.contains(DENIED), "{language}: {}", denied.text);
        assert_eq!(flow.noted(), "before\n", "{language}");
    }
}

#[tokio::test]
async fn an_argument_of_a_script_is_refused_if_it_may_come_from_what_was_read() {
    for language in ["starlark", "python"] {
        let flow = Flow::about_arguments("deny", language).await;
        let read = "page = web.echo(text='page')";
        for (note, is_denied) in [
            ("mail.note(text='fixed')", false),
            ("mail.note(text='to ' + page)", true),
            ("texts = ['a']\nalias = texts\nalias.append(page)\nmail.note(text=texts[0])", true),
            ("if page == 'page':\n    mail.note(text='decided')", true),
            ("def f(x):\n    return x\nmail.note(text=f(page))", true),
            ("other = [page, 'own']\nmail.note(text='beside it')", false),
        ] {
            let before = flow.noted();
            let made = flow.run(&format!("{read}\n{note}")).await;
            let case = format!("{language}: {note}: {}", made.text);
            assert_eq!(made.text.contains("may come from untrusted content"), is_denied, "{case}");
            assert_eq!(flow.noted() == before, is_denied, "{case}");
        }
        let row = flow.row("refused").await;
        assert_eq!(row["sources"], json!(["web"]), "{row}");
    }
}

#[tokio::test]
async fn a_script_that_is_asked_about_an_argument_shows_its_sources_after_a_restart_too() {
    for language in ["starlark", "python"] {
        let flow = Flow::about_arguments("ask", language).await;
        let code = "page = web.echo(text='page')\nresult = mail.note(text=page)";
        let stopped = flow.run(code).await.ok();
        let run = &stopped["airlock"]["run"];
        let id = run["id"].as_str().expect("it waits").to_owned();
        assert_eq!(run["pending"][0]["argument_sources"], json!({"text": ["web"]}), "{run:#}");
        assert_eq!(flow.noted(), "", "{language}");
        let notes = flow.notes.clone();
        let flow = Flow { gateway: flow.gateway.kill().await.serve_connected().await, notes };
        let shown = flow.gateway.get(&format!("/v1/runs/{id}")).await.ok();
        let pending = &shown["pending"][0];
        assert_eq!(pending["sources"], json!(["web"]), "{shown:#}");
        assert_eq!(pending["argument_sources"], json!({"text": ["web"]}), "{shown:#}");
        let body = json!({"calls": ["2"]});
        let run = flow.gateway.post(&format!("/v1/runs/{id}/approve"), &body).await.ok();
        assert_eq!(run["state"], "completed", "{run:#}");
        assert_eq!(flow.noted(), "page\n", "{language}");
    }
}

#[tokio::test]
async fn a_client_its_user_and_the_terminal_see_the_sources_of_each_argument() {
    let flow = Flow::about_arguments("ask", "starlark").await;
    let code = "page = web.echo(text='page')\nresult = mail.note(text=page)";
    let params = json!({"name": "executeToolCode", "arguments": {"code": code}});
    let line = "(the argument \"text\" may come from web)\n";
    let asking = Endpoint::new(&flow.gateway).with_elicitation();
    let question = asking.modern("tools/call", params.clone()).result().await;
    let message = question["inputRequests"]["approval"]["params"]["message"].as_str();
    let expected = format!("\n  {line}  text: \"page\"");
    assert!(message.is_some_and(|message| message.contains(&expected)), "{question}");
    let stopped = Endpoint::new(&flow.gateway).modern("tools/call", params).result().await;
    let text = stopped["content"][1]["text"].as_str();
    assert!(text.is_some_and(|text| text.contains(&format!("\n  {line}"))), "{stopped}");
    let run = &stopped["_meta"]["airlock/run"];
    assert_eq!(run["pending"][0]["argument_sources"], json!({"text": ["web"]}), "{run}");
    let show = Airlock::new().arg("runs").arg("show").arg(run["id"].as_str().expect("an id"));
    let config = flow.gateway.directory().join("airlock.json");
    let shown = show.arg("--config").arg(config).run().await.ok().stdout;
    assert!(shown.contains(line), "{shown}");
}

#[tokio::test]
async fn a_program_sees_the_sources_of_a_call_of_its_script_and_of_each_argument() {
    let setup = Flow::setup("ask", |_| true);
    let setup = setup.set("/mcp/information_flow/sinks", about_text("ask"));
    let embedded = Embedded::start(setup).await;
    let request = embedded.gateway().request().language(ScriptLanguage::Starlark);
    let request = request.open().expect("it is permitted");
    // Waits until the servers are connected.
    let _ = request.tools().await.expect("a list");
    let code = "page = web.echo(text='page')\nresult = mail.note(text=page)";
    let stopped = request.run_script(code).await.expect("it waits");
    let pending = stopped.pending().expect("it waits");
    let call = &pending.calls[0];
    assert_eq!((call.tool.as_str(), call.sources.to_string().as_str()), ("mail-note", "web"));
    let of_arguments = call.argument_sources.as_ref().expect("they are known");
    assert_eq!(json!(of_arguments), json!({"text": ["web"]}));
    assert!(call.manifest.is_empty(), "it is one call: {call:?}");
    let listed = request.pending().await.expect("a list");
    assert_eq!(listed[0].calls, pending.calls);
    embedded.stop().await;
}

#[tokio::test]
async fn in_a_chat_an_argument_comes_from_all_that_was_read() {
    let model = Service::saying([
        service::asking_for(&[echo()]),
        service::asking_for(&[note("fixed")]),
        service::text("done"),
    ])
    .await;
    let rule = json!({"tools": ["mail-note"], "arguments": ["text"], "decision": "deny"});
    let flow = Flow::start("deny", |setup| {
        let setup = setup.openai("fake", model.base_url());
        setup.set("/mcp/information_flow/sinks", json!([rule]))
    })
    .await;
    let _ = flow.gateway.chat("fake/model", "go").await.ok();
    assert_eq!(flow.noted(), "");
}

#[tokio::test]
async fn a_script_stops_at_a_sink_and_goes_on_with_the_approval_of_what_was_shown() {
    let flow = Flow::with("ask", |_| true, |setup| setup).await;
    let code = "a = web.echo(text='page')\nresult = mail.note(text='asked')";
    let stopped = flow.run(code).await.ok();
    let run = &stopped["airlock"]["run"];
    let id = run["id"].as_str().expect("it waits").to_owned();
    assert_eq!(run["pending"][0]["sources"], json!(["web"]), "{stopped:#}");
    let shown = flow.gateway.get(&format!("/v1/runs/{id}")).await.ok();
    assert_eq!(shown["pending"][0]["sources"], json!(["web"]), "{shown:#}");
    assert_eq!(flow.noted(), "");
    // The answer of `web` is in the journal of the run, with its source.
    let notes = flow.notes.clone();
    let flow = Flow { gateway: flow.gateway.kill().await.serve_connected().await, notes };
    let body = json!({"calls": ["2"]});
    let run = flow.gateway.post(&format!("/v1/runs/{id}/approve"), &body).await.ok();
    assert_eq!((&run["state"], flow.noted().as_str()), (&json!("completed"), "asked\n"), "{run:#}");
    let row = flow.row("success").await;
    assert_eq!(row["sources"], json!(["web"]), "{row}");
}

#[tokio::test]
async fn a_manifest_approves_a_sink_with_the_sources_that_it_shows_and_no_refused_one() {
    let flow = Flow::with("ask", |_| true, |setup| setup.set(APPROVAL, "manifest")).await;
    let code = "a = web.echo(text='page')\nresult = mail.note(text='asked')";
    let stopped = flow.run(code).await.ok();
    let run = &stopped["airlock"]["run"];
    let line = "mail.note(text=\"asked\"): at most once, after reading untrusted content from web";
    assert_eq!(run["pending"][0]["manifest"][0], line, "{stopped:#}");
    let path = format!("/v1/runs/{}/approve", run["id"].as_str().expect("it waits"));
    let run = flow.gateway.post(&path, &json!({"calls": ["1"]})).await.ok();
    assert_eq!((&run["state"], flow.noted().as_str()), (&json!("completed"), "asked\n"), "{run:#}");
    // A plan finds that the script fails there, so there is no manifest to approve.
    let flow = Flow::with("deny", |_| true, |setup| setup.set(APPROVAL, "manifest")).await;
    let denied = flow.run(code).await;
    assert!(denied.text.contains(DENIED), "{}", denied.text);
    assert_eq!(flow.noted(), "");
}

#[tokio::test]
async fn a_manifest_has_an_approval_of_the_call_whose_argument_a_rule_asks_about() {
    let rule = json!({"tools": ["mail-note"], "arguments": ["text"], "decision": "ask"});
    let flow = Flow::with(
        "ask",
        |_| true,
        |setup| setup.set("/mcp/information_flow/sinks", json!([rule])).set(APPROVAL, "manifest"),
    )
    .await;
    let read = "page = web.echo(text='page')";
    let made = flow.run(&format!("{read}\nresult = mail.note(text='fixed')")).await;
    assert_eq!((made.status, flow.noted().as_str()), (200, "fixed\n"), "{}", made.text);
    let stopped = flow.run(&format!("{read}\nresult = mail.note(text=page)")).await.ok();
    let run = &stopped["airlock"]["run"];
    let line = run["pending"][0]["manifest"][0].as_str().unwrap_or_default();
    assert!(line.ends_with("after reading untrusted content from web"), "{stopped:#}");
    assert_eq!(flow.noted(), "fixed\n");
    let path = format!("/v1/runs/{}/approve", run["id"].as_str().expect("it waits"));
    let run = flow.gateway.post(&path, &json!({"calls": ["1"]})).await.ok();
    assert_eq!(run["state"], "completed", "{run:#}");
    assert_eq!(flow.noted(), "fixed\npage\n");
}

#[tokio::test]
async fn a_resumed_run_knows_what_its_caller_and_its_script_had_read() {
    // `echo` of `mail` needs an approval, and `note` is a sink.
    let code = "a = mail.echo(text='wait')\nresult = mail.note(text='after')";
    let model = Service::saying([
        service::asking_for(&[echo()]),
        service::asking_for(&[("executeToolCode", json!({"code": code}))]),
    ])
    .await;
    let flow =
        Flow::with("deny", |name| name == "mail", |setup| setup.openai("fake", model.base_url()))
            .await;
    let answer = flow.gateway.chat("fake/model", "go").await.ok();
    let id = answer["airlock"]["run"]["id"].as_str().expect("it waits").to_owned();
    let notes = flow.notes.clone();
    let flow = Flow { gateway: flow.gateway.kill().await.serve_connected().await, notes };
    let body = json!({"calls": ["1"]});
    let run = flow.gateway.post(&format!("/v1/runs/{id}/approve"), &body).await.ok();
    assert!(run.to_string().contains(DENIED), "{run:#}");
    assert_eq!(flow.noted(), "");
}

#[tokio::test]
async fn a_client_calls_no_sink_in_the_session_in_which_it_has_read() {
    let flow = Flow::start("deny", |setup| setup).await;
    let endpoint = Endpoint::new(&flow.gateway);
    let session = endpoint.session().await;
    let _ = session.request("tools/call", call(&note("before"))).result().await;
    let _ = session.request("tools/call", call(&echo())).result().await;
    let denied = session.request("tools/call", call(&note("after"))).result().await;
    assert_eq!(denied["_meta"]["airlock/error"]["code"], "airlock.untrusted_context", "{denied}");
    assert_eq!(flow.noted(), "before\n");
    let other = endpoint.session().await;
    let _ = other.request("tools/call", call(&note("other"))).result().await;
    assert_eq!(flow.noted(), "before\nother\n");
}

#[tokio::test]
async fn a_request_that_names_one_call_begins_with_nothing_read() {
    let flow = Flow::start("deny", |setup| setup).await;
    for (name, arguments) in [echo(), note("next")] {
        assert_eq!(flow.gateway.execute(name, &arguments).await.status, 200, "{name}");
    }
    assert_eq!(flow.noted(), "next\n");
}

#[tokio::test]
async fn the_list_of_approvals_shows_the_sources_and_an_approval_is_about_them() {
    let flow = Flow::start("ask", |setup| setup.set("/mcp_server/approval_wait", "0s")).await;
    let session = Endpoint::new(&flow.gateway).session().await;
    let asked = call(&note("asked"));
    let _ = session.request("tools/call", call(&echo())).result().await;
    let waits = session.request("tools/call", asked.clone()).result().await;
    let id = waits["_meta"]["airlock/approval"]["id"].as_str().expect("it waits").to_owned();
    let listed = flow.gateway.get("/v1/approvals").await.ok();
    assert_eq!(listed["data"][0]["sources"], json!(["web"]), "{listed:#}");
    let approve = flow.gateway.request(Method::POST, &format!("/v1/approvals/{id}/approve"));
    assert_eq!(Reply::fetch(approve).await.status, 200);
    let made = session.request("tools/call", asked).result().await;
    assert_eq!(made["content"][0]["text"], "noted asked", "{made}");
}

#[tokio::test]
async fn a_name_in_a_rule_that_nothing_has_is_warned_of() {
    let rules = json!([{"tools": ["mial-note"], "from": ["web"], "decision": "deny"}]);
    let setup = Flow::setup("deny", |_| false).set("/mcp/information_flow/sinks", rules);
    let checked = setup.airlock("check").arg("--json").run().await.ok().json();
    let key = "mcp.information_flow.sinks[0].tools[0]";
    let warnings = checked["warnings"].as_array().expect("a list");
    assert!(warnings.iter().any(|warning| warning["key"] == key), "{checked:#}");
    let gateway = setup.serve_connected().await;
    let said = wait::until("the log to name the rule", async || {
        Some(gateway.said()).filter(|said| said.contains(key))
    })
    .await;
    assert_eq!(said.matches(key).count(), 1, "{said}");
}
