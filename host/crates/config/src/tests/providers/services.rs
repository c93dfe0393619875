//! Settings of a service: its APIs, its keys and its proxy.

use super::*;

#[test]
fn the_gateways_own_settings_of_a_service_are_taken() {
    let service = service(
        "claude",
        json!({
            "kind": "anthropic", "base_url": "https://api.anthropic.com/v1", "api_key": "env.GOOD",
            "headers": {"anthropic-beta": "x"},
            "timeouts": {"request": "1m", "first_byte": "20s", "idle": "5s", "connect": "2s"},
            "retries": {"max": 0, "backoff_initial": "1s", "backoff_max": "2s"},
            "proxy": "http://proxy.example:3128", "ca": "ca.pem",
        }),
    );
    let seconds = Duration::from_secs;
    assert_eq!(
        service,
        Service {
            keys: vec![Key::new("api_key", Secret::new(format!("{SECRET}-GOOD")))],
            headers: [("anthropic-beta".to_owned(), Secret::new("x"))].into(),
            timeouts: Timeouts {
                request: seconds(60),
                first_byte: seconds(20),
                idle: seconds(5),
                connect: seconds(2),
            },
            retries: Retries { max: 0, initial: seconds(1), longest: seconds(2) },
            proxy: Some(Secret::new("http://proxy.example:3128/")),
            ca: Some("/etc/airlock/ca.pem".into()),
            ..Service::new(Api::Anthropic, "https://api.anthropic.com/v1")
        }
    );
}

#[test]
fn a_service_has_the_apis_that_are_listed_and_openai_has_both() {
    for (name, settings, expected) in [
        ("mine", own(&Value::Null), Apis::Chat),
        ("mine", own(&json!(["chat"])), Apis::Chat),
        ("mine", own(&json!(["responses"])), Apis::Responses),
        ("mine", own(&json!(["responses", "chat"])), Apis::Both),
        ("openai", json!({"keys": keys()}), Apis::Both),
        ("openai", json!({"keys": keys(), "apis": ["chat"]}), Apis::Chat),
        ("openai", own(&Value::Null), Apis::Chat),
        ("openai", json!({"keys": keys(), "network_config": {"base_url": "http://h"}}), Apis::Chat),
        ("groq", json!({"keys": keys()}), Apis::Chat),
    ] {
        assert_eq!(service(name, settings.clone()).apis, expected, "{name}: {settings}");
    }
}

fn own(apis: &Value) -> Value {
    json!({"kind": "openai", "base_url": "http://h/v1", "apis": apis})
}

#[test]
fn apis_that_a_service_cannot_have_are_refused_with_the_valid_ones() {
    for (name, settings, expected) in [
        (
            "openai",
            json!({"keys": keys(), "apis": []}),
            r#"providers.openai.apis: found [], expected at least one of "chat" and "responses""#,
        ),
        (
            "openai",
            json!({"keys": keys(), "apis": ["chat", "messages"]}),
            r#"providers.openai.apis[1]: found "messages", expected "chat" or "responses""#,
        ),
        (
            "openai",
            json!({"keys": keys(), "apis": ["chat", "responses", "chat"]}),
            "providers.openai.apis[2]: is in the list already",
        ),
        (
            "anthropic",
            json!({"keys": keys(), "apis": ["chat"]}),
            r#"providers.anthropic.apis: belongs to a provider of kind "openai" or "azure""#,
        ),
        (
            "demo",
            json!({"kind": "scripted", "script": "s.json", "apis": ["chat"]}),
            "providers.demo.apis: belongs to a provider of another kind",
        ),
    ] {
        assert_eq!(error(&provider(name, settings)), expected);
    }
}

