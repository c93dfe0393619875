//! Requests that stay although the calls of a build did not use them, with the reason.

use airlock_manifest::FILE;

use super::{request_uses::RequestUses, status::UseStatus, table::header};
use airlock_plugin::Request;

impl<'a> RequestUses<'a> {
    /// Returns whether the request is part of the smallest plugin.toml.
    pub(super) fn keeps(&self, request: Request<'a>) -> bool {
        self.status(request) != UseStatus::Unused || self.reason_to_keep(request).is_some()
    }

    /// Returns a line about each request that stays although it was granted and not used.
    pub(super) fn kept_although_unused(&self) -> Vec<String> {
        let unused = self.requests().filter(|request| self.status(*request) == UseStatus::Unused);
        let kept = unused.filter_map(|request| {
            Some(format!("{} stays: {}", header(request), self.reason_to_keep(request)?))
        });
        kept.collect()
    }

    /// Returns the reason that an unused request stays; `None` if it can be removed.
    fn reason_to_keep(&self, request: Request<'a>) -> Option<String> {
        if let Request::Http(name, _) = request {
            let secrets = self.secrets_kept_for(name);
            return (!secrets.is_empty())
                .then(|| format!("it is in the audience of {}", secrets.join(", ")));
        }
        self.is_last_with_wasi(request).then(|| {
            format!(
                "a plugin in Rust without such a request is built without WASI, unless {FILE} has \
                 `[build]` with `wasi = true`"
            )
        })
    }

    /// Returns the secrets that stay and are attached to requests to a destination.
    fn secrets_kept_for(&self, destination: &str) -> Vec<String> {
        let kept = self.requests().filter(|request| match *request {
            Request::Secret(name, secret) => {
                self.status(*request) != UseStatus::Unused
                    && self.smallest_audience(name, secret).contains(&destination)
            }
            _ => false,
        });
        kept.map(|secret| secret.to_string()).collect()
    }

    /// Returns whether an unused request is the first of those that give a plugin in Rust WASI, and
    /// none of the others was used either.
    fn is_last_with_wasi(&self, request: Request<'a>) -> bool {
        let mut with_wasi = self.requests().filter(|request| {
            matches!(request, Request::Files(..) | Request::Scratch(_) | Request::Clocks(_))
        });
        with_wasi.next() == Some(request)
            && with_wasi.all(|request| self.status(request) == UseStatus::Unused)
    }
}
