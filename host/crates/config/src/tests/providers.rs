//! `providers`.

mod services;

use std::time::Duration;

use super::*;
use airlock_core::secret::Secret;
use airlock_model::{
    Api, Apis, CloudCredential, Hosting, Key, Kind, Retries, Service, ServiceAccountKey, Timeouts,
};

fn provider(name: &str, provider: Value) -> Value {
    json!({"providers": with(json!({}), name, provider)})
}

/// Returns the service of a file with one provider.
fn service(name: &str, settings: Value) -> Service {
    match good(&provider(name, settings)).providers.remove(0).kind {
        Kind::Service(service) => *service,
        Kind::Scripted { .. } => panic!("{name} is a service"),
    }
}

fn keys() -> Value {
    json!([{"value": "env.GOOD"}])
}

#[test]
fn a_known_name_implies_kind_and_url() {
    for (name, api, url) in [
        ("openai", Api::OpenAi, "https://api.openai.com/v1"),
        ("anthropic", Api::Anthropic, "https://api.anthropic.com/v1"),
        ("groq", Api::OpenAi, "https://api.groq.com/openai/v1"),
        ("mistral", Api::OpenAi, "https://api.mistral.ai/v1"),
        ("ollama", Api::OpenAi, "http://localhost:11434/v1"),
        ("openrouter", Api::OpenAi, "https://openrouter.ai/api/v1"),
        ("gemini", Api::OpenAi, "https://generativelanguage.googleapis.com/v1beta/openai"),
        ("deepseek", Api::OpenAi, "https://api.deepseek.com/v1"),
        ("xai", Api::OpenAi, "https://api.x.ai/v1"),
        ("perplexity", Api::OpenAi, "https://api.perplexity.ai"),
        ("cerebras", Api::OpenAi, "https://api.cerebras.ai/v1"),
        ("nebius", Api::OpenAi, "https://api.tokenfactory.nebius.com/v1"),
        ("fireworks", Api::OpenAi, "https://api.fireworks.ai/inference/v1"),
        ("parasail", Api::OpenAi, "https://api.parasail.io/v1"),
        ("sgl", Api::OpenAi, "http://localhost:30000/v1"),
        ("vllm", Api::OpenAi, "http://localhost:8000/v1"),
    ] {
        let service = service(name, json!({"keys": keys()}));
        assert_eq!((service.api, service.base_url.as_str()), (api, url), "{name}");
    }
}

#[test]
fn geminis_own_api_is_used_if_its_kind_is_named() {
    let own = |members| {
        let mut file = json!({"kind": "gemini", "keys": keys()});
        file.as_object_mut().expect("an object").extend(as_object(members));
        file
    };
    let known = service("gemini", own(json!({"headers": {"x-goog-user-project": "p"}})));
    assert_eq!(
        (known.api, known.base_url.as_str(), known.images_in_tool_results),
        (Api::Gemini, "https://generativelanguage.googleapis.com/v1beta", true)
    );
    for (name, member, url) in [
        ("gemini", json!({"base_url": "https://h/v1beta"}), "https://h/v1beta"),
        ("mine", json!({"base_url": "https://h/v1beta"}), "https://h/v1beta"),
        ("mine", json!({"network_config": {"base_url": "https://h/v1beta"}}), "https://h/v1beta"),
    ] {
        assert_eq!(service_url(name, own(member)), url, "{name}");
    }
    for (name, member, expected) in [
        (
            "mine",
            json!({}),
            "providers.mine.base_url: is required, because no service of this name is known",
        ),
        (
            "gemini",
            json!({"apis": ["chat"]}),
            r#"providers.gemini.apis: belongs to a provider of kind "openai" or "azure""#,
        ),
    ] {
        assert_eq!(error(&provider(name, own(member))), expected);
    }
    let reserved = own(json!({"headers": {"x-goog-api-key": "k"}}));
    let error = error(&provider("gemini", reserved));
    assert!(error.contains("headers") && error.contains("x-goog-api-key"), "{error}");
}

fn as_object(value: Value) -> serde_json::Map<String, Value> {
    serde_json::from_value(value).expect("an object")
}

#[test]
fn images_of_tools_are_sent_where_the_api_takes_them_or_as_configured() {
    for (name, setting, expected) in [
        ("openai", json!(null), false),
        ("openai", json!(true), true),
        ("anthropic", json!(null), true),
        ("anthropic", json!(false), false),
        ("gemini", json!(null), false),
    ] {
        let file = json!({"keys": keys(), "images_in_tool_results": setting});
        assert_eq!(service(name, file).images_in_tool_results, expected, "{name}");
    }
}

