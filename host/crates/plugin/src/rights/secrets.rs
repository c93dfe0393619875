//! The secrets that a plugin may use: the HTTP requests that carry them, and the values that it may
//! read.

use std::collections::{BTreeMap, BTreeSet};

use super::{Intersection, ReadSecret, Reason, list};
use crate::{HttpGrant, Request, SecretGrant, SecretRequest};
use airlock_core::secret::{Scrubber, Secret};
use airlock_egress::{Credential, Credentials, Injection, Rule};

/// Granted secrets.
#[derive(Default)]
pub(super) struct SecretRights {
    pub(super) credentials: Credentials,
    pub(super) names: BTreeSet<String>,
    /// Values that the plugin may read.
    pub(super) revealed: BTreeMap<String, Secret>,
    pub(super) scrubber: Scrubber,
}

impl Intersection<'_> {
    pub(super) fn secret(&mut self, read: ReadSecret<'_>) -> SecretRights {
        let mut values = BTreeMap::new();
        let mut credentials = Vec::new();
        let mut parts: Vec<(&String, Secret)> = Vec::new();
        let mut revealed = BTreeMap::new();
        for (name, grant) in &self.grant.secret {
            let request = self.requests.and_then(|requests| requests.secret.get(name));
            if self.requests.is_some() && request.is_none() {
                self.unrequested(&format!("grants.secret.{name}"));
                continue;
            }
            let value = match read(&grant.source) {
                Ok(value) => value,
                Err(error) => {
                    let error = error.to_string();
                    self.refusals.push(Reason::NoValue { secret: name.clone(), error });
                    continue;
                }
            };
            if let Some(credential) = self.credential(name, grant, request, &value) {
                let new = credential.parts().into_iter().map(|part| (name, Secret::new(part)));
                parts.extend(new);
                credentials.push(credential);
            }
            if self.is_revealed(name, grant, request) {
                revealed.insert(name.clone(), value.clone());
            }
            values.insert(name.clone(), value);
        }
        self.note_missing_secrets();
        let credentials = Credentials::new(credentials)
            .map_err(|error| self.refuse("grants.secret", error.to_string()));
        let all = values.iter().map(|(name, value)| (name.as_str(), value));
        let parts = parts.iter().map(|(name, part)| (name.as_str(), part));
        let scrubber = Scrubber::new(all.chain(parts));
        let scrubber = scrubber.map_err(|error| self.refuse("grants.secret", error.to_string()));
        SecretRights {
            credentials: credentials.unwrap_or_default(),
            names: values.into_keys().collect(),
            revealed,
            scrubber: scrubber.unwrap_or_default(),
        }
    }

    fn note_missing_secrets(&mut self) {
        let grant = self.grant;
        let requests = self.requests.into_iter().flat_map(|requests| &requests.secret);
        for (name, request) in requests.filter(|(name, _)| !grant.secret.contains_key(*name)) {
            let request = Request::Secret(name, request);
            let remedy =
                format!("grant it with \"secret\": {{{name:?}: {{\"from\": \"env:NAME\"}}}}");
            self.missing(&request, request, &remedy);
        }
    }

    /// Returns the injection of a secret into requests; `None` if it is not injected. The audience
    /// is the requested one, in which a request for any host stands for the operator's own rules. If
    /// the operator names an audience too, it is the intersection of both.
    fn credential(
        &mut self,
        name: &str,
        grant: &SecretGrant,
        request: Option<&SecretRequest>,
        value: &Secret,
    ) -> Option<Credential> {
        let key = format!("grants.secret.{name}");
        let requested_injection = request
            .and_then(|request| request.inject.as_ref())
            .and_then(|inject| inject.injection().ok());
        let injection: Injection =
            requested_injection.or_else(|| grant.inject.clone().filter(|_| request.is_none()))?;
        let places = request.map(|request| self.requested_audience(request)).unwrap_or_default();
        // A requested place without a fixed host leaves the audience to the operator too.
        let is_open = request.is_none() || places.iter().any(Option::is_none);
        let requested: Vec<Rule> = places.into_iter().flatten().collect();
        let audience = match &grant.audience {
            Some(granted) => {
                self.granted_audience(&key, granted, (!is_open).then_some(requested.as_slice()))
            }
            None if is_open && request.is_some() => {
                requested.into_iter().chain(self.own_rules()).collect()
            }
            None if request.is_some() => requested,
            None => {
                let problem = "is required for a plugin that embeds no manifest";
                self.refuse(format!("{key}.audience"), problem);
                return None;
            }
        };
        self.note_unsendable(name, request, &audience);
        let made = Credential::new(name, value.clone(), injection, audience);
        let names = request.iter().flat_map(|request| &request.audience).cloned();
        let made = made.map(|credential| credential.for_destinations(names));
        made.map_err(|error| self.refuse(key, error.to_string())).ok()
    }

    /// Returns the places that a plugin requests to send a secret to; `None` for a place whose
    /// hosts are the operator's choice.
    fn requested_audience(&self, request: &SecretRequest) -> Vec<Option<Rule>> {
        let places = request.audience.iter().filter_map(|name| self.requests?.http.get(name));
        places.map(|place| place.rule().ok().flatten()).collect()
    }

    /// Notes a secret whose audience has no host that is granted, so that every request with it would
    /// be refused.
    fn note_unsendable(&mut self, name: &str, request: Option<&SecretRequest>, audience: &[Rule]) {
        let granted: Vec<_> =
            self.grant.http.iter().filter_map(|grant| self.named_rule(grant)).collect();
        if audience.iter().any(|rule| granted.iter().any(|granted| granted.shares_host(rule))) {
            return;
        }
        let places = request.map(|request| request.audience.as_slice()).unwrap_or_default();
        let places: Vec<_> = places.iter().map(|place| format!("http.{place}")).collect();
        let of_requests =
            if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
        self.notes.push(format!(
            "grants.secret.{name} is sent nowhere: no host of its audience{of_requests} is granted; \
             grant one with \"http\""
        ));
    }

    /// Returns the intersection of the granted and the requested audience: a secret is not sent to a
    /// place that only one of them names. If `requested` is `None`, all of the granted audience is
    /// returned.
    fn granted_audience(
        &mut self,
        key: &str,
        granted: &[HttpGrant],
        requested: Option<&[Rule]>,
    ) -> Vec<Rule> {
        let mut audience = Vec::new();
        for (index, grant) in granted.iter().enumerate() {
            let key = format!("{key}.audience[{index}]");
            let Some(rule) = self.granted_rule(&key, grant) else { continue };
            let Some(requested) = requested else {
                audience.push(rule);
                continue;
            };
            let both: Vec<_> =
                requested.iter().filter_map(|requested| rule.intersect(requested)).collect();
            if both.is_empty() {
                let requested: Vec<_> = requested.iter().map(Rule::to_string).collect();
                let requested = list(&requested);
                let problem = format!("found {rule}, the plugin asks to send it to {requested}");
                self.refuse(key, problem);
            }
            audience.extend(both);
        }
        audience
    }

    fn is_revealed(
        &mut self,
        name: &str,
        grant: &SecretGrant,
        request: Option<&SecretRequest>,
    ) -> bool {
        let key = format!("grants.secret.{name}.reveal");
        let wants = request.is_none_or(|request| request.reveal);
        match (grant.reveal, wants) {
            (true, false) => self.unrequested(&key),
            (true, true) if !self.profile().reveals_secrets() => {
                let request = Some(format!("secret.{name}"));
                let profile = self.profile();
                let limit = "shows no plugin a secret's value";
                self.refusals.push(Reason::Profile { key, request, limit, profile });
            }
            (true, true) => return true,
            (false, true) if request.is_some() => {
                self.notes.push(format!(
                    "{key} is not granted; the plugin requests the value of the secret"
                ));
            }
            (false, _) => {}
        }
        false
    }
}
