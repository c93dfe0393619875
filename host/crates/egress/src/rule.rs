//! Rules for outbound requests. The text of a rule is one line, the same for people, lock file and
//! log.

use std::{collections::BTreeSet, fmt, net::IpAddr, str::FromStr};

use http::Method;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{
    address::{self, Reach},
    path::{BadPattern, Pattern},
    target::{Host, Target},
};

/// Maximum number of methods of a rule. HTTP has nine; the others are those of `WebDAV`. An
/// operator reads them in one line.
const MAX_METHODS: usize = 16;
/// Maximum number of patterns of a rule. A request is compared with all of them, and an operator reads
/// them in one line.
const MAX_PATHS: usize = 32;
/// Maximum bytes of a URL or a pattern, so that a manifest cannot consist of one endless rule.
const MAX_TEXT: usize = 1 << 10;

/// A set of requests that may be sent: a scheme, a host and a port, methods, and paths.
///
/// Its text is `https://api.example.com GET,POST /repos/**,/user private`: an origin (without the
/// port if the scheme implies it), methods, paths, and `private` if that is set.
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
    /// `*.name`: every name below it, at any depth, but not the name itself.
    Below(String),
}

/// First part of a rule that excludes a request to its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ExcludedPart {
    /// The method is among those of the rule.
    Path,
    Method,
}