#[test]
fn a_name_without_a_kind_of_its_own_needs_one() {
    assert_snapshot!(
        error(&provider("mine", json!({}))),
        @r#"providers.mine.kind: is required, but missing: expected "openai", "anthropic", "gemini", "azure", "bedrock", "vertex" or "scripted", because the name of the provider implies no kind"#
    );
    let forgotten = json!({"kind": "openai", "keys": keys()});
    assert_snapshot!(
        error(&provider("mine", forgotten)),
        @"providers.mine.base_url: is required, because no service of this name is known"
    );
    let own = json!({"kind": "openai", "base_url": "https://mine.example/openai/v1"});
    assert_eq!(service("azure", own).base_url, "https://mine.example/openai/v1");
    assert_snapshot!(
        error(&provider("anthropic", json!({"kind": "openai", "keys": keys()}))),
        @"providers.anthropic.base_url: is required, because the service of this name has an API of another kind"
    );
}

#[test]
fn azure_has_an_endpoint_and_deployments() {
    let azure = service(
        "azure",
        json!({
            "base_url": "https://r.openai.azure.com/", "keys": keys(), "apis": ["chat", "responses"],
            "deployments": {"gpt-4.1": "mine"}, "api_version": "2024-10-21",
        }),
    );
    assert_eq!(
        (azure.api, azure.apis, azure.base_url.as_str()),
        (Api::OpenAi, Apis::Both, "https://r.openai.azure.com")
    );
    assert_eq!(azure.hosting, Hosting::Azure { api_version: Some("2024-10-21".to_owned()) });
    assert_eq!(azure.deployments["gpt-4.1"], "mine");
    let by_kind = service("mine", json!({"kind": "azure", "base_url": "https://h"}));
    assert_eq!(by_kind.hosting, Hosting::Azure { api_version: None });
    assert_snapshot!(
        error(&provider("azure", json!({
            "keys": keys(), "deployments": {"a": ""}, "api_version": "v 1", "headers": {"api-key": "k"}
        }))),
        @r#"
    providers.azure.deployments.a: must have from 1 to 2048 bytes
    providers.azure.api_version: expected a date, as in "2024-10-21"
    providers.azure.base_url: is required, but missing: expected the endpoint of the resource, as in "https://NAME.openai.azure.com"
    providers.azure.headers.api-key: is set by the transport itself
    "#
    );
    let with_path = json!({"base_url": "https://r.openai.azure.com/openai/v1/"});
    assert_snapshot!(
        error(&provider("azure", with_path)),
        @"providers.azure.base_url: must be the endpoint alone, without the path of an API"
    );
    assert_snapshot!(
        error(&provider("openai", json!({"keys": keys(), "deployments": {}, "api_version": "x"}))),
        @"
    providers.openai.deployments: belongs to a provider of another kind
    providers.openai.api_version: belongs to a provider of another kind
    "
    );
}

#[test]
fn vertex_has_a_project_a_location_and_service_accounts() {
    let file = |members| {
        let mut file = json!({"project": "my-p", "location": "global", "keys": [
            {"name": "file", "value": "", "service_account": "key.json"},
            {"name": "text", "service_account": {"value": "{\"type\": \"service_account\"}"}},
            {"name": "token", "value": "env.GOOD"},
        ]});
        file.as_object_mut().expect("an object").extend(as_object(members));
        file
    };
    let gemini = service("vertex", file(json!({"deployments": {"a": "b"}})));
    assert_eq!(
        (gemini.api, gemini.base_url.as_str(), gemini.deployments["a"].as_str()),
        (Api::Gemini, "https://aiplatform.googleapis.com", "b")
    );
    let hosting = Hosting::Vertex { project: "my-p".to_owned(), location: "global".to_owned() };
    assert_eq!(gemini.hosting, hosting);
    assert!(matches!(
        &gemini.keys[0].cloud,
        Some(CloudCredential::ServiceAccount(ServiceAccountKey::File(path))) if path.ends_with("key.json")
    ));
    assert!(matches!(
        &gemini.keys[1].cloud,
        Some(CloudCredential::ServiceAccount(ServiceAccountKey::Text(_)))
    ));
    assert_eq!((gemini.keys[2].cloud.as_ref(), gemini.keys[2].value.is_some()), (None, true));
    let claude = service(
        "claude",
        file(json!({"kind": "vertex", "publisher": "anthropic", "base_url": "https://h/"})),
    );
    assert_eq!((claude.api, claude.base_url.as_str()), (Api::Anthropic, "https://h"));
    assert_snapshot!(
        error(&provider("vertex", json!({
            "location": "a/b", "api_version": "v1", "keys": [{}], "headers": {"authorization": "x"}
        }))),
        @"
    providers.vertex.api_version: belongs to a provider of another kind
    providers.vertex.project: is required, but missing
    providers.vertex.location: must have at most 128 characters: letters, digits and `-`
    "
    );
    assert_snapshot!(
        error(&provider("vertex", json!({
            "project": "p", "location": "l", "headers": {"authorization": "x"},
            "keys": [{"value": "k", "service_account": "f"}, {}],
        }))),
        @"
    providers.vertex.keys[0].value: the key has a credential of the cloud already
    providers.vertex.keys[1].value: is required, but missing
    providers.vertex.headers.authorization: is set by the transport itself
    "
    );
    assert_snapshot!(
        error(&provider("openai", json!({"keys": [{"service_account": "f"}], "project": "p"}))),
        @"
    providers.openai.project: belongs to a provider of another kind
    providers.openai.keys[0].service_account: belongs to a provider of another kind
    "
    );
}

