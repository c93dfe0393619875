use std::{collections::BTreeMap, fs, future::pending};

use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use super::*;
use crate::{Api, CloudCredential, Key, Service, ServiceAccountKey, route::MAX_NAME_BYTES};
use airlock_core::model_control::{ControlRefusal, ControlledModelRequest, ModelRequest};
use airlock_json::{RawObject, object};
use airlock_tls::{IdentitySource, KeySource};

fn models() -> Models {
    let dir = tempfile::TempDir::new().expect("a directory");
    let script = dir.path().join("script.json");
    fs::write(&script, r#"{"turns": []}"#).expect("a file");
    let settings = ["first", "second"].map(|name| Settings {
        name: name.into(),
        kind: Kind::Scripted { script: script.clone() },
        fallbacks: Vec::new(),
    });
    Models::new(&settings).expect("good settings")
}

fn body(value: Value) -> RawObject {
    RawObject::from(&object(value))
}

/// Never decides.
struct Undecided;

impl ModelControl for Undecided {
    fn begin<'c>(
        &'c self,
        _: ModelRequest<'c>,
    ) -> BoxFuture<'c, Result<Box<dyn ControlledModelRequest>, ControlRefusal>> {
        Box::pin(pending())
    }
}

#[test]
fn providers_of_other_settings_have_the_same_control() {
    let models = models();
    assert!(
        models.route(&mut body(json!({"model": "m"}))).expect("a provider").control().is_none()
    );
    let other = models.with_control(Arc::new(Undecided)).with_settings(&[]).expect("no settings");
    assert!(other.control.is_some());
}

#[test]
fn a_model_that_is_named_by_its_deployment_is_the_same_for_controls() {
    let deployments = BTreeMap::from([("gpt".to_owned(), "mine".to_owned())]);
    let service = Service { deployments, ..Service::new(Api::OpenAi, "http://127.0.0.1:1") };
    let settings = Settings {
        name: "azure".into(),
        kind: Kind::Service(Box::new(service)),
        fallbacks: vec!["azure/Mine".into(), "azure/other".into()],
    };
    let models = Models::new(&[settings]).expect("good settings");
    let route = models.route(&mut body(json!({"model": "azure/gpt"}))).expect("a provider");
    assert_eq!(route.model(), "azure/gpt");
    assert_eq!(route.fallbacks(), ["azure/gpt", "azure/other"]);
    assert!(models.providers[0].named.iter().eq(["gpt", "other"]), "they have series of their own");
}