/// Reason that a rule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    /// A scheme other than `https` and `http`.
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
        /// Description of the problem.
        reason: String,
    },
    /// A host that a rule cannot name.
    #[error("found the host {found:?}, expected {expected}")]
    Host {
        /// The host.
        found: String,
        /// Description of a valid host.
        expected: &'static str,
    },
    /// More than an origin and a path.
    #[error("found {found} in {url:?}, expected an origin and at most a path")]
    Extra {
        /// The part that is not allowed.
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
    /// Not a path pattern.
    #[error("found the path {found:?}: {reason}")]
    Path {
        /// The path.
        found: String,
        /// Description of the problem.
        reason: BadPattern,
    },
    /// Paths both in the URL and in the list of paths. Their combination would be ambiguous.
    #[error("found a path in {url:?} and a list of paths, expected one of them")]
    TwoPaths {
        /// The URL.
        url: String,
    },
    /// More items or bytes than the limit.
    #[error("found {found} {what}, expected at most {limit}")]
    TooMany {
        /// Name of the items, such as `methods` or `bytes`.
        what: &'static str,
        /// Number found.
        found: usize,
        /// Maximum number.
        limit: usize,
    },
    /// An address in a private network, and a rule without `private`.
    #[error(
        "found the private address {address}, expected a public one, or `private` set to true beside it"
    )]
    Private {
        /// The address.
        address: IpAddr,
    },
    /// An address of a metadata service, a link-local one, or another one that is never dialled.
    #[error(
        "found the address {address}, which no rule can permit, expected a public or a private one"
    )]
    Never {
        /// The address.
        address: IpAddr,
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
    /// Creates a rule.
    ///
    /// `url` is an origin: `https://api.example.com`, or `https://*.example.com` for all names
    /// below `example.com`, but not for that name itself. It may end in a path, which then covers
    /// that path and everything below it; without a path it covers all paths. A host that is an
    /// address must be written as an address and is matched exactly. `methods` may be empty, which
    /// means GET and HEAD. `paths` may be empty, which means the path of `url`; if it is not empty,
    /// `url` must have no path. `paths` are patterns: `*` matches any text within a segment, a
    /// segment `**` matches any number of segments. `private` permits hosts in private networks and
    /// on this machine.
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

    /// Returns the rule. Fails if it names an address that every request would be refused for.
    pub fn reachable(self) -> Result<Self, BadRule> {
        let HostPattern::Exactly(Host::Address(address)) = self.host else { return Ok(self) };
        match address::reach(address) {
            Reach::Private if !self.private => Err(BadRule::Private { address }),
            Reach::Never => Err(BadRule::Never { address }),
            _ => Ok(self),
        }
    }

    /// Returns the narrowest rule that permits a request, to show the operator the missing rule.
    /// Segments that the log must not or cannot hold become wildcards: all of them if
    /// `is_secret`, and those that are too long.
    pub(super) fn needed(target: &Target, method: &Method, is_secret: bool) -> String {
        let path = Pattern::shown(target.segments(), is_secret);
        format!("{} {method} {path}", target.origin())
    }

    /// Returns whether a request matches the rule.
    pub(super) fn matches(&self, target: &Target, method: &Method) -> bool {
        self.is_for_host(target)
            && self.methods.contains(method)
            && self.paths.iter().any(|pattern| pattern.matches(target.segments()))
    }

    /// Returns the part that excludes a request to the rule's host. `None` if the rule is for
    /// another scheme, host or port, or if it matches the request.
    pub(super) fn excluded(&self, target: &Target, method: &Method) -> Option<ExcludedPart> {
        if !self.is_for_host(target) || self.matches(target, method) {
            None
        } else if self.methods.contains(method) {
            Some(ExcludedPart::Path)
        } else {
            Some(ExcludedPart::Method)
        }
    }

    fn is_for_host(&self, target: &Target) -> bool {
        self.scheme.as_str() == target.scheme()
            && self.port == target.port()
            && self.host.matches(target.host())
    }

    /// Returns whether the rule permits hosts in private networks and on this machine.
    pub fn is_private(&self) -> bool {
        self.private
    }

    /// Returns whether the rule permits requests over TLS only.
    pub fn is_encrypted(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// Returns a rule for requests that both rules match, or `None` if there is none.
    ///
    /// Of two paths the narrower one is kept. Two paths of which neither contains the other have no
    /// intersection here, although some requests may match both. There is no rule either if more
    /// than 32 paths remain, because a rule cannot hold them.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        let host = self.common_host(other)?.clone();
        let methods: BTreeSet<_> = self.methods.intersection(&other.methods).cloned().collect();
        let narrower = self
            .paths
            .iter()
            .flat_map(|one| other.paths.iter().filter_map(move |other| one.narrower(other)));
        let paths: BTreeSet<_> = narrower.cloned().collect();
        if methods.is_empty() || paths.is_empty() || paths.len() > MAX_PATHS {
            return None;
        }
        let private = self.private && other.private;
        Some(Self { scheme: self.scheme, host, port: self.port, methods, paths, private })
    }

    /// Returns whether every request that matches `other` matches this rule too, as far as the
    /// patterns show it: of two paths with wildcards, only a `/**` visibly contains another one.
    pub fn contains(&self, other: &Self) -> bool {
        self.scheme == other.scheme
            && self.port == other.port
            && self.host.contains(&other.host)
            && self.methods.is_superset(&other.methods)
            && other.paths.iter().all(|path| self.contains_path(path))
            && (self.private || !other.private)
    }

    fn contains_path(&self, path: &Pattern) -> bool {
        self.paths.iter().any(|own| own.narrower(path).is_some_and(|narrower| narrower == path))
    }

    /// Returns whether a host matches both rules, with the same scheme and port.
    pub fn shares_host(&self, other: &Self) -> bool {
        self.common_host(other).is_some()
    }

    /// Returns the narrower of two host patterns; `None` if no host, or no scheme and port, matches
    /// both rules.
    fn common_host<'a>(&'a self, other: &'a Self) -> Option<&'a HostPattern> {
        let is_same_port = self.scheme == other.scheme && self.port == other.port;
        self.host.narrower(&other.host).filter(|_| is_same_port)
    }

    /// Returns whether the rule matches an unlimited number of hosts.
    pub(super) fn is_wildcard(&self) -> bool {
        matches!(self.host, HostPattern::Below(_))
    }
}

fn bounded(what: &'static str, found: usize, limit: usize) -> Result<(), BadRule> {
    if found > limit { Err(BadRule::TooMany { what, found, limit }) } else { Ok(()) }
}

