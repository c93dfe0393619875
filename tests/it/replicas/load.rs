//! Three gateways on one server of `PostgreSQL`, under load, while each of them is killed in turn and
//! the database fails in several ways.
//!
//! Each script makes one call that needs an approval. All gateways are asked at the same time to go on
//! with it. The call must reach its server at most once, and exactly once if a gateway has said so.

use std::{collections::BTreeMap, fs, path::Path};

use airlock_test_postgres::TestServer;
use airlock_tests::{Client, Gateway, Reply, Setup, peers, root, wait};
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Scripts of one round, for each gateway.
const SCRIPTS: i64 = 4;
/// Maximum bytes of a script.
const MAX_SOURCE: usize = 64 << 10;

/// Failure in the middle of a round.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// A gateway is killed.
    Kill(usize),
    /// The database stops at once, and starts again.
    Crash,
    /// The disk of the database is full for a while, so that no table can grow.
    FullDisk,
    /// The database does not answer for a while, as if the network were cut.
    Freeze,
}

/// A run that a gateway has begun.
struct BegunRun {
    /// Number that its call writes.
    n: i64,
    id: String,
    state: Value,
}

fn replica(server: &TestServer, directory: &Path) -> Setup {
    let recording = root().join("tests/fixtures/recording/server.py");
    let files = [recording, directory.join("notes"), directory.join("orders")];
    let files = files.map(|path| path.display().to_string());
    let arguments = ["-B".to_owned()].into_iter().chain(files);
    let client = Client::stdio("rec", peers::python(), arguments).auto(&["read"]).code_mode();
    Setup::new()
        .set("/store", server.url())
        .set("/server/replica_url", "http://127.0.0.1:0")
        .set("/mcp/tool_manager_config/code_mode_run_lease", "200ms")
        .client(client)
}

fn script(n: i64) -> String {
    json!({"code": format!("rec.read(n = 0)\nresult = rec.add(n = {n})['n']")}).to_string()
}

/// Sends a request; `None` if there was no answer.
async fn post(address: &str, path: &str, body: &Value) -> Option<Reply> {
    let request = reqwest::Client::new().request(Method::POST, format!("{address}{path}"));
    let response = request.json(body).send().await.ok()?;
    let status = response.status();
    let text = response.text().await.ok()?;
    let body = serde_json::from_str(&text).unwrap_or_default();
    Some(Reply { status: status.as_u16(), body, text })
}

async fn begin(address: &str, n: i64) -> BegunRun {
    let call = json!({"function": {"name": "executeToolCode", "arguments": script(n)}});
    let shown = post(address, super::EXECUTE, &call).await.expect("an answer").ok();
    let run = &shown["airlock"]["run"];
    BegunRun {
        n,
        id: run["id"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned(),
        state: run["request_state"].clone(),
    }
}

/// Begins a run whose script takes several pages of a table. Returns whether it was begun, false if the
/// store could not be used. Panics if it is refused for another reason.
async fn begins_large(address: &str) -> bool {
    let digests = (0_u32..400).map(|n| format!("{:?}", &Sha256::digest(n.to_be_bytes())[..]));
    let noise = digests.collect::<String>();
    let code = format!("rec.read(n = 0)\nresult = rec.add(n = 0)\n# {noise}");
    assert!(code.len() < MAX_SOURCE, "{} bytes are refused before the store is asked", code.len());
    let arguments = json!({"code": code}).to_string();
    let call = json!({"function": {"name": "executeToolCode", "arguments": arguments}});
    wait::until("a place for a script", async || {
        let reply = post(address, super::EXECUTE, &call).await.expect("an answer");
        let airlock = &reply.body["airlock"];
        if airlock["run"]["id"].is_string() {
            return Some(true);
        }
        if airlock["error"]["code"] == "store_unavailable" {
            return Some(false);
        }
        // The decisions of the round may have all places.
        assert_eq!(reply.body["error"]["code"], "busy", "{}", reply.text);
        None
    })
    .await
}

/// Goes on with a run, whose call is approved by that. Returns whether a gateway said that it is done.
async fn decide(address: &str, run: &BegunRun) -> bool {
    let call = json!({
        "function": {"name": "executeToolCode", "arguments": script(run.n)},
        "request_state": run.state,
    });
    let reply = post(address, super::EXECUTE, &call).await;
    reply.is_some_and(|reply| {
        reply.status == 200
            && reply.body["airlock"].get("run").is_none()
            && reply.body.get("is_error").is_none()
    })
}

/// Returns how often each number was written.
fn written(directory: &Path) -> BTreeMap<i64, usize> {
    let text = fs::read_to_string(directory.join("notes")).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let (tool, arguments): (String, Value) = serde_json::from_str(line).expect("JSON");
        if tool == "add" {
            *counts.entry(arguments["n"].as_i64().expect("n")).or_default() += 1;
        }
    }
    counts
}

