//! Keys of a provider.

use std::collections::BTreeSet;

use super::super::{
    super::{file, values::EnvText},
    Field,
};
use airlock_core::secret::Secret;
use airlock_model::Key;

/// Maximum number of keys of one provider. Each is looked for in every response.
const MAX_KEYS: usize = 64;
/// Maximum weight. The sum of all weights stays exact enough for a fair choice.
const MAX_WEIGHT: f64 = 1e6;

/// Returns the keys of a provider. If `needs_key`, a key without a value is refused.
pub(super) fn resolve(
    field: &Field<'_>,
    api_key: Option<EnvText>,
    keys: Option<Vec<file::ProviderKey>>,
    needs_key: bool,
) -> Vec<Key> {
    let list = field.member("keys");
    let Some(keys) = keys else {
        let value = api_key.and_then(|key| credential(&field.member("api_key"), key));
        return value.map(|value| Key::new("api_key", value)).into_iter().collect();
    };
    if api_key.is_some() {
        list.refuse("the provider has an `api_key` already");
    }
    if keys.len() > MAX_KEYS {
        list.refuse(format_args!("must have at most {MAX_KEYS} keys, found {}", keys.len()));
    }
    let mut names = BTreeSet::new();
    let has_keys = !keys.is_empty();
    let keys = keys.into_iter().enumerate();
    let enabled: Vec<_> = keys.filter(|(_, key)| key.enabled.0).collect();
    if has_keys && enabled.is_empty() {
        list.refuse("every key is disabled");
    }
    let resolved = enabled.into_iter().map(|(index, key)| {
        let name = key.name.clone().unwrap_or_else(|| format!("key {}", index + 1));
        let field = list.element(index);
        if !names.insert(name.clone()) {
            field.member("name").refuse(format_args!("another key is named {name:?} already"));
        }
        self::key(&field, name, key, needs_key)
    });
    resolved.collect()
}

fn key(field: &Field<'_>, name: String, key: file::ProviderKey, needs_key: bool) -> Key {
    let weight = key.weight.unwrap_or(1.0);
    if !(0.0..=MAX_WEIGHT).contains(&weight) {
        field.member("weight").refuse(format_args!("must be from 0 to {MAX_WEIGHT}"));
    }
    let models = models(&field.member("models"), key.models);
    let field = field.member("value");
    let value = key.value.filter(|value| {
        let is_empty = matches!(value, EnvText::Written(text) if text.expose().is_empty());
        needs_key || !is_empty
    });
    if value.is_none() && needs_key {
        field.refuse("is required, but missing");
    }
    let value = value.and_then(|value| credential(&field, value));
    Key { name, value, models, weight }
}

/// Returns the models of a key; `None` for all.
fn models(field: &Field<'_>, models: Vec<String>) -> Option<Vec<String>> {
    let has_all = models.iter().any(|model| model == "*");
    if has_all && models.len() > 1 {
        field.refuse("\"*\" must be the only element");
    }
    (!has_all && !models.is_empty()).then_some(models)
}

fn credential(field: &Field<'_>, key: EnvText) -> Option<Secret> {
    let key = field.text(key)?;
    if !key.expose().chars().all(|c| c.is_ascii_graphic()) {
        field.refuse("has a space or another character that an HTTP header cannot have");
    }
    Some(key)
}
