//! A rule: requests that may leave. Its text is one line, the same for people, lock file and log.

use std::{collections::BTreeSet, fmt, str::FromStr};

use http::Method;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    path::{BadPattern, Pattern},
    target::{Host, Target},
};

/// Methods of one rule.
const MAX_METHODS: usize = 16;
/// Patterns of one rule.
const MAX_PATHS: usize = 32;
/// Bytes of one URL or pattern, so that a manifest cannot be made of one endless rule.
const MAX_TEXT: usize = 1 << 10;

/// Requests that may leave: a scheme, a host and a port, methods, and paths.
///
/// Its text is `https://api.example.com GET,POST /repos/**,/user private`: an origin (the port is
/// left out where the scheme implies it), methods, paths, and `private` where that is so.
/// `parse(rule.to_string()) == rule`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Rule {
    scheme: Scheme,
    host: HostPattern,
    port: u16,
    methods: BTreeSet<Method>,
    paths: BTreeSet<Pattern>,
    private: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Scheme {
    Http,
    Https,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum HostPattern {
    Exactly(Host),
    /// `*.name`: everything below it, at any depth, and not the name itself.
    Below(String),
}

/// Why a rule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// Not a scheme that requests are sent with.
    #[error("found {found:?}, expected a URL that begins with https:// or http://")]
    Scheme {
        /// The URL.
        found: String,
    },
    /// Not a URL.
    #[error("found {found:?}, expected a URL such as https://api.example.com: {reason}")]
    Url {
        /// The URL.
        found: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A host that no rule can be about.
    #[error("found the host {found:?}, expected {expected}")]
    Host {
        /// The host.
        found: String,
        /// What would do.
        expected: &'static str,
    },
    /// More than an origin and a path.
    #[error("found {found} in {url:?}, expected an origin and at most a path")]
    Extra {
        /// What is too much.
        found: &'static str,
        /// The URL.
        url: String,
    },
    /// Not a method, or one that is never sent.
    #[error(
        "found the method {found:?}, expected one such as GET or POST, in capitals, and neither CONNECT nor TRACE"
    )]
    Method {
        /// The method.
        found: String,
    },
    /// Not a pattern for paths.
    #[error("found the path {found:?}: {reason}")]
    Path {
        /// The path.
        found: String,
        /// What is wrong with it.
        reason: BadPattern,
    },
    /// Paths in two places, and nobody could tell whether they add up.
    #[error("found a path in {url:?} and a list of paths, expected one of them")]
    TwoPaths {
        /// The URL.
        url: String,
    },
    /// Too much of something.
    #[error("found {found} {what}, expected at most {limit}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        found: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Not the text form of a rule.
    #[error(
        "found {found:?}, expected \"<origin> <METHOD,METHOD> <path,path>\", and \"private\" after it where that is meant"
    )]
    Form {
        /// The text.
        found: String,
    },
}

impl Rule {
    /// Makes a rule.
    ///
    /// `url` is an origin, `https://api.example.com`, or `https://*.example.com` for all names
    /// below it and not itself. It may end in a path, and stands for that path and all below it
    /// then; so without a path it stands for all there are. A host that is an address must be
    /// written as one and is then meant exactly. `methods` may be empty, which means GET and HEAD.
    /// `paths` may be empty, which means those of `url`; where it is not, `url` has none. They are
    /// patterns: `*` is any text within a segment, a segment `**` is any number of segments.
    /// `private` lets names lead into private networks and to this machine.
    pub fn new(
        url: &str,
        methods: &[impl AsRef<str>],
        paths: &[impl AsRef<str>],
        private: bool,
    ) -> Result<Self, BadRule> {
        bounded("methods", methods.len(), MAX_METHODS)?;
        bounded("paths", paths.len(), MAX_PATHS)?;
        for text in paths.iter().map(AsRef::as_ref).chain([url]) {
            bounded("bytes", text.len(), MAX_TEXT)?;
        }
        let (scheme, host, parsed) = origin(url)?;
        let port = parsed.port_or_known_default().filter(|port| *port != 0);
        let port = port.ok_or_else(|| BadRule::Url {
            found: url.to_owned(),
            reason: "the port must not be 0".to_owned(),
        })?;
        let methods =
            methods.iter().map(|name| method(name.as_ref())).collect::<Result<BTreeSet<_>, _>>()?;
        let methods =
            if methods.is_empty() { BTreeSet::from([Method::GET, Method::HEAD]) } else { methods };
        let paths = if paths.is_empty() {
            let below = Pattern::below(parsed.path());
            below
                .map_err(|reason| BadRule::Path { found: parsed.path().to_owned(), reason })?
                .into_iter()
                .collect()
        } else if parsed.path() == "/" {
            paths.iter().map(|path| pattern(path.as_ref())).collect::<Result<_, _>>()?
        } else {
            return Err(BadRule::TwoPaths { url: url.to_owned() });
        };
        Ok(Self { scheme, host, port, methods, paths, private })
    }

    /// How the narrowest rule that lets a request out begins, to tell an operator what was missing.
    /// Its path, the guest's own text, is left out: a guest that knows a secret could write it
    /// there, and the log is no place for it.
    pub(super) fn needed(target: &Target, method: &Method) -> String {
        format!("{} {method}", target.origin())
    }