#[test]
fn bedrock_has_a_region_and_access_keys() {
    let file = json!({
        "region": "eu-central-1", "deployments": {"claude": "eu.anthropic.claude-v2:1"},
        "keys": [
            {"name": "access", "value": "", "access_key": "AKID", "secret_key": "env.GOOD"},
            {"name": "temporary", "access_key": "AKID", "secret_key": "env.GOOD", "session_token": "t/+=="},
            {"name": "api key", "value": "env.GOOD"},
        ],
    });
    let bedrock = service("bedrock", file);
    assert_eq!(
        (bedrock.api, bedrock.base_url.as_str()),
        (Api::Anthropic, "https://bedrock-runtime.eu-central-1.amazonaws.com")
    );
    assert_eq!(bedrock.hosting, Hosting::Bedrock { region: "eu-central-1".to_owned() });
    let secret = Secret::new(format!("{SECRET}-GOOD"));
    for (key, session_token) in bedrock.keys.iter().zip([None, Some(Secret::new("t/+=="))]) {
        let expected = CloudCredential::AccessKey {
            access_key: Secret::new("AKID"),
            secret_key: secret.clone(),
            session_token,
        };
        assert_eq!((key.cloud.as_ref(), key.value.as_ref()), (Some(&expected), None));
    }
    assert_eq!(
        (bedrock.keys[2].cloud.as_ref(), bedrock.keys[2].value.as_ref()),
        (None, Some(&secret))
    );
    assert_snapshot!(
        error(&provider("bedrock", json!({
            "region": "r", "project": "p", "headers": {"X-Amz-Date": "x"},
            "keys": [
                {"access_key": "a b"},
                {"access_key": "a", "secret_key": "s", "value": "v", "service_account": "f"},
                {"secret_key": "s"},
            ],
        }))),
        @"
    providers.bedrock.project: belongs to a provider of another kind
    providers.bedrock.keys[0].access_key: has a space or another character that an HTTP header cannot have
    providers.bedrock.keys[0].secret_key: is required, but missing
    providers.bedrock.keys[1].service_account: belongs to a provider of another kind
    providers.bedrock.keys[1].value: the key has a credential of the cloud already
    providers.bedrock.keys[2].access_key: is required, but missing
    providers.bedrock.headers.X-Amz-Date: is set by the transport itself
    "
    );
    assert_snapshot!(
        error(&provider("bedrock", json!({}))),
        @"providers.bedrock.region: is required, but missing"
    );
}

