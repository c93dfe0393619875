//! Servers of both eras with the libraries that authors use. Some questions of theirs need the legacy
//! era, some the modern one, and nothing tells which before a tool asks.

use super::*;

/// Starts a gateway with the server of a fixture, which may ask everything.
async fn gateway(python: PathBuf, fixture: &str, protocol: Option<&str>) -> Gateway {
    let server = root().join("tests/fixtures/asking").join(fixture).display().to_string();
    let client = Client::stdio("up", python, ["-B".to_owned(), server])
        .execute(&["*"])
        .auto(&["*"])
        .set("/allow", ["elicitation", "sampling", "roots"].as_slice());
    let client = match protocol {
        Some(protocol) => client.set("/protocol", protocol),
        None => client,
    };
    Setup::new().client(client).serve_connected().await
}

/// Returns the era of the connection to the server.
async fn era(gateway: &Gateway) -> Value {
    gateway.client("up").await.expect("the server")["protocol"]["era"].clone()
}

/// Calls a tool from a client of each era, answers what it asks, and returns the texts of the results.
async fn texts(gateway: &Gateway, tool: &str) -> [String; 2] {
    let all = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}});
    let [modern, legacy] = Endpoint::new(gateway).with_capabilities(all).both().await;
    let text = async |client| {
        let call = json!({"name": format!("up-{tool}"), "arguments": {}});
        let (response, _) = conversed(&client, "tools/call", call, |question| {
            let value = &question["params"]["requestedSchema"]["properties"]["value"];
            match value {
                Value::Null => good_answer(question),
                _ => json!({"action": "accept", "content": {"value": "Ann"}}),
            }
        })
        .await;
        response["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
    };
    [text(modern).await, text(legacy).await]
}

#[tokio::test]
async fn tools_that_ask_during_a_call_with_mcp_2_run_because_the_legacy_era_is_chosen() {
    let gateway = gateway(peers::python(), "with_mcp.py", None).await;
    assert_eq!(era(&gateway).await, "legacy");
    assert_eq!(texts(&gateway, "elicit").await, ["accept Ann"; 2]);
    assert_eq!(texts(&gateway, "sample").await, ["hi"; 2]);
    assert_eq!(texts(&gateway, "roots").await, ["file:///work"; 2]);
}

#[tokio::test]
async fn tools_of_fastmcp_4_ask_in_the_era_that_the_operator_chooses() {
    let automatic = gateway(peers::fastmcp(), "with_fastmcp.py", None).await;
    assert_eq!(era(&automatic).await, "legacy");
    assert_eq!(texts(&automatic, "elicit").await, ["accept Ann"; 2]);
    let modern = gateway(peers::fastmcp(), "with_fastmcp.py", Some("modern")).await;
    assert_eq!(era(&modern).await, "modern");
    assert_eq!(texts(&modern, "modern").await, ["accept Ann"; 2]);
}

#[tokio::test]
async fn a_server_of_both_eras_that_may_ask_nothing_is_connected_the_modern_way() {
    let client = |name: &str| peers::time(name);
    let legacy = client("legacy").set("/protocol", "legacy");
    let gateway = Setup::new().client(client("auto")).client(legacy).serve_connected().await;
    for (name, era) in [("auto", "modern"), ("legacy", "legacy")] {
        let server = gateway.client(name).await.expect("the server");
        assert_eq!(server["protocol"]["era"], era, "{server:#}");
    }
}
