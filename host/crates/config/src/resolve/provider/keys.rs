//! Keys of a provider.

use std::{collections::BTreeSet, path::Path};

use super::OF_ANOTHER_KIND;
use crate::resolve::{
    file_env::FileEnv,
    resolved::{Problems, Resolved},
};
use airlock_config_file::{env_text::EnvText, file};
use airlock_core::secret::Secret;
use airlock_model::{CloudCredential, Hosting, Key, ServiceAccountKey};

/// Maximum number of keys of one provider. Each is looked for in every response: as it is, in hexadecimal, and in six
/// forms of base64, so 64 keys are up to 512 patterns.
const MAX_KEYS: usize = 64;
/// Maximum weight. The sum of all weights stays exact enough for a fair choice.
const MAX_WEIGHT: f64 = 1e6;

/// Returns the keys of a provider: those of `keys`, or the one of `api_key`. If `needs_key`, a key
/// without a credential is refused.
pub(super) fn resolve(
    api_key: Option<EnvText>,
    keys: Option<Vec<file::ProviderKey>>,
    hosting: &Hosting,
    needs_key: bool,
    env: FileEnv<'_>,
) -> Resolved<Vec<Key>> {
    Resolved::new(|problems| {
        let Some(keys) = keys else {
            let value = api_key.and_then(|key| problems.take("api_key", credential(key, env)));
            return value.map(|value| Key::new("api_key", value)).into_iter().collect();
        };
        if api_key.is_some() {
            problems.refuse("keys", "the provider has an `api_key` already");
        }
        problems.take("keys", list(keys, hosting, needs_key, env))
    })
}

fn list(
    keys: Vec<file::ProviderKey>,
    hosting: &Hosting,
    needs_key: bool,
    env: FileEnv<'_>,
) -> Resolved<Vec<Key>> {
    Resolved::new(|problems| {
        if keys.len() > MAX_KEYS {
            problems.refuse_whole(format_args!(
                "must have at most {MAX_KEYS} keys, found {}",
                keys.len()
            ));
        }
        if !keys.is_empty() && keys.iter().all(|key| !key.enabled.0) {
            problems.refuse_whole("every key is disabled");
        }
        let mut names = BTreeSet::new();
        let keys = Resolved::elements(keys.into_iter().enumerate(), |problems, (index, key)| {
            if !key.enabled.0 {
                return None;
            }
            let name = key.name.clone().unwrap_or_else(|| format!("key {}", index + 1));
            if !names.insert(name.clone()) {
                problems.refuse("name", format_args!("another key is named {name:?} already"));
            }
            Some(problems.merge(self::key(name, key, hosting, needs_key, env)))
        });
        problems.merge(keys)
    })
}

fn key(
    name: String,
    mut file: file::ProviderKey,
    hosting: &Hosting,
    needs_key: bool,
    env: FileEnv<'_>,
) -> Resolved<Key> {
    Resolved::new(|problems| {
        let weight = file.weight.unwrap_or(1.0);
        if !(0.0..=MAX_WEIGHT).contains(&weight) {
            problems.refuse("weight", format_args!("must be from 0 to {MAX_WEIGHT}"));
        }
        let models = problems.accept("models", models(std::mem::take(&mut file.models))).flatten();
        let of_clouds =
            [&file.service_account, &file.access_key, &file.secret_key, &file.session_token];
        let has_cloud = of_clouds.iter().any(|written| written.is_some());
        let cloud = problems.merge(self::cloud(&mut file, hosting, env));
        let needs_key = needs_key && !has_cloud;
        let value = file.value.filter(|value| {
            let is_empty = matches!(value, EnvText::Written(text) if text.expose().is_empty());
            needs_key || !is_empty
        });
        if has_cloud && value.is_some() {
            problems.refuse("value", "the key has a credential of the cloud already");
        }
        let value = if needs_key { problems.required("value", value) } else { value };
        let value = value.and_then(|value| problems.take("value", credential(value, env)));
        Key { name, value, cloud, models, weight }
    })
}

/// Returns the credential of a cloud that a key has in the place of a value.
fn cloud(
    file: &mut file::ProviderKey,
    hosting: &Hosting,
    env: FileEnv<'_>,
) -> Resolved<Option<CloudCredential>> {
    let account = file.service_account.take();
    let access = [
        ("access_key", file.access_key.take()),
        ("secret_key", file.secret_key.take()),
        ("session_token", file.session_token.take()),
    ];
    Resolved::new(|problems| {
        let is_vertex = matches!(hosting, Hosting::Vertex { .. });
        let is_bedrock = matches!(hosting, Hosting::Bedrock { .. });
        if account.is_some() && !is_vertex {
            problems.refuse("service_account", OF_ANOTHER_KIND);
        }
        for (key, _) in access.iter().filter(|(_, text)| text.is_some() && !is_bedrock) {
            problems.refuse(*key, OF_ANOTHER_KIND);
        }
        if let Some(account) = account {
            return service_account(problems, account, env);
        }
        if access.iter().all(|(_, text)| text.is_none()) {
            return None;
        }
        let [access_key, secret_key, session_token] = access;
        let access_key = problems.required(access_key.0, access_key.1);
        let access_key =
            access_key.and_then(|text| problems.take("access_key", credential(text, env)));
        let secret_key = problems.required(secret_key.0, secret_key.1);
        let secret_key =
            secret_key.and_then(|text| problems.take("secret_key", credential(text, env)));
        let session_token = session_token.1;
        let session_token =
            session_token.and_then(|text| problems.take("session_token", credential(text, env)));
        let access_key = access_key?;
        let secret_key = secret_key?;
        Some(CloudCredential::AccessKey { access_key, secret_key, session_token })
    })
}

/// Returns the key of a service account: its text, or its file.
fn service_account(
    problems: &mut Problems,
    written: EnvText,
    env: FileEnv<'_>,
) -> Option<CloudCredential> {
    let account = problems.accept("service_account", env.text(written))?;
    Some(CloudCredential::ServiceAccount(if account.expose().trim_start().starts_with('{') {
        ServiceAccountKey::Text(account)
    } else {
        let path = env.path(Path::new(account.expose()));
        ServiceAccountKey::File(problems.take("service_account", path))
    }))
}

/// Returns the models of a key; `None` for all.
fn models(models: Vec<String>) -> Result<Option<Vec<String>>, &'static str> {
    let has_all = models.iter().any(|model| model == "*");
    if has_all && models.len() > 1 {
        return Err("\"*\" must be the only element");
    }
    Ok(Some(models).filter(|models| !has_all && !models.is_empty()))
}

fn credential(key: EnvText, env: FileEnv<'_>) -> Resolved<Option<Secret>> {
    Resolved::new(|problems| {
        let key = problems.merge(env.text(key).into())?;
        if !key.expose().chars().all(|c| c.is_ascii_graphic()) {
            problems
                .refuse_whole("has a space or another character that an HTTP header cannot have");
        }
        Some(key)
    })
}
