//! `providers`.

use super::{
    super::{
        file::{self, ProviderKind},
        values::EnvText,
    },
    Place, upstream,
};
use crate::{
    model::{Kind, Settings},
    secret::Secret,
};

const OPENAI: &str = "https://api.openai.com/v1";

pub(super) fn resolve(place: &Place<'_>, file: file::Entries<file::Provider>) -> Vec<Settings> {
    let entries = file.0.into_iter();
    entries.filter_map(|(name, file)| provider(&place.member(&name), name, file)).collect()
}

fn provider(place: &Place<'_>, name: String, file: file::Provider) -> Option<Settings> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_fit) {
        place.refuse("a provider's name has 1 to 64 letters, digits, `_`, `-` or `.`");
    }
    let belongs_elsewhere = match file.kind {
        ProviderKind::OpenAi => file.script.is_some().then_some("script"),
        ProviderKind::Scripted if file.api_key.is_some() => Some("api_key"),
        ProviderKind::Scripted => file.base_url.is_some().then_some("base_url"),
    };
    if let Some(key) = belongs_elsewhere {
        place.member(key).refuse("belongs to a provider of another kind");
    }
    let kind = match file.kind {
        ProviderKind::OpenAi => Kind::OpenAi {
            base_url: match file.base_url {
                Some(url) => {
                    upstream::url(&place.member("base_url"), url)?.trim_end_matches('/').to_owned()
                }
                None => OPENAI.to_owned(),
            },
            api_key: match file.api_key {
                Some(key) => Some(api_key(&place.member("api_key"), key)?),
                None => None,
            },
        },
        ProviderKind::Scripted => {
            let script = place.member("script");
            Kind::Scripted { script: script.path(&script.required(file.script)?) }
        }
    };
    Some(Settings { name, kind })
}

fn api_key(place: &Place<'_>, key: EnvText) -> Option<Secret> {
    let key = place.text(key)?;
    if !key.expose().chars().all(|c| c.is_ascii_graphic()) {
        place.refuse("has a space or another character that an HTTP header cannot have");
    }
    Some(key)
}
