//! Values of a manifest that only the gateway can read: versions, sizes, times, URLs, and the places
//! of secrets in requests.

use airlock_manifest::{Fault, Faults, Form, KeyPath};
use semver::Version;
use serde::{Deserialize, de::value};
use serde_json::Value;

use super::{ANY, InjectRequest};
use airlock_core::units::{Size, Span};
use airlock_egress::{BadRule, Rule};
use airlock_sandbox as sandbox;
use airlock_strings::cut;

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
        check_rule(&KeyPath::from_iter(["request", "http", name]), http, faults);
    }
    for (name, secret) in members(&request["secret"]) {
        let key = KeyPath::from_iter(["request", "secret", name, "inject"]);
        if secret["inject"].is_null() || faults.are_within(&key) {
            continue;
        }
        let inject = InjectRequest::deserialize(&secret["inject"]);
        let injection =
            inject.map_err(|error| error.to_string()).and_then(|inject| inject.injection());
        if let Err(problem) = injection {
            faults.push(Fault::new(key, problem));
        }
    }
}

fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// URL with which methods and paths are checked one by one.
const ANY_URL: &str = "https://example.com";
const NONE: [&str; 0] = [];

/// Checks a network request part by part, so that each fault is reported at its own key. A part with
/// a fault of its kind is left out.
fn check_rule(key: &KeyPath, http: &Value, faults: &mut Faults) {
    let is_private = http["private"] == true;
    let url = http["url"].as_str().filter(|url| *url != ANY);
    let url = url.filter(|_| !faults.are_within(&key.member("url")));
    if let Some(url) = url {
        let rule = Rule::new(url, &NONE, &NONE, is_private).and_then(Rule::reachable);
        if let Err(problem) = rule {
            faults.push(Fault::new(key.member("url"), problem.to_string()));
        }
    }
    let methods = RuleElements::new(&http["methods"], key.member("methods"), |methods| {
        Rule::new(ANY_URL, methods, &NONE, false)
    });
    let paths = RuleElements::new(&http["paths"], key.member("paths"), |paths| {
        Rule::new(ANY_URL, &NONE, paths, false)
    });
    // Only whether there are paths matters beside a path in the URL.
    if let Some(url) = url
        && !paths.texts.is_empty()
        && let Err(problem @ BadRule::TwoPaths { .. }) = Rule::new(url, &NONE, &["/"], is_private)
    {
        faults.push(Fault::new(key.member("paths"), problem.to_string()));
    }
    for (key, problem) in methods.faults().into_iter().chain(paths.faults()) {
        if !faults.are_within(&key) {
            faults.push(Fault::new(key, problem.to_string()));
        }
    }
}

/// The elements of a list of a network request, and the check of some of them.
struct RuleElements<'v, C> {
    key: KeyPath,
    texts: Vec<(usize, &'v str)>,
    check: C,
}

impl<'v, C: Fn(&[&str]) -> Result<Rule, BadRule>> RuleElements<'v, C> {
    fn new(list: &'v Value, key: KeyPath, check: C) -> Self {
        let elements = list.as_array().into_iter().flatten().map(Value::as_str);
        let texts = elements.enumerate().filter_map(|(at, text)| Some((at, text?))).collect();
        Self { key, texts, check }
    }

    /// Returns the faults of the list as a whole, or else of each element.
    fn faults(&self) -> Vec<(KeyPath, BadRule)> {
        let all: Vec<_> = self.texts.iter().map(|(_, text)| *text).collect();
        match (self.check)(&all) {
            Ok(_) => Vec::new(),
            Err(problem @ BadRule::TooMany { what: "methods" | "paths", .. }) => {
                vec![(self.key.clone(), problem)]
            }
            Err(_) => {
                let faults = self.texts.iter().filter_map(|(at, text)| {
                    Some((self.key.element(*at), (self.check)(&[*text]).err()?))
                });
                faults.collect()
            }
        }
    }
}
