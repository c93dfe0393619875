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
    rule::{BadRule, ExcludedPart, Rule},
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
pub(super) enum MissingRule {
    /// The plugin requests nothing on the host.
    Request,
    /// The plugin requests something on the host under this name, and its author's own rule excludes
    /// this request.
    Part {
        name: String,
        excluded: ExcludedPart,
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
    pub(super) fn decide(&self, target: &Target, method: &Method) -> Result<Permit, MissingRule> {
        let requested = match &self.requested {
            Some(requested) => {
                let permit = side(requested.values().flatten(), target, method);
                Some(permit.ok_or_else(|| unrequested(requested, target, method))?)
            }
            None => None,
        };
        let granted = side(self.granted.iter(), target, method).ok_or(MissingRule::Grant)?;
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
    ) -> Result<(), MissingRule> {
        match &self.scope {
            Some(scope) if !audience.is_empty() => scope.check_audience(audience, target, method),
            _ => Ok(()),
        }
    }
}

impl DeclaredScope {
    fn decide(&self, target: &Target, method: &Method) -> Result<Permit, MissingRule> {
        let rules = self.declared.iter().filter_map(|name| self.destinations.get(name)).flatten();
        side(rules, target, method).ok_or_else(|| {
            let mut names = self.destinations.keys();
            names
                .find(|name| self.is_for(name, target, method))
                .map_or(MissingRule::Request, |name| MissingRule::Declaration(name.clone()))
        })
    }

    fn check_audience(
        &self,
        audience: &BTreeSet<String>,
        target: &Target,
        method: &Method,
    ) -> Result<(), MissingRule> {
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
                Err(MissingRule::Declaration((*first).clone()))
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
fn unrequested(requested: &Destinations, target: &Target, method: &Method) -> MissingRule {
    let rules =
        requested.iter().flat_map(|(name, rules)| rules.iter().map(move |rule| (name, rule)));
    let on_host = rules.filter_map(|(name, rule)| Some((rule.excluded(target, method)?, name)));
    let nearest = on_host.min_by_key(|(excluded, _)| *excluded);
    nearest.map_or(MissingRule::Request, |(excluded, name)| MissingRule::Part {
        name: name.clone(),
        excluded,
    })
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

impl fmt::Display for MissingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("the manifest does not request this"),
            Self::Part { name, excluded: ExcludedPart::Path } => {
                write!(
                    f,
                    "the plugin's own request.http.{name} excludes the path by its `url` or `paths`"
                )
            }
            Self::Part { name, excluded: ExcludedPart::Method } => {
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
mod tests;
