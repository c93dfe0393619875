//! Elements of the configuration without their secrets, for operators to read and send back.

mod shape;

use airlock_store::entries::EntryKind;
use serde_json::{Map, Value, json};
use url::Url;

use self::shape::{
    CLIENT, CUSTOMER, ENVIRONMENT, KEY_VALUE, MODEL_CONFIG, MemberShapes, PRICING_OVERRIDE, ROLE,
    SETTING, Shape, TEAM, VIRTUAL_KEY, VIRTUAL_MCP,
};
use airlock_config_file::{key_path::KeyPath, vault_reference::is_vault_reference};

/// Stands for a value of which nothing is shown.
const REDACTED: &str = "<redacted>";
/// Texts that clients send for a secret that they do not change.
const UNCHANGED: [&str; 2] = [REDACTED, "[REDACTED]"];
/// Characters of a long secret that are shown at each end.
const SHOWN: usize = 4;
/// Stars between them. Their number is not that of the secret's characters.
const STARS: usize = 24;
/// Maximum length of a short secret, of which nothing is shown but its length: the ends of it would be
/// most of it. Bifrost shows them from 9 characters.
const SHORT: usize = 23;

/// Returns an element without its secrets, in the form of Bifrost's API: each is replaced by
/// `{"value": "abcd…wxyz", "env_var": "", "from_env": false}`, those of the environment by their names.
/// Of members that an element of this kind does not have, nothing is shown but their names.
pub fn redacted(kind: EntryKind, element: &Value) -> Value {
    match kind {
        EntryKind::Setting => redact(&Shape::Shown, element),
        _ => object(members(kind), element),
    }
}

/// Returns the keys at which an element has secrets that are written in it, and not named by an
/// environment variable.
pub fn written_secrets(kind: EntryKind, element: &Value) -> Vec<String> {
    let mut found = Vec::new();
    find_in_object(&mut found, &KeyPath::default(), members(kind), element);
    found.iter().map(KeyPath::to_string).collect()
}

/// Returns the element that is meant by `sent`, the edited form of an element that [`redacted`] has
/// returned for `stored`. Each secret that was sent as it was returned is the stored one.
pub fn restore(kind: EntryKind, stored: &Value, sent: &Value) -> Value {
    restore_value(&Shape::Object(members(kind)), stored, sent)
}

fn members(kind: EntryKind) -> &'static MemberShapes {
    match kind {
        EntryKind::Client => &CLIENT,
        EntryKind::VirtualKey => &VIRTUAL_KEY,
        EntryKind::Team => &TEAM,
        EntryKind::Customer => &CUSTOMER,
        EntryKind::Role => &ROLE,
        EntryKind::Environment => &ENVIRONMENT,
        EntryKind::VirtualMcp => &VIRTUAL_MCP,
        EntryKind::ModelConfig => &MODEL_CONFIG,
        EntryKind::PricingOverride => &PRICING_OVERRIDE,
        EntryKind::Setting => &SETTING,
        EntryKind::KeyValue => &KEY_VALUE,
    }
}

/// Returns a value of a shape without secrets. A value of another shape is hidden.
fn redact(shape: &Shape, value: &Value) -> Value {
    match (shape, value) {
        (_, Value::Null) => Value::Null,
        (Shape::Any, _) | (Shape::NameOr(_), Value::String(_)) => value.clone(),
        (Shape::Shown, Value::Array(elements)) if elements.iter().all(is_scalar) => value.clone(),
        (Shape::Shown, _) if is_scalar(value) => value.clone(),
        (Shape::Secret | Shape::SecretUrl, _) => env_form(shape, value),
        (Shape::Url | Shape::Source, Value::String(text)) => shown_text(shape, text).into(),
        (Shape::Variables, Value::Array(variables)) => {
            variables.iter().map(|variable| redact(&Shape::Variable, variable)).collect()
        }
        (Shape::Variable, Value::String(text)) => Variable::parse(text).redacted().into(),
        (Shape::Object(members) | Shape::NameOr(members), Value::Object(_)) => {
            object(members, value)
        }
        (Shape::Map(shape), Value::Object(values)) => {
            let values = values.iter().map(|(name, value)| (name.clone(), redact(shape, value)));
            Value::Object(values.collect())
        }
        (Shape::List(shape), Value::Array(elements)) => {
            elements.iter().map(|element| redact(shape, element)).collect()
        }
        _ => hidden(value),
    }
}

fn object(members: &MemberShapes, value: &Value) -> Value {
    let Value::Object(values) = value else { return hidden(value) };
    let redacted = values.iter().map(|(name, value)| {
        let shape = members.shape(name);
        (name.clone(), shape.map_or_else(|| hidden(value), |shape| redact(shape, value)))
    });
    Value::Object(redacted.collect::<Map<_, _>>())
}

