//! The requests that one caller may send, and the bounds on them. Pure: a decision depends only on
//! the rules and the request.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use airlock_core::limit::{GuestLimit, saturating_u32, saturating_usize};
use http::Method;

use super::{
    rule::{BadRule, Excluded, Rule},
    target::Target,
};

/// Maximum number of rules on one side of a policy. Each request is compared with all of them, and an
/// operator decides about each.
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
        requests: saturating_u32(GuestLimit::HttpRequests.default_amount()),
        in_flight: 8,
        request_bytes: saturating_usize(GuestLimit::HttpRequest.default_amount()),
        response_bytes: saturating_usize(GuestLimit::HttpResponse.default_amount()),
        response_header_bytes: 64 << 10,
        timeout: Duration::from_nanos(GuestLimit::HttpTimeout.default_amount()),
        redirects: saturating_u32(GuestLimit::HttpRedirects.default_amount()),
    };
}

/// The requests that one caller may send: those that it asks for and that its operator grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    requested: Option<Arc<Destinations>>,
    granted: Arc<[Rule]>,
    bounds: Bounds,
    /// `None` if every destination may be used.
    scope: Option<DeclaredScope>,
}

/// Rules of the destinations that a plugin requests, by the names of the requests.
pub type Destinations = BTreeMap<String, Vec<Rule>>;

/// The destinations that one tool of a plugin may use.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DeclaredScope {
    /// Those of the whole plugin.
    destinations: Arc<Destinations>,
    /// Names of those that the tool declares.
    declared: BTreeSet<String>,
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

/// Part of a policy that has no rule for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Missing {
    /// The plugin requests nothing on the host.
    Request,
    /// The plugin requests something on the host under this name, and its author's own rule excludes
    /// this request.
    Part {
        name: String,
        excluded: Excluded,
    },
    Grant,
    /// The plugin may send the request, but the running tool does not declare the destination of
    /// this name.
    Declaration(String),
}

impl Policy {
    /// Combines both sides. `requested` is `None` if there is no manifest; then the granted rules
    /// alone decide. Fails if a side has too many rules.
    pub fn new(
        requested: Option<Destinations>,
        granted: Vec<Rule>,
        bounds: Bounds,
    ) -> Result<Self, BadRule> {
        let of_requests = requested.iter().flat_map(BTreeMap::values).map(Vec::len).sum();
        for found in [of_requests, granted.len()] {
            if found > MAX_RULES {
                return Err(BadRule::TooMany { what: "rules", found, limit: MAX_RULES });
            }
        }
        let requested = requested.map(Arc::new);
        Ok(Self { requested, granted: granted.into(), bounds, scope: None })
    }

    /// Returns a policy that permits no request.
    pub fn closed() -> Self {
        Self { requested: None, granted: Arc::default(), bounds: Bounds::PLUGIN, scope: None }
    }

    /// Returns the policy for a tool that declares only some `destinations` of its plugin. The rules
    /// are shared, because a plugin may have thousands of tools.
    #[must_use]
    pub fn narrowed(&self, destinations: &Arc<Destinations>, declared: &BTreeSet<String>) -> Self {
        let scope =
            DeclaredScope { destinations: destinations.clone(), declared: declared.clone() };
        Self { scope: Some(scope), ..self.clone() }
    }

    /// Returns the bounds on requests and responses.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Decides on a request: it is permitted if a rule of each side matches it. It is private if a
    /// matching rule of each side is private. The declared destinations of a tool are a third side.
    /// Fails with the side that has no matching rule. The requested side comes first: where it has
    /// none, no grant would help.
    pub(super) fn decide(&self, target: &Target, method: &Method) -> Result<Permit, Missing> {
        let requested = match &self.requested {
            Some(requested) => {
                let permit = side(requested.values().flatten(), target, method);
                Some(permit.ok_or_else(|| unrequested(requested, target, method))?)
            }
            None => None,
        };
        let granted = side(self.granted.iter(), target, method).ok_or(Missing::Grant)?;
        let permit = requested.map_or(granted, |requested| granted.and(requested));
        match &self.scope {
            None => Ok(permit),
            Some(scope) => scope.decide(target, method).map(|declared| permit.and(declared)),
        }
    }