/// Parses scheme and host. Returns the URL too, for its port and path. The `*.` of a host pattern
/// is removed before the rest is parsed as a host.
fn origin(text: &str) -> Result<(Scheme, HostPattern, Url), BadRule> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| no_scheme(text))?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "https" => Scheme::Https,
        "http" => Scheme::Http,
        _ => return Err(no_scheme(text)),
    };
    let (is_wildcard, rest) = rest.strip_prefix("*.").map_or((false, rest), |rest| (true, rest));
    if rest.contains(char::is_control) {
        return Err(unreadable(text, "a control character".to_owned()));
    }
    let url = Url::parse(&format!("{}://{rest}", scheme.as_str()))
        .map_err(|error| unreadable(text, error.to_string()))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(extra("a user or password", text));
    }
    if url.query().is_some() {
        return Err(extra("a query", text));
    }
    if url.fragment().is_some() {
        return Err(extra("a fragment", text));
    }
    let host = match Host::from_url(&url) {
        None => return Err(bad_host(&url, "a name, an address, or `*.` and a name")),
        Some(host) if !is_wildcard => HostPattern::Exactly(host),
        // `*.com` would match almost every host.
        Some(Host::Name(name)) if name.contains('.') => HostPattern::Below(name),
        Some(_) => {
            return Err(bad_host(&url, "at least two labels behind `*.`, as in *.example.com"));
        }
    };
    Ok((scheme, host, url))
}

fn no_scheme(text: &str) -> BadRule {
    BadRule::Scheme { found: text.to_owned() }
}

fn unreadable(text: &str, reason: String) -> BadRule {
    BadRule::Url { found: text.to_owned(), reason }
}

fn extra(found: &'static str, text: &str) -> BadRule {
    BadRule::Extra { found, url: text.to_owned() }
}

fn bad_host(url: &Url, expected: &'static str) -> BadRule {
    BadRule::Host { found: url.host_str().unwrap_or_default().to_owned(), expected }
}

/// Parses a method. CONNECT and TRACE are refused: CONNECT turns the connection into a tunnel, and
/// TRACE returns headers that the guest must not see.
pub(super) fn method(text: &str) -> Result<Method, BadRule> {
    let is_name = !text.is_empty()
        && text.len() <= 32
        && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    if !is_name || text == "CONNECT" || text == "TRACE" {
        return Err(bad_method(text));
    }
    Method::from_bytes(text.as_bytes()).map_err(|_| bad_method(text))
}

fn bad_method(text: &str) -> BadRule {
    BadRule::Method { found: text.chars().take(32).collect() }
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
    /// Returns the narrower of two patterns if they are equal or one contains the other.
    fn narrower<'a>(&'a self, other: &'a Self) -> Option<&'a Self> {
        if other.contains(self) { Some(self) } else { self.contains(other).then_some(other) }
    }

    /// Returns whether every host that matches `other` matches this pattern.
    fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (pattern, Self::Exactly(host)) => pattern.matches(host),
            (Self::Exactly(_), Self::Below(_)) => false,
            (Self::Below(parent), Self::Below(name)) => name == parent || is_below(name, parent),
        }
    }

    fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exactly(expected), host) => expected == host,
            (Self::Below(parent), Host::Name(name)) => is_below(name, parent),
            (Self::Below(_), Host::Address(_)) => false,
        }
    }
}

/// Returns whether a name is below another one, at any depth. The part before the dot is never
/// empty, because a name has no empty labels.
fn is_below(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent).is_some_and(|head| head.ends_with('.'))
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
        let (rule, private) =
            text.strip_suffix(" private").map_or((text, false), |rule| (rule, true));
        let parts: Vec<_> = rule.split(' ').collect();
        let &[origin, methods, paths] = parts.as_slice() else {
            return Err(BadRule::Form { found: text.chars().take(200).collect() });
        };
        let methods: Vec<_> = methods.split(',').collect();
        let paths: Vec<_> = paths.split(',').collect();
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
