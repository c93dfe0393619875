//! URLs of servers and services, and the headers of requests to them.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue, Uri};

use super::{file_env::FileEnv, resolved::Resolved};
use airlock_config_file::{
    env_text::{EnvText, has_variable_after_scheme},
    refused::InvalidValue,
};
use airlock_core::secret::Secret;

/// Message about a header with a variable after other text, which would be sent as it is written.
const NOT_REPLACED: &str = "the gateway replaces `env.NAME` only if it is the whole value: put the whole value, with the scheme such as `Bearer`, \
     into a variable of its environment and write \"env.NAME\", or write {\"value\": \"…\"} for a text that has `env.NAME` on purpose";

/// Returns an HTTP URL. Errors do not quote it, because some services put tokens into their URLs.
pub(super) fn url(text: EnvText, env: FileEnv<'_>) -> Result<String, InvalidValue> {
    let text = env.text(text)?;
    let uri = text.expose().parse::<Uri>().ok();
    let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")));
    let Some(uri) = uri else {
        return Err("expected a URL that starts with http:// or https://".into());
    };
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(
            "a URL with a user name or password in it would show up in logs; use a header".into()
        );
    }
    Ok(text.expose().to_owned())
}

/// Returns headers for every request, except reserved ones.
pub(super) fn headers(
    headers: BTreeMap<String, EnvText>,
    is_reserved: impl Fn(&HeaderName) -> bool,
    env: FileEnv<'_>,
) -> Resolved<BTreeMap<String, Secret>> {
    Resolved::new(|problems| {
        let mut resolved = BTreeMap::new();
        for (name, value) in headers {
            let value = problems.accept(&*name, header(&name, value, &is_reserved, env));
            let Some((header, value)) = value else { continue };
            if resolved.insert(header.as_str().to_owned(), value).is_some() {
                problems.refuse(&*name, "is listed twice (case does not count)");
            }
        }
        resolved
    })
}

fn header(
    name: &str,
    value: EnvText,
    is_reserved: impl Fn(&HeaderName) -> bool,
    env: FileEnv<'_>,
) -> Result<(HeaderName, Secret), InvalidValue> {
    let header = name.parse::<HeaderName>().map_err(|_| "is not a valid header name")?;
    if is_reserved(&header) {
        return Err("is set by the transport itself".into());
    }
    if matches!(&value, EnvText::Written(text) if has_variable_after_scheme(text.expose())) {
        return Err(NOT_REPLACED.into());
    }
    let value = env.text(value)?;
    HeaderValue::from_str(value.expose()).map_err(
        |_| "the value has a line break or another character that an HTTP header cannot have",
    )?;
    Ok((header, value))
}
