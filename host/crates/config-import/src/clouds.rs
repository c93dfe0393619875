//! Bifrost's settings of clouds. There, each key of a provider has its own; here, the provider has the
//! address of the cloud, and the key only what is secret.

use serde_json::Value;

use super::{draft::Draft, report::SettingOutcome};
use airlock_config_file::key_path::KeyPath;

/// A member of a key with the settings of a cloud, and the place of each of them here.
type CloudConfig = (&'static str, &'static [(&'static str, SettingPlace)]);

/// Place of a setting.
#[derive(Clone, Copy)]
enum SettingPlace {
    /// A member of the provider.
    Provider(&'static str),
    /// An object of the provider, whose members are merged.
    Merged(&'static str),
    /// A member of the key.
    Key(&'static str),
}

const DEPLOYMENTS: &str = "deployments";
const VERTEX: &str = "vertex_key_config";
const CONFIGS: [CloudConfig; 3] = [
    (
        "azure_key_config",
        &[
            ("endpoint", SettingPlace::Provider("base_url")),
            ("api_version", SettingPlace::Provider("api_version")),
            (DEPLOYMENTS, SettingPlace::Merged(DEPLOYMENTS)),
        ],
    ),
    (
        "bedrock_key_config",
        &[
            ("region", SettingPlace::Provider("region")),
            ("access_key", SettingPlace::Key("access_key")),
            ("secret_key", SettingPlace::Key("secret_key")),
            ("session_token", SettingPlace::Key("session_token")),
            (DEPLOYMENTS, SettingPlace::Merged(DEPLOYMENTS)),
        ],
    ),
    (
        VERTEX,
        &[
            ("project_id", SettingPlace::Provider("project")),
            ("region", SettingPlace::Provider("location")),
            ("auth_credentials", SettingPlace::Key("service_account")),
            (DEPLOYMENTS, SettingPlace::Merged(DEPLOYMENTS)),
        ],
    ),
];

/// Moves the settings of clouds in the keys of a provider to their places.
pub(super) fn move_settings(draft: &mut Draft, provider: &str) {
    let keys = KeyPath::default().member("providers").member(provider).member("keys");
    for key in draft.elements(&keys) {
        for (name, places) in CONFIGS {
            let Some(Value::Object(config)) = draft.take(&key, name) else { continue };
            let config_key = key.member(name);
            for (member, value) in config.into_iter().filter(|(_, value)| !is_empty(value)) {
                let place = places.iter().find(|(from, _)| *from == member);
                let place = place.map(|(_, place)| *place);
                move_setting(draft, (provider, &key), &config_key.member(&member), place, value);
            }
            // The name that the maps of models have since Bifrost 1.5.
            if let Some(aliases) = draft.take(&key, "aliases") {
                let place = Some(SettingPlace::Merged(DEPLOYMENTS));
                move_setting(draft, (provider, &key), &key.member("aliases"), place, aliases);
            }
            if name == VERTEX {
                let message = "the provider has Google's models; those of Anthropic need a provider of their own, with `publisher` \"anthropic\"";
                draft.note(config_key, SettingOutcome::Changed, message);
            }
        }
    }
}

/// Moves one setting of a key of a provider and notes it.
fn move_setting(
    draft: &mut Draft,
    (provider, key): (&str, &KeyPath),
    from: &KeyPath,
    place: Option<SettingPlace>,
    value: Value,
) {
    let (name, owner, is_set) = match place {
        None => {
            draft.note(from.clone(), SettingOutcome::Refused, "the gateway has no such setting");
            return;
        }
        Some(SettingPlace::Provider(name)) => {
            (name, "provider", draft.set(&["providers", provider, name], value))
        }
        Some(SettingPlace::Merged(name)) => {
            let members = value.as_object().into_iter().flatten();
            // Every member is moved, also after one that is not.
            let mut are_set = true;
            for (member, value) in members {
                are_set &= draft.set(&["providers", provider, name, member], value.clone());
            }
            (name, "provider", are_set)
        }
        Some(SettingPlace::Key(name)) => {
            let members = draft.object(key);
            (name, "key", members.is_some_and(|key| key.insert(name.into(), value).is_none()))
        }
    };
    let (outcome, message) = if is_set {
        (SettingOutcome::Changed, format!("is `{name}` of the {owner}"))
    } else {
        let message = format!(
            "`{name}` of the {owner} has another value, which is used; keys that need their own are a provider of their own here"
        );
        (SettingOutcome::Refused, message)
    };
    draft.note(from.clone(), outcome, message);
}

/// Returns whether a setting stands for its absence.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        // A text in Bifrost's long form, or a map.
        Value::Object(members) => members.values().all(is_empty),
        Value::Bool(true) | Value::Number(_) => false,
    }
}
