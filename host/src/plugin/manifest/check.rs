//! Checks on a manifest: names, reasons, and requests that depend on each other.

use std::collections::BTreeSet;

use super::{
    ANY, BadManifest, Effect, FilesAccess, FilesRequest, Manifest, Requests, SCHEMA, SecretRequest,
    bad,
};

/// Maximum length of a reason, in bytes: people read it before they grant anything.
const MAX_REASON: usize = 300;
/// Maximum length of the name of a slot, in bytes.
const MAX_SLOT_NAME: usize = 32;
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
        self.check_effects()
    }

    fn check_effects(&self) -> Result<(), BadManifest> {
        let mut names = BTreeSet::new();
        for (index, tool) in self.tools.iter().enumerate() {
            let key = |member: &str| format!("tool[{index}].{member}");
            if !is_name(&tool.name) {
                let found = &tool.name;
                return Err(bad(
                    key("name"),
                    format!("found {found:?}, expected 1 to 64 letters, digits, `_` or `-`"),
                ));
            }
            if !names.insert(&tool.name) {
                return Err(bad(key("name"), format!("found {:?} for a second time", tool.name)));
            }
            for effect in &tool.effects {
                if let Some(needs) = self.request.lacks(*effect) {
                    let found = effect.name();
                    return Err(bad(
                        key("effects"),
                        format!("found {found:?}, which needs {needs}"),
                    ));
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
        self.check_slots()?;
        self.check_tools()
    }

    fn check_counts(&self) -> Result<(), BadManifest> {
        let kinds = [
            ("http", self.http.len()),
            ("secret", self.secret.len()),
            ("kv", self.kv.len()),
            ("files", self.files.len()),
            ("tool", self.tool.len()),
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

    /// Checks the slots. A name is different from every full name, which has a `-`. Descriptions are
    /// printed in lines that people decide on, so they must not contain line breaks.
    fn check_slots(&self) -> Result<(), BadManifest> {
        for (name, slot) in &self.tool {
            if !is_slot_name(name) {
                return Err(bad(
                    "request.tool",
                    format!(
                        "found the name {name:?}, expected a letter a-z and then at most {} of a-z, 0-9 and `_`",
                        MAX_SLOT_NAME - 1
                    ),
                ));
            }
            let is_fit = |text: &str| {
                !text.trim().is_empty()
                    && text.len() <= MAX_REASON
                    && !text.contains(char::is_control)
            };
            if let Some(found) = slot.description.as_ref().filter(|text| !is_fit(text)) {
                return Err(bad(
                    format!("request.tool.{name}.description"),
                    format!(
                        "found {} bytes, expected one line of 1 to {MAX_REASON} bytes",
                        found.len()
                    ),
                ));
            }
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
            Effect::ReadStore | Effect::Store => (!self.kv.is_empty(), "a [request.kv.NAME]"),
            Effect::CallTools => (
                !self.tool.is_empty() || self.tools.is_some(),
                "a [request.tool.NAME] or [request.tools]",
            ),
        };
        (!has).then_some(needs)
    }
}

/// Returns whether `name` is valid as the name of a slot.
fn is_slot_name(name: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.len() <= MAX_SLOT_NAME
        && name.chars().all(is_fit)
}

/// Returns whether `name` is valid as a name for guests.
fn is_name(name: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(is_fit)
}
