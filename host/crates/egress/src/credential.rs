//! Credentials that the host attaches to a request just before it is sent, so that a guest can use
//! them without seeing them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, iter,
};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use airlock_core::secret::Secret;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use url::{Url, form_urlencoded};

use super::{headers, rule::Rule, spelling, target::Target};

/// Maximum length of a credential's value, in bytes.
const MAX_VALUE_BYTES: usize = 8 << 10;
/// Minimum length of a value that is redacted from responses, in bytes. Shorter values occur there
/// by chance, and redacting them would damage text that is not secret.
const MIN_BLOTTED_BYTES: usize = 8;
/// Maximum rounds of decoding in the search for a value: a URL is often a parameter of another URL.
const MAX_UNDONE: usize = 4;

/// Part of a request that carries a credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Injection {
    /// A header, with a prefix before the value: `authorization` and `Bearer `.
    Header {
        /// The header.
        name: HeaderName,
        /// Text before the value.
        prefix: String,
    },
    /// A parameter of the query.
    Query {
        /// The parameter's name.
        parameter: String,
    },
}

impl Injection {
    /// Puts the credential into a header, after `prefix`. Fails if the name is invalid or reserved
    /// for the host, if the prefix is not printable ASCII, or if it names a scheme that
    /// authenticates the connection instead of the request.
    pub fn header(name: &str, prefix: &str) -> Result<Self, BadCredential> {
        let parsed =
            HeaderName::try_from(name).ok().filter(|name| !headers::is_reserved(name.as_str()));
        let name = parsed.ok_or_else(|| BadCredential::Header { found: name.to_owned() })?;
        let is_plain = prefix.bytes().all(|b| (b' '..=b'~').contains(&b));
        if !is_plain {
            return Err(BadCredential::Prefix { found: prefix.to_owned() });
        }
        if name == header::AUTHORIZATION && headers::authenticates_the_connection(prefix.as_bytes())
        {
            return Err(BadCredential::Scheme);
        }
        Ok(Self::Header { name, prefix: prefix.to_owned() })
    }

    /// Puts the credential into a parameter of the query. Fails if the parameter's name is empty.
    pub fn query(parameter: &str) -> Result<Self, BadCredential> {
        if parameter.is_empty() {
            return Err(BadCredential::Parameter);
        }
        Ok(Self::Query { parameter: parameter.to_owned() })
    }
}

/// One secret, the part of a request that carries it, and the requests that it may be attached to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    name: String,
    value: Secret,
    injection: Injection,
    audience: Vec<Rule>,
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
        let bytes = value.expose().as_bytes();
        let is_plain = bytes.iter().all(|b| (b' '..=b'~').contains(b))
            && !bytes.starts_with(b" ")
            && !bytes.ends_with(b" ");
        if bytes.is_empty() || bytes.len() > MAX_VALUE_BYTES || !is_plain {
            return Err(BadCredential::Value { name: name.to_owned() });
        }
        if let Injection::Header { name: its, prefix } = &injection
            && *its == header::AUTHORIZATION
            && headers::authenticates_the_connection(
                format!("{prefix}{}", value.expose()).as_bytes(),
            )
        {
            return Err(BadCredential::Scheme);
        }
        Ok(Self { name: name.to_owned(), value, injection, audience })
    }

    /// Returns the header that carries it; `None` if a query parameter does.
    pub(super) fn header(&self) -> Option<&HeaderName> {
        match &self.injection {
            Injection::Header { name, .. } => Some(name),
            Injection::Query { .. } => None,
        }
    }

    /// Returns whether it may be attached to a request.
    pub(super) fn is_for(&self, target: &Target, method: &Method) -> bool {
        self.audience.iter().any(|rule| rule.matches(target, method))
    }

    /// Returns whether the URL already has its parameter, which the guest must not set itself.
    pub(super) fn collides_with(&self, url: &Url) -> bool {
        match &self.injection {
            Injection::Query { parameter } => {
                url.query_pairs().any(|(name, _)| name == parameter.as_str())
            }
            Injection::Header { .. } => false,
        }
    }

    /// Adds the value to the URL or the headers. Call this only for a request that is sent
    /// immediately.
    pub(super) fn attach(&self, url: &mut Url, headers: &mut HeaderMap) {
        match &self.injection {
            Injection::Header { name, prefix } => {
                let value = HeaderValue::try_from(format!("{prefix}{}", self.value.expose()));
                let mut value = value.expect("prefix and value were found to be printable ASCII");
                value.set_sensitive(true);
                headers.insert(name.clone(), value);
            }
            Injection::Query { parameter } => {
                url.query_pairs_mut().append_pair(parameter, self.value.expose());
            }
        }
    }

    /// Removes its query parameter and value from the URL of a redirect. Servers often repeat the
    /// query of the request there.
    pub(super) fn detach(&self, target: &mut Target) {
        let (Injection::Query { parameter }, Some(query)) = (&self.injection, target.url().query())
        else {
            return;
        };
        let is_ours = |piece: &&str| {
            form_urlencoded::parse(piece.as_bytes())
                .any(|(name, value)| name == parameter.as_str() && value == self.value.expose())
        };
        let kept: Vec<_> = query.split('&').filter(|piece| !is_ours(piece)).collect();
        if kept.len() < query.split('&').count() {
            let kept = (!kept.is_empty()).then(|| kept.join("&"));
            target.set_query(kept.as_deref());
        }
    }
}

