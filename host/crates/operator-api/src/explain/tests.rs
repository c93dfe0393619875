use std::collections::BTreeMap;

use super::*;
use crate::{
    OperatorSettings,
    tests::{self, settings},
};
use airlock_core::{
    door::Keys,
    request_memory::{Memory, REQUEST_BYTES},
    tenant::Tenant,
    tool::{Allowlist, ClientName},
};
use airlock_fakes as fake;
use airlock_ingress::Payload;

const BUDGET_BYTES: usize = 16 << 20;

fn api(settings: OperatorSettings) -> OperatorApi {
    let (catalog, _) = fake::catalog();
    let desk = ClientName::parse("desk").expect("a good name");
    let row = Allowlist::parse(&["echo", "write"]).expect("a good list");
    let rows = BTreeMap::from([(desk, row)]);
    let roles = BTreeMap::from([("reader".to_owned(), rows.clone().into())]);
    let keys = Keys::new([VirtualKey::new("ann", "sk-bf-ann", rows)]).with_roles(roles);
    tests::api(catalog, keys.into(), None, settings)
}

/// Returns the response to a query, or the error with its status.
async fn ask(api: &OperatorApi, query: &str) -> Result<Value, (u16, Value)> {
    ask_with(api, query, BUDGET_BYTES).await
}

async fn ask_with(
    api: &OperatorApi,
    query: &str,
    memory_bytes: usize,
) -> Result<Value, (u16, Value)> {
    let memory = Memory::new(memory_bytes);
    let charge = memory.open(Tenant::ANONYMOUS, 0).expect("there is room");
    match show(api, query, &charge).await {
        Ok(reply) => {
            let Payload::Whole(body) = reply.into_body() else { panic!("it is not a stream") };
            Ok(serde_json::from_slice(&body).expect("JSON"))
        }
        Err(error) => Err((error.status().as_u16(), error.into_body()["error"].clone())),
    }
}

/// Returns `name=visible` of each tool, with the rules that hide it.
fn tools(answer: &Value) -> Vec<String> {
    let tools = answer["tools"].as_array().expect("a list").iter().map(|tool| {
        let name = tool["name"].as_str().expect("a name");
        let visible = tool["visible"].as_str().expect("a code");
        let reasons = tool["reasons"].as_array().expect("a list").iter();
        let rules = reasons.map(|reason| format!(" {}", reason["rule"].as_str().expect("a code")));
        format!("{name}={visible}{}", rules.collect::<String>())
    });
    tools.collect()
}

