//! One request of a manifest as people read it: its key, its reason and the requested rights.

use std::fmt;

use super::{
    ANY, FilesRequest, HttpRequest, InjectRequest, KvRequest, ScratchRequest, SecretRequest,
    SlotRequest, SwitchRequest, ToolsRequest,
};
use airlock_sandbox::{DeclaredEffect, Effect};

/// End of the lock line of a secret whose value the plugin may read.
pub(crate) const REVEALED: &str = "and shown to the plugin";
/// End of the lock line of a store that every tool may use.
pub(crate) const CACHE: &str = " as a cache of every tool";

/// One request of a manifest. As text, its position below `request`, such as `http.api`; `--grant`
/// uses the same text.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "each is described at `Requests`; the text is the author's name")]
pub enum Request<'a> {
    Http(&'a str, &'a HttpRequest),
    Secret(&'a str, &'a SecretRequest),
    Kv(&'a str, &'a KvRequest),
    Files(&'a str, &'a FilesRequest),
    Scratch(&'a ScratchRequest),
    Slot(&'a str, &'a SlotRequest),
    Tools(&'a ToolsRequest),
    Clocks(&'a SwitchRequest),
}

impl<'a> Request<'a> {
    /// Returns the reason, for the person who decides.
    pub fn reason(self) -> &'a str {
        self.terms().0
    }

    /// Returns whether the plugin works without it.
    pub fn is_optional(self) -> bool {
        self.terms().1
    }

    fn terms(self) -> (&'a str, bool) {
        match self {
            Self::Http(_, http) => (&http.reason, http.optional),
            Self::Secret(_, secret) => (&secret.reason, secret.optional),
            Self::Kv(_, store) => (&store.reason, store.optional),
            Self::Files(_, files) => (&files.reason, files.optional),
            Self::Scratch(scratch) => (&scratch.reason, scratch.optional),
            Self::Slot(_, slot) => (&slot.reason, slot.optional),
            Self::Tools(tools) => (&tools.reason, tools.optional),
            Self::Clocks(clocks) => (&clocks.reason, clocks.optional),
        }
    }

    /// Returns the key of the requests of this kind, such as `http`.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Http(..) => "http",
            Self::Secret(..) => "secret",
            Self::Kv(..) => "kv",
            Self::Files(..) => "files",
            Self::Scratch(_) => "scratch",
            Self::Slot(..) => "slot",
            Self::Tools(_) => "tools",
            Self::Clocks(_) => "clocks",
        }
    }

    /// Returns the name that the author chose; `None` if there is one request of the kind.
    pub fn name(self) -> Option<&'a str> {
        match self {
            Self::Http(name, _)
            | Self::Secret(name, _)
            | Self::Kv(name, _)
            | Self::Files(name, _)
            | Self::Slot(name, _) => Some(name),
            Self::Scratch(_) | Self::Tools(_) | Self::Clocks(_) => None,
        }
    }

    /// Returns the least effect that a tool must declare to use the request; `None` if every tool
    /// may use it.
    pub fn effect(self) -> Option<DeclaredEffect> {
        let effect = match self {
            Self::Http(..) => Effect::Http,
            Self::Secret(..) => Effect::Secret,
            Self::Kv(_, store) if !store.cache => Effect::ReadKv,
            Self::Files(..) => Effect::ReadFiles,
            Self::Slot(..) | Self::Tools(_) => Effect::CallTools,
            Self::Kv(..) | Self::Scratch(_) | Self::Clocks(_) => return None,
        };
        Some(DeclaredEffect { effect, request: self.name().map(str::to_owned) })
    }

    /// Returns whether the request makes an effect possible.
    pub fn allows(self, declared: &DeclaredEffect) -> bool {
        let effect = declared.effect;
        let is_of_kind = match self {
            Self::Http(..) => effect == Effect::Http,
            Self::Secret(..) => effect == Effect::Secret,
            Self::Kv(_, store) => effect.is_on_stores() && !store.cache,
            Self::Files(..) => matches!(effect, Effect::ReadFiles | Effect::WriteFiles),
            Self::Slot(..) | Self::Tools(_) => effect == Effect::CallTools,
            Self::Scratch(_) | Self::Clocks(_) => false,
        };
        is_of_kind && declared.request.as_deref().is_none_or(|name| self.name() == Some(name))
    }

    /// Returns each requested right as text: one for each tool, none for a switch and for a slot
    /// without a description, otherwise one. A text changes only if the request does.
    pub fn rights(self) -> Vec<String> {
        match self {
            Self::Http(_, http) => vec![http.right()],
            Self::Secret(_, secret) => vec![secret.right()],
            Self::Kv(_, store) => vec![store.right()],
            Self::Files(_, files) => vec![files.right()],
            Self::Scratch(scratch) => {
                vec![format!("{} {} files", scratch.max_bytes, scratch.max_files)]
            }
            Self::Slot(_, slot) => slot.description.iter().cloned().collect(),
            Self::Tools(tools) => tools.call.clone(),
            Self::Clocks(_) => Vec::new(),
        }
    }

    /// Returns the lines of the lock file about this request.
    pub(crate) fn lock_lines(self) -> Vec<String> {
        let rights = self.rights();
        match self {
            Self::Clocks(_) | Self::Slot(..) if rights.is_empty() => vec![self.to_string()],
            _ => rights.iter().map(|right| format!("{self} {right}")).collect(),
        }
    }
}

impl fmt::Display for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{}.{name}", self.kind()),
            None => f.write_str(self.kind()),
        }
    }
}

impl HttpRequest {
    fn right(&self) -> String {
        // The manifest was checked when it was parsed, so `rule` does not fail.
        self.rule().ok().flatten().map_or_else(|| ANY.to_owned(), |rule| rule.to_string())
    }
}

impl SecretRequest {
    fn right(&self) -> String {
        let inject = self.inject.as_ref().and_then(InjectRequest::right);
        let audience =
            (!self.audience.is_empty()).then(|| format!("to {}", self.audience.join(", ")));
        let reveal = self.reveal.then(|| REVEALED.to_owned());
        [inject, audience, reveal].into_iter().flatten().collect::<Vec<_>>().join(" ")
    }
}

impl InjectRequest {
    fn right(&self) -> Option<String> {
        match (&self.header, &self.basic, &self.query) {
            (Some(header), ..) if self.prefix.is_empty() => Some(format!("in header {header}")),
            (Some(header), ..) => Some(format!("in header {header} behind {:?}", self.prefix)),
            (None, Some(user), _) if user.is_empty() => {
                Some("as Basic user and password".to_owned())
            }
            (None, Some(user), _) => Some(format!("as Basic password of {user:?}")),
            (None, None, Some(query)) => Some(format!("in query {query}")),
            (None, None, None) => None,
        }
    }
}

impl KvRequest {
    fn right(&self) -> String {
        let end = if self.cache { CACHE } else { "" };
        format!("{}{end}", self.max_bytes)
    }
}

impl FilesRequest {
    fn right(&self) -> String {
        let access = self.access.name();
        let bytes = self.max_bytes.map(|size| format!(" {size}")).unwrap_or_default();
        let count = self.max_files.map(|count| format!(" {count} files")).unwrap_or_default();
        format!("{access}{bytes}{count}")
    }
}
