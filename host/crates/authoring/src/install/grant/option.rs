//! A grant as text: the form that `--grant` takes.

use std::{fmt, path::PathBuf, str::FromStr};

/// Name of a request for any directory.
pub(super) const ANY: &str = "*";

/// A right that the operator grants. Its text is that of the option `--grant`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantOption {
    /// A network destination, by the name under which the plugin asks for it.
    Http(String),
    /// A host of the operator's choice, for a plugin that leaves the host open.
    Host {
        /// URL of the host.
        url: String,
        /// Methods; GET and HEAD if empty.
        methods: Vec<String>,
        /// True if the host may be in a private network.
        private: bool,
    },
    /// A store of keys and values.
    Kv(String),
    /// A directory.
    Files {
        /// Name of the request, or any name for a request for any directory.
        name: String,
        /// The directory.
        path: PathBuf,
        /// True if the plugin may write to it.
        may_write: bool,
    },
    /// A secret, and the source of its value.
    Secret {
        /// Name of the request.
        name: String,
        /// Source of the value: `env:VARIABLE` or `file:PATH`.
        from: String,
        /// True if the plugin may read the value.
        reveal: bool,
    },
    /// A scratch directory.
    Scratch,
    /// The clocks.
    Clocks,
    /// A tool for one of the plugin's slots.
    Slot {
        /// Name of the slot.
        name: String,
        /// Full name of the tool.
        tool: String,
    },
    /// Every tool that the plugin asks to call by full name.
    Tools,
}

/// End of a directory that the plugin may write to.
const WRITE: &str = ":rw";
/// End of a directory that the plugin may only read, which is the default.
const READ: &str = ":ro";
/// End of a secret whose value the plugin may read.
const REVEAL: &str = ":reveal";
/// End of a URL whose host may be in a private network.
const PRIVATE: &str = ":private";

/// Separates the methods of a URL.
const METHODS_SEPARATOR: char = ',';

/// Part of a printed command that stands for a value of the operator's. No such text is a value.
pub(super) mod placeholder {
    pub(crate) const HOST: &str = "<HOST>";
    pub(crate) const NAME: &str = "<NAME>";
    pub(crate) const DIRECTORY: &str = "<DIRECTORY>";
    pub(crate) const TOOL: &str = "<CLIENT-TOOL>";
    pub(crate) const VARIABLE: &str = "<VARIABLE>";
}

/// Each placeholder with a value in its place.
const EXAMPLES: [(&str, &str); 5] = [
    (placeholder::HOST, "api.example.com"),
    (placeholder::NAME, "notes"),
    (placeholder::DIRECTORY, "/srv/notes"),
    (placeholder::TOOL, "web-search"),
    (placeholder::VARIABLE, "WEATHER_TOKEN"),
];

/// Reason that a text is no grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadGrantOption {
    /// A placeholder of a proposed grant is left in it.
    #[error("write a value of yours in place of {0}, such as {1}")]
    Placeholder(&'static str, &'static str),
    /// The kind is known, and the rest does not fit it.
    #[error("expected {0}")]
    Form(&'static str),
    /// The kind is unknown.
    #[error(
        "expected http.NAME, http=URL or http=URL:METHODS, kv.NAME, files.NAME=PATH (and :rw where it may write), secret.NAME=env:VARIABLE, \
         secret.NAME=file:PATH, slot.NAME=CLIENT-TOOL, scratch, clocks or tools"
    )]
    Kind,
}

impl BadGrantOption {
    /// Returns the form of a grant whose kind is known.
    fn of_kind(kind: &str, name: Option<&str>) -> Self {
        Self::Form(match kind {
            "http" => {
                "http.NAME, or http=URL for a request that leaves the hosts to you, with its methods \
                 as in http=URL:GET,POST"
            }
            "kv" => "kv.NAME",
            "files" if name == Some(ANY) => {
                "files.NAME=PATH for each directory, with a name of your choice"
            }
            "files" => "files.NAME=PATH, or files.NAME=PATH:rw where it may write",
            "secret" => "secret.NAME=env:VARIABLE or secret.NAME=file:PATH",
            "slot" => "slot.NAME=CLIENT-TOOL",
            "scratch" => "the word scratch alone",
            "clocks" => "the word clocks alone",
            "tools" => "the word tools alone",
            "effects" => {
                "a request; wider effects of a tool are granted with --regrant effects.TOOL"
            }
            _ => return Self::Kind,
        })
    }
}