fn is_scalar(value: &Value) -> bool {
    !value.is_array() && !value.is_object()
}

/// Returns what is shown of a value that may be anything.
fn hidden(value: &Value) -> Value {
    match value {
        Value::Null | Value::Bool(_) => value.clone(),
        Value::String(text) if text.is_empty() => value.clone(),
        _ => REDACTED.into(),
    }
}

/// Text that may come from the environment.
enum EnvValue<'v> {
    Written(&'v str),
    /// A variable, as `env.NAME`, or a secret of a vault, as `vault.NAME/REFERENCE`.
    Variable(&'v str),
    /// None of both.
    Other,
}

impl<'v> EnvValue<'v> {
    fn parse(value: &'v Value) -> Self {
        match value {
            Value::String(text) if is_reference(text) => Self::Variable(text),
            Value::String(text) => Self::Written(text),
            Value::Object(members) => {
                let variable = members.get("env_var").and_then(Value::as_str);
                let variable = variable.filter(|variable| is_reference(variable));
                let written = members.get("value").and_then(Value::as_str);
                let written = written.filter(|text| !text.is_empty());
                let is_written = members.get("from_env") != Some(&Value::Bool(true));
                match (written, variable) {
                    (None, Some(variable)) => Self::Variable(variable),
                    // The resolved value of a variable, as Bifrost writes it.
                    (Some(_), Some(variable)) if !is_written => Self::Variable(variable),
                    (Some(written), _) => Self::Written(written),
                    (None, None) => Self::Other,
                }
            }
            _ => Self::Other,
        }
    }
}

/// Returns whether a text is `env.` and the name of a variable, or refers to a secret of a vault.
fn is_reference(text: &str) -> bool {
    text.strip_prefix("env.").is_some_and(is_variable_name) || is_vault_reference(text)
}

/// Returns whether a text can be the name of a variable of the environment.
pub(crate) fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn env_form(shape: &Shape, value: &Value) -> Value {
    match EnvValue::parse(value) {
        EnvValue::Variable(name) => json!({"value": "", "env_var": name, "from_env": true}),
        EnvValue::Written(text) => {
            json!({"value": shown_text(shape, text), "env_var": "", "from_env": false})
        }
        EnvValue::Other => hidden(value),
    }
}

/// Returns what is shown of a text.
fn shown_text(shape: &Shape, text: &str) -> String {
    if is_secret(shape, text) { mask(text) } else { text.to_owned() }
}

/// Returns whether a text is a secret in the place of this shape.
fn is_secret(shape: &Shape, text: &str) -> bool {
    match shape {
        Shape::SecretUrl | Shape::Url => !is_plain_url(text),
        Shape::Source => !text.starts_with("env:") && !text.starts_with("file:"),
        _ => true,
    }
}

/// Returns whether a text is a URL without the parts in which there may be credentials.
fn is_plain_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    })
}

fn mask(text: &str) -> String {
    let length = text.chars().count();
    if length <= SHORT {
        return "*".repeat(length);
    }
    let start = text.chars().take(SHOWN);
    let end = text.chars().skip(length - SHOWN);
    start.chain(std::iter::repeat_n('*', STARS)).chain(end).collect()
}

