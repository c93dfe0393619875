//! The places on the network that a plugin may send requests to.

use super::{Intersection, list};
use crate::{
    egress::{Policy, Rule},
    plugin::{HttpGrant, HttpRequest, Request},
};

impl Intersection<'_> {
    pub(super) fn http(&mut self) -> Option<Policy> {
        let mut granted = Vec::new();
        for (index, grant) in self.grant.http.iter().enumerate() {
            let key = format!("grants.http[{index}]");
            granted.extend(self.granted_rule(&key, grant));
        }
        let requests = self.requests.into_iter().flat_map(|requests| &requests.http);
        for (name, request) in requests {
            self.note_missing_http(name, request, &granted);
        }
        if granted.is_empty() {
            return None;
        }
        // A request that leaves the choice to the operator covers everything that is granted,
        // private networks included.
        let requested = self.requests.and_then(|requests| {
            let rules = requests.http.values().map(|request| request.rule().ok().flatten());
            rules.collect::<Option<Vec<_>>>()
        });
        let bounds = self.bounds();
        Policy::new(requested, granted, bounds)
            .map_err(|error| self.refusals.push(format!("grants.http: {error}")))
            .ok()
    }

    fn note_missing_http(&mut self, name: &str, request: &HttpRequest, granted: &[Rule]) {
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
        }
    }

    /// Returns the rule of a grant; `None` if it is refused.
    pub(super) fn granted_rule(&mut self, key: &str, grant: &HttpGrant) -> Option<Rule> {
        let rule = match grant {
            HttpGrant::Rule(rule) => rule.clone(),
            HttpGrant::Requested(name) => self.requested_rule(key, name)?,
        };
        let is_open = rule.is_private() || !rule.is_encrypted();
        if is_open && !self.profile().opens_private_network() {
            let opened = if rule.is_private() { "private networks" } else { "HTTP without TLS" };
            let profile = self.profile().name();
            self.refusals.push(format!(
                "{key}: the profile {profile:?} does not open {opened}; \"profile\": \"trusted\" does"
            ));
            return None;
        }
        Some(rule)
    }

    fn requested_rule(&mut self, key: &str, name: &str) -> Option<Rule> {
        let requests = self.requests.map(|requests| &requests.http);
        let request = requests.and_then(|requests| requests.get(name));
        let rule = request.and_then(|request| request.rule().ok().flatten());
        if rule.is_none() {
            let names: Vec<_> = requests.into_iter().flat_map(|it| it.keys().cloned()).collect();
            self.refusals
                .push(format!("{key}: found {name:?}; the plugin requests {}", list(&names)));
        }
        rule
    }
}