    /// Returns the names of the `destinations` that a permitted request is within, of those that the
    /// running tool declares.
    pub(super) fn destinations_of<'d>(
        &self,
        destinations: &'d Destinations,
        target: &Target,
        method: &Method,
    ) -> Vec<&'d str> {
        let within = destinations.iter().filter(|(name, rules)| {
            self.scope.as_ref().is_none_or(|scope| scope.declared.contains(*name))
                && rules.iter().any(|rule| rule.matches(target, method))
        });
        within.map(|(name, _)| name.as_str()).collect()
    }

    /// Checks that the running tool declares a destination to which a credential may be sent with
    /// this request. `audience` has the names of the credential's destinations; it is empty if its
    /// rules alone decide.
    pub(super) fn check_audience(
        &self,
        audience: &BTreeSet<String>,
        target: &Target,
        method: &Method,
    ) -> Result<(), Missing> {
        match &self.scope {
            Some(scope) if !audience.is_empty() => scope.check_audience(audience, target, method),
            _ => Ok(()),
        }
    }
}

impl DeclaredScope {
    fn decide(&self, target: &Target, method: &Method) -> Result<Permit, Missing> {
        let rules = self.declared.iter().filter_map(|name| self.destinations.get(name)).flatten();
        side(rules, target, method).ok_or_else(|| {
            let mut names = self.destinations.keys();
            names
                .find(|name| self.is_for(name, target, method))
                .map_or(Missing::Request, |name| Missing::Declaration(name.clone()))
        })
    }

