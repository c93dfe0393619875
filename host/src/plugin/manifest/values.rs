//! Values of a manifest that only the gateway can read: versions, sizes, times, URLs, and the places
//! of secrets in requests.

use airlock_manifest::{Fault, Faults, Form, KeyPath};
use semver::Version;
use serde::{Deserialize, de::value};
use serde_json::Value;

use super::{ANY, InjectRequest};
use crate::{
    egress::Rule,
    sandbox,
    text::cut,
    units::{Size, Span},
};

/// Checks a text whose form only the gateway knows.
pub(super) fn read(form: Form, text: &str) -> Result<(), String> {
    match form {
        Form::Version => Version::parse(text).map(drop).map_err(|error| {
            format!("found {:?}, expected a version, such as \"1.0.0\": {error}", shown(text))
        }),
        Form::Contract => contract(text),
        Form::Size => deserialized::<Size>(text),
        Form::Time => deserialized::<Span>(text),
        _ => Ok(()),
    }
}

fn contract(text: &str) -> Result<(), String> {
    let supported = sandbox::supported_contracts();
    if supported.contains(&text) {
        return Ok(());
    }
    let quoted: Vec<_> = supported.iter().map(|version| format!("{version:?}")).collect();
    Err(format!("found {:?}, this gateway supports {}", shown(text), quoted.join(", ")))
}

fn shown(text: &str) -> String {
    cut(text.to_owned(), 64)
}

fn deserialized<'de, T: Deserialize<'de>>(text: &'de str) -> Result<(), String> {
    let text: value::BorrowedStrDeserializer<'_, value::Error> =
        value::BorrowedStrDeserializer::new(text);
    T::deserialize(text).map(drop).map_err(|error| error.to_string())
}

/// Checks the values that consist of several keys. A request with a key of the wrong kind is left
/// out where that key matters, because its own fault was already found.
pub(super) fn check(document: &Value, faults: &mut Faults) {
    let request = &document["request"];
    for (name, http) in members(&request["http"]) {
        let key = KeyPath::from_iter(["request", "http", name]);
        if ["url", "paths"].iter().any(|part| faults.are_within(&key.member(*part))) {
            continue;
        }
        if let Err(problem) = rule(http) {
            faults.push(Fault::new(key, problem));
        }
    }
    for (name, secret) in members(&request["secret"]) {
        let key = KeyPath::from_iter(["request", "secret", name, "inject"]);
        if secret["inject"].is_null() || faults.are_within(&key) {
            continue;
        }
        let inject = InjectRequest::deserialize(&secret["inject"]);
        let injection = inject.map_err(|error| error.to_string()).and_then(|it| it.injection());
        if let Err(problem) = injection {
            faults.push(Fault::new(key, problem));
        }
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

fn rule(http: &Value) -> Result<(), String> {
    let texts = |key: &str| -> Vec<&str> {
        http[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    };
    match http["url"].as_str() {
        None | Some(ANY) => Ok(()),
        Some(url) => {
            let is_private = http["private"] == true;
            Rule::new(url, &texts("methods"), &texts("paths"), is_private)
                .and_then(Rule::reachable)
                .map(drop)
                .map_err(|error| error.to_string())
        }
    }
}
