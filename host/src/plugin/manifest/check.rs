//! Checks on a manifest: names, reasons, and requests that depend on each other.

use super::{
    ANY, BadManifest, Effect, FilesAccess, FilesRequest, Manifest, Requests, SCHEMA, SecretRequest,
    bad,
};

/// Maximum length of a reason, in bytes: people read it before they grant anything.
const MAX_REASON: usize = 300;
/// Maximum number of requests of one kind.
const MAX_REQUESTS: usize = 32;
/// Maximum length of a requested tool name, in bytes; longer than any name in the catalog.
pub(super) const MAX_TOOL_NAME: usize = 128;

impl Manifest {
    pub(super) fn check(&self) -> Result<(), BadManifest> {
        if self.schema != SCHEMA {
            return Err(bad(
                "schema",
                format!("found {:?}, this build reads {SCHEMA:?}", self.schema),
            ));
        }
        let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.id.is_empty() || self.id.len() > 32 || !self.id.chars().all(is_fit) {
            return Err(bad(
                "id",
                format!("found {:?}, expected 1 to 32 of the characters a-z, 0-9 and `-`", self.id),
            ));
        }
        self.request.check()?;
        for (index, tool) in self.tools.iter().enumerate() {
            for effect in &tool.effects {
                if let Some(needs) = self.request.lacks(*effect) {
                    let found = serde_json::to_string(effect).unwrap_or_default();
                    let key = format!("tool[{index}].effects");
                    return Err(bad(key, format!("found {found}, which needs {needs}")));
                }
            }
        }
        Ok(())
    }
}

impl Requests {
    fn check(&self) -> Result<(), BadManifest> {
        self.check_counts()?;
        self.check_names()?;
        self.check_reasons()?;
        self.check_http()?;
        for (name, secret) in &self.secret {
            self.check_secret(&format!("request.secret.{name}"), secret)?;
        }
        self.check_tools()
    }

    fn check_counts(&self) -> Result<(), BadManifest> {
        let kinds = [
            ("http", self.http.len()),
            ("secret", self.secret.len()),
            ("kv", self.kv.len()),
            ("files", self.files.len()),
        ];
        match kinds.into_iter().find(|(_, found)| *found > MAX_REQUESTS) {
            None => Ok(()),
            Some((kind, found)) => Err(bad(
                format!("request.{kind}"),
                format!("found {found} of them, expected at most {MAX_REQUESTS}"),
            )),
        }
    }

    fn check_names(&self) -> Result<(), BadManifest> {
        let files = self.files.keys().filter(|name| *name != ANY);
        let mut names =
            self.http.keys().chain(self.secret.keys()).chain(self.kv.keys()).chain(files);
        match names.find(|name| !is_name(name)) {
            None => Ok(()),
            Some(name) => Err(bad(
                "request",
                format!("found the name {name:?}, expected 1 to 64 letters, digits, `_` or `-`"),
            )),
        }
    }

    fn check_reasons(&self) -> Result<(), BadManifest> {
        let is_fit = |reason: &str| !reason.trim().is_empty() && reason.len() <= MAX_REASON;
        match self.all().find(|request| !is_fit(request.reason())) {
            None => Ok(()),
            Some(request) => Err(bad(
                format!("request.{request}.reason"),
                format!(
                    "expected 1 to {MAX_REASON} bytes for the person who decides, found {}",
                    request.reason().len()
                ),
            )),
        }
    }

    fn check_http(&self) -> Result<(), BadManifest> {
        for (name, http) in &self.http {
            let key = format!("request.http.{name}");
            if let Err(error) = http.rule() {
                return Err(bad(key, error.to_string()));
            }
            if http.is_any_host() && !(http.methods.is_empty() && http.paths.is_empty()) {
                return Err(bad(
                    key,
                    "methods and paths go with a host; with \"*\" they are the operator's to grant",
                ));
            }
        }
        Ok(())
    }

    fn check_secret(&self, key: &str, secret: &SecretRequest) -> Result<(), BadManifest> {
        if let Some(inject) = &secret.inject {
            inject.injection().map_err(|problem| bad(format!("{key}.inject"), problem))?;
        }
        if secret.inject.is_none() && !secret.reveal {
            return Err(bad(
                key,
                "it is neither attached to requests (`inject`) nor shown to the plugin (`reveal`)",
            ));
        }
        if let Some(unknown) = secret.audience.iter().find(|name| !self.http.contains_key(*name)) {
            return Err(bad(
                format!("{key}.audience"),
                format!("found {unknown:?}, expected a name of [request.http]"),
            ));
        }
        if secret.inject.is_some() && secret.audience.is_empty() {
            return Err(bad(
                format!("{key}.audience"),
                "is empty, so that the secret could be sent nowhere",
            ));
        }
        Ok(())
    }

    /// Checks the names of requested tools. They are printed in lines that people decide on, so
    /// they must not contain line breaks.
    fn check_tools(&self) -> Result<(), BadManifest> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let fits =
            |name: &&String| (1..=MAX_TOOL_NAME).contains(&name.len()) && name.chars().all(is_fit);
        match self.tools.iter().flat_map(|tools| &tools.call).find(|name| !fits(name)) {
            None => Ok(()),
            Some(name) => Err(bad(
                "request.tools.call",
                format!(
                    "found {name:?}, expected the full name of a tool: 1 to {MAX_TOOL_NAME} letters, digits, `_` or `-`"
                ),
            )),
        }
    }

    /// Returns the request that an effect needs; `None` if it is present.
    fn lacks(&self, effect: Effect) -> Option<&'static str> {
        let writes = |files: &FilesRequest| files.access == FilesAccess::ReadWrite;
        let (has, needs) = match effect {
            Effect::ReadFiles => (!self.files.is_empty(), "a [request.files.NAME]"),
            Effect::WriteFiles => {
                (self.files.values().any(writes), "a [request.files.NAME] with read-write access")
            }
            Effect::Network => (!self.http.is_empty(), "a [request.http.NAME]"),
            Effect::Credential => (!self.secret.is_empty(), "a [request.secret.NAME]"),
            Effect::Store => (!self.kv.is_empty(), "a [request.kv.NAME]"),
            Effect::CallTools => (self.tools.is_some(), "[request.tools]"),
        };
        (!has).then_some(needs)
    }
}

/// Returns whether `name` is valid as a name for guests.
fn is_name(name: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(is_fit)
}
