//! Whether a request is used, as far as the calls of a build show.
//!
//! Only what could be used is judged. A request that was not granted could not be, and a tool without
//! a successful call may need all that it declares.

use super::request_uses::RequestUses;
use airlock_plugin::{HttpRequest, Request, SecretRequest};
use airlock_sandbox::Use;

/// Use of a request by the calls of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UseStatus {
    Used,
    Unused,
    /// The calls could not use it, or a tool without a successful call may need it.
    Unknown,
}

impl<'a> RequestUses<'a> {
    pub(super) fn status(&self, request: Request<'a>) -> UseStatus {
        if !self.was_possible(request) || self.may_be_needed(request) {
            UseStatus::Unknown
        } else if self.is_used(request) {
            UseStatus::Used
        } else {
            UseStatus::Unused
        }
    }

    /// Returns whether the calls could use the request. A plugin may send no request to a
    /// destination without the secret for it, and a secret for hosts that an operator chooses is sent
    /// nowhere here.
    pub(super) fn was_possible(&self, request: Request<'_>) -> bool {
        let secrets = &self.build.manifest.request.secret;
        match request {
            Request::Http(destination, _) => {
                let mut own = secrets.iter().filter(|(_, secret)| is_for(secret, destination));
                self.is_granted(request) && own.all(|(name, secret)| self.can_be_sent(name, secret))
            }
            Request::Secret(name, secret) => self.can_be_sent(name, secret),
            _ => self.is_granted(request),
        }
    }

    fn can_be_sent(&self, name: &str, secret: &SecretRequest) -> bool {
        self.is_granted(Request::Secret(name, secret)) && !self.is_for_any_host(secret)
    }

    fn is_for_any_host(&self, secret: &SecretRequest) -> bool {
        let requests = &self.build.manifest.request.http;
        let mut audience = secret.audience.iter().filter_map(|name| requests.get(name));
        audience.any(HttpRequest::is_any_host)
    }

    /// Returns whether a tool without a successful call may use the request.
    fn may_be_needed(&self, request: Request<'_>) -> bool {
        if request.effect().is_none() {
            return self.uncalled().next().is_some();
        }
        let tools = self.build.manifest.tools.iter();
        let mut uncalled = tools.filter(|tool| !self.calls.succeeded.contains(&tool.name));
        uncalled.any(|tool| tool.effects.iter().any(|effect| request.allows(effect)))
    }

    /// Returns the destinations that a secret is attached to requests for; none if it was never
    /// attached.
    pub(super) fn smallest_audience(
        &self,
        name: &'a str,
        secret: &'a SecretRequest,
    ) -> Vec<&'a str> {
        let all: Vec<_> = secret.audience.iter().map(String::as_str).collect();
        if self.status(Request::Secret(name, secret)) == UseStatus::Unknown {
            return all;
        }
        if !self.has(Use::AttachedSecret, name) {
            return if self.has(Use::KnownSecret, name) { all } else { Vec::new() };
        }
        let requests = &self.build.manifest.request.http;
        let needed = all.iter().copied().filter(|destination| {
            requests.get_key_value(*destination).is_some_and(|(name, request)| {
                self.status(Request::Http(name, request)) != UseStatus::Unused
            })
        });
        let needed: Vec<_> = needed.collect();
        // The operator's own hosts for the secret may be none of the destinations.
        if needed.is_empty() { all } else { needed }
    }
}

fn is_for(secret: &SecretRequest, destination: &str) -> bool {
    secret.audience.iter().any(|name| name == destination)
}
