//! The requests that one caller may send, and the bounds on them. Pure: a decision depends only on
//! the rules and the request.

use std::{fmt, time::Duration};

use airlock_core::limit::{Limit, saturating_u32, saturating_usize};
use http::Method;

use super::{
    rule::{BadRule, Rule},
    target::Target,
};

/// Maximum rules on one side of a policy.
const MAX_RULES: usize = 64;

/// Bounds on the requests and responses of one call. There is no `Default`, so that the bounds are
/// always chosen explicitly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum requests of one call, redirects and refused requests included.
    pub requests: u32,
    /// Maximum requests of one call in flight.
    pub in_flight: usize,
    /// Maximum bytes of a request's body.
    pub request_bytes: usize,
    /// Maximum bytes of a response's body.
    pub response_bytes: usize,
    /// Maximum bytes of all names and values of a response's headers.
    pub response_header_bytes: usize,
    /// Time limit for one exchange: resolving, connecting, redirects and reading the body. If less
    /// is left of the call, the limit is nine tenths of it, or 1 s less if that is more.
    pub timeout: Duration,
    /// Maximum consecutive redirects.
    pub redirects: u32,
}

impl Bounds {
    /// Bounds on a plugin's call, unless the operator sets others.
    pub const PLUGIN: Self = Self {
        requests: saturating_u32(Limit::HttpRequests.default_amount()),
        in_flight: 8,
        request_bytes: saturating_usize(Limit::HttpRequest.default_amount()),
        response_bytes: saturating_usize(Limit::HttpResponse.default_amount()),
        response_header_bytes: 64 << 10,
        timeout: Duration::from_nanos(Limit::HttpTimeout.default_amount()),
        redirects: saturating_u32(Limit::HttpRedirects.default_amount()),
    };
}

/// The requests that one caller may send: those that it asks for and that its operator grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    requested: Option<Vec<Rule>>,
    granted: Vec<Rule>,
    bounds: Bounds,
}

/// Conditions under which a permitted request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Permit {
    /// True if its host may be in a private network or on this machine.
    pub(super) private: bool,
    /// True if only wildcard rules match the request, so that the number of such hosts is
    /// unlimited.
    pub(super) any_host: bool,
}

/// Side of a policy that has no rule for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Request,
    Grant,
}

impl Policy {
    /// Combines both sides. `requested` is `None` if there is no manifest; then the granted rules
    /// alone decide. Fails if a side has too many rules.
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

    /// Returns a policy that permits no request.
    pub fn closed() -> Self {
        Self { requested: None, granted: Vec::new(), bounds: Bounds::PLUGIN }
    }

    /// Returns the bounds on requests and responses.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Decides on a request: it is permitted if a rule of each side matches it. It is private if a
    /// matching rule of each side is private. Fails with the side that has no matching rule.
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
            Self::Request => "the manifest does not request this",
            Self::Grant => "the operator does not grant this",
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
    fn a_request_is_permitted_only_if_a_rule_of_each_side_matches() {
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
    fn a_request_is_private_only_if_both_sides_have_a_private_rule() {
        let (public, private) = ("http://x.com GET /**", "http://x.com GET /** private");
        let is_private = |requested: Option<&[&str]>, granted: &[&str]| {
            decide(requested, granted, "http://x.com/").map(|permit| permit.private)
        };
        assert_eq!(is_private(Some(&[private]), &[private]), Ok(true));
        assert_eq!(is_private(Some(&[public, private]), &[private, public]), Ok(true));
        assert_eq!(is_private(Some(&[public]), &[private]), Ok(false));
        assert_eq!(is_private(Some(&[private]), &[public]), Ok(false));
        assert_eq!(is_private(None, &[private]), Ok(true));
        // `private` on a rule that does not match has no effect.
        assert_eq!(
            is_private(
                None,
                &[public, "http://y.com GET /** private", "http://x.com POST /** private"]
            ),
            Ok(false)
        );
    }

    #[test]
    fn the_number_of_hosts_is_limited_if_one_side_names_them() {
        let (wide, narrow) = ("https://*.x.com GET /**", "https://a.x.com GET /**");
        let any_host = |requested: Option<&[&str]>, granted: &[&str]| {
            decide(requested, granted, "https://a.x.com/").unwrap().any_host
        };
        assert!(any_host(Some(&[wide]), &[wide]) && any_host(None, &[wide]));
        assert!(!any_host(Some(&[narrow]), &[wide]) && !any_host(Some(&[wide]), &[wide, narrow]));
    }

    #[test]
    fn more_than_64_rules_on_one_side_are_refused() {
        let many = |count| vec!["https://x.com GET /".parse().unwrap(); count];
        assert!(Policy::new(Some(many(64)), many(64), Bounds::PLUGIN).is_ok());
        for (requested, granted) in [(65, 1), (1, 65)] {
            let error =
                Policy::new(Some(many(requested)), many(granted), Bounds::PLUGIN).unwrap_err();
            assert_eq!(error.to_string(), "found 65 rules, expected at most 64");
        }
    }
}