/// The credentials of one caller, by name.
#[derive(Default)]
pub struct Credentials {
    by_name: BTreeMap<String, Credential>,
    /// Finds values of any length and in any case, because a host name may contain them in another
    /// case.
    values: Option<AhoCorasick>,
    /// Finds the values of at least [`MIN_BLOTTED_BYTES`] in all their spellings, for redaction
    /// from responses.
    spellings: Option<AhoCorasick>,
}

impl Credentials {
    /// Collects credentials. Fails if two have the same name.
    pub fn new(credentials: Vec<Credential>) -> Result<Self, BadCredential> {
        let mut by_name = BTreeMap::new();
        let (mut values, mut spellings) = (BTreeSet::new(), BTreeSet::new());
        for credential in credentials {
            let value = credential.value.expose();
            values.insert(value.to_owned());
            if value.len() >= MIN_BLOTTED_BYTES {
                spellings.extend(spelling::of(value));
            }
            if let Some(double) = by_name.insert(credential.name.clone(), credential) {
                return Err(BadCredential::Duplicate { name: double.name });
            }
        }
        Ok(Self { by_name, values: search(&values, true)?, spellings: search(&spellings, false)? })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Credential> {
        self.by_name.get(name)
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
        let is_behind_escapes = |is_form| {
            let undone = iter::successors(spelling::undo(text, is_form), |text| {
                spelling::undo(text, is_form)
            });
            undone.take(MAX_UNDONE).any(|text| values.is_match(&text))
        };
        values.is_match(text) || is_behind_escapes(false) || is_behind_escapes(true)
    }

    /// Returns a text for the operator's log in which each byte of a value is replaced by `*`,
    /// whatever the length and case of the value.
    pub(super) fn blotted(&self, text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        blot(self.values.as_ref(), &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Redacts the values: each byte becomes `*`. A server that echoes a request therefore does not
    /// show them to the guest. This is the second line of defence: a server that encodes or
    /// compresses the echo bypasses it. The first is the audience.
    pub(super) fn blot(&self, bytes: &mut [u8]) {
        blot(self.spellings.as_ref(), bytes);
    }
}

/// Builds the search for `texts`; `None` if there are none. A DFA, which would be chosen for so
/// few, takes tens of megabytes for the spellings of a long value.
fn search(
    texts: &BTreeSet<String>,
    in_any_case: bool,
) -> Result<Option<AhoCorasick>, BadCredential> {
    let mut builder = AhoCorasick::builder();
    builder
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .match_kind(MatchKind::LeftmostLongest)
        .ascii_case_insensitive(in_any_case);
    (!texts.is_empty()).then(|| builder.build(texts)).transpose().map_err(BadCredential::Search)
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
mod tests {
    use super::*;

    const VALUE: &str = "s3cret/&value";

    fn credential(injection: Injection) -> Credential {
        Credential::new(
            "token",
            Secret::new(VALUE),
            injection,
            vec!["https://x.com GET /**".parse().unwrap()],
        )
        .unwrap()
    }

    #[test]
    fn an_invalid_credential_is_reported_without_its_value() {
        let header = |name, prefix| Injection::header(name, prefix).unwrap_err().to_string();
        insta::assert_snapshot!(header("a b", ""), @r#"found the header "a b", expected a header's name such as authorization that is not the host's own to set"#);
        insta::assert_snapshot!(header("Host", ""), @r#"found the header "Host", expected a header's name such as authorization that is not the host's own to set"#);
        insta::assert_snapshot!(header("x-key", "a\n"), @r#"found the prefix "a\n", expected printable ASCII such as "Bearer ""#);
        for prefix in ["NTLM ", " negotiate ", "Negotiate"] {
            insta::allow_duplicates! {
                insta::assert_snapshot!(header("Authorization", prefix), @"found the scheme NTLM or Negotiate, expected one that is for a single request such as Bearer");
            }
        }
        for (prefix, value, fine) in
            [("", "NTLM abcd", false), ("Nego", "tiate abcd", false), ("Bearer ", "NTLM", true)]
        {
            let injection = Injection::header("authorization", prefix).unwrap();
            assert_eq!(
                Credential::new("token", Secret::new(value), injection, Vec::new()).is_ok(),
                fine,
                "{prefix}{value}"
            );
        }
        insta::assert_snapshot!(Injection::query("").unwrap_err(), @"found an empty query parameter, expected a name such as api_key");
        for bad in ["", "a\r\nb", "é", " a", "a ", &"a".repeat(MAX_VALUE_BYTES + 1)] {
            let error = Credential::new(
                "token",
                Secret::new(bad),
                Injection::query("key").unwrap(),
                Vec::new(),
            )
            .unwrap_err();
            insta::allow_duplicates! {
                insta::assert_snapshot!(error, @r#"the value of "token" must have 1 to 8192 bytes, all of them printable ASCII"#);
            }
        }
        let longest = Secret::new("a".repeat(MAX_VALUE_BYTES));
        assert!(
            Credential::new("token", longest, Injection::query("key").unwrap(), Vec::new()).is_ok()
        );
        let two = vec![
            credential(Injection::query("a").unwrap()),
            credential(Injection::query("b").unwrap()),
        ];
        insta::assert_snapshot!(Credentials::new(two).unwrap_err(), @r#"there are two credentials named "token""#);
    }

    #[test]
    fn debug_output_of_credentials_and_headers_hides_the_value() {
        for injection in [
            Injection::header("authorization", "Bearer ").unwrap(),
            Injection::query("key").unwrap(),
        ] {
            let credentials = Credentials::new(vec![credential(injection)]).unwrap();
            let (mut url, mut headers) =
                (Url::parse("https://x.com/a?b=c").unwrap(), HeaderMap::new());
            credentials.get("token").unwrap().attach(&mut url, &mut headers);
            assert!(
                !format!("{credentials:?} {headers:?}").contains("s3cret"),
                "{credentials:?} {headers:?}"
            );
        }
    }

    #[test]
    fn a_credential_is_attached_to_its_header_or_query_parameter() {
        let (mut url, mut headers) =
            (Url::parse("https://x.com/a?b=%63").unwrap(), HeaderMap::new());
        credential(Injection::header("Authorization", "Bearer ").unwrap())
            .attach(&mut url, &mut headers);
        credential(Injection::query("api key").unwrap()).attach(&mut url, &mut headers);
        assert_eq!(headers["authorization"], "Bearer s3cret/&value");
        assert_eq!(url.as_str(), "https://x.com/a?b=%63&api+key=s3cret%2F%26value");
    }

    #[test]
    fn detaching_removes_only_the_parameter_that_holds_the_value() {
        let credential = credential(Injection::query("key").unwrap());
        for (url, without) in [
            ("https://x.com/?key=s3cret%2F%26value", "https://x.com/"),
            ("https://x.com/?a=%62&key=s3cret/%26value&c", "https://x.com/?a=%62&c"),
            ("https://x.com/?a&k%65y=s3cret%2f%26value&key=other", "https://x.com/?a&key=other"),
            ("https://x.com/?", "https://x.com/?"),
            ("https://x.com/?a&&b", "https://x.com/?a&&b"),
            ("https://x.com/key=s3cret", "https://x.com/key=s3cret"),
        ] {
            let mut target = Target::parse(url).unwrap();
            credential.detach(&mut target);
            assert_eq!(target.url().as_str(), without);
        }
    }

    #[test]
    fn redaction_keeps_the_length_of_a_value() {
        let credentials =
            Credentials::new(vec![credential(Injection::query("key").unwrap())]).unwrap();
        let mut body =
            b"<s3cret/&value> ?key=s3cret%2F%26value s3cret%2f%26value s3cret/%26value s3cret"
                .to_vec();
        credentials.blot(&mut body);
        let stars = "*".repeat(17);
        assert_eq!(
            String::from_utf8(body).unwrap(),
            format!("<*************> ?key={stars} {stars} *************** s3cret")
        );
        let short = Credential::new(
            "short",
            Secret::new("1234567"),
            Injection::query("k").unwrap(),
            Vec::new(),
        )
        .unwrap();
        let mut body = b"1234567".to_vec();
        let credentials = Credentials::new(vec![short]).unwrap();
        credentials.blot(&mut body);
        assert_eq!(body, b"1234567");
        assert_eq!(credentials.blotted("a 1234567"), "a *******", "the log shows none");
        assert_eq!(Credentials::default().blotted("a 1234567"), "a 1234567");
    }

    #[test]
    fn values_are_found_in_every_spelling_and_at_every_length() {
        let credentials =
            Credentials::new(vec![credential(Injection::query("key").unwrap())]).unwrap();
        for text in [
            "s3cret/&value",
            "/x/s3cret%2F%26value",
            "s3cret%2f&v%61lue",
            "S3CRET/&VALUE",
            "s3cret%25252F%252526value",
        ] {
            assert!(credentials.occur_in(text.as_bytes()), "{text}");
        }
        for text in ["", "/x/s3cret", "s3cret%2F value", "%"] {
            assert!(!credentials.occur_in(text.as_bytes()), "{text}");
        }
        let short = Credential::new(
            "short",
            Secret::new("a +"),
            Injection::query("k").unwrap(),
            Vec::new(),
        )
        .unwrap();
        let credentials = Credentials::new(vec![short]).unwrap();
        for (text, found) in [("a +", true), ("?a+%2B", true), ("?a%20+", true), ("?a++", false)] {
            assert_eq!(credentials.occur_in(text.as_bytes()), found, "{text}");
        }
        assert!(!Credentials::default().occur_in(b"a +"));
    }
}
