//! The header `WWW-Authenticate`: how a registry asks for credentials.

/// A request for credentials. Those of other schemes are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Challenge {
    /// User and password.
    Basic,
    /// A token of the service at this URL.
    Bearer {
        /// URL of the service.
        realm: String,
        /// Name of the registry at the service.
        service: Option<String>,
    },
}

/// A challenge as it is written.
struct RawChallenge<'h> {
    scheme: &'h str,
    parameters: Vec<(&'h str, String)>,
}

/// Parses the value of a header, which may have several challenges. Ends at the first fault.
pub(crate) fn parse(header: &str) -> Vec<Challenge> {
    let mut raw: Vec<RawChallenge<'_>> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find(|c: char| !is_token_character(c)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        if token.is_empty() {
            break;
        }
        match after.strip_prefix('=') {
            None => {
                raw.push(RawChallenge { scheme: token, parameters: Vec::new() });
                rest = after;
            }
            Some(written) => {
                let Some((value, after)) = parameter_value(written) else { break };
                if let Some(challenge) = raw.last_mut() {
                    challenge.parameters.push((token, value));
                }
                rest = after;
            }
        }
    }
    raw.into_iter().filter_map(RawChallenge::known).collect()
}

impl RawChallenge<'_> {
    fn known(self) -> Option<Challenge> {
        if self.scheme.eq_ignore_ascii_case("basic") {
            return Some(Challenge::Basic);
        }
        if !self.scheme.eq_ignore_ascii_case("bearer") {
            return None;
        }
        Some(Challenge::Bearer {
            realm: self.parameter("realm")?.to_owned(),
            service: self.parameter("service").map(str::to_owned),
        })
    }

    fn parameter(&self, name: &str) -> Option<&str> {
        let mut parameters = self.parameters.iter();
        let found = parameters.find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// Splits a text after the value of a parameter, which is a token or is quoted. `None` if the quotes do
/// not end.
fn parameter_value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| !is_token_character(c)).unwrap_or(text.len());
        let (value, rest) = text.split_at(end);
        return Some((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((value, &quoted[at + 1..])),
            '\\' => value.push(characters.next()?.1),
            c => value.push(c),
        }
    }
    None
}

fn is_token_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(realm: &str, service: Option<&str>) -> Challenge {
        Challenge::Bearer { realm: realm.to_owned(), service: service.map(str::to_owned) }
    }

    #[test]
    fn challenges_of_known_schemes_are_parsed() {
        for (header, expected) in [
            (
                r#"Bearer realm="https://auth.example/token",service="r.example",scope="a:b:pull,push""#,
                vec![bearer("https://auth.example/token", Some("r.example"))],
            ),
            (r#"bearer Realm="https://a/""#, vec![bearer("https://a/", None)]),
            ("Basic realm=x", vec![Challenge::Basic]),
            (
                r#"Negotiate, Basic realm="a, b", Bearer realm="c\"d""#,
                vec![Challenge::Basic, bearer("c\"d", None)],
            ),
            // A service without a URL, quotes without an end, and no scheme.
            (r#"Bearer service="x""#, vec![]),
            (r#"Bearer realm="x"#, vec![]),
            (r#"realm="x""#, vec![]),
            ("", vec![]),
            ("\u{e9}", vec![]),
        ] {
            assert_eq!(parse(header), expected, "{header}");
        }
    }
}
