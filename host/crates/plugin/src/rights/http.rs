//! The network destinations that a plugin may send requests to.

use super::{Intersection, Reason, list};
use crate::{Grant, HttpGrant, HttpRequest, Request};
use airlock_egress::{Destinations, Policy, Rule};

/// Returns the operator's rules that a request for any host stands for: those that no request with a
/// host of its own contains. `named` are the rules of the requests with a host.
pub(crate) fn of_any_host<'g>(grant: &'g Grant, named: &[Rule]) -> Vec<&'g Rule> {
    let own = grant.http.iter().filter_map(|grant| match grant {
        HttpGrant::Rule(rule) if !named.iter().any(|named| named.contains(rule)) => Some(rule),
        _ => None,
    });
    own.collect()
}

impl Intersection<'_> {
    pub(super) fn http(&mut self) -> Option<Policy> {
        let mut named = Vec::new();
        let mut granted = Vec::new();
        for (index, grant) in self.grant.http.iter().enumerate() {
            let key = format!("grants.http[{index}]");
            let Some(rule) = self.rule(&key, grant) else { continue };
            granted.extend(self.is_open(&key, grant, &rule).then(|| rule.clone()));
            named.push(rule);
        }
        let requests = self.requests.into_iter().flat_map(|requests| &requests.http);
        for (name, request) in requests {
            // A rule that the profile does not permit is granted too, and reported above.
            self.note_http(name, request, &named);
        }
        if granted.is_empty() {
            return None;
        }
        // A request that leaves the choice to the operator covers everything that is granted,
        // private networks included.
        let requested = self.requests.and_then(|requests| {
            let destinations = requests
                .http
                .iter()
                .map(|(name, request)| Some((name.clone(), vec![request.rule().ok().flatten()?])));
            destinations.collect::<Option<Destinations>>()
        });
        let bounds = self.bounds();
        Policy::new(requested, granted, bounds)
            .map_err(|error| self.refuse("grants.http", error.to_string()))
            .ok()
    }

    /// Returns the rules of each requested destination. A request that leaves the choice to the
    /// operator stands for the operator's own rules, and not for the other requests that are granted
    /// by name or by a narrower rule.
    pub(super) fn destinations(&self) -> Destinations {
        let own = self.own_rules();
        let requests = self.requests.into_iter().flat_map(|requests| &requests.http);
        let destinations = requests.map(|(name, request)| {
            let rules = match request.rule() {
                Ok(Some(rule)) => vec![rule],
                Ok(None) => own.clone(),
                // The manifest was checked when it was parsed.
                Err(_) => Vec::new(),
            };
            (name.clone(), rules)
        });
        destinations.collect()
    }

    /// Returns the operator's rules that a request for any host stands for.
    pub(super) fn own_rules(&self) -> Vec<Rule> {
        let requests = self.requests.into_iter().flat_map(|requests| requests.http.values());
        let named: Vec<_> = requests.filter_map(|request| request.rule().ok().flatten()).collect();
        of_any_host(self.grant, &named).into_iter().cloned().collect()
    }

    /// Returns the rule of a grant; `None` if it names a request that has no rule.
    pub(super) fn named_rule(&self, grant: &HttpGrant) -> Option<Rule> {
        match grant {
            HttpGrant::Rule(rule) => Some(rule.clone()),
            HttpGrant::Requested(name) => self.requests?.http.get(name)?.rule().ok().flatten(),
        }
    }

    fn note_http(&mut self, name: &str, request: &HttpRequest, granted: &[Rule]) {
        let (is_granted, right, remedy) = match request.rule() {
            Ok(Some(rule)) => (
                granted.iter().any(|granted| granted.shares_host(&rule)),
                format!("http.{name} ({rule})"),
                format!("grant it with \"http\": [{name:?}]"),
            ),
            Ok(None) => (
                !granted.is_empty(),
                format!("http.{name} (hosts of your choice)"),
                "grant hosts with \"http\": [{\"url\": \"https://…\"}]".to_owned(),
            ),
            // The manifest was checked when it was parsed.
            Err(_) => return,
        };
        if !is_granted {
            self.missing(&right, Request::Http(name, request), &remedy);
        } else if let Ok(Some(rule)) = request.rule() {
            self.note_other_rules(name, &rule, granted);
        }
    }

    /// Notes both sides if no granted rule permits all that a request with a host is for.
    fn note_other_rules(&mut self, name: &str, requested: &Rule, granted: &[Rule]) {
        if granted.iter().any(|rule| rule.contains(requested)) {
            return;
        }
        let own = granted.iter().filter(|rule| rule.shares_host(requested));
        let granted = own.map(Rule::to_string).collect::<Vec<_>>().join(", ");
        self.notes
            .push(format!("http.{name} is granted for {granted}; the plugin requests {requested}"));
    }

    /// Returns the rule of a grant; `None` if it is refused.
    pub(super) fn granted_rule(&mut self, key: &str, grant: &HttpGrant) -> Option<Rule> {
        self.rule(key, grant).filter(|rule| self.is_open(key, grant, rule))
    }

    fn rule(&mut self, key: &str, grant: &HttpGrant) -> Option<Rule> {
        match grant {
            HttpGrant::Rule(rule) => Some(rule.clone()),
            HttpGrant::Requested(name) => self.requested_rule(key, name),
        }
    }

    /// Returns whether the profile permits the rule of a grant.
    fn is_open(&mut self, key: &str, grant: &HttpGrant, rule: &Rule) -> bool {
        let limit = match (rule.is_private(), rule.is_encrypted()) {
            _ if self.profile().opens_private_network() => return true,
            (true, _) => "does not open private networks",
            (false, false) => "does not open HTTP without TLS",
            (false, true) => return true,
        };
        let request = match grant {
            HttpGrant::Requested(name) => Some(format!("http.{name}")),
            HttpGrant::Rule(_) => None,
        };
        let key = key.to_owned();
        let profile = self.profile();
        self.refusals.push(Reason::Profile { key, request, limit, profile });
        false
    }

    fn requested_rule(&mut self, key: &str, name: &str) -> Option<Rule> {
        let requests = self.requests.map(|requests| &requests.http);
        let request = requests.and_then(|requests| requests.get(name));
        let rule = request.and_then(|request| request.rule().ok().flatten());
        if rule.is_none() {
            let reason = if request.is_some() {
                format!(
                    "the request {name:?} of the plugin leaves the host to you; grant a rule in its \
                     place, such as {{\"url\": \"https://api.example.com\"}}"
                )
            } else {
                let names: Vec<_> =
                    requests.into_iter().flat_map(|requests| requests.keys().cloned()).collect();
                format!("found {name:?}; the plugin requests {}", list(&names))
            };
            self.refuse(key, reason);
        }
        rule
    }
}
