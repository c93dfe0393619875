//! The call log of real gateways: on a store in a file and on one in PostgreSQL.

mod approvals;

use std::{collections::BTreeSet, fs, path::Path};

use airlock_test_postgres::TestServer;
use airlock_tests::{
    Client, Gateway, OPERATOR, Reply, Setup, commitment, guests, peers, root, wait,
};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use crate::management::SharedStore;

const LOGS: &str = "/api/mcp-logs";
/// Token of the viewer who sees payloads.
const READER: &str = "alop_reader-of-payloads-of-the-tests";
/// Variable with the key of the store, and a key.
const KEY: (&str, &str) = ("RECORDS_STORE_KEY", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
/// Rounds in which a gateway is killed, the callers of each, and the effects that it has before.
const ROUNDS: usize = 3;
const CALLERS: usize = 8;
const EFFECTS: usize = 40;

/// Returns the operators of a gateway: the administrator of the tests, and a viewer who sees payloads.
fn operators() -> Value {
    json!([
        {"name": "tests", "role": "admin", "token": OPERATOR},
        {"name": "reader", "role": "viewer", "token": READER, "sees_payloads": true},
    ])
}

async fn get_as(gateway: &Gateway, path: &str, token: &str) -> Value {
    Reply::fetch(gateway.request(Method::GET, path).bearer_auth(token)).await.ok()
}

async fn erase(gateway: &Gateway, ids: &[&str], token: &str) -> Reply {
    let request = gateway.request(Method::DELETE, LOGS).bearer_auth(token);
    Reply::fetch(request.json(&json!({"ids": ids}))).await
}

/// Waits until the log has as many rows that have ended. Returns them.
async fn ended_rows(gateway: &Gateway, count: usize) -> Vec<Value> {
    let path = format!("{LOGS}?status=success,error&limit=1000");
    wait::until("the rows to be written", async || {
        let listed = gateway.get(&path).await.ok();
        let rows = listed["logs"].as_array().expect("rows").clone();
        (rows.len() == count).then_some(rows)
    })
    .await
}

#[tokio::test]
async fn calls_are_listed_counted_shown_and_erased() {
    for store in SharedStore::all() {
        let setup = Setup::new()
            .set("/store", store.location())
            .set("/store_key", format!("env.{}", KEY.0))
            .set("/records/call_log/contents", true)
            .set("/management/operators", operators())
            .client(Client::wasm("text", guests::TEXT).auto(&["*"]));
        let gateway = setup.serve_with(&[KEY]).await;
        gateway.connected("text").await;
        let arguments = json!({"text": "one two"});
        let _ = gateway.execute("text-word_count", &arguments).await.ok();
        assert_ne!(gateway.execute("text-none", &json!({})).await.status, 200);
        let rows = ended_rows(&gateway, 2).await;
        let [refused, done] = rows.as_slice() else { panic!("{rows:?}") };
        assert_eq!(
            (&refused["tool_name"], &refused["outcome"]),
            (&json!("text-none"), &json!("refused"))
        );
        assert_eq!(refused["error_details"]["code"], "airlock.not_found");
        assert_eq!(
            (&done["tool_name"], &done["server_label"]),
            (&json!("text-word_count"), &json!("text"))
        );
        assert_eq!((&done["origin"], &done["decision"]), (&json!("caller"), &json!("automatic")));
        assert!(done["latency"].is_number() && done.get("arguments").is_none());

        let stats = gateway.get(&format!("{LOGS}/stats")).await.ok();
        assert_eq!((&stats["total_executions"], &stats["success_rate"]), (&json!(2), &json!(50.0)));
        let histogram = gateway.get(&format!("{LOGS}/histogram")).await.ok();
        let counts = histogram["buckets"].as_array().expect("parts").iter();
        assert_eq!(counts.map(|part| part["count"].as_i64().expect("a number")).sum::<i64>(), 2);
        let top = gateway.get(&format!("{LOGS}/histogram/top-tools")).await.ok();
        assert_eq!(top["tools"].as_array().map(Vec::len), Some(2));
        let values = gateway.get(&format!("{LOGS}/filterdata")).await.ok();
        assert_eq!(values["tool_names"], json!(["text-none", "text-word_count"]));
        let selected =
            gateway.get(&format!("{LOGS}?tool_names=text-word_count&limit=1")).await.ok();
        assert_eq!(selected["pagination"]["total_count"], 1);
        assert_eq!(gateway.get(&format!("{LOGS}?content_search=one")).await.status, 400);
        assert_eq!(gateway.get("/api/logs").await.ok()["logs"], json!([]));

        let id = done["id"].as_str().expect("an identifier");
        let path = format!("{LOGS}/{id}");
        assert_eq!(gateway.get(&path).await.ok()["contents"], "hidden", "an administrator too");
        let shown = get_as(&gateway, &path, READER).await;
        assert_eq!(shown["arguments"], arguments.to_string());
        let proof = commitment(&shown["arguments_salt"], &arguments.to_string());
        assert_eq!(shown["arguments_digest"], proof);
        let result = shown["result"].as_str().expect("the result is kept");
        assert_eq!(shown["result_digest"], commitment(&shown["result_salt"], result));

        assert_eq!(erase(&gateway, &[id], READER).await.status, 403);
        let nothing = erase(&gateway, &[], OPERATOR).await;
        assert_eq!(nothing.status, 400, "{}", nothing.text);
        assert_eq!(erase(&gateway, &[id], OPERATOR).await.ok()["deleted"], 1);
        let erased = get_as(&gateway, &path, READER).await;
        assert_eq!(erased["contents"], "erased");
        assert!(erased.get("arguments").is_none() && erased.get("arguments_salt").is_none());
        assert_eq!(erased["arguments_digest"], proof, "the commitment stays");
    }
}

#[tokio::test]
async fn requests_to_models_are_ranked_and_measured_over_time() {
    let turns = json!({"turns": [{"answer": {"content": "one two three"}}]});
    for store in SharedStore::all() {
        let setup = Setup::new().set("/store", store.location());
        let gateway = setup.scripted("one", &turns).scripted("two", &turns).serve().await;
        for model in ["one/m", "two/m", "one/m"] {
            let _ = gateway.chat(model, "hello").await.ok();
        }
        wait::until("the rows to be written", async || {
            let listed = gateway.get("/api/logs?status=success").await.ok();
            (listed["pagination"]["total_count"] == 3).then_some(())
        })
        .await;

        let ranked = gateway.get("/api/logs/rankings").await.ok();
        let first = &ranked["rankings"][0];
        assert_eq!((&first["model"], &first["provider"]), (&json!("one/m"), &json!("one")));
        assert_eq!((&first["total_requests"], &first["success_rate"]), (&json!(2), &json!(100.0)));
        assert_eq!(first["trend"]["has_previous_period"], false);
        let path = "/api/logs/rankings/by-dimension";
        assert_eq!(gateway.get(path).await.status, 400, "it needs a dimension");
        let ranked = gateway.get(&format!("{path}?dimension=provider")).await.ok();
        let ids = ranked["rankings"].as_array().expect("a list").iter().map(|group| &group["id"]);
        assert_eq!(ids.collect::<Vec<_>>(), ["one", "two"]);

        let path = "/api/logs/histogram";
        let tokens = gateway.get(&format!("{path}/tokens/by-provider")).await.ok();
        assert_eq!(tokens["providers"], json!(["one", "two"]));
        let cost = gateway.get(&format!("{path}/cost/by-dimension?dimension=model")).await.ok();
        assert_eq!(cost["dimension_values"], json!(["one/m", "two/m"]));
        let latency = gateway.get(&format!("{path}/latency")).await.ok();
        let parts = latency["buckets"].as_array().expect("parts");
        let requests = parts.iter().map(|part| part["total_requests"].as_i64().expect("a number"));
        assert_eq!(requests.sum::<i64>(), 3);
        assert!(parts.iter().all(|part| part["p99_latency"].as_f64() > Some(0.0)), "{latency}");
        let throughput = gateway.get(&format!("{path}/throughput")).await.ok();
        assert!(throughput["buckets"][0]["total_completion_tokens"].as_i64() > Some(0));
    }
}

/// Returns the events of an audit log.
pub(crate) fn events(directory: &Path) -> Vec<Value> {
    let text = fs::read_to_string(directory.join("log.jsonl")).expect("the log");
    // The last line may be on its way.
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.map(|mut line| line["event"].take()).collect()
}

/// Returns the configuration of a gateway with an audit log and one plugin.
fn audited(directory: &Path) -> Setup {
    audited_with(directory, Client::wasm("text", guests::TEXT).auto(&["*"]))
}

fn audited_with(directory: &Path, client: Client) -> Setup {
    Setup::new()
        .set("/store", directory.join("airlock.db").display().to_string())
        .set("/records/audit/enabled", true)
        .set("/records/audit/dir", directory.join("audit").display().to_string())
        .client(client)
}

#[tokio::test]
async fn a_call_beyond_a_limit_is_one_refusal_in_each_log_and_no_admission() {
    let directory = tempfile::tempdir().expect("a directory");
    let limit = json!({"tool_call_max_limit": 1, "tool_call_reset_duration": "1h"});
    let client = Client::wasm("text", guests::TEXT).auto(&["*"]).set("/rate_limit", limit);
    let gateway = audited_with(directory.path(), client).serve_connected().await;
    let arguments = json!({"text": "one two"});
    let _ = gateway.execute("text-word_count", &arguments).await.ok();
    assert_eq!(gateway.execute("text-word_count", &arguments).await.code(), "limit_reached");
    let rows = ended_rows(&gateway, 2).await;
    assert_eq!(
        (&rows[0]["outcome"], &rows[0]["error_details"]["code"]),
        (&json!("refused"), &json!("airlock.limit_reached"))
    );
    assert_eq!((&rows[0]["decision"], &rows[1]["outcome"]), (&json!("refused"), &json!("success")));
    gateway.terminate();
    gateway.ended().await;
    let events = events(&directory.path().join("audit"));
    let kinds = events.iter().filter_map(|event| event["kind"].as_str());
    let kinds: Vec<_> = kinds.filter(|kind| kind.starts_with("call_")).collect();
    assert_eq!(kinds, ["call_admitted", "call_ended", "call_refused"]);
}

#[tokio::test]
async fn the_audit_log_has_calls_and_changes_and_belongs_to_one_gateway() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("audit");
    let gateway = audited(directory.path()).serve_connected().await;
    let key = Reply::fetch(gateway.request(Method::GET, "/.well-known/airlock-audit-key")).await;
    assert!(key.text.starts_with("airlock/"), "{}", key.text);
    let _ = gateway.execute("text-word_count", &json!({"text": "hunter2"})).await.ok();
    let wanted = json!({"name": "ann", "role": "viewer"});
    let _ = gateway.post("/api/operators", &wanted).await.ok();
    wait::until("the change to be recorded", async || {
        events(&log).into_iter().find(|event| event["kind"] == "config_changed")
    })
    .await;
    // More than one line has room for.
    let ids: Vec<_> = (0..61).map(|number| format!("{number:036}")).collect();
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    assert_eq!(erase(&gateway, &ids, OPERATOR).await.ok()["deleted"], 0);
    let erased: Vec<_> =
        events(&log).into_iter().filter(|event| event["kind"] == "log_erased").collect();
    let recorded = erased.iter().flat_map(|event| event["ids"].as_str().expect("text").split(' '));
    assert_eq!(recorded.collect::<Vec<_>>(), ids, "each is recorded before it is erased");
    // Another gateway cannot have the same log.
    let _ = audited(directory.path()).airlock("serve").run().await.failed();
    gateway.terminate();
    gateway.ended().await;

    let events = events(&log);
    let kinds: Vec<_> = events.iter().filter_map(|event| event["kind"].as_str()).collect();
    for kind in ["gateway_started", "call_admitted", "call_ended", "config_changed"] {
        assert!(kinds.contains(&kind), "{kind}: {kinds:?}");
    }
    assert_eq!(kinds.last(), Some(&"gateway_stopped"));
    let admitted = events.iter().find(|event| event["kind"] == "call_admitted").expect("a call");
    assert_eq!(
        (&admitted["tool"], &admitted["effects"]),
        (&json!("text-word_count"), &json!(false))
    );
    let text = fs::read_to_string(log.join("log.jsonl")).expect("the log");
    assert!(!text.contains("hunter2"), "contents are not in the log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_store_a_gateway_makes_no_call_with_effects_and_goes_on_afterwards() {
    let Some(mut server) = TestServer::start() else { return };
    let directory = tempfile::tempdir().expect("a directory");
    let setup = Setup::new()
        .set("/store", server.url())
        .set("/records/on_failure", "refuse")
        .client(Client::wasm("text", guests::TEXT).auto(&["*"]))
        .client(recording(directory.path()));
    let gateway = setup.serve_connected().await;
    let _ = gateway.execute("rec-add", &json!({"n": 1})).await.ok();
    server.crash();
    let refused = gateway.execute("rec-add", &json!({"n": 2})).await;
    assert!(refused.text.contains("records_unavailable"), "{}", refused.text);
    let _ = gateway.execute("text-word_count", &json!({"text": "it only reads"})).await.ok();
    assert_eq!(effects(directory.path()), [1].into());
    server.resume();
    wait::until("calls to be made again", async || {
        let reply = gateway.execute("rec-add", &json!({"n": 3})).await;
        (!reply.text.contains("records_unavailable")).then_some(())
    })
    .await;
    assert_eq!(effects(directory.path()), [1, 3].into());
}

/// Returns a server that writes the numbers of its calls to a file of the directory. It is not trusted.
fn recording(directory: &Path) -> Client {
    let program = root().join("tests/fixtures/recording/server.py");
    let files = [program, directory.join("notes"), directory.join("orders")];
    let files = files.map(|path| path.display().to_string());
    let arguments = ["-B".to_owned()].into_iter().chain(files);
    Client::stdio("rec", peers::python(), arguments).auto(&["*"])
}

/// Returns the numbers that the server has written.
fn effects(directory: &Path) -> BTreeSet<u64> {
    let text = fs::read_to_string(directory.join("notes")).unwrap_or_default();
    let calls = text.lines().filter_map(|line| serde_json::from_str::<(String, Value)>(line).ok());
    calls.filter_map(|(_, arguments)| arguments["n"].as_u64()).collect()
}

/// Calls a tool with other numbers until the gateway is gone.
async fn call_until_gone(address: String, first: usize) {
    let client = reqwest::Client::new();
    for n in first.. {
        let arguments = json!({"n": n}).to_string();
        let call = json!({"function": {"name": "rec-add", "arguments": arguments}});
        let request = client.post(format!("{address}/v1/mcp/tool/execute")).json(&call);
        if request.send().await.is_err() {
            return;
        }
    }
}

/// Reads all rows of calls, with their salts.
async fn recorded(gateway: &Gateway, token: &str) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut cursor = String::new();
    loop {
        let path = format!("{LOGS}?tool_names=rec-add&limit=100{cursor}");
        let page = get_as(gateway, &path, token).await;
        for row in page["logs"].as_array().expect("rows") {
            let id = row["id"].as_str().expect("an identifier");
            rows.push(get_as(gateway, &format!("{LOGS}/{id}"), token).await);
        }
        match page["pagination"]["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return rows,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_effect_of_a_gateway_that_is_killed_has_its_row() {
    for store in SharedStore::all() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut setup = Setup::new()
            .set("/store", store.location())
            .set("/records/on_failure", "refuse")
            .set("/management/operators", operators())
            .client(recording(directory.path()));
        for round in 0..ROUNDS {
            let gateway = setup.serve_connected().await;
            let before = effects(directory.path()).len();
            let callers = (0..CALLERS).map(|caller| {
                let first = round * 1_000_000 + caller * 100_000;
                tokio::spawn(call_until_gone(gateway.address().to_owned(), first))
            });
            let callers: Vec<_> = callers.collect();
            wait::until("some effects", async || {
                (effects(directory.path()).len() >= before + EFFECTS).then_some(())
            })
            .await;
            setup = gateway.kill().await;
            join_all(callers).await;
        }
        let happened = effects(directory.path());
        assert!(happened.len() >= ROUNDS * EFFECTS);
        let gateway = setup.serve_connected().await;
        let rows = recorded(&gateway, READER).await;
        let mut missing = happened;
        for row in &rows {
            let salt = &row["arguments_salt"];
            missing.retain(|n| {
                row["arguments_digest"] != commitment(salt, &json!({"n": n}).to_string())
            });
        }
        assert_eq!(missing, BTreeSet::new(), "of {} rows", rows.len());
    }
}