    fn check_audience(
        &self,
        audience: &BTreeSet<String>,
        target: &Target,
        method: &Method,
    ) -> Result<(), Missing> {
        let mut matching: Vec<_> =
            audience.iter().filter(|name| self.is_for(name, target, method)).collect();
        if matching.is_empty() {
            // The operator chose the hosts of one of them, and this one among them: of one that has
            // no rules of its own, if there is one.
            matching = audience
                .iter()
                .filter(|name| self.destinations.get(name.as_str()).is_none_or(Vec::is_empty))
                .collect();
        }
        if matching.is_empty() {
            matching = audience.iter().collect();
        }
        match matching.first() {
            Some(first) if !matching.iter().any(|name| self.declared.contains(*name)) => {
                Err(Missing::Declaration((*first).clone()))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether a request is within the destination of this name.
    fn is_for(&self, name: &str, target: &Target, method: &Method) -> bool {
        let mut rules = self.destinations.get(name).into_iter().flatten();
        rules.any(|rule| rule.matches(target, method))
    }
}

impl Permit {
    /// Returns the conditions of both.
    fn and(self, other: Self) -> Self {
        Self { private: self.private && other.private, any_host: self.any_host && other.any_host }
    }
}

/// Describes a request that no requested rule matches. Of several requests on the host, the one that
/// excludes only the path is named.
fn unrequested(requested: &Destinations, target: &Target, method: &Method) -> Missing {
    let rules =
        requested.iter().flat_map(|(name, rules)| rules.iter().map(move |rule| (name, rule)));
    let on_host = rules.filter_map(|(name, rule)| Some((rule.excluded(target, method)?, name)));
    let nearest = on_host.min_by_key(|(excluded, _)| *excluded);
    nearest
        .map_or(Missing::Request, |(excluded, name)| Missing::Part { name: name.clone(), excluded })
}

fn side<'r>(
    rules: impl Iterator<Item = &'r Rule>,
    target: &Target,
    method: &Method,
) -> Option<Permit> {
    let mut matching = rules.filter(|rule| rule.matches(target, method)).peekable();
    matching.peek()?;
    let closed = Permit { private: false, any_host: true };
    Some(matching.fold(closed, |permit, rule| Permit {
        private: permit.private || rule.is_private(),
        any_host: permit.any_host && rule.is_wildcard(),
    }))
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("the manifest does not request this"),
            Self::Part { name, excluded: Excluded::Path } => {
                write!(
                    f,
                    "the plugin's own request.http.{name} excludes the path by its `url` or `paths`"
                )
            }
            Self::Part { name, excluded: Excluded::Method } => {
                write!(
                    f,
                    "the plugin's own request.http.{name} excludes the method by its `methods`"
                )
            }
            Self::Grant => f.write_str("the operator does not grant this"),
            Self::Declaration(name) => {
                write!(f, "the tool does not declare the effect http.{name}")
            }
        }
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

    /// Returns a requested side with one request, `r`.
    fn requests(rules: Vec<Rule>) -> Destinations {
        [("r".to_owned(), rules)].into()
    }

    fn decide(requested: Option<&[&str]>, granted: &[&str], url: &str) -> Result<Permit, Missing> {
        let requested = requested.map(|texts| requests(rules(texts)));
        let policy = Policy::new(requested, rules(granted), Bounds::PLUGIN).unwrap();
        policy.decide(&Target::parse(url).unwrap(), &Method::GET)
    }

    #[test]
    fn a_request_is_permitted_only_if_a_rule_of_each_side_matches() {
        let wide = "https://*.x.com GET /**";
        let narrow = "https://api.x.com GET /v1/**";
        let inside = "https://api.x.com/v1/a";
        let outside = "https://api.x.com/v2";
        assert!(decide(Some(&[wide]), &[narrow], inside).is_ok());
        assert!(decide(Some(&[narrow]), &[wide], inside).is_ok());
        assert!(decide(None, &[narrow], inside).is_ok());
        assert_eq!(decide(Some(&[wide]), &[narrow], outside), Err(Missing::Grant));
        let excluded = Missing::Part { name: "r".to_owned(), excluded: Excluded::Path };
        assert_eq!(decide(Some(&[narrow]), &[wide], outside), Err(excluded));
        assert_eq!(decide(None, &[narrow], outside), Err(Missing::Grant));
        assert_eq!(decide(Some(&[]), &[wide], inside), Err(Missing::Request));
        assert_eq!(decide(Some(&[wide]), &[], inside), Err(Missing::Grant));
        assert_eq!(
            Policy::closed().decide(&Target::parse(inside).unwrap(), &Method::GET),
            Err(Missing::Grant)
        );
    }

    #[test]
    fn a_request_that_its_author_excludes_is_told_from_one_that_is_not_granted() {
        let requested: Destinations = [
            ("read", "https://api.x.com GET /v1/**"),
            ("send", "https://api.x.com POST /v1/send"),
            ("other", "https://*.y.com GET /**"),
        ]
        .map(|(name, rule)| (name.to_owned(), rules(&[rule])))
        .into();
        let v1 = "https://api.x.com/v1/a";
        // With and without a grant: none would help.
        for granted in [&[][..], &["https://api.x.com GET,POST,PUT /**"]] {
            assert_eq!(
                missing(&requested, granted, &Method::GET, "https://api.x.com/"),
                part("read", Excluded::Path)
            );
            assert_eq!(
                missing(&requested, granted, &Method::POST, v1),
                part("send", Excluded::Path)
            );
            assert_eq!(
                missing(&requested, granted, &Method::PUT, v1),
                part("read", Excluded::Method)
            );
            assert_eq!(
                missing(&requested, granted, &Method::PUT, "https://a.y.com/"),
                part("other", Excluded::Method)
            );
            for elsewhere in ["http://api.x.com/v1/a", "https://api.x.com:1/v1/a", "https://x.com"]
            {
                assert_eq!(
                    missing(&requested, granted, &Method::GET, elsewhere),
                    Missing::Request,
                    "{elsewhere}"
                );
            }
        }
        assert_eq!(
            missing(&requested, &["https://api.x.com GET /v2/**"], &Method::GET, v1),
            Missing::Grant
        );
    }

    fn missing(requested: &Destinations, granted: &[&str], method: &Method, url: &str) -> Missing {
        let policy = Policy::new(Some(requested.clone()), rules(granted), Bounds::PLUGIN);
        let missing = policy.unwrap().decide(&Target::parse(url).unwrap(), method);
        missing.unwrap_err()
    }

    fn part(name: &str, excluded: Excluded) -> Missing {
        Missing::Part { name: name.to_owned(), excluded }
    }

    #[test]
    fn a_request_is_private_only_if_both_sides_have_a_private_rule() {
        let public = "http://x.com GET /**";
        let private = "http://x.com GET /** private";
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

    fn is_private(requested: Option<&[&str]>, granted: &[&str]) -> Result<bool, Missing> {
        decide(requested, granted, "http://x.com/").map(|permit| permit.private)
    }

    #[test]
    fn the_number_of_hosts_is_limited_if_one_side_names_them() {
        let wide = "https://*.x.com GET /**";
        let narrow = "https://a.x.com GET /**";
        assert!(any_host(Some(&[wide]), &[wide]) && any_host(None, &[wide]));
        assert!(!any_host(Some(&[narrow]), &[wide]) && !any_host(Some(&[wide]), &[wide, narrow]));
    }

    fn any_host(requested: Option<&[&str]>, granted: &[&str]) -> bool {
        decide(requested, granted, "https://a.x.com/").unwrap().any_host
    }

    /// Returns a policy that grants three destinations to a plugin, two of them with the same host,
    /// for a tool that declares some of them.
    fn narrowed(declared: &[&str]) -> Policy {
        let destinations = [
            ("read", "https://api.x.com GET /**"),
            ("write", "https://api.x.com GET,POST /v1/** private"),
            ("other", "https://*.y.com GET /**"),
        ];
        let all = rules(&destinations.map(|(_, rule)| rule));
        let destinations = destinations.map(|(name, rule)| (name.to_owned(), rules(&[rule])));
        let policy = Policy::new(Some(requests(all.clone())), all, Bounds::PLUGIN).unwrap();
        let declared = declared.iter().map(|name| (*name).to_owned()).collect();
        policy.narrowed(&Arc::new(destinations.into()), &declared)
    }

    fn declaration(name: &str) -> Missing {
        Missing::Declaration(name.to_owned())
    }

    #[test]
    fn a_tool_that_declares_some_destinations_reaches_no_other_and_learns_which_one_to_declare() {
        let v1 = "https://api.x.com/v1/a";
        assert!(decide_declared(&["read"], &Method::GET, v1).is_ok());
        assert_eq!(decide_declared(&["read"], &Method::POST, v1), Err(declaration("write")));
        assert!(decide_declared(&["write"], &Method::POST, v1).is_ok());
        assert_eq!(
            decide_declared(&["write"], &Method::GET, "https://api.x.com/"),
            Err(declaration("read"))
        );
        for declared in [&["read", "write"][..], &[]] {
            let other = decide_declared(declared, &Method::GET, "https://a.y.com/");
            assert_eq!(other, Err(declaration("other")), "{declared:?}");
        }
        // A destination outside the requests is refused as ever.
        for declared in [&["other"][..], &["read"]] {
            let outside = decide_declared(declared, &Method::GET, "https://z.com/");
            assert_eq!(outside, Err(Missing::Request), "{declared:?}");
        }
    }

    fn decide_declared(declared: &[&str], method: &Method, url: &str) -> Result<Permit, Missing> {
        narrowed(declared).decide(&Target::parse(url).unwrap(), method)
    }

    #[test]
    fn a_request_is_within_every_declared_destination_that_has_a_rule_for_it() {
        let plugin = narrowed(&["read", "other"]);
        let destinations = plugin.scope.as_ref().unwrap().destinations.clone();
        let whole = Policy { scope: None, ..plugin.clone() };
        let v1 = "https://api.x.com/v1/a";
        assert_eq!(within(&destinations, &whole, &Method::GET, v1), "read write");
        assert_eq!(within(&destinations, &whole, &Method::POST, v1), "write");
        assert_eq!(within(&destinations, &plugin, &Method::GET, v1), "read");
        assert_eq!(within(&destinations, &plugin, &Method::GET, "https://a.y.com/"), "other");
    }

    fn within(destinations: &Destinations, policy: &Policy, method: &Method, url: &str) -> String {
        let target = Target::parse(url).unwrap();
        policy.destinations_of(destinations, &target, method).join(" ")
    }

    #[test]
    fn a_tool_has_only_the_private_networks_and_the_host_patterns_of_its_destinations() {
        let v1 = "https://api.x.com/v1/a";
        assert!(!permit(&["read"], v1).private);
        assert!(permit(&["write"], v1).private && permit(&["read", "write"], v1).private);
        assert!(permit(&["other"], "https://a.y.com/").any_host && !permit(&["read"], v1).any_host);
    }

    fn permit(declared: &[&str], url: &str) -> Permit {
        narrowed(declared).decide(&Target::parse(url).unwrap(), &Method::GET).unwrap()
    }

    #[test]
    fn a_credential_goes_only_to_a_declared_destination_of_its_audience() {
        // Both destinations permit the request; only one is of the audience.
        assert_eq!(check(&["read"], &["write"]), Err(declaration("write")));
        assert_eq!(check(&["write"], &["write"]), Ok(()));
        assert_eq!(check(&["read"], &["read", "write"]), Ok(()));
        // The operator chose this host for a destination without one.
        assert_eq!(check(&["other"], &["other"]), Ok(()));
        assert_eq!(check(&["read"], &["other"]), Err(declaration("other")));
        assert_eq!(check(&["other"], &["open", "other"]), Err(declaration("open")));
        assert_eq!(check(&["read"], &[]), Ok(()));
    }

    fn check(declared: &[&str], audience: &[&str]) -> Result<(), Missing> {
        let audience = audience.iter().map(|name| (*name).to_owned()).collect();
        let target = Target::parse("https://api.x.com/v1/a").unwrap();
        narrowed(declared).check_audience(&audience, &target, &Method::GET)
    }

    #[test]
    fn more_than_64_rules_on_one_side_are_refused() {
        assert!(Policy::new(Some(two_destinations(32, 32)), many(64), Bounds::PLUGIN).is_ok());
        for (requested, granted) in [(two_destinations(32, 33), 1), (two_destinations(1, 0), 65)] {
            let error = Policy::new(Some(requested), many(granted), Bounds::PLUGIN).unwrap_err();
            assert_eq!(error.to_string(), "found 65 rules, expected at most 64");
        }
    }

    fn many(count: usize) -> Vec<Rule> {
        vec!["https://x.com GET /".parse().unwrap(); count]
    }

    fn two_destinations(of_one: usize, of_other: usize) -> Destinations {
        [("one".to_owned(), many(of_one)), ("other".to_owned(), many(of_other))].into()
    }
}