#[tokio::test]
async fn the_tools_of_a_key_are_explained_with_the_rules_that_hide_the_others() {
    let api = api(settings());
    let answer = ask(&api, "key=ann&limit=3").await.expect("an answer");
    assert_eq!(
        tools(&answer),
        ["desk-busy=no key_row", "desk-echo=models", "desk-fail=no key_row"]
    );
    let answer = ask(&api, "key=ann&tool=files").await.expect("an answer");
    assert_eq!(tools(&answer), ["files-read=no key_without_row", "files-write=no key_without_row"]);
    let write = ask(&api, "key=ann&tool=DESK-WR").await.expect("an answer");
    assert_eq!(write["tools"][0]["approval"], "needed", "{write}");
    let hidden = ask(&api, "key=ann&tool=desk-busy").await.expect("an answer");
    insta::assert_snapshot!(format!("{hidden:#}"), @r##"
    {
      "tools": [
        {
          "name": "desk-busy",
          "client": "desk",
          "visible": "no",
          "reasons": [
            {
              "rule": "key_row",
              "message": "No row of the virtual key \"ann\" for desk, or of one of its roles, lists busy. Add it to `tools_to_execute` of such a row, in `mcp_configs` of the key (`governance.virtual_keys` of the file or `/api/governance/virtual-keys`)."
            }
          ],
          "approval": "not_needed",
          "approval_reason": "`tools_to_auto_execute` of the client desk lists busy."
        }
      ],
      "clients": [
        {
          "name": "away",
          "state": "not_listed",
          "reason": "The client away has no list of tools: it is connecting. No request sees its tools before it has listed them.",
          "reasons": [
            {
              "rule": "tools_to_execute",
              "message": "`tools_to_execute` of the client away is empty, so no tool of it may be called. Add the tools, or `*` for all of them, to `tools_to_execute` of the client away (`mcp.client_configs` of the file or `/api/mcp/client/away`)."
            },
            {
              "rule": "key_without_row",
              "message": "There is no row of the virtual key \"ann\" for the client away, and the client does not permit all keys. Add a row with `\"mcp_client_name\": \"away\"` to `mcp_configs` of the key (`governance.virtual_keys` of the file or `/api/governance/virtual-keys`), or set `allow_on_all_virtual_keys` of the client away (`mcp.client_configs` of the file or `/api/mcp/client/away`) to true."
            }
          ]
        },
        {
          "name": "desk",
          "state": "connected"
        },
        {
          "name": "files",
          "state": "connected",
          "reasons": [
            {
              "rule": "key_without_row",
              "message": "There is no row of the virtual key \"ann\" for the client files, and the client does not permit all keys. Add a row with `\"mcp_client_name\": \"files\"` to `mcp_configs` of the key (`governance.virtual_keys` of the file or `/api/governance/virtual-keys`), or set `allow_on_all_virtual_keys` in the policy of the embedding program's tools to true."
            }
          ]
        }
      ],
      "key": "ann",
      "approval_choice": "return",
      "count": 1,
      "total_count": 1,
      "limit": 100,
      "offset": 0
    }
    "##);
}

#[tokio::test]
async fn a_request_with_roles_is_explained_as_one_with_an_access_token() {
    let api = api(settings());
    let answer = ask(&api, "role=reader&limit=2").await.expect("an answer");
    assert_eq!(tools(&answer), ["desk-busy=no key_row", "desk-echo=models"]);
    assert_eq!((&answer["key"], &answer["roles"]), (&Value::Null, &json!(["reader"])));
    let message = answer["tools"][0]["reasons"][0]["message"].as_str().expect("a message");
    insta::assert_snapshot!(message, @r#"No row of the role "reader" for desk lists busy. Add it to `tools_to_execute` of such a row, in `mcp_configs` of one of the roles (`governance.roles` of the file or `/api/governance/roles`)."#);
}

#[tokio::test]
async fn a_request_without_a_key_is_explained_by_its_headers() {
    let api = api(settings());
    let answer = ask(&api, "tool=files").await.expect("an answer");
    assert_eq!(tools(&answer), ["files-read=scripts", "files-write=scripts"]);
    assert_eq!((&answer["key"], answer.get("note")), (&Value::Null, None));
    let answer = ask(&api, "tool=files&include_clients=desk").await.expect("an answer");
    assert_eq!(tools(&answer), ["files-read=no include_clients", "files-write=no include_clients"]);
    let query = "tool=files&include_tools=desk-*%2C%20files-read";
    let answer = ask(&api, query).await.expect("an answer");
    assert_eq!(tools(&answer), ["files-read=scripts", "files-write=no include_tools"]);
    let empty = ask(&api, "tool=files-read&include_tools=").await.expect("an answer");
    assert_eq!(tools(&empty), ["files-read=no include_tools"], "an empty header admits nothing");
}

#[tokio::test]
async fn a_request_without_a_required_key_is_noted_as_refused() {
    let api = api(OperatorSettings { requires_key: true, ..settings() });
    let without = ask(&api, "limit=0").await.expect("an answer");
    assert!(without["note"].as_str().expect("a note").contains("require_virtual_key"));
    let with = ask(&api, "limit=0&key=ann").await.expect("an answer");
    assert_eq!(with.get("note"), None);
}

#[tokio::test]
async fn pages_have_all_tools_once_and_count_them() {
    let api = api(settings());
    let whole = ask(&api, "").await.expect("an answer");
    let total = whole["total_count"].as_u64().expect("a number");
    assert_eq!((&whole["count"], total), (&json!(13), 13));
    let mut found = Vec::new();
    for offset in [0, 5, 10, 15] {
        let query = format!("limit=5&offset={offset}");
        let page = ask(&api, &query).await.expect("an answer");
        let tools = tools(&page);
        assert_eq!((&page["count"], &page["total_count"]), (&json!(tools.len()), &json!(total)));
        assert_eq!((&page["limit"], &page["offset"]), (&json!(5), &json!(offset)));
        found.extend(tools);
    }
    assert_eq!(found, tools(&whole));
}

#[tokio::test]
async fn the_clients_are_listed_with_their_states() {
    let api = api(settings());
    let answer = ask(&api, "key=ann&limit=0").await.expect("an answer");
    let clients = answer["clients"].as_array().expect("a list");
    let states = clients.iter().map(|client| {
        let reasons = client["reasons"].as_array().into_iter().flatten();
        let rules: Vec<_> = reasons.map(|reason| reason["rule"].clone()).collect();
        (client["name"].clone(), client["state"].clone(), json!(rules))
    });
    assert_eq!(
        states.collect::<Vec<_>>(),
        [
            (json!("away"), json!("not_listed"), json!(["tools_to_execute", "key_without_row"])),
            (json!("desk"), json!("connected"), json!([])),
            (json!("files"), json!("connected"), json!(["key_without_row"])),
        ]
    );
    assert!(clients[0]["reason"].as_str().expect("a reason").contains("connecting"), "{answer}");
    assert_eq!(
        describe_disabled("old")["state"],
        "disabled",
        "a client of the configuration that has no connection"
    );
}

#[tokio::test]
async fn an_invalid_query_is_refused() {
    let api = api(settings());
    let names = "a,".repeat(1_000);
    for (query, status, code, param) in [
        ("key=bob", 404, "unknown_key", "key"),
        ("key=", 404, "unknown_key", "key"),
        ("role=reader&role=writer", 404, "unknown_role", "role"),
        ("role=reader%2Creader", 404, "unknown_role", "role"),
        ("role=reader&key=ann", 400, "invalid_value", "role"),
        (&"role=reader&".repeat(17), 400, "invalid_value", "role"),
        ("limit=x", 400, "invalid_value", "limit"),
        ("offset=-1", 400, "invalid_value", "offset"),
        (&format!("include_clients={names}"), 400, "invalid_value", "include_clients"),
        (&format!("include_tools={names}"), 400, "invalid_value", "include_tools"),
        (&format!("exclude_tools={names}"), 400, "invalid_value", "exclude_tools"),
        ("virtual_mcp=gone", 404, "unknown_virtual_mcp", "virtual_mcp"),
    ] {
        let (found, error) = ask(&api, query).await.expect_err("it is refused");
        assert_eq!((found, &error["code"], &error["param"]), (status, &json!(code), &json!(param)));
    }
    let most = names.trim_end_matches(',');
    ask(&api, &format!("include_clients={most}")).await.expect("1,000 names are permitted");
    let (_, error) = ask(&api, "key=sk-bf-ann").await.expect_err("it is a credential, not a name");
    assert_eq!(error["code"], "unknown_key");
}

#[tokio::test]
async fn a_response_is_charged_before_it_is_written() {
    let api = api(settings());
    let (status, _) = ask_with(&api, "", 2 * REQUEST_BYTES).await.expect_err("there is no room");
    assert_eq!(status, 429);
    // Half of it is the share of one caller.
    let room = 2 * (REQUEST_BYTES + 2 * 1024);
    ask_with(&api, "limit=0", room).await.expect("there is room for the clients");
    let (status, _) = ask_with(&api, "", room).await.expect_err("there is no room for the tools");
    assert_eq!(status, 429);
}
