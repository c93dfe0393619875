//! Permissions over HTTP: allowlists, include headers and virtual keys, which apply to listing and
//! to calling alike.

use airlock_tests::{Gateway, Reply, Service, Setup, misbehaving, service};
use reqwest::Method;
use serde_json::{Value, json};

const ANN: &str = "sk-bf-ann-0123456789abcdef";
const BOB: &str = "sk-bf-bob-0123456789abcdef";

struct Door {
    gateway: Gateway,
    model: Service,
}

impl Door {
    async fn new() -> Self {
        let model = Service::saying([service::text("hello")]).await;
        let gateway = Setup::new()
            .set("/server/require_virtual_key", false)
            .openai("fake", model.base_url())
            .client(misbehaving("alpha", []).execute(&["echo", "pid", "env"]))
            .client(misbehaving("beta", []).execute(&["Echo"]).auto(&["echo"]))
            .client(
                misbehaving("open", []).execute(&["echo"]).set("/allow_on_all_virtual_keys", true),
            )
            .key("ann", ANN, &[("alpha", &["echo"]), ("beta", &["*"])])
            .key("bob", BOB, &[("open", &[])])
            .serve_connected()
            .await;
        Self { gateway, model }
    }

    /// Returns the tools that a model is offered under these headers. Also calls every tool, and
    /// checks that exactly the offered ones can be called.
    async fn visible(&self, headers: &[(&str, &str)]) -> Vec<String> {
        let body = json!({"model": "fake/model", "messages": [{"role": "user", "content": "hi"}]});
        let request = self.gateway.request(Method::POST, "/v1/chat/completions").json(&body);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let _ = Reply::fetch(request).await.ok();
        let asked = self.model.asked().pop().expect("the model was asked");
        let tools = asked.body["tools"].as_array().cloned().unwrap_or_default();
        let offered: Vec<_> = tools
            .iter()
            .filter_map(|tool| tool["function"]["name"].as_str())
            .filter(|name| *name != "readContent")
            .map(str::to_owned)
            .collect();
        for name in ["alpha-echo", "alpha-pid", "alpha-env", "beta-echo", "open-echo"] {
            let reply = self.gateway.execute_with(headers, name, &json!({"text": "x"})).await;
            let is_offered = offered.iter().any(|offered| offered == name);
            assert_eq!(reply.status == 200, is_offered, "{name} under {headers:?}: {}", reply.text);
        }
        offered
    }
}

#[tokio::test]
async fn hidden_tools_return_not_found_exactly_like_unknown_ones() {
    let door = Door::new().await;
    let none = json!({});
    for name in ["alpha-note", "alpha-nothing", "nobody-echo", "alpha", "-", "alpha-", "ALPHA-echo"]
    {
        let reply = door.gateway.execute(name, &none).await;
        let message = format!("tool '{name}' is not available or not permitted");
        assert_eq!((reply.refusal(), reply.code()), ((400, message.as_str()), "not_found"));
    }
}

/// Headers of a request, and the tools that it may then see.
type Row<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str]);

#[tokio::test]
async fn include_headers_narrow_the_offered_and_the_callable_tools() {
    let door = Door::new().await;
    let clients = "x-bf-mcp-include-clients";
    let tools = "x-bf-mcp-include-tools";
    let all = ["alpha-echo", "alpha-env", "alpha-pid", "beta-echo", "open-echo"];
    let table: &[Row] = &[
        (&[], &all),
        (&[(clients, "*")], &all),
        (&[(clients, "beta, open")], &["beta-echo", "open-echo"]),
        (&[(clients, "Beta")], &[]),
        (&[(clients, "")], &[]),
        (&[(tools, "alpha-*,beta-echo")], &["alpha-echo", "alpha-env", "alpha-pid", "beta-echo"]),
        (&[(tools, "*")], &[]),
        (&[(tools, "alpha-note")], &[]),
        (&[(clients, "alpha"), (tools, "alpha-pid,beta-echo")], &["alpha-pid"]),
    ];
    for (headers, expected) in table {
        assert_eq!(door.visible(headers).await, *expected, "{headers:?}");
    }
}

#[tokio::test]
async fn a_virtual_key_permits_its_rows_and_headers_cannot_widen_it() {
    let door = Door::new().await;
    let bearer = format!("Bearer {ANN}");
    let of_ann = ["alpha-echo", "beta-echo", "open-echo"];
    for header in [("x-bf-vk", ANN), ("authorization", bearer.as_str()), ("x-api-key", ANN)] {
        assert_eq!(door.visible(&[header]).await, of_ann, "{header:?}");
    }
    let wide =
        door.visible(&[("x-bf-vk", ANN), ("x-bf-mcp-include-tools", "alpha-*,beta-*")]).await;
    assert_eq!(wide, ["alpha-echo", "beta-echo"]);
    assert!(
        door.visible(&[("x-bf-vk", BOB)]).await.is_empty(),
        "an empty row replaces the client's openness"
    );
}

#[tokio::test]
async fn an_unknown_key_is_refused_and_not_ignored() {
    let door = Door::new().await;
    for header in [("x-bf-vk", "sk-bf-nobody"), ("x-bf-vk", ""), ("x-api-key", "sk-bf-nobody")] {
        let reply = door.gateway.execute_with(&[header], "beta-echo", &json!({})).await;
        assert_eq!(
            (reply.status, reply.code()),
            (401, "invalid_api_key"),
            "{header:?}: {}",
            reply.text
        );
    }
}