#[test]
fn a_model_goes_to_the_provider_before_its_slash_or_to_the_first() {
    let models = models();
    for (asked, provider, model) in [
        ("second/m", "second", "m"),
        ("second/a/b", "second", "a/b"),
        ("first/second/m", "first", "second/m"),
        ("meta/llama", "first", "meta/llama"),
        ("secondary/m", "first", "secondary/m"),
        ("second", "first", "second"),
    ] {
        let mut request = body(json!({"a": 1, "model": asked, "z": 2}));
        assert_eq!(models.route(&mut request).expect("a provider").provider(), provider, "{asked}");
        assert_eq!(
            Value::from(request.to_object().expect("an object")).to_string(),
            json!({"a": 1, "model": model, "z": 2}).to_string(),
            "{asked}"
        );
    }
    assert!(matches!(models.route(&mut body(json!({"model": 1}))), Err(ModelError::NoModel)));
    for (bytes, is_accepted) in [(0, false), (MAX_NAME_BYTES, true), (MAX_NAME_BYTES + 1, false)] {
        let routed = models.route(&mut body(json!({"model": "m".repeat(bytes)}))).map(drop);
        assert_eq!(routed.is_ok(), is_accepted, "{bytes}");
        let message = routed.err().map(|error| error.to_string());
        assert!(message.is_none_or(|text| text.contains(&format!(" {MAX_NAME_BYTES} bytes"))));
    }
    for (escapes, is_accepted) in [(MAX_NAME_BYTES, true), (MAX_NAME_BYTES + 1, false)] {
        let text = format!(r#"{{"model":"{}"}}"#, r"\u006d".repeat(escapes));
        let parsed = RawObject::parse(text.into_bytes(), &airlock_json::Caps::memory(1 << 20));
        let mut escaped = parsed.expect("an object").0;
        assert_eq!(models.route(&mut escaped).is_ok(), is_accepted, "{escapes} escapes");
    }
    let padded = format!(r#"{{"model":"m","fallbacks":[{}]}}"#, " ".repeat(1 << 20));
    let parsed = RawObject::parse(padded.into_bytes(), &airlock_json::Caps::memory(1 << 20));
    let refused = models.route(&mut parsed.expect("an object").0).map(drop);
    assert!(matches!(refused, Err(ModelError::BadFallback { .. })), "{refused:?}");
    let nobody = Models::default();
    assert!(matches!(
        nobody.route(&mut body(json!({"model": "m"}))),
        Err(ModelError::UnknownModel { .. })
    ));
}

#[tokio::test]
async fn listed_ids_start_with_the_name_of_their_provider() {
    let lists = models().list().await;
    let models: Vec<Value> = lists.iter().map(|list| list.parse().expect("one model")).collect();
    let ids: Vec<_> = models.iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["first/script", "second/script"]);
}

#[test]
fn two_providers_of_one_name_are_refused() {
    let twice = ["a", "a"].map(|name| Settings {
        name: name.into(),
        kind: Kind::Service(Box::new(Service::new(Api::OpenAi, "http://localhost/v1"))),
        fallbacks: Vec::new(),
    });
    assert!(matches!(Models::new(&twice), Err(BadProvider::Duplicate { .. })));
}

/// Returns the settings of a service at this URL.
fn service(name: &str, url: &str, fallbacks: &[&str]) -> Settings {
    Settings {
        name: name.into(),
        kind: Kind::Service(Box::new(Service::new(Api::OpenAi, url))),
        fallbacks: fallbacks.iter().map(|name| (*name).to_owned()).collect(),
    }
}

/// Returns whether a provider has the backend of one in other models.
fn is_kept(before: &Models, provider: &KnownProvider) -> bool {
    before.providers.iter().any(|old| Arc::ptr_eq(&old.backend, &provider.backend))
}

#[test]
fn a_provider_that_is_the_same_in_other_settings_is_kept_and_a_changed_one_is_made_anew() {
    let first = "http://localhost/v1";
    let before = Models::new(&[service("a", first, &[]), service("b", first, &[])]);
    let before = before.expect("good settings");
    let changed = [service("b", "http://localhost/v2", &[]), service("a", first, &["b/m"])];
    let after = before.with_settings(&changed).expect("good settings");
    let kept: Vec<_> = after.providers.iter().map(|provider| is_kept(&before, provider)).collect();
    assert_eq!(kept, [false, true]);
    assert_eq!(after.providers[1].fallbacks, ["b/m"]);
    let lost = [service("a", first, &["b/m"])];
    assert!(matches!(after.with_settings(&lost), Err(BadProvider::Fallback { .. })));
}

#[test]
fn a_provider_whose_file_has_other_content_is_made_anew() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("script.json");
    fs::write(&script, r#"{"turns": []}"#).expect("a file");
    let kind = Kind::Scripted { script: script.clone() };
    let settings = [Settings { name: "a".to_owned(), kind, fallbacks: Vec::new() }];
    let before = Models::new(&settings).expect("good settings");
    let same = before.with_settings(&settings).expect("good settings");
    assert!(is_kept(&before, &same.providers[0]));
    fs::write(&script, r#"{"turns": [{"answer": {"content": "x"}}]}"#).expect("a file");
    let changed = same.with_settings(&settings).expect("good settings");
    assert!(!is_kept(&before, &changed.providers[0]));
    fs::write(&script, "{").expect("a file");
    assert!(matches!(changed.with_settings(&settings), Err(BadProvider::Script { .. })));
}

#[test]
fn the_files_of_a_service_are_those_of_its_certificates_and_accounts() {
    let account = ServiceAccountKey::File("account.json".into());
    let mut service = Service::new(Api::Gemini, "https://h");
    service.ca = Some("ca.pem".into());
    service.identity = Some(IdentitySource {
        certificate: "own.pem".into(),
        key: KeySource::File("own-key.pem".into()),
    });
    service.keys = vec![Key {
        name: "k".to_owned(),
        value: None,
        cloud: Some(CloudCredential::ServiceAccount(account)),
        models: None,
        weight: 1.0,
    }];
    let files = ["ca.pem", "own.pem", "own-key.pem", "account.json"].map(std::path::Path::new);
    assert_eq!(Kind::Service(Box::new(service)).files(), files);
}
