//! Credentials that the host attaches to a request just before it is sent, so that a guest can use
//! them without seeing them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, iter,
    sync::Arc,
};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use airlock_core::{secret::Secret, tenant::Tenant, threads};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method};
use url::Url;

use super::{
    error::EgressError,
    injection::{self, Injection},
    rule::Rule,
    spelling,
    target::Target,
};

/// Maximum number of credentials of one request. Each is compared with all others; a request has one or
/// two.
const MAX_OF_REQUEST: usize = 8;

/// Maximum bytes of a credential's value. It is sent in a header or a URL, which most servers
/// take up to this length.
const MAX_VALUE_BYTES: usize = 8 << 10;
/// Minimum bytes of a value that is redacted from responses. Shorter values occur there
/// by chance, and redacting them would damage text that is not secret.
pub(super) const MIN_BLOTTED_BYTES: usize = 8;
/// Maximum number of rounds of decoding in the search for a value: a URL is often a parameter of
/// another URL, and each round reads the whole text.
const MAX_UNDONE: usize = 4;

/// One secret, the part of a request that carries it, and the requests that it may be attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    name: String,
    value: Secret,
    injection: Injection,
    audience: Vec<Rule>,
    /// Names of the destinations that the audience consists of.
    destinations: BTreeSet<String>,
}

/// Reason that a credential cannot be used. Its value is never shown.
#[derive(Debug, thiserror::Error)]
pub enum BadCredential {
    /// The header cannot carry a credential.
    #[error(
        "found the header {found:?}, expected a header's name such as authorization that is not the host's own to set"
    )]
    Header {
        /// The name.
        found: String,
    },
    /// The prefix is not printable ASCII.
    #[error("found the prefix {found:?}, expected printable ASCII such as \"Bearer \"")]
    Prefix {
        /// The prefix.
        found: String,
    },
    /// The authorization scheme is for a whole connection: a server attributes all later requests
    /// on the connection to the same caller.
    #[error(
        "found the scheme NTLM or Negotiate, expected one that is for a single request such as Bearer"
    )]
    Scheme,
    /// The user of Basic authentication cannot be sent.
    #[error(
        "found the user {found:?}, expected printable ASCII without a colon; leave it empty if the secret is \"user:password\""
    )]
    User {
        /// The user.
        found: String,
    },
    /// A value without a colon, for Basic authentication without a user.
    #[error("the value of {name:?} must be \"user:password\", because `basic` names no user")]
    Pair {
        /// The credential.
        name: String,
    },
    /// The query parameter has no name.
    #[error("found an empty query parameter, expected a name such as api_key")]
    Parameter,
    /// The value cannot be sent.
    #[error(
        "the value of {name:?} must have 1 to {MAX_VALUE_BYTES} bytes, all of them printable ASCII"
    )]
    Value {
        /// The credential.
        name: String,
    },
    /// Two credentials have the same name.
    #[error("there are two credentials named {name:?}")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The search for the values in responses cannot be built.
    #[error("the credentials cannot be redacted")]
    Search(#[source] aho_corasick::BuildError),
}

impl Credential {
    /// Creates a credential, which is attached only to requests that match a rule of `audience`.
    /// The audience narrows the policy and never widens it. With an empty audience, the credential
    /// is attached to no request. The `private` flag of these rules has no effect.
    pub fn new(
        name: &str,
        value: Secret,
        injection: Injection,
        audience: Vec<Rule>,
    ) -> Result<Self, BadCredential> {
        let text = value.expose();
        let is_sendable = injection::is_plain(text) && text.trim_matches(' ') == text;
        if text.is_empty() || text.len() > MAX_VALUE_BYTES || !is_sendable {
            return Err(BadCredential::Value { name: name.to_owned() });
        }
        injection.check(name, text)?;
        let destinations = BTreeSet::new();
        Ok(Self { name: name.to_owned(), value, injection, audience, destinations })
    }

    /// Names the destinations that the audience consists of, see [`Policy::narrowed`]. A tool has the
    /// credential only for those of them that it declares.
    ///
    /// [`Policy::narrowed`]: super::Policy::narrowed
    #[must_use]
    pub fn for_destinations(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.destinations = names.into_iter().collect();
        self
    }

