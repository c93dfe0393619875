//! `providers`.

use super::{
    super::{
        file::{self, ProviderKind},
        values::EnvText,
    },
    Field, upstream,
};
use crate::{
    model::{Kind, Settings},
    secret::Secret,
};

const OPENAI: &str = "https://api.openai.com/v1";

pub(super) fn resolve(field: &Field<'_>, file: file::Entries<file::Provider>) -> Vec<Settings> {
    let entries = file.0.into_iter();
    entries.filter_map(|(name, file)| provider(&field.member(&name), name, file)).collect()
}

fn provider(field: &Field<'_>, name: String, file: file::Provider) -> Option<Settings> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_fit) {
        field.refuse("a provider's name has 1 to 64 letters, digits, `_`, `-` or `.`");
    }
    let belongs_elsewhere = match file.kind {
        ProviderKind::OpenAi => file.script.is_some().then_some("script"),
        ProviderKind::Scripted if file.api_key.is_some() => Some("api_key"),
        ProviderKind::Scripted => file.base_url.is_some().then_some("base_url"),
    };
    if let Some(key) = belongs_elsewhere {
        field.member(key).refuse("belongs to a provider of another kind");
    }
    let kind = match file.kind {
        ProviderKind::OpenAi => Kind::OpenAi {
            base_url: match file.base_url {
                Some(url) => {
                    upstream::url(&field.member("base_url"), url)?.trim_end_matches('/').to_owned()
                }
                None => OPENAI.to_owned(),
            },
            api_key: match file.api_key {
                Some(key) => Some(api_key(&field.member("api_key"), key)?),
                None => None,
            },
        },
        ProviderKind::Scripted => {
            let script = field.member("script");
            Kind::Scripted { script: script.path(&script.required(file.script)?) }
        }
    };
    Some(Settings { name, kind })
}

fn api_key(field: &Field<'_>, key: EnvText) -> Option<Secret> {
    let key = field.text(key)?;
    if !key.expose().chars().all(|c| c.is_ascii_graphic()) {
        field.refuse("has a space or another character that an HTTP header cannot have");
    }
    Some(key)
}
