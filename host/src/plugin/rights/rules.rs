//! Relations between two rules, decided on their text. The text is canonical: equal texts are equal
//! rules.

use crate::egress::Rule;

/// Returns whether two rules share a host, so that the grant of one satisfies the request for the
/// other.
pub(super) fn meet(granted: &Rule, asked: &Rule) -> bool {
    let (granted, asked) = (granted.to_string(), asked.to_string());
    let origin = |text: &str| text.split(' ').next().unwrap_or_default().to_owned();
    narrower(&origin(&granted), &origin(&asked), is_below).is_some()
}

/// Returns a rule for the requests that both rules match, and no others. Of two paths the narrower
/// one is kept; two paths of which neither contains the other have no overlap here.
pub(super) fn overlap(one: &Rule, other: &Rule) -> Option<Rule> {
    let private = one.is_private() && other.is_private();
    let (one, other) = (one.to_string(), other.to_string());
    let (one, other) = (parts(&one)?, parts(&other)?);
    let origin = narrower(one.origin, other.origin, is_below)?;
    let methods: Vec<_> =
        one.methods.iter().copied().filter(|method| other.methods.contains(method)).collect();
    let mut paths = Vec::new();
    for path in &one.paths {
        paths.extend(other.paths.iter().filter_map(|other| narrower(path, other, is_within)));
    }
    paths.sort_unstable();
    paths.dedup();
    // `Rule::new` would replace an empty list by the default methods or by all paths.
    if methods.is_empty() || paths.is_empty() {
        None
    } else {
        Rule::new(origin, &methods, &paths, private).ok()
    }
}

struct Parts<'a> {
    origin: &'a str,
    methods: Vec<&'a str>,
    paths: Vec<&'a str>,
}

fn parts(rule: &str) -> Option<Parts<'_>> {
    let mut words = rule.split(' ');
    let (origin, methods, paths) = (words.next()?, words.next()?, words.next()?);
    Some(Parts { origin, methods: methods.split(',').collect(), paths: paths.split(',').collect() })
}

/// Returns the narrower of two texts if they are equal or one contains the other.
fn narrower<'a>(one: &'a str, other: &'a str, is_in: fn(&str, &str) -> bool) -> Option<&'a str> {
    if one == other || is_in(one, other) { Some(one) } else { is_in(other, one).then_some(other) }
}

/// Returns whether an origin is below an origin of the form `https://*.example.com`.
fn is_below(narrow: &str, wide: &str) -> bool {
    wide.split_once("*.").is_some_and(|(scheme, domain)| {
        narrow.starts_with(scheme) && narrow.ends_with(&format!(".{domain}"))
    })
}

/// Returns whether every path of a pattern is also matched by `wide`, a pattern of the form
/// `/v1/**`.
fn is_within(narrow: &str, wide: &str) -> bool {
    let rest = wide.strip_suffix("/**").and_then(|directory| narrow.strip_prefix(directory));
    rest.is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn an_overlap_keeps_only_requests_that_both_rules_match() {
        for (one, other, both) in [
            ("https://a.com GET /**", "https://a.com GET /**", "https://a.com GET /**"),
            (
                "https://*.a.com GET /**",
                "https://x.a.com GET,POST /v1/**",
                "https://x.a.com GET /v1/**",
            ),
            ("https://*.a.com GET /**", "https://*.x.a.com GET /**", "https://*.x.a.com GET /**"),
            (
                "https://a.com GET,HEAD /**",
                "https://a.com GET,POST /v1/**,/user",
                "https://a.com GET /user,/v1/**",
            ),
            (
                "https://a.com GET /v1/**",
                "https://a.com GET /v1/**/x,/v1/",
                "https://a.com GET /v1/,/v1/**/x",
            ),
            ("https://a.com:8443 GET /**", "https://*.com.example GET /**", ""),
            ("https://a.com GET /**", "http://a.com GET /**", ""),
            ("https://a.com GET /**", "https://a.com:8443 GET /**", ""),
            ("https://*.a.com GET /**", "https://a.com GET /**", ""),
            ("https://*.a.com GET /**", "https://xa.com GET /**", ""),
            ("https://a.com GET /**", "https://a.com POST /**", ""),
            ("https://a.com GET /v1/**", "https://a.com GET /v1,/v10/x,/v2/**", ""),
        ] {
            let expected = (!both.is_empty()).then(|| rule(both));
            assert_eq!(overlap(&rule(one), &rule(other)), expected, "{one} and {other}");
            assert_eq!(overlap(&rule(other), &rule(one)), expected, "{other} and {one}");
        }
        let (open, closed) = (rule("https://a.com GET /** private"), rule("https://a.com GET /**"));
        assert_eq!(
            (overlap(&open, &open), overlap(&open, &closed)),
            (Some(open.clone()), Some(closed))
        );
    }
}