/// Returns the text without a suffix, and whether it had the suffix.
fn without<'t>(text: &'t str, suffix: &str) -> (&'t str, bool) {
    text.strip_suffix(suffix).map_or((text, false), |text| (text, true))
}

/// Splits the methods off a URL, such as `:GET,POST`. They are in capitals, as no port is.
fn with_methods(text: &str) -> (&str, Vec<String>) {
    match text.rsplit_once(':') {
        Some((url, methods)) if methods.split(METHODS_SEPARATOR).all(is_method) => {
            (url, methods.split(METHODS_SEPARATOR).map(str::to_owned).collect())
        }
        _ => (text, Vec::new()),
    }
}

fn is_method(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_uppercase())
}

impl FromStr for GrantOption {
    type Err = BadGrantOption;

    fn from_str(text: &str) -> Result<Self, BadGrantOption> {
        if let Some((part, example)) = EXAMPLES.iter().find(|(part, _)| text.contains(part)) {
            return Err(BadGrantOption::Placeholder(part, example));
        }
        let (place, value) =
            text.split_once('=').map_or((text, None), |(place, value)| (place, Some(value)));
        let (kind, name) =
            place.split_once('.').map_or((place, None), |(kind, name)| (kind, Some(name)));
        match (kind, name.filter(|name| !name.is_empty()), value.filter(|value| !value.is_empty()))
        {
            ("http", Some(name), None) if value.is_none() => Ok(Self::Http(name.to_owned())),
            ("http", None, Some(url)) if name.is_none() => {
                let (url, private) = without(url, PRIVATE);
                let (url, methods) = with_methods(url);
                Ok(Self::Host { url: url.to_owned(), methods, private })
            }
            ("kv", Some(name), None) if value.is_none() => Ok(Self::Kv(name.to_owned())),
            ("files", Some(name), Some(path)) if name != ANY => {
                let (path, may_write) = match without(path, WRITE) {
                    (path, true) => (path, true),
                    (path, false) => (without(path, READ).0, false),
                };
                Ok(Self::Files { name: name.to_owned(), path: path.into(), may_write })
            }
            ("secret", Some(name), Some(from)) => {
                let (from, reveal) = without(from, REVEAL);
                Ok(Self::Secret { name: name.to_owned(), from: from.to_owned(), reveal })
            }
            ("slot", Some(name), Some(tool)) => {
                Ok(Self::Slot { name: name.to_owned(), tool: tool.to_owned() })
            }
            ("scratch", None, None) if text == kind => Ok(Self::Scratch),
            ("clocks", None, None) if text == kind => Ok(Self::Clocks),
            ("tools", None, None) if text == kind => Ok(Self::Tools),
            _ => Err(BadGrantOption::of_kind(kind, name)),
        }
    }
}

impl fmt::Display for GrantOption {
    /// Writes the grant as it could have been typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(name) => write!(f, "http.{name}"),
            Self::Host { url, methods, private } => {
                let separator = if methods.is_empty() { "" } else { ":" };
                let methods = methods.join(&METHODS_SEPARATOR.to_string());
                write!(f, "http={url}{separator}{methods}{}", suffix(PRIVATE, *private))
            }
            Self::Kv(name) => write!(f, "kv.{name}"),
            Self::Files { name, path, may_write } => {
                write!(f, "files.{name}={}{}", path.display(), suffix(WRITE, *may_write))
            }
            Self::Secret { name, from, reveal } => {
                write!(f, "secret.{name}={from}{}", suffix(REVEAL, *reveal))
            }
            Self::Scratch => f.write_str("scratch"),
            Self::Clocks => f.write_str("clocks"),
            Self::Slot { name, tool } => write!(f, "slot.{name}={tool}"),
            Self::Tools => f.write_str("tools"),
        }
    }
}

fn suffix(suffix: &str, is_said: bool) -> &str {
    if is_said { suffix } else { "" }
}