/// A variable of a process.
enum Variable<'v> {
    /// `NAME=value`, whose value is written.
    Written { name: &'v str, value: &'v str },
    /// `NAME`, `NAME=env.OTHER`, or `NAME=vault.OTHER/REFERENCE`.
    PassedOn(&'v str),
    /// None of both, perhaps a secret without its name.
    Other(&'v str),
}

impl<'v> Variable<'v> {
    fn parse(text: &'v str) -> Self {
        match text.split_once('=') {
            None if is_variable_name(text) => Self::PassedOn(text),
            Some((name, value)) if is_variable_name(name) => {
                if is_reference(value) || value.is_empty() {
                    Self::PassedOn(text)
                } else {
                    Self::Written { name, value }
                }
            }
            _ => Self::Other(text),
        }
    }

    fn redacted(&self) -> String {
        match self {
            Self::Written { name, value } => format!("{name}={}", mask(value)),
            Self::PassedOn(text) => (*text).to_owned(),
            Self::Other(text) => mask(text),
        }
    }
}

fn find_in_object(found: &mut Vec<KeyPath>, key: &KeyPath, members: &MemberShapes, value: &Value) {
    for (name, value) in value.as_object().into_iter().flatten() {
        if let Some(shape) = members.shape(name) {
            find(found, &key.member(name), shape, value);
        }
    }
}

/// Adds the keys of the secrets that are written in a value.
fn find(found: &mut Vec<KeyPath>, key: &KeyPath, shape: &Shape, value: &Value) {
    let is_written = match (shape, value) {
        (Shape::Secret | Shape::SecretUrl, _) => match EnvValue::parse(value) {
            EnvValue::Written(text) => !text.is_empty() && is_secret(shape, text),
            // The resolved value of a variable, as Bifrost writes it, is a secret all the same.
            EnvValue::Variable(_) => {
                let resolved = value.get("value").and_then(Value::as_str);
                resolved.is_some_and(|text| !text.is_empty() && is_secret(shape, text))
            }
            EnvValue::Other => false,
        },
        (Shape::Url | Shape::Source, Value::String(text)) => {
            !text.is_empty() && is_secret(shape, text)
        }
        (Shape::Variable, Value::String(text)) => {
            !matches!(Variable::parse(text), Variable::PassedOn(_))
        }
        (Shape::Variables, Value::Array(variables)) => {
            find_in_list(found, key, &Shape::Variable, variables);
            false
        }
        (Shape::Object(members) | Shape::NameOr(members), _) => {
            find_in_object(found, key, members, value);
            false
        }
        (Shape::Map(shape), Value::Object(values)) => {
            for (name, value) in values {
                find(found, &key.member(name), shape, value);
            }
            false
        }
        (Shape::List(shape), Value::Array(elements)) => {
            find_in_list(found, key, shape, elements);
            false
        }
        _ => false,
    };
    found.extend(is_written.then(|| key.clone()));
}

fn find_in_list(found: &mut Vec<KeyPath>, key: &KeyPath, shape: &Shape, elements: &[Value]) {
    for (index, element) in elements.iter().enumerate() {
        find(found, &key.element(index), shape, element);
    }
}

fn restore_value(shape: &Shape, stored: &Value, sent: &Value) -> Value {
    if *sent == redact(shape, stored) {
        return stored.clone();
    }
    match (shape, stored, sent) {
        (Shape::Secret | Shape::SecretUrl, _, _) => restore_secret(shape, stored, sent),
        (Shape::Url | Shape::Digest | Shape::Source | Shape::Variable, _, Value::String(text))
            if UNCHANGED.contains(&text.as_str()) =>
        {
            stored.clone()
        }
        (
            Shape::Object(members) | Shape::NameOr(members),
            Value::Object(stored),
            Value::Object(sent),
        ) => restore_members(stored, sent, |name| members.shape(name).unwrap_or(&Shape::Hidden)),
        (Shape::Map(shape), Value::Object(stored), Value::Object(sent)) => {
            restore_members(stored, sent, |_| shape)
        }
        (Shape::Variables, Value::Array(stored), Value::Array(sent)) => {
            restore_variables(stored, sent)
        }
        (Shape::List(shape), Value::Array(stored), Value::Array(sent)) => {
            let restored = sent.iter().enumerate().map(|(index, sent)| match stored.get(index) {
                Some(stored) => restore_value(shape, stored, sent),
                None => sent.clone(),
            });
            restored.collect()
        }
        _ => sent.clone(),
    }
}

/// Restores a secret that was sent as a text alone, or as one that means no change.
fn restore_secret(shape: &Shape, stored: &Value, sent: &Value) -> Value {
    let EnvValue::Written(text) = EnvValue::parse(sent) else { return sent.clone() };
    let is_unchanged = match EnvValue::parse(stored) {
        EnvValue::Written(stored) => text == shown_text(shape, stored),
        EnvValue::Variable(_) | EnvValue::Other => false,
    };
    let keeps = is_unchanged || UNCHANGED.contains(&text);
    if keeps { stored.clone() } else { sent.clone() }
}

fn restore_members<'s>(
    stored: &Map<String, Value>,
    sent: &Map<String, Value>,
    shape: impl Fn(&str) -> &'s Shape,
) -> Value {
    let restored = sent.iter().map(|(name, sent)| {
        let restored = stored.get(name).map(|stored| restore_value(shape(name), stored, sent));
        (name.clone(), restored.unwrap_or_else(|| sent.clone()))
    });
    Value::Object(restored.collect())
}

/// Restores variables of a process. They are found by their redacted form, because a list may be sent in
/// another order; no two of them have the same name.
fn restore_variables(stored: &[Value], sent: &[Value]) -> Value {
    let stored: std::collections::BTreeMap<_, _> = stored
        .iter()
        .filter_map(|variable| Some((Variable::parse(variable.as_str()?).redacted(), variable)))
        .collect();
    let restored = sent.iter().map(|sent| {
        let stored = sent.as_str().and_then(|sent| stored.get(sent));
        stored.map_or(sent, |stored| *stored).clone()
    });
    restored.collect()
}