#[test]
fn a_file_of_bifrost_loads_with_its_keys_and_network_settings() {
    let service = service(
        "openai",
        json!({
            "keys": [
                {"id": "1", "name": "main", "value": "env.GOOD", "models": ["*"], "weight": 2.0},
                {"name": "mini", "value": {"value": "", "env_var": "env.GOOD_B", "from_env": true},
                 "models": ["gpt-4o-mini"], "use_for_batch_api": true},
                {"name": "rest", "value": "sk-x", "models": [], "weight": 0},
                {"name": "off", "value": "env.UNSET", "enabled": false},
            ],
            "network_config": {
                "base_url": "https://proxy.example/openai/",
                "extra_headers": {"X-Team": "env.GOOD"},
                "default_request_timeout_in_seconds": 120,
                "stream_idle_timeout_in_seconds": 60,
                "max_retries": 3,
                "retry_backoff_initial": 250,
                "retry_backoff_max": 10_000,
            },
            "proxy_config": {
                "type": "socks5", "url": "socks5://127.0.0.1:1080", "username": "me", "password": "env.GOOD"
            },
            "concurrency_and_buffer_size": {"concurrency": 3, "buffer_size": 10},
        }),
    );
    let secret = format!("{SECRET}-GOOD");
    assert_eq!(
        service,
        Service {
            keys: vec![
                Key { weight: 2.0, ..key("main", &secret) },
                Key {
                    models: Some(vec!["gpt-4o-mini".to_owned()]),
                    ..key("mini", &format!("{SECRET}-GOOD_B"))
                },
                Key { weight: 0.0, ..key("rest", "sk-x") },
            ],
            headers: [("x-team".to_owned(), Secret::new(&*secret))].into(),
            timeouts: Timeouts {
                request: Duration::from_mins(2),
                idle: Duration::from_mins(1),
                ..Timeouts::default()
            },
            retries: Retries {
                max: 3,
                initial: Duration::from_millis(250),
                longest: Duration::from_secs(10),
            },
            proxy: Some(Secret::new(format!("socks5://me:{secret}@127.0.0.1:1080"))),
            ..Service::new(Api::OpenAi, "https://proxy.example/openai/v1")
        }
    );
    assert_eq!(url_with_base("openai", "http://h/v1"), "http://h/v1");
    assert_eq!(url_with_base("gemini", "http://h/v1beta"), "http://h/v1beta/openai");
    assert_eq!(url_with_base("perplexity", "http://h"), "http://h");
}

fn url_with_base(name: &str, url: &str) -> String {
    service_url(name, json!({"keys": keys(), "network_config": {"base_url": url}}))
}

fn key(name: &str, value: &str) -> Key {
    Key::new(name, Secret::new(value))
}

fn service_url(name: &str, settings: Value) -> String {
    service(name, settings).base_url
}

#[test]
fn fallbacks_name_providers() {
    let config = good(&with_fallbacks(&json!(["anthropic/claude-x", "openai/gpt-x"])));
    assert_eq!(config.providers[0].fallbacks, ["anthropic/claude-x", "openai/gpt-x"]);
    assert_snapshot!(error(&with_fallbacks(&json!(["claude-x", "groq/x", "anthropic/"]))), @r#"
    providers.openai.fallbacks[0]: found "claude-x", expected NAME/model with the name of a provider
    providers.openai.fallbacks[1]: found "groq/x", expected NAME/model with the name of a provider
    providers.openai.fallbacks[2]: found "anthropic/", expected NAME/model with the name of a provider
    "#);
    let nine = vec!["anthropic/x"; 9];
    assert_snapshot!(
        error(&with_fallbacks(&json!(nine))),
        @"providers.openai.fallbacks: must have at most 8 elements, found 9"
    );
}

fn with_fallbacks(fallbacks: &Value) -> Value {
    json!({"providers": {
        "openai": {"keys": keys(), "fallbacks": fallbacks}, "anthropic": {"keys": keys()}
    }})
}

#[tokio::test]
async fn certificates_of_a_provider_are_checked_with_the_other_files() {
    let home = tempfile::tempdir().expect("a directory");
    let origin = home.path().join("gateway.json").display().to_string();
    let check = async |name: &str| {
        let file = provider("ollama", json!({"ca": name, "fallbacks": ["ollama/x"]}));
        let config = Config::parse(&file.to_string(), &origin, &|_| None).expect("good");
        let error = config.check_files("gateway.json").await.expect_err("no certificate");
        error.to_string().replace(&home.path().display().to_string(), "…")
    };
    assert_snapshot!(check("no.pem").await, @"gateway.json: providers.ollama.ca: there is no file …/no.pem");
    std::fs::write(home.path().join("ca.pem"), "text").expect("a file");
    assert_snapshot!(check("ca.pem").await, @r#"gateway.json: providers.ollama.ca: `ca` of provider "ollama" cannot be used: the file …/ca.pem has no certificate in PEM format"#);
}

#[test]
fn providers_keep_their_order() {
    let config = good(&json!({"providers": {
        "z": {"kind": "scripted", "script": "z.json"},
        "a": {"kind": "openai", "base_url": "http://localhost:9/v1/", "api_key": {"env_var": "env.GOOD", "from_env": true}},
    }}));
    let names: Vec<_> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    assert_eq!(names, ["z", "a"]);
    let api_key = Secret::new(format!("{SECRET}-GOOD"));
    let service = Service {
        keys: vec![Key::new("api_key", api_key)],
        ..Service::new(Api::OpenAi, "http://localhost:9/v1")
    };
    assert_eq!(config.providers[1].kind, Kind::Service(Box::new(service)));
}
