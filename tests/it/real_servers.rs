//! MCP servers of other authors, as they are installed from npm and PyPI. The modules compare each
//! server through the gateway with the same server called directly.

mod documented;
mod npm;
mod page;
mod pypi;
mod server;
mod sse;

use airlock_tests::{Setup, peers};
use serde_json::{Value, json};

/// Returns the names of the tools of one client in the document that `airlock tools --json` prints.
fn names<'a>(document: &'a Value, client: &str) -> Vec<&'a str> {
    let tools = document["tools"].as_array().expect("a list of tools");
    tools
        .iter()
        .filter(|tool| tool["client"] == client)
        .filter_map(|tool| tool["name"].as_str())
        .collect()
}

#[tokio::test]
async fn servers_from_npm_and_pypi_are_listed_side_by_side() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let setup = Setup::new()
        .client(peers::everything("everything"))
        .client(peers::filesystem("fs", directory.path()))
        .client(peers::time("time"));
    let document = setup.airlock("tools").arg("--json").run().await.ok().json();
    for (client, tool) in [
        ("everything", "everything-get-sum"),
        ("fs", "fs-read_text_file"),
        ("time", "time-convert_time"),
    ] {
        assert!(names(&document, client).contains(&tool), "{tool} is not in {document:#}");
    }
    assert_eq!(names(&document, "fs").len(), 14, "{document:#}");
    let states: Vec<_> = document["sources"]
        .as_array()
        .expect("sources")
        .iter()
        .map(|source| &source["state"])
        .collect();
    assert_eq!(states, ["connected"; 3]);
}

#[tokio::test]
async fn everything_works_over_stdio() {
    let setup = Setup::new().client(peers::everything("everything"));
    let echo = setup.call("everything-echo", &json!({"message": "hello"})).await;
    assert_eq!(
        (&echo["ok"], &echo["content"]),
        (&json!(true), &json!([{"type": "text", "text": "Echo: hello"}])),
        "{echo:#}"
    );
    let weather =
        setup.call("everything-get-structured-content", &json!({"location": "New York"})).await;
    assert!(weather["structured"]["temperature"].is_number(), "{weather:#}");
}

#[tokio::test]
async fn everything_inherits_only_basic_variables_from_the_environment_of_the_gateway() {
    let setup = Setup::new().client(peers::everything("everything"));
    let run = setup
        .airlock("call")
        .env("SECRET_OF_THE_GATEWAY", "hush")
        .arg("everything-get-env")
        .arg("--json");
    let answer = run.run().await.ok().json();
    let text = answer["content"][0]["text"].as_str().expect("a text");
    let environment: Value = serde_json::from_str(text).expect("it answers with JSON");
    let mut names: Vec<_> = environment.as_object().expect("of variables").keys().collect();
    assert!(names.iter().any(|name| *name == "PATH"), "{text}");
    let basic =
        ["AIRLOCK_UPSTREAM", "HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER"];
    names.retain(|name| !basic.contains(&name.as_str()) && !name.starts_with("LC_"));
    assert!(names.is_empty(), "{names:?}");
}

#[tokio::test]
async fn everything_works_over_streamable_http() {
    let server = peers::EverythingOverHttp::start().await;
    let gateway = Setup::new().client(server.client("remote")).serve_connected().await;
    assert_eq!(
        gateway.execute("remote-get-sum", &json!({"a": 2, "b": 3})).await.content(),
        "The sum of 2 and 3 is 5."
    );
    let concurrent =
        (0..8).map(|n| {
            let gateway = &gateway;
            async move {
                gateway.execute("remote-echo", &json!({"message": n.to_string()})).await.content()
            }
        });
    let answers = futures_util::future::join_all(concurrent).await;
    assert_eq!(answers, (0..8).map(|n| format!("Echo: {n}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_filesystem_server_reads_granted_files_and_its_refusal_is_a_result() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("note.txt");
    std::fs::write(&file, "remember the milk").expect("a file");
    let gateway =
        Setup::new().client(peers::filesystem("fs", directory.path())).serve_connected().await;
    let read = gateway.execute("fs-read_text_file", &json!({"path": file})).await;
    assert!(read.clone().content().contains("remember the milk"), "{}", read.text);
    let refused = gateway.execute("fs-read_text_file", &json!({"path": "/etc/passwd"})).await.ok();
    assert_eq!(refused["is_error"], true, "{refused:#}");
    assert!(
        refused["content"].as_str().is_some_and(|text| text.contains("Access denied")),
        "{refused:#}"
    );
}

#[tokio::test]
async fn the_time_server_of_the_2026_revision_is_listed_and_called() {
    let gateway = Setup::new().client(peers::time("time")).serve_connected().await;
    let call =
        json!({"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Kathmandu"});
    let answer = gateway.execute("time-convert_time", &call).await.content();
    assert!(answer.contains("17:45"), "{answer}");
    let tools = gateway.connected("time").await;
    let names: Vec<_> =
        tools["tools"].as_array().expect("tools").iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["convert_time", "get_current_time"]);
}

#[tokio::test]
async fn a_tool_also_runs_in_the_responses_format() {
    let gateway = Setup::new().client(peers::everything("everything")).serve_connected().await;
    let call = json!({"type": "function_call", "call_id": "c7", "name": "everything-echo", "arguments": r#"{"message": "hi"}"#});
    let mut answer =
        gateway.post("/v1/mcp/tool/execute?format=responses&present=raw", &call).await.ok();
    answer.as_object_mut().expect("an object").remove("airlock");
    assert_eq!(
        answer,
        json!({"type": "function_call_output", "call_id": "c7", "output": "Echo: hi"})
    );
}

#[tokio::test]
async fn a_tool_that_runs_as_a_task_alone_is_called_and_may_ask() {
    let research = "everything-simulate-research-query";
    let over_http = peers::EverythingOverHttp::start().await;
    let everything = peers::everything("everything").set("/allow", ["elicitation"].as_slice());
    let gateway =
        Setup::new().client(everything).client(over_http.client("remote")).serve_connected().await;
    let plain = json!({"topic": "tides"});
    let (local, remote) = tokio::join!(
        gateway.execute(research, &plain),
        gateway.execute("remote-simulate-research-query", &plain)
    );
    for report in [local.content(), remote.content()] {
        assert!(report.starts_with("# Research Report: tides\n"), "{report}");
    }
    let arguments = json!({"topic": "python", "ambiguous": true});
    let asked = gateway.execute(research, &arguments).await.ok();
    let asked = &asked["airlock"]["input_required"];
    let questions = asked["input_requests"].as_object().expect("questions");
    let (key, question) = questions.iter().next().expect("one");
    assert!(question["params"]["message"].to_string().contains("multiple interpretations"));
    let answer = json!({"action": "accept", "content": {"interpretation": "snake"}});
    let body = json!({
        "id": "call_1", "type": "function",
        "function": {"name": research, "arguments": arguments.to_string()},
        "request_state": asked["request_state"],
        "input_responses": {key: answer},
    });
    let report = gateway.post("/v1/mcp/tool/execute?present=raw", &body).await.content();
    assert!(report.starts_with("# Research Report: python (snake)\n"), "{report}");
}
