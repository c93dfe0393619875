//! What one caller may send, and how much of it. Pure: a decision depends on rules and request
//! alone.

use std::{fmt, time::Duration};

use http::Method;

use super::{
    rule::{BadRule, Rule},
    target::Target,
};

/// Rules on one side of a policy.
const MAX_RULES: usize = 64;

/// Bounds on what one call sends and takes in. There is no `Default`: somebody has to have said how
/// much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Requests of one call, redirects and refused ones included.
    pub requests: u32,
    /// Requests of one call that are on their way at the same time.
    pub in_flight: usize,
    /// Bytes of one request's body.
    pub request_bytes: usize,
    /// Bytes of one response's body.
    pub response_bytes: usize,
    /// Bytes of all names and values of one response's headers.
    pub response_header_bytes: usize,
    /// Time for one exchange: resolving, connecting, redirects and reading the body. A call's own
    /// deadline applies where it is sooner.
    pub timeout: Duration,
    /// Redirects in a row.
    pub redirects: u32,
}

impl Bounds {
    /// What a plugin's call gets where its operator says nothing else.
    pub const PLUGIN: Self = Self {
        requests: 20,
        in_flight: 8,
        request_bytes: 1 << 20,
        response_bytes: 8 << 20,
        response_header_bytes: 64 << 10,
        timeout: Duration::from_secs(30),
        redirects: 5,
    };
}

/// What one caller may send: what it asks for, as far as its operator grants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    requested: Option<Vec<Rule>>,
    granted: Vec<Rule>,
    bounds: Bounds,
}

/// How a permitted request may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permit {
    /// Whether its name may lead into private networks and to this machine.
    pub(super) private: bool,
    /// Whether only patterns let it out, so that there is no bound on the number of hosts like this
    /// one.
    pub(super) any_host: bool,
}

/// Which side of a policy does not let a request out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Request,
    Grant,
}

impl Policy {
    /// Joins both sides. Without a manifest there is nothing `requested`, and what is granted
    /// counts alone.
    pub fn new(
        requested: Option<Vec<Rule>>,
        granted: Vec<Rule>,
        bounds: Bounds,
    ) -> Result<Self, BadRule> {
        for rules in requested.iter().chain([&granted]) {
            if rules.len() > MAX_RULES {
                return Err(BadRule::TooMany {
                    what: "rules",
                    found: rules.len(),
                    limit: MAX_RULES,
                });
            }
        }
        Ok(Self { requested, granted, bounds })
    }

    /// A policy that lets nothing out.
    pub fn closed() -> Self {
        Self { requested: None, granted: Vec::new(), bounds: Bounds::PLUGIN }
    }

    /// Bounds on what is let out.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Decides on a request: one rule of each side has to match it. It is private where a matching
    /// rule of each side says so.
    pub(super) fn decide(&self, target: &Target, method: &Method) -> Result<Permit, Missing> {
        let granted = side(&self.granted, target, method).ok_or(Missing::Grant)?;
        let Some(requested) = &self.requested else { return Ok(granted) };
        let requested = side(requested, target, method).ok_or(Missing::Request)?;
        Ok(Permit {
            private: granted.private && requested.private,
            any_host: granted.any_host && requested.any_host,
        })
    }
}

fn side(rules: &[Rule], target: &Target, method: &Method) -> Option<Permit> {
    let mut matching = rules.iter().filter(|rule| rule.matches(target, method)).peekable();
    matching.peek()?;
    let closed = Permit { private: false, any_host: true };
    Some(matching.fold(closed, |permit, rule| Permit {
        private: permit.private || rule.is_private(),
        any_host: permit.any_host && rule.is_wildcard(),
    }))
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Request => "it does not ask for this",
            Self::Grant => "this is not granted",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> Vec<Rule> {
        texts
            .iter()
            .map(|text| text.parse().unwrap_or_else(|error| panic!("{text}: {error}")))
            .collect()
    }

    fn decide(requested: Option<&[&str]>, granted: &[&str], url: &str) -> Result<Permit, Missing> {
        let policy = Policy::new(requested.map(rules), rules(granted), Bounds::PLUGIN).unwrap();
        policy.decide(&Target::parse(url).unwrap(), &Method::GET)
    }

    #[test]
    fn a_request_leaves_only_where_both_sides_have_a_rule_for_it() {
        let (wide, narrow) = ("https://*.x.com GET /**", "https://api.x.com GET /v1/**");
        let (inside, outside) = ("https://api.x.com/v1/a", "https://api.x.com/v2");
        assert!(decide(Some(&[wide]), &[narrow], inside).is_ok());
        assert!(decide(Some(&[narrow]), &[wide], inside).is_ok());
        assert!(decide(None, &[narrow], inside).is_ok());
        assert_eq!(decide(Some(&[wide]), &[narrow], outside), Err(Missing::Grant));
        assert_eq!(decide(Some(&[narrow]), &[wide], outside), Err(Missing::Request));
        assert_eq!(decide(None, &[narrow], outside), Err(Missing::Grant));
        assert_eq!(decide(Some(&[]), &[wide], inside), Err(Missing::Request));
        assert_eq!(decide(Some(&[wide]), &[], inside), Err(Missing::Grant));
        assert_eq!(
            Policy::closed().decide(&Target::parse(inside).unwrap(), &Method::GET),
            Err(Missing::Grant)
        );
    }

    #[test]
    fn a_request_is_private_only_where_both_sides_say_so() {
        let (public, private) = ("http://x.com GET /**", "http://x.com GET /** private");
        let is_private = |requested: Option<&[&str]>, granted: &[&str]| {
            decide(requested, granted, "http://x.com/").map(|permit| permit.private)
        };
        assert_eq!(is_private(Some(&[private]), &[private]), Ok(true));
        assert_eq!(is_private(Some(&[public, private]), &[private, public]), Ok(true));
        assert_eq!(is_private(Some(&[public]), &[private]), Ok(false));
        assert_eq!(is_private(Some(&[private]), &[public]), Ok(false));
        assert_eq!(is_private(None, &[private]), Ok(true));
        // A rule for something else lends its `private` to nobody.
        assert_eq!(
            is_private(
                None,
                &[public, "http://y.com GET /** private", "http://x.com POST /** private"]
            ),
            Ok(false)
        );
    }

    #[test]
    fn hosts_are_countable_where_one_side_names_them() {
        let (wide, narrow) = ("https://*.x.com GET /**", "https://a.x.com GET /**");
        let any_host = |requested: Option<&[&str]>, granted: &[&str]| {
            decide(requested, granted, "https://a.x.com/").unwrap().any_host
        };
        assert!(any_host(Some(&[wide]), &[wide]) && any_host(None, &[wide]));
        assert!(!any_host(Some(&[narrow]), &[wide]) && !any_host(Some(&[wide]), &[wide, narrow]));
    }

    #[test]
    fn rules_are_counted() {
        let many = |count| vec!["https://x.com GET /".parse().unwrap(); count];
        assert!(Policy::new(Some(many(64)), many(64), Bounds::PLUGIN).is_ok());
        for (requested, granted) in [(65, 1), (1, 65)] {
            let error =
                Policy::new(Some(many(requested)), many(granted), Bounds::PLUGIN).unwrap_err();
            assert_eq!(error.to_string(), "found 65 rules, expected at most 64");
        }
    }
}