    /// Returns its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the header that carries it; `None` if a query parameter does.
    pub(super) fn header(&self) -> Option<&HeaderName> {
        self.injection.header_name()
    }

    /// Returns the parts of its value that are to be redacted too: the user and the password of a
    /// value that holds both, without short ones.
    pub fn parts(&self) -> Vec<&str> {
        self.injection.parts(self.value.expose())
    }

    /// Returns whether it may be attached to a request.
    pub(super) fn is_for(&self, target: &Target, method: &Method) -> bool {
        self.audience.iter().any(|rule| rule.matches(target, method))
    }

    /// Returns the names of the destinations of its audience; none if its rules alone decide.
    pub(super) fn destinations(&self) -> &BTreeSet<String> {
        &self.destinations
    }

    /// Returns whether the URL already has its parameter, which the guest must not set itself.
    pub(super) fn collides_with(&self, url: &Url) -> bool {
        self.injection.is_in(url)
    }

    /// Adds the value to the URL or the headers. Call this only for a request that is sent
    /// immediately.
    pub(super) fn attach(&self, url: &mut Url, headers: &mut HeaderMap) {
        self.injection.attach(self.value.expose(), url, headers);
    }

    /// Removes its query parameter and value from the URL of a redirect. Servers often repeat the
    /// query of the request there.
    pub(super) fn detach(&self, target: &mut Target) {
        let without = target.url().query().and_then(|query| self.without(query));
        if let Some(without) = without {
            target.set_query(Some(without.as_str()).filter(|without| !without.is_empty()));
        }
    }

    /// Returns a `location`, as a server wrote it, without its query parameter and value; `None` if
    /// it has none. A caller that follows the redirect itself can then name the credential again.
    pub(super) fn detached(&self, location: &str) -> Option<String> {
        let (address, fragment) = location.split_at(location.find('#').unwrap_or(location.len()));
        let (path, query) = address.split_once('?')?;
        let query = self.without(query)?;
        let mark = if query.is_empty() { "" } else { "?" };
        Some(format!("{path}{mark}{query}{fragment}"))
    }

    fn without(&self, query: &str) -> Option<String> {
        self.injection.without(self.value.expose(), query)
    }
}

/// The credentials of one caller, by name.
#[derive(Default)]
pub struct Credentials {
    by_name: BTreeMap<String, Credential>,
    /// Finds values of any length and in any case, because a host name may contain them in another
    /// case.
    values: Option<AhoCorasick>,
    /// Finds the values of at least [`MIN_BLOTTED_BYTES`] in all their spellings and in any case,
    /// for redaction from responses.
    spellings: Option<AhoCorasick>,
}

impl Credentials {
    /// Collects credentials. Fails if two have the same name.
    pub fn new(credentials: Vec<Credential>) -> Result<Self, BadCredential> {
        let mut by_name = BTreeMap::new();
        let mut values = BTreeSet::new();
        let mut spellings = BTreeSet::new();
        for credential in credentials {
            let shown = credential.injection.shown(credential.value.expose());
            let long = shown.iter().filter(|text| text.len() >= MIN_BLOTTED_BYTES);
            spellings.extend(long.flat_map(|text| spelling::spellings(text)));
            values.extend(shown);
            if let Some(double) = by_name.insert(credential.name.clone(), credential) {
                return Err(BadCredential::Duplicate { name: double.name });
            }
        }
        Ok(Self { by_name, values: search(&values)?, spellings: search(&spellings)? })
    }