    /// Whether a request is one of those that the rule is about.
    pub(super) fn matches(&self, target: &Target, method: &Method) -> bool {
        self.scheme.as_str() == target.scheme()
            && self.port == target.port()
            && self.host.matches(target.host())
            && self.methods.contains(method)
            && self.paths.iter().any(|pattern| pattern.matches(target.segments()))
    }

    /// Whether names may lead into private networks and to this machine.
    pub fn is_private(&self) -> bool {
        self.private
    }

    /// Whether it lets requests out over TLS alone.
    pub fn is_encrypted(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Whether it is about more hosts than can be counted.
    pub(super) fn is_wildcard(&self) -> bool {
        matches!(self.host, HostPattern::Below(_))
    }
}

fn bounded(what: &'static str, found: usize, limit: usize) -> Result<(), BadRule> {
    if found > limit { Err(BadRule::TooMany { what, found, limit }) } else { Ok(()) }
}

/// Reads scheme and host; answers the URL too, for its port and path. A host pattern's `*.` is
/// taken off before the rest is read as a host.
fn origin(text: &str) -> Result<(Scheme, HostPattern, Url), BadRule> {
    let no_scheme = || BadRule::Scheme { found: text.to_owned() };
    let (scheme, rest) = text.split_once("://").ok_or_else(no_scheme)?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        _ => return Err(no_scheme()),
    };
    let (is_wildcard, rest) = rest.strip_prefix("*.").map_or((false, rest), |rest| (true, rest));
    let unreadable = |reason: String| BadRule::Url { found: text.to_owned(), reason };
    if rest.contains(char::is_control) {
        return Err(unreadable("a control character".to_owned()));
    }
    let url = Url::parse(&format!("{}://{rest}", scheme.as_str()))
        .map_err(|error| unreadable(error.to_string()))?;
    let extra = |found| Err(BadRule::Extra { found, url: text.to_owned() });
    if !url.username().is_empty() || url.password().is_some() {
        return extra("a user or password");
    }
    if url.query().is_some() {
        return extra("a query");
    }
    if url.fragment().is_some() {
        return extra("a fragment");
    }
    let bad_host =
        |expected| BadRule::Host { found: url.host_str().unwrap_or_default().to_owned(), expected };
    let host = match Host::of(&url) {
        None => return Err(bad_host("a name, an address, or `*.` and a name")),
        Some(host) if !is_wildcard => HostPattern::Exactly(host),
        // `*.com` would be nearly everybody.
        Some(Host::Name(name)) if name.contains('.') => HostPattern::Below(name),
        Some(_) => return Err(bad_host("at least two labels behind `*.`, as in *.example.com")),
    };
    Ok((scheme, host, url))
}

/// Reads a method. CONNECT makes a tunnel of the connection, and TRACE sends back headers that the
/// guest must not see.
pub(super) fn method(text: &str) -> Result<Method, BadRule> {
    let bad = || BadRule::Method { found: text.chars().take(32).collect() };
    let is_name = !text.is_empty()
        && text.len() <= 32
        && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    if !is_name || text == "CONNECT" || text == "TRACE" {
        return Err(bad());
    }
    Method::from_bytes(text.as_bytes()).map_err(|_| bad())
}

fn pattern(text: &str) -> Result<Pattern, BadRule> {
    Pattern::parse(text).map_err(|reason| BadRule::Path { found: text.to_owned(), reason })
}

impl Scheme {
    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl HostPattern {
    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exactly(expected), host) => expected == host,
            // What is in front of the dot is never empty: a name has no empty labels.
            (Self::Below(parent), Host::Name(name)) => {
                name.strip_suffix(parent.as_str()).is_some_and(|head| head.ends_with('.'))
            }
            (Self::Below(_), Host::Address(_)) => false,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme.as_str())?;
        match &self.host {
            HostPattern::Exactly(host) => write!(f, "{host}")?,
            HostPattern::Below(name) => write!(f, "*.{name}")?,
        }
        if self.port != self.scheme.port() {
            write!(f, ":{}", self.port)?;
        }
        let methods: Vec<_> = self.methods.iter().map(Method::as_str).collect();
        let paths: Vec<_> = self.paths.iter().map(Pattern::to_string).collect();
        write!(
            f,
            " {} {}{}",
            methods.join(","),
            paths.join(","),
            if self.private { " private" } else { "" }
        )
    }
}

impl FromStr for Rule {
    type Err = BadRule;

    fn from_str(text: &str) -> Result<Self, BadRule> {
        let bad_form = || BadRule::Form { found: text.chars().take(200).collect() };
        let (text, private) =
            text.strip_suffix(" private").map_or((text, false), |rule| (rule, true));
        let parts: Vec<_> = text.split(' ').collect();
        let &[origin, methods, paths] = parts.as_slice() else { return Err(bad_form()) };
        let (methods, paths): (Vec<_>, Vec<_>) =
            (methods.split(',').collect(), paths.split(',').collect());
        Self::new(origin, &methods, &paths, private)
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}

impl TryFrom<String> for Rule {
    type Error = BadRule;

    fn try_from(text: String) -> Result<Self, BadRule> {
        text.parse()
    }
}

#[cfg(test)]
mod tests;
