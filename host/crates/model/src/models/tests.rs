use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::{Api, Service, object};
use airlock_json::RawObject;

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