/// Goes on with a run until it has ended or a person has to decide. Returns it.
async fn settled(gateway: &Gateway, run: &BegunRun) -> Value {
    let path = format!("/v1/runs/{}", run.id);
    let resume = format!("{path}/resume");
    wait::until("the lease of the run to expire", async || {
        let reply = gateway.post(&resume, &json!({})).await;
        (reply.body["error"]["code"] != "run_running" && reply.status < 500).then_some(())
    })
    .await;
    gateway.get(&path).await.ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_gateways_lose_nothing_and_do_nothing_twice() {
    let Some(mut server) = TestServer::start() else { return };
    // Only root may mount a disk. It has more room than the tables of an empty store.
    let full_disk = server.use_small_disk(32).then_some(Fault::FullDisk);
    let directory = tempfile::tempdir().expect("a directory");
    let started = (0..3).map(|_| replica(&server, directory.path()).serve_connected());
    let mut gateways = join_all(started).await;
    let mut number = 0;

    let kills = [0, 1, 2].map(Fault::Kill);
    let faults = kills.into_iter().chain(full_disk).chain([Fault::Crash, Fault::Freeze]);
    for fault in faults {
        let addresses: Vec<_> =
            gateways.iter().map(|gateway| gateway.address().to_owned()).collect();
        let numbers = (0..3 * SCRIPTS).map(|index| number + index + 1);
        let begun =
            join_all(numbers.map(|n| begin(&addresses[usize::try_from(n % 3).unwrap_or(0)], n)))
                .await;
        number += 3 * SCRIPTS;
        let before = written(directory.path()).len();
        let decisions = begun.iter().flat_map(|run| {
            addresses.iter().map(move |address| async move { (run.n, decide(address, run).await) })
        });
        let deciding = join_all(decisions);
        let failing = async {
            wait::until("a call of the round", async || {
                (written(directory.path()).len() > before).then_some(())
            })
            .await;
            match fault {
                Fault::Kill(index) => {
                    let setup = gateways.remove(index).kill().await;
                    gateways.insert(index, setup.serve_connected().await);
                }
                Fault::Crash => {
                    server.crash();
                    server.resume();
                }
                Fault::FullDisk => {
                    assert!(begins_large(&addresses[1]).await, "there is room");
                    server.fill_disk();
                    wait::until("a run not to be stored", async || {
                        (!begins_large(&addresses[1]).await).then_some(())
                    })
                    .await;
                    server.free_disk();
                    assert!(begins_large(&addresses[1]).await, "there is room again");
                }
                Fault::Freeze => {
                    server.freeze();
                    wait::until("a request to fail", async || {
                        let listed = gateways[0].get("/v1/runs").await;
                        (listed.status >= 500).then_some(())
                    })
                    .await;
                    server.thaw();
                }
            }
        };
        let (decided, ()) = tokio::join!(deciding, failing);
        for run in &begun {
            let run_now = settled(&gateways[1], run).await;
            let times = written(directory.path()).get(&run.n).copied().unwrap_or_default();
            let said = decided.iter().filter(|(n, is_done)| *n == run.n && *is_done).count();
            assert!(times <= 1, "{fault:?}: {} was written {times} times: {run_now:#}", run.n);
            if said > 0 || run_now["state"] == "completed" {
                assert_eq!(
                    (times, &run_now["state"]),
                    (1, &json!("completed")),
                    "{fault:?}: {run_now:#}"
                );
            } else {
                // A person decides: the call is pending still, or in doubt.
                assert_eq!(run_now["state"], "suspended", "{fault:?}: {run_now:#}");
            }
        }
    }
    drop(gateways);
}