    /// Returns whether there is a credential of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the credentials of one request. Fails if there are too many, if one is named twice
    /// or not known, or if two of them set the same part of the request.
    pub(super) fn select(&self, names: &[String]) -> Result<Vec<&Credential>, EgressError> {
        if names.len() > MAX_OF_REQUEST {
            let found = names.len();
            let limit = MAX_OF_REQUEST;
            return Err(EgressError::invalid(format!(
                "the request names {found} credentials, expected at most {limit}"
            )));
        }
        let mut selected: Vec<&Credential> = Vec::with_capacity(names.len());
        for name in names {
            // A credential that was not granted is unknown here. It is refused exactly like a
            // request that is not permitted.
            let credential = self.by_name.get(name).ok_or_else(EgressError::denied)?;
            for other in &selected {
                if other.name == *name {
                    return Err(EgressError::invalid(format!(
                        "the credential {name:?} is named twice"
                    )));
                }
                if let Some(part) = other.injection.conflict(&credential.injection) {
                    let other = &other.name;
                    return Err(EgressError::invalid(format!(
                        "the credentials {other:?} and {name:?} both set the {part}"
                    )));
                }
            }
            selected.push(credential);
        }
        Ok(selected)
    }

    /// Returns the names, for the operator's log; `none` if there are none.
    pub(super) fn names(&self) -> String {
        let names: Vec<_> = self.by_name.keys().map(String::as_str).collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }

    /// Returns whether a text contains one of the values, however short the value is and however
    /// the text is escaped. The result decides whether a request may continue: a false positive
    /// does less harm than a leak.
    pub(super) fn occur_in(&self, text: &[u8]) -> bool {
        let Some(values) = &self.values else { return false };
        values.is_match(text)
            || occur_behind_escapes(values, text, false)
            || occur_behind_escapes(values, text, true)
    }

    /// Does the same as [`Self::occur_in`] with a body, on a thread of `tenant` if it is long: the search
    /// reads it nine times.
    pub(super) async fn occur_in_body(self: &Arc<Self>, tenant: &Tenant, body: Bytes) -> bool {
        if self.values.is_none() {
            return false;
        }
        let this = self.clone();
        threads::read(tenant, body.len(), move || this.occur_in(&body)).await
    }

    /// Returns a text for the operator's log in which each byte of a value is replaced by `*`,
    /// whatever the length and case of the value.
    pub(super) fn blotted(&self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        blot(self.values.as_ref(), &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Redacts the values: each byte becomes `*`, so that the length stays. A server that echoes a
    /// request therefore does not show them to the guest. They are found as they are, in the
    /// spellings of URLs and forms, and with Basic authentication as they are sent, all in any case.
    /// This is the second line of defence: a server that writes the echo in another way, for example
    /// reversed or compressed, bypasses it. The first is the audience.
    pub(super) fn blot(&self, bytes: &mut [u8]) {
        blot(self.spellings.as_ref(), bytes);
    }

    /// Does the same as [`Self::blot`] with a body, on a thread of `tenant` if it is long.
    pub(super) async fn blot_body(self: &Arc<Self>, tenant: &Tenant, mut body: Vec<u8>) -> Vec<u8> {
        if self.spellings.is_none() {
            return body;
        }
        let this = self.clone();
        let blotting = threads::read(tenant, body.len(), move || {
            this.blot(&mut body);
            body
        });
        blotting.await
    }
}

fn occur_behind_escapes(values: &AhoCorasick, text: &[u8], is_form: bool) -> bool {
    let undone =
        iter::successors(spelling::undo(text, is_form), |text| spelling::undo(text, is_form));
    undone.take(MAX_UNDONE).any(|text| values.is_match(&text))
}

/// Builds the search for `texts` in any case; `None` if there are none. A DFA, which would be
/// chosen for so few, takes tens of megabytes for the spellings of a long value.
fn search(texts: &BTreeSet<String>) -> Result<Option<AhoCorasick>, BadCredential> {
    if texts.is_empty() {
        return Ok(None);
    }
    let searched = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .match_kind(MatchKind::LeftmostLongest)
        .ascii_case_insensitive(true)
        .build(texts);
    searched.map(Some).map_err(BadCredential::Search)
}

fn blot(texts: Option<&AhoCorasick>, bytes: &mut [u8]) {
    let Some(texts) = texts else { return };
    let found: Vec<_> = texts.find_iter(&*bytes).map(|found| found.range()).collect();
    for range in found {
        bytes[range].fill(b'*');
    }
}

impl fmt::Debug for Credentials {
    /// Written by hand, because the searches would print the values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.values()).finish()
    }
}

#[cfg(test)]
mod tests;