#[test]
fn keys_are_checked() {
    let file = provider(
        "openai",
        json!({"api_key": "env.GOOD", "keys": [
            {"name": "a", "value": "env.UNSET", "models": ["*", "m"]},
            {"name": "a", "value": "", "weight": -1},
            {"value": "has a space"},
            {},
            {"value": "k", "aliases": {"a": "b"}, "azure_key_config": {"endpoint": "x"}, "wieght": 1},
        ]}),
    );
    assert_snapshot!(error(&file), @r#"
    providers.openai.keys[4].aliases: this build does not act on it: requests name models as the provider does
    providers.openai.keys[4].azure_key_config: this build does not act on it: use `base_url`, `deployments` and `api_version` of a provider of kind "azure"; `airlock import FILE` moves them there
    providers.openai.keys[4].wieght: unknown key; did you mean "weight"?
    providers.openai.keys: the provider has an `api_key` already
    providers.openai.keys[0].models: "*" must be the only element
    providers.openai.keys[0].value: the environment variable UNSET is not set
    providers.openai.keys[1].name: another key is named "a" already
    providers.openai.keys[1].weight: must be from 0 to 1000000
    providers.openai.keys[1].value: is empty
    providers.openai.keys[2].value: has a space or another character that an HTTP header cannot have
    providers.openai.keys[3].value: is required, but missing
    "#);
    assert_snapshot!(
        error(&provider("openai", json!({"keys": [{"value": "k", "enabled": false}]}))),
        @"providers.openai.keys: every key is disabled"
    );
}

#[test]
fn a_service_on_the_own_network_needs_no_key() {
    for settings in [json!({}), json!({"keys": []}), json!({"keys": [{"name": "x", "value": ""}]})]
    {
        let keys = service("ollama", settings).keys;
        assert!(keys.iter().all(|key| key.value.is_none()));
    }
}

#[test]
fn a_setting_that_is_written_twice_or_in_another_kind_is_refused() {
    let twice = json!({
        "keys": keys(), "base_url": "http://h/v1", "headers": {"X-A": "1", "Authorization": "x"},
        "timeouts": {"request": "1s", "idle": "0s"}, "retries": {"max": 11}, "proxy": "http://p",
        "network_config": {
            "base_url": "http://h", "extra_headers": {"x-a": "2"},
            "default_request_timeout_in_seconds": 1, "insecure_skip_verify": true,
        },
        "proxy_config": {"type": "http", "url": "http://p"},
    });
    assert_snapshot!(error(&provider("openai", twice)), @"
    providers.openai.timeouts.idle: must be from 1ms to 1day, found 0s
    providers.openai.retries.max: must be from 0 to 10, found 11
    providers.openai.network_config.insecure_skip_verify: this build does not act on it: certificates are always checked; put the service's own authority into `ca` of the provider
    providers.openai.network_config.base_url: the provider has a `base_url` already
    providers.openai.headers.Authorization: is set by the transport itself
    providers.openai.network_config.extra_headers.x-a: is in `headers` already
    providers.openai.network_config.default_request_timeout_in_seconds: `timeouts.request` has it already
    providers.openai.proxy_config: the provider has a `proxy` already
    ");
    let scripted =
        json!({"kind": "scripted", "script": "s.json", "keys": [], "timeouts": {}, "ca": "x"});
    assert_snapshot!(error(&provider("demo", scripted)), @"
    providers.demo.keys: belongs to a provider of another kind
    providers.demo.timeouts: belongs to a provider of another kind
    providers.demo.ca: belongs to a provider of another kind
    ");
}

#[test]
fn a_proxy_is_checked_and_never_shown() {
    for (settings, expected) in [
        (
            json!({"proxy": format!("ftp://me:{SECRET}@p")}),
            "providers.ollama.proxy: expected a URL that starts with http://, https://, socks5:// or socks5h://",
        ),
        (
            json!({"proxy_config": {"type": "http", "url": "socks5://p"}}),
            "providers.ollama.proxy_config.url: has a scheme that does not fit `type`",
        ),
        (
            json!({"proxy_config": {"type": "environment"}}),
            "providers.ollama.proxy_config.type: \"environment\" is not built yet: name the proxy in `url`",
        ),
        (
            json!({"proxy_config": {"type": "http"}}),
            "providers.ollama.proxy_config.url: is required, but missing",
        ),
    ] {
        assert_eq!(error(&provider("ollama", settings)), expected);
    }
    let settings = json!({"proxy_config": {"type": "none"}});
    assert_eq!(service("ollama", settings).proxy, None);
}
