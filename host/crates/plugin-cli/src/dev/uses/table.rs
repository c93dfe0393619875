//! Tables of plugin.toml, as text to paste.

use std::fmt;

use airlock_manifest::KeyPath;
use serde_json::{Value, json};

use airlock_plugin::{InjectRequest, Request, SecretRequest};
use airlock_sandbox::DeclaredEffect;

/// A table of plugin.toml.
pub(super) struct ManifestTable {
    /// Its line: `[request.files.data]` or `[[tool]]`.
    header: String,
    entries: Vec<(&'static str, Value)>,
}

impl ManifestTable {
    /// Returns the table of a tool with these effects.
    pub(super) fn tool(name: &str, effects: impl IntoIterator<Item = DeclaredEffect>) -> Self {
        let effects: Vec<_> = effects.into_iter().map(|effect| effect.to_string()).collect();
        let entries = vec![("name", json!(name)), ("effects", json!(effects))];
        Self { header: "[[tool]]".to_owned(), entries }
    }

    /// Returns the table of a directory that is only read. Without quotas, which limit writing.
    pub(super) fn read_only(request: Request<'_>) -> Self {
        Self::request(request, [("access", json!("read_only"))])
    }

    /// Returns the table of a secret: attached to requests to `audience` if it is not empty, and
    /// revealed if `reveal` is true.
    pub(super) fn secret(
        request: Request<'_>,
        secret: &SecretRequest,
        audience: &[&str],
        reveal: bool,
    ) -> Self {
        let inject = secret.inject.as_ref().filter(|_| !audience.is_empty());
        let attached =
            inject.map(|inject| [("inject", inject_value(inject)), ("audience", json!(audience))]);
        let entries = attached.into_iter().flatten().chain(reveal.then(|| ("reveal", json!(true))));
        Self::request(request, entries)
    }

    /// Returns the table of the tools that are called by full name.
    pub(super) fn tools(request: Request<'_>, call: &[&str]) -> Self {
        Self::request(request, [("call", json!(call))])
    }

    fn request(
        request: Request<'_>,
        entries: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Self {
        let mut entries: Vec<_> = entries.into_iter().collect();
        entries.push(("reason", json!(request.reason())));
        entries.extend(request.is_optional().then(|| ("optional", json!(true))));
        Self { header: header(request), entries }
    }
}

/// Returns the line that begins the table of a request.
pub(super) fn header(request: Request<'_>) -> String {
    let key: KeyPath = ["request", request.kind()].into_iter().chain(request.name()).collect();
    format!("[{key}]")
}

fn inject_value(inject: &InjectRequest) -> Value {
    let prefix = Some(&inject.prefix).filter(|prefix| !prefix.is_empty());
    let keys = [
        ("header", inject.header.as_ref()),
        ("prefix", prefix),
        ("basic", inject.basic.as_ref()),
        ("query", inject.query.as_ref()),
    ];
    keys.into_iter().filter_map(|(key, value)| Some((key.to_owned(), json!(value?)))).collect()
}

impl fmt::Display for ManifestTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.header)?;
        self.entries.iter().try_for_each(|(key, value)| {
            let value = toml::Value::try_from(value).map_err(|_| fmt::Error)?;
            write!(f, "\n{key} = {value}")
        })
    }
}
