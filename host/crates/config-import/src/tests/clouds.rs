//! Bifrost's settings of clouds.

use super::*;

#[test]
fn settings_of_clouds_move_from_the_keys_to_their_provider() {
    let azure = |key: &str, endpoint: &str, api_version: Value| {
        json!({
            "name": key, "value": "sk-1", "models": ["gpt-4.1"], "weight": 1,
            "azure_key_config": {
                "endpoint": endpoint, "api_version": api_version, "client_id": {"value": ""},
                "scopes": ["s"], "deployments": {key: "mine"},
            },
        })
    };
    let imported = imported(&json!({"providers": {"azure": {"keys": [
        azure("a", "https://r.openai.azure.com", json!("2024-10-21")),
        azure("b", "https://other.openai.azure.com", json!(null)),
    ]}}}));
    assert_eq!(
        imported.file["providers"]["azure"],
        json!({
            "keys": [
                {"name": "a", "value": "sk-1", "models": ["gpt-4.1"], "weight": 1},
                {"name": "b", "value": "sk-1", "models": ["gpt-4.1"], "weight": 1},
            ],
            "base_url": "https://r.openai.azure.com", "api_version": "2024-10-21",
            "deployments": {"a": "mine", "b": "mine"},
        })
    );
    let lines = lines(&imported);
    for line in [
        "changed providers.azure.keys[0].azure_key_config.endpoint: is `base_url` of the provider",
        "changed providers.azure.keys[1].azure_key_config.deployments: is `deployments` of the provider",
        "refused providers.azure.keys[0].azure_key_config.scopes: the gateway has no such setting",
        "refused providers.azure.keys[1].azure_key_config.endpoint: `base_url` of the provider has another value",
        "taken providers.azure: ",
    ] {
        assert!(lines.contains(line), "{line}\n{lines}");
    }
    assert!(!lines.contains("client_id"), "{lines}");
}

#[test]
fn a_service_account_of_vertex_stays_in_its_key() {
    let imported = imported(&json!({"providers": {"vertex": {"keys": [{
        "name": "a", "value": "", "models": ["*"], "weight": 1, "aliases": {"tuned": "123"},
        "vertex_key_config": {
            "project_id": "my-project", "region": "us-central1", "project_number": "7",
            "auth_credentials": {"value": "{}", "env_var": "", "from_env": false},
        },
    }]}}}));
    let provider = &imported.file["providers"]["vertex"];
    assert_eq!(
        (&provider["project"], &provider["location"], &provider["deployments"]),
        (&json!("my-project"), &json!("us-central1"), &json!({"tuned": "123"}))
    );
    assert_eq!(provider["keys"][0]["service_account"]["value"], "{}");
    let lines = lines(&imported);
    for line in [
        "changed providers.vertex.keys[0].vertex_key_config.auth_credentials: is `service_account` of the key",
        "changed providers.vertex.keys[0].aliases: is `deployments` of the provider",
        "changed providers.vertex.keys[0].vertex_key_config: the provider has Google's models;",
        "refused providers.vertex.keys[0].vertex_key_config.project_number: ",
        "taken providers.vertex: ",
    ] {
        assert!(lines.contains(line), "{line}\n{lines}");
    }
}

#[test]
fn an_access_key_of_bedrock_stays_in_its_key() {
    let imported = imported(&json!({"providers": {"bedrock": {"keys": [{
        "name": "a", "value": "", "models": ["*"], "weight": 1,
        "bedrock_key_config": {
            "access_key": "AKIDEXAMPLE", "secret_key": {"value": "s"}, "session_token": "",
            "region": "us-east-1", "arn": "arn:aws:bedrock:us-east-1:1:inference-profile",
            "deployments": {"claude": "us.anthropic.claude-v2:1"},
        },
    }]}}}));
    assert_eq!(
        imported.file["providers"]["bedrock"],
        json!({
            "keys": [{
                "name": "a", "value": "", "models": ["*"], "weight": 1,
                "access_key": "AKIDEXAMPLE", "secret_key": {"value": "s"},
            }],
            "region": "us-east-1", "deployments": {"claude": "us.anthropic.claude-v2:1"},
        })
    );
    let lines = lines(&imported);
    for line in [
        "changed providers.bedrock.keys[0].bedrock_key_config.access_key: is `access_key` of the key",
        "refused providers.bedrock.keys[0].bedrock_key_config.arn: ",
        "taken providers.bedrock: ",
    ] {
        assert!(lines.contains(line), "{line}\n{lines}");
    }
}
