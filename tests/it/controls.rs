//! Controls over the tools that a request sees: exclusions, the switch of all tools, roles and
//! environments, access tokens on every API, groups of tools, and clients that belong to keys.

use std::path::PathBuf;

use airlock_tests::{Gateway, Reply, Service, Setup, mcp::Endpoint, misbehaving, service, wait};
use reqwest::{Method, header::WWW_AUTHENTICATE};
use rmcp::{
    ServiceExt as _,
    model::CallToolRequestParams,
    transport::{
        StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use serde_json::{Value, json};

use super::{
    identity::{Issuer, RESOURCE},
    live_settings::edit,
};

const ANN: &str = "sk-bf-ann-0123456789abcdef";
const BOB: &str = "sk-bf-bob-0123456789abcdef";
const EXCLUDE: &str = "x-bf-mcp-exclude-tools";

/// Headers of a request.
type Headers<'h> = [(&'h str, &'h str)];

/// A gateway, with the model that it asks.
struct Stage {
    gateway: Gateway,
    model: Service,
}

impl Stage {
    async fn serve(setup: Setup) -> Self {
        let model = Service::saying([service::text("hello")]).await;
        let gateway = setup.openai("fake", model.base_url()).serve_connected().await;
        Self { gateway, model }
    }

    fn request(
        &self,
        method: Method,
        path: &str,
        headers: &Headers<'_>,
    ) -> reqwest::RequestBuilder {
        let request = self.gateway.request(method, path);
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
    }

    async fn chat(&self, headers: &Headers<'_>) -> Reply {
        let body = json!({"model": "fake/model", "messages": [{"role": "user", "content": "hi"}]});
        Reply::fetch(self.request(Method::POST, "/v1/chat/completions", headers).json(&body)).await
    }

    /// Returns the tools that a model is offered.
    async fn offered(&self, headers: &Headers<'_>) -> Vec<String> {
        let _ = self.chat(headers).await.ok();
        let asked = self.model.asked().pop().expect("the model was asked");
        let tools = asked.body["tools"].as_array().cloned().unwrap_or_default();
        let names = tools.iter().filter_map(|tool| tool["function"]["name"].as_str());
        names.filter(|name| *name != "readContent").map(str::to_owned).collect()
    }

    /// Returns the tools that an MCP client lists at a path.
    async fn listed(&self, path: &str, headers: &Headers<'_>) -> Vec<String> {
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let request = self.request(Method::POST, path, headers).json(&list);
        let listed = Reply::fetch(request).await.ok();
        let tools = listed["result"]["tools"].as_array().expect("a list").iter();
        tools.map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    /// Returns those of some tools that can be executed.
    async fn executable(&self, headers: &Headers<'_>, names: &[&str]) -> Vec<String> {
        let mut executable = Vec::new();
        for name in names {
            let reply = self.gateway.execute_with(headers, name, &json!({"text": "x"})).await;
            match reply.status {
                200 => executable.push((*name).to_owned()),
                status => assert_eq!((status, reply.code()), (400, "not_found"), "{name}"),
            }
        }
        executable
    }

    /// Checks that a request sees exactly these tools, of `all`, on every API.
    async fn assert_sees(&self, headers: &Headers<'_>, all: &[&str], expected: &[&str]) {
        assert_eq!(self.offered(headers).await, expected, "chat, {headers:?}");
        assert_eq!(self.listed("/mcp", headers).await, expected, "/mcp, {headers:?}");
        assert_eq!(self.executable(headers, all).await, expected, "execution, {headers:?}");
    }

    async fn explain(&self, query: &str) -> Value {
        self.gateway.get(&format!("/api/mcp/explain?{query}")).await.ok()
    }
}

/// Returns the codes of the rules that hide a tool in an explanation.
fn rules<'e>(explanation: &'e Value, name: &str) -> Vec<&'e str> {
    let mut tools = explanation["tools"].as_array().expect("a list").iter();
    let tool = tools.find(|tool| tool["name"] == name);
    let tool = tool.unwrap_or_else(|| panic!("{name} is explained: {explanation:#}"));
    let reasons = tool["reasons"].as_array().expect("a list").iter();
    reasons.map(|reason| reason["rule"].as_str().expect("a code")).collect()
}

#[tokio::test]
async fn what_a_list_or_the_header_excludes_is_gone_from_every_api() {
    let setup = Setup::new()
        .set("/server/require_virtual_key", false)
        .client(
            misbehaving("alpha", [])
                .execute(&["echo", "pid", "env"])
                .set("/tools_to_exclude", json!(["ENV"])),
        )
        .client(misbehaving("beta", []).execute(&["echo", "pid"]))
        .set(
            "/governance/virtual_keys",
            json!([{"name": "ann", "value": ANN, "mcp_configs": [
                {"mcp_client_name": "alpha", "tools_to_execute": ["*"]},
                {"mcp_client_name": "beta", "tools_to_execute": ["*"], "tools_to_exclude": ["pid"]},
            ]}]),
        );
    let stage = Stage::serve(setup).await;
    let all = ["alpha-echo", "alpha-env", "alpha-pid", "beta-echo", "beta-pid"];
    let open = ["alpha-echo", "alpha-pid", "beta-echo", "beta-pid"];
    stage.assert_sees(&[], &all, &open).await;
    stage.assert_sees(&[(EXCLUDE, " , ")], &all, &open).await;
    stage.assert_sees(&[(EXCLUDE, "alpha-pid, beta-*")], &all, &["alpha-echo"]).await;
    let both = [(EXCLUDE, "alpha-echo"), ("x-bf-mcp-include-tools", "alpha-*")];
    stage.assert_sees(&both, &all, &["alpha-pid"]).await;
    let ann = ("x-bf-vk", ANN);
    stage.assert_sees(&[ann], &all, &["alpha-echo", "alpha-pid", "beta-echo"]).await;
    stage.assert_sees(&[ann, (EXCLUDE, "*")], &all, &[]).await;
    let explained = stage.explain("key=ann&exclude_tools=alpha-echo").await;
    assert_eq!(rules(&explained, "alpha-env"), ["tools_to_exclude"]);
    assert_eq!(rules(&explained, "beta-pid"), ["key_exclude"]);
    assert_eq!(rules(&explained, "alpha-echo"), ["exclude_tools"]);
}

#[tokio::test]
async fn scripts_do_not_see_what_is_excluded() {
    let tools: &[&str] = &["echo", "pid"];
    let server = misbehaving("server", []).execute(tools).auto(tools).code_mode();
    let setup = Setup::new().client(server);
    let stage = Stage::serve(setup).await;
    let run = json!({"code": "result = server.pid()"});
    let ran = stage.gateway.execute("executeToolCode", &run).await;
    assert_eq!(ran.status, 200, "{}", ran.text);
    let narrowed = [(EXCLUDE, "server-pid")];
    let refused = stage.gateway.execute_with(&narrowed, "executeToolCode", &run).await;
    assert!(refused.body["is_error"] == true, "{}", refused.text);
    assert!(stage.offered(&narrowed).await.contains(&"executeToolCode".to_owned()));
    let none = [(EXCLUDE, "server-*")];
    assert!(stage.offered(&none).await.is_empty(), "scripts have no tools");
}

#[tokio::test]
async fn the_switch_takes_all_tools_away_at_once_and_gives_them_back() {
    let stage = Stage::serve(Setup::new().client(misbehaving("up", []).execute(&["*"]))).await;
    let gateway = &stage.gateway;
    let before = stage.listed("/mcp", &[]).await;
    let session = Endpoint::new(gateway).session().await;
    let file = gateway.directory().join("file");
    let waiting = PathBuf::from(format!("{}.waiting", file.display()));
    let arguments = json!({"file": file});
    let mut running = Box::pin(gateway.execute("up-wait_for", &arguments));
    tokio::select! {
        reply = &mut running => panic!("it ended at once: {}", reply.body),
        () = wait::until("the call to run", async || waiting.exists().then_some(())) => {}
    }
    edit(gateway, |config| config["mcp"]["disabled"] = json!(true));
    wait::until("the tools to be gone", async || {
        stage.listed("/mcp", &[]).await.is_empty().then_some(())
    })
    .await;
    let refused = gateway.execute("up-pid", &json!({})).await;
    assert_eq!((refused.status, refused.code()), (403, "tools_disabled"), "{}", refused.text);
    let params = json!({"name": "up-pid", "arguments": {}});
    let called = session.request("tools/call", params).result().await;
    assert_eq!(called["isError"], true);
    assert_eq!(called["_meta"]["airlock/error"]["code"], "airlock.tools_disabled");
    assert!(stage.listed("/mcp/up", &[]).await.is_empty(), "the path is still there");
    assert!(stage.offered(&[]).await.is_empty(), "a model is asked without tools");
    assert_eq!(rules(&stage.explain("").await, "up-pid"), ["switched_off"]);
    // A call that runs already ends.
    std::fs::write(&file, "").expect("a file");
    assert_eq!(running.await.content(), "it is there");
    edit(gateway, |config| config["mcp"]["disabled"] = json!(false));
    wait::until("the tools to be back", async || {
        (stage.listed("/mcp", &[]).await == before).then_some(())
    })
    .await;
    assert_eq!(gateway.execute("up-pid", &json!({})).await.status, 200);
}

#[tokio::test]
async fn a_key_has_the_rows_of_its_roles_within_its_environment_and_follows_the_file() {
    let rows =
        |client: &str, tools: Value| json!({"mcp_client_name": client, "tools_to_execute": tools});
    let setup = Setup::new()
        .client(misbehaving("alpha", []).execute(&["echo", "pid", "env"]))
        .client(misbehaving("beta", []).execute(&["echo"]).set("/allow_on_all_virtual_keys", true))
        .set(
            "/governance/roles",
            json!([
                {"name": "reader", "mcp_configs": [rows("alpha", json!(["echo", "pid"]))]},
                {"name": "debugger", "mcp_configs": [rows("alpha", json!(["env"]))]},
            ]),
        )
        .set(
            "/governance/environments",
            json!([{"name": "eu", "clients": ["alpha"], "tools_to_exclude": ["alpha-pid"]}]),
        )
        .set(
            "/governance/virtual_keys",
            json!([
                {"name": "ann", "value": ANN, "roles": ["reader", "debugger"]},
                {"name": "bob", "value": BOB, "roles": ["reader"], "environment": "eu"},
            ]),
        );
    let stage = Stage::serve(setup).await;
    let all = ["alpha-echo", "alpha-env", "alpha-pid", "beta-echo"];
    stage.assert_sees(&[("x-bf-vk", ANN)], &all, &all).await;
    stage.assert_sees(&[("x-bf-vk", BOB)], &all, &["alpha-echo"]).await;
    let explained = stage.explain("key=bob").await;
    assert_eq!(rules(&explained, "alpha-pid"), ["environment_exclude"]);
    assert_eq!(rules(&explained, "beta-echo"), ["environment"]);
    let mcp = |key: &str, client: &str| Endpoint::new(&stage.gateway).key(key).source(client);
    let list = || json!({});
    assert_eq!(mcp(BOB, "beta").modern("tools/list", list()).reply().await.status, 404);
    assert_eq!(mcp(ANN, "beta").modern("tools/list", list()).reply().await.status, 200);
    edit(&stage.gateway, |config| {
        config["governance"]["roles"][0]["mcp_configs"][0]["tools_to_execute"] = json!(["pid"]);
    });
    wait::until("the role to be in force", async || {
        let seen = stage.listed("/mcp", &[("x-bf-vk", ANN)]).await;
        (seen == ["alpha-env", "alpha-pid", "beta-echo"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_access_token_for_all_apis_is_challenged_at_mcp_alone_and_approves_nothing() {
    let issuer = Issuer::start().await;
    let oauth = json!({
        "issuer": issuer.url(), "resource": RESOURCE, "scopes": ["mcp"], "apis": "all",
        "views": [{"claim": "groups", "value": "staff", "roles": ["reader"]}],
    });
    let row = json!({"mcp_client_name": "alpha", "tools_to_execute": ["echo"]});
    let setup = Setup::new()
        .client(misbehaving("alpha", []).execute(&["echo", "pid"]))
        .key("ann", ANN, &[("alpha", &["*"])])
        .set("/governance/roles", json!([{"name": "reader", "mcp_configs": [row]}]))
        .set("/mcp_server/oauth", oauth);
    let stage = Stage::serve(setup).await;
    let all = ["alpha-echo", "alpha-pid"];
    let token = format!("Bearer {}", issuer.token(&json!({})).await);
    let staff = [("authorization", token.as_str())];
    stage.assert_sees(&staff, &all, &["alpha-echo"]).await;
    stage.assert_sees(&[("x-bf-vk", ANN)], &all, &all).await;
    // A virtual key takes precedence, as at `/mcp`.
    stage.assert_sees(&[staff[0], ("x-bf-vk", ANN)], &all, &all).await;
    let message = json!({"model": "fake/model", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]});
    let response = json!({"model": "fake/model", "input": "hi"});
    for (path, body) in [("/v1/messages", message), ("/v1/responses", response)] {
        let reply = Reply::fetch(stage.request(Method::POST, path, &staff).json(&body)).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
        let reply = Reply::fetch(stage.request(Method::POST, path, &[]).json(&body)).await;
        assert_eq!(reply.status, 401, "{path}");
    }
    for path in ["/v1/models", "/api/mcp/clients"] {
        let reply = Reply::fetch(stage.request(Method::GET, path, &staff)).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text);
    }
    let approvals = Reply::fetch(stage.request(Method::GET, "/v1/approvals", &staff)).await;
    assert_eq!(approvals.status, 401, "{}", approvals.text);
    let by_key = stage.request(Method::GET, "/v1/approvals", &[("x-bf-vk", ANN)]);
    assert_eq!(Reply::fetch(by_key).await.status, 200);
    // Requests of operators need an operator.
    let explain = Reply::fetch(stage.request(Method::GET, "/api/mcp/explain", &staff)).await;
    assert_eq!((explain.status, explain.code()), (401, "operator_required"));
    let other = issuer.token(&json!({"aud": "https://other.example.com"})).await;
    let guest = issuer.token(&json!({"groups": ["guests"]})).await;
    let forged = Issuer::start().await.token(&json!({"iss": issuer.url()})).await;
    for (token, status) in [(other, 401), (guest, 403), (forged, 401)] {
        let bearer = format!("Bearer {token}");
        let refused =
            stage.request(Method::POST, "/v1/chat/completions", &[("authorization", &bearer)]);
        let refused = refused.json(&json!({})).send().await.expect("an answer");
        assert_eq!(refused.status().as_u16(), status);
        assert!(!refused.headers().contains_key(WWW_AUTHENTICATE), "only MCP has a challenge");
        assert!(!stage.gateway.said().contains(&token), "a token reached the log");
    }
    assert!(!stage.gateway.said().contains(&token["Bearer ".len()..]));
    assert!(stage.model.asked().iter().all(|asked| !token.contains(&asked.authorization)));
}

#[tokio::test]
async fn an_access_token_is_for_mcp_alone_by_default_and_without_keys_nothing_else_is_open() {
    let issuer = Issuer::start().await;
    let oauth = json!({
        "issuer": issuer.url(), "resource": RESOURCE,
        "views": [{"claim": "groups", "value": "staff", "roles": ["reader"]}],
    });
    let row = json!({"mcp_client_name": "alpha", "tools_to_execute": ["echo"]});
    let setup = Setup::new()
        .client(misbehaving("alpha", []).execute(&["echo", "pid"]))
        .set("/governance/roles", json!([{"name": "reader", "mcp_configs": [row]}]))
        .set("/mcp_server/oauth", oauth);
    let stage = Stage::serve(setup).await;
    let token = format!("Bearer {}", issuer.token(&json!({})).await);
    let staff = [("authorization", token.as_str())];
    assert_eq!(stage.listed("/mcp", &staff).await, ["alpha-echo"]);
    let requests: [&Headers<'_>; 2] = [&staff, &[]];
    for headers in requests {
        assert_eq!(stage.chat(headers).await.status, 401, "{headers:?}");
        let call = stage.gateway.execute_with(headers, "alpha-echo", &json!({"text": "x"})).await;
        assert_eq!(call.status, 401, "{headers:?}");
        for path in ["/v1/approvals", "/v1/runs", "/v1/models", "/api/mcp/clients"] {
            let reply = Reply::fetch(stage.request(Method::GET, path, headers)).await;
            assert_eq!(reply.status, 401, "{path}, {headers:?}");
        }
    }
}

#[tokio::test]
async fn a_token_for_one_path_is_good_there_alone_and_its_metadata_names_it() {
    let issuer = Issuer::start().await;
    let oauth = json!({
        "issuer": issuer.url(), "resource": RESOURCE,
        "views": [{"claim": "groups", "value": "staff", "virtual_key": "ann"}],
    });
    let setup = Setup::new()
        .client(misbehaving("alpha", []).execute(&["echo", "pid"]))
        .key("ann", ANN, &[("alpha", &["*"])])
        .set("/mcp/virtual_mcps", json!([group("Desk", &json!(["echo"]))]))
        .set("/mcp_server/oauth", oauth);
    let stage = Stage::serve(setup).await;
    let metadata = "/.well-known/oauth-protected-resource/mcp/desk";
    let document = stage.gateway.get(metadata).await.ok();
    let part = format!("{RESOURCE}/desk");
    assert_eq!(document["resource"], part.as_str());
    for path in ["/mcp/desk", "/mcp/nothing"] {
        let refused = stage.request(Method::POST, path, &[]).json(&json!({}));
        let refused = refused.send().await.expect("an answer");
        let challenge = refused.headers()[WWW_AUTHENTICATE].to_str().expect("text");
        let own = metadata.replace("/mcp/desk", path);
        assert!(challenge.contains(&format!("https://airlock.example.com{own}")), "{challenge}");
    }
    let token = format!("Bearer {}", issuer.token(&json!({"aud": part})).await);
    let bearer = [("authorization", token.as_str())];
    assert_eq!(stage.listed("/mcp/desk", &bearer).await, ["alpha-echo"]);
    for path in ["/mcp", "/mcp/alpha", "/v1/chat/completions"] {
        let refused =
            Reply::fetch(stage.request(Method::POST, path, &bearer).json(&json!({}))).await;
        assert_eq!(refused.status, 401, "{path}");
    }
}

/// Returns a group with tools of the client `alpha`.
fn group(name: &str, tools: &Value) -> Value {
    json!({"name": name, "tools": [{"mcp_client_name": "alpha", "tool_names": tools}]})
}

#[tokio::test]
async fn a_real_client_finds_the_tools_of_a_group_at_its_path() {
    let setup = Setup::new()
        .client(misbehaving("alpha", []).execute(&["echo", "pid"]).auto(&["echo"]))
        .client(misbehaving("beta", []).execute(&["echo"]))
        .set("/mcp/virtual_mcps", json!([group("On call", &json!(["echo", "env"]))]));
    let stage = Stage::serve(setup).await;
    let url = format!("{}/mcp/on-call", stage.gateway.address());
    let http = airlock::tls::client().no_proxy().build().expect("a client");
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::with_client(http, config);
    let session = ().serve(transport).await.expect("connected");
    let tools = session.peer().list_all_tools().await.expect("a list");
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_ref()).collect();
    assert_eq!(names, ["alpha-echo"], "`env` may not be called anywhere");
    let arguments = json!({"text": "through"}).as_object().expect("an object").clone();
    let call = CallToolRequestParams::new("alpha-echo").with_arguments(arguments);
    let result = session.peer().call_tool(call).await.expect("a result");
    assert!(format!("{:?}", result.content).contains("through"), "{result:?}");
    for hidden in ["alpha-pid", "beta-echo"] {
        let refused = session.peer().call_tool(CallToolRequestParams::new(hidden)).await;
        assert!(refused.is_err(), "{hidden}");
    }
    session.cancel().await.expect("it ends");
    let explained = stage.explain("virtual_mcp=on-call").await;
    assert_eq!(rules(&explained, "alpha-pid"), ["virtual_mcp"]);
}

#[tokio::test]
async fn a_group_grants_nothing_hides_from_other_keys_and_keeps_its_sessions() {
    let mut of_ann = group("Of ann", &json!(["*"]));
    of_ann["virtual_keys"] = json!(["ann"]);
    let setup = Setup::new()
        .client(misbehaving("alpha", []).execute(&["echo", "pid"]))
        .key("ann", ANN, &[("alpha", &["pid"])])
        .key("bob", BOB, &[("alpha", &["echo"])])
        .set("/mcp/virtual_mcps", json!([group("All", &json!(["*"])), of_ann]));
    let stage = Stage::serve(setup).await;
    assert_eq!(stage.listed("/mcp/all", &[("x-bf-vk", ANN)]).await, ["alpha-pid"]);
    assert_eq!(stage.listed("/mcp/all", &[("x-bf-vk", BOB)]).await, ["alpha-echo"]);
    assert_eq!(stage.listed("/mcp/of-ann", &[("x-bf-vk", ANN)]).await, ["alpha-pid"]);
    let at = |key: &str, path: &str| Endpoint::new(&stage.gateway).key(key).source(path);
    let hidden = at(BOB, "of-ann").modern("tools/list", json!({})).reply().await;
    let unknown = at(BOB, "gone").modern("tools/list", json!({})).reply().await;
    assert_eq!((hidden.status, &hidden.body["error"]), (404, &unknown.body["error"]));
    let session = at(ANN, "all").session().await;
    assert_eq!(session.request("tools/list", json!({})).reply().await.status, 200);
    for other in [at(ANN, "of-ann"), at(ANN, "alpha"), Endpoint::new(&stage.gateway).key(ANN)] {
        let moved = session.named_by(&other).request("tools/list", json!({})).reply().await;
        assert_eq!(moved.status, 404, "a session belongs to its path");
    }
    edit(&stage.gateway, |config| config["mcp"]["virtual_mcps"] = json!([]));
    wait::until("the group to be gone", async || {
        let reply = session.request("tools/list", json!({})).reply().await;
        (reply.status == 404).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_client_with_owners_does_not_exist_for_others() {
    let setup = Setup::new()
        .set("/server/require_virtual_key", false)
        .client(
            misbehaving("mail", [])
                .execute(&["echo"])
                .set("/allow_on_all_virtual_keys", true)
                .set("/virtual_keys", json!(["ann"])),
        )
        .client(misbehaving("open", []).execute(&["echo"]).set("/allow_on_all_virtual_keys", true))
        .key("ann", ANN, &[])
        .key("bob", BOB, &[("mail", &["*"])]);
    let stage = Stage::serve(setup).await;
    let all = ["mail-echo", "open-echo"];
    stage.assert_sees(&[("x-bf-vk", ANN)], &all, &all).await;
    let strangers: [&Headers<'_>; 2] = [&[("x-bf-vk", BOB)], &[]];
    for stranger in strangers {
        stage.assert_sees(stranger, &all, &["open-echo"]).await;
        let clients = Reply::fetch(stage.request(Method::GET, "/api/mcp/clients", stranger)).await;
        assert!(!clients.text.contains("mail"), "{}", clients.text);
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        let path =
            Reply::fetch(stage.request(Method::POST, "/mcp/mail", stranger).json(&list)).await;
        let gone =
            Reply::fetch(stage.request(Method::POST, "/mcp/gone", stranger).json(&list)).await;
        assert_eq!((path.status, &path.body["error"]), (404, &gone.body["error"]));
        let _ = stage.chat(stranger).await.ok();
        let asked = stage.model.asked().pop().expect("the model was asked");
        assert!(!asked.body.to_string().contains("mail"), "{}", asked.body);
    }
    let explained = stage.explain("key=bob").await;
    assert!(!explained.to_string().contains("mail"), "{explained:#}");
    assert_eq!(explained["concealed"][0]["rule"], "owner");
    let of_ann = stage.explain("key=ann").await;
    assert_eq!((rules(&of_ann, "mail-echo").len(), &of_ann["concealed"]), (0, &Value::Null));
    // The operator sees it.
    assert!(stage.gateway.client("mail").await.is_some());
}