#[tokio::test]
async fn if_keys_are_configured_a_request_without_one_is_refused() {
    let gateway = Setup::new()
        .client(misbehaving("alpha", []))
        .key("ann", ANN, &[("alpha", &["*"])])
        .serve()
        .await;
    for path in ["/v1/models", "/api/mcp/clients"] {
        let reply = airlock_tests::Reply::fetch(gateway.request(reqwest::Method::GET, path)).await;
        assert_eq!(reply.status, 401, "{path}");
    }
    assert_eq!(gateway.execute("alpha-echo", &json!({})).await.status, 401);
    assert_eq!(gateway.get("/health").await.status, 200, "whoever restarts it has no key");
    airlock_tests::wait::until("the server to be there", async || {
        let reply =
            gateway.execute_with(&[("x-bf-vk", ANN)], "alpha-echo", &json!({"text": "in"})).await;
        (reply.status == 200).then(|| assert_eq!(reply.body["content"], "in"))
    })
    .await;
}

#[tokio::test]
async fn auto_execute_tools_run_and_other_calls_of_a_model_wait_for_the_caller() {
    let calls = [
        ("beta-echo", json!({"text": "ran"})),
        ("alpha-pid", json!({})),
        ("alpha-note", json!({})),
    ];
    let model = Service::saying([service::asking_for(&calls), service::text("unreachable")]).await;
    let gateway = Setup::new()
        .openai("fake", model.base_url())
        .client(misbehaving("alpha", []).execute(&["pid"]))
        .client(misbehaving("beta", []).auto(&["echo"]).set("/trust", "trusted"))
        .serve_connected()
        .await;
    let answer = gateway.chat("fake/model", "go").await.ok();
    let choice = &answer["choices"][0];
    let content = choice["message"]["content"].as_str().expect("a text");
    let output = content.strip_prefix("The Output from allowed tools calls is - ");
    let output = output.and_then(|rest| rest.lines().next()).expect("the results");
    let output: Value = output.parse().expect("JSON");
    assert_eq!(output["beta-echo"], "ran");
    let refused = output["alpha-note"].as_str().expect("a text");
    assert!(refused.contains("tool 'alpha-note' is not available"), "{refused}");
    let pending: Vec<_> = choice["message"]["tool_calls"]
        .as_array()
        .expect("calls")
        .iter()
        .map(|call| &call["function"]["name"])
        .collect();
    assert_eq!(pending, ["alpha-pid"], "{answer:#}");
    let reasons: Vec<&Value> = answer["airlock"]["pending"]
        .as_array()
        .expect("pending")
        .iter()
        .map(|call| &call["reason"])
        .collect();
    assert_eq!(reasons, ["needs_approval"]);
    assert_eq!(model.asked().len(), 1);
}

#[tokio::test]
async fn a_plugin_calls_only_tools_that_its_grant_and_its_caller_both_permit() {
    let gateway = Setup::new()
        .client(
            airlock_tests::Client::wasm("hostile", airlock_tests::guests::HOSTILE)
                .tools(&["alpha-echo", "alpha-pid"]),
        )
        .client(misbehaving("alpha", []).execute(&["echo", "env"]))
        .serve_connected()
        .await;
    let relay = |tool: &str| json!({"tool": tool, "arguments": {"text": "through"}});
    assert_eq!(gateway.execute("hostile-relay", &relay("alpha-echo")).await.content(), "through");
    // Granted but not executable; executable but not granted; neither.
    for tool in ["alpha-pid", "alpha-env", "alpha-note"] {
        let answer = gateway.execute("hostile-relay", &relay(tool)).await.ok();
        assert_eq!(
            answer["content"],
            format!("tool '{tool}' is not available or not permitted"),
            "{answer:#}"
        );
    }
    // Tools that the caller's header hides are hidden from the plugin that it calls.
    let narrow = [("x-bf-mcp-include-clients", "hostile")];
    let answer = gateway.execute_with(&narrow, "hostile-relay", &relay("alpha-echo")).await.ok();
    assert_eq!(
        answer["content"], "tool 'alpha-echo' is not available or not permitted",
        "{answer:#}"
    );
}

#[tokio::test]
async fn a_plugin_calls_the_tool_that_is_bound_to_its_slot_and_not_by_the_tools_own_name() {
    let slots = json!({"shout": "alpha-echo", "hidden": "alpha-pid"});
    let gateway = Setup::new()
        .client(
            airlock_tests::Client::wasm("hostile", airlock_tests::guests::HOSTILE)
                .set("/wasm_config/grants/slot", slots),
        )
        .client(misbehaving("alpha", []).execute(&["echo"]))
        .serve_connected()
        .await;
    let relay = async |tool: &str| {
        let arguments = json!({"tool": tool, "arguments": {"text": "through"}});
        gateway.execute("hostile-relay", &arguments).await.content()
    };
    assert_eq!(relay("shout").await, "through");
    for name in ["alpha-echo", "hidden", "alpha-pid", "other"] {
        assert_eq!(relay(name).await, format!("tool '{name}' is not available or not permitted"));
    }
}
