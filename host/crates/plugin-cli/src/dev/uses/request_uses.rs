//! The requests of a build with their uses, as the calls of the build recorded them.

use std::collections::BTreeSet;

use crate::dev::build_uses::BuildUses;
use airlock_authoring::install::GrantOption;
use airlock_plugin::{FilesAccess, Manifest, Request};
use airlock_sandbox::Use;

/// A build, and the grants that it is called with.
pub(super) struct TriedBuild<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) tools: BTreeSet<&'a str>,
    pub(super) grants: &'a [GrantOption],
}

/// Parts of requests that the recorder does not know.
pub(super) const UNRECORDED: &str = "methods, paths and sizes are not recorded";

/// The requests of a build, and their uses by its calls.
pub(super) struct RequestUses<'a> {
    pub(super) calls: &'a BuildUses,
    pub(super) build: &'a TriedBuild<'a>,
    /// Uses by all tools.
    pub(super) all: BTreeSet<Use>,
}

impl<'a> RequestUses<'a> {
    pub(super) fn new(calls: &'a BuildUses, build: &'a TriedBuild<'a>) -> Self {
        Self { calls, build, all: calls.uses.values().flatten().cloned().collect() }
    }

    pub(super) fn requests(&self) -> impl Iterator<Item = Request<'a>> {
        self.build.manifest.request.all()
    }

    /// Returns whether a request has parts that the recorder does not know.
    pub(super) fn has_details(&self) -> bool {
        self.requests().any(|request| {
            !matches!(
                request,
                Request::Secret(..) | Request::Slot(..) | Request::Tools(_) | Request::Clocks(_)
            )
        })
    }

    pub(super) fn has_config(&self) -> bool {
        self.build.manifest.config_schema().is_some()
    }

    /// Returns the tools without a successful call.
    pub(super) fn uncalled(&self) -> impl Iterator<Item = &'a str> {
        let tools = self.build.tools.iter().copied();
        tools.filter(move |tool| !self.calls.succeeded.contains(*tool))
    }

    /// Returns the ways in which a request can be used, each with whether it was.
    pub(super) fn ways(&self, request: Request<'a>) -> Vec<(bool, &'a str)> {
        match request {
            Request::Http(name, _) => vec![(self.has(Use::Http, name), "")],
            Request::Secret(name, _) => vec![
                (self.has(Use::KnownSecret, name), "known"),
                (self.has(Use::AttachedSecret, name), "attached"),
                (self.has(Use::RevealedSecret, name), "revealed"),
            ],
            Request::Kv(name, _) => {
                either(self.has(Use::WriteKv, name), self.has(Use::ReadKv, name))
            }
            Request::Files(name, _) => {
                either(self.has(Use::WriteFiles, name), self.has(Use::ReadFiles, name))
            }
            Request::Scratch(_) => vec![(self.all.contains(&Use::Scratch), "")],
            Request::Slot(name, _) => vec![(self.has(Use::Slot, name), "")],
            Request::Tools(tools) => {
                tools.call.iter().map(|tool| (self.has(Use::Tool, tool), tool.as_str())).collect()
            }
            Request::Clocks(_) => vec![(self.all.contains(&Use::Clocks), "")],
        }
    }

    pub(super) fn has(&self, used: fn(String) -> Use, name: &str) -> bool {
        self.all.contains(&used(name.to_owned()))
    }

    pub(super) fn is_used(&self, request: Request<'a>) -> bool {
        self.ways(request).iter().any(|(is_used, _)| *is_used)
    }

    /// Returns whether the calls had the right that is requested.
    pub(super) fn is_granted(&self, request: Request<'_>) -> bool {
        let requests = &self.build.manifest.request;
        self.build.grants.iter().any(|grant| grant.is_for(request, requests))
    }

    /// Returns whether the calls could write to a directory.
    pub(super) fn is_writable(&self, request: Request<'_>) -> bool {
        let requests = &self.build.manifest.request;
        self.build.grants.iter().any(|grant| {
            matches!(grant, GrantOption::Files { may_write: true, .. })
                && grant.is_for(request, requests)
        })
    }

    pub(super) fn used(&self) -> Vec<String> {
        let used = self.requests().filter(|request| self.is_used(*request)).map(|request| {
            let ways = self.ways(request).into_iter().filter(|(is_used, _)| *is_used);
            let ways: Vec<_> = ways.map(|(_, way)| way).filter(|way| !way.is_empty()).collect();
            match ways.as_slice() {
                [] => request.to_string(),
                ways => format!("{request} ({})", ways.join(", ")),
            }
        });
        used.chain(self.config(true)).collect()
    }

    pub(super) fn unused(&self) -> Vec<String> {
        let judged = self.requests().filter(|request| self.is_granted(*request));
        let unused = judged.flat_map(|request| {
            let ways = self.ways(request);
            let tools = ways.iter().filter(|(is_used, _)| !is_used).map(|(_, tool)| *tool);
            match request {
                Request::Tools(_) if self.is_used(request) => {
                    tools.map(|tool| format!("{request} ({tool})")).collect()
                }
                _ if self.is_used(request) => Vec::new(),
                _ => vec![request.to_string()],
            }
        });
        unused.chain(self.config(false)).collect()
    }

    /// Returns the requests that were not granted, in whole or for writing, and so could not be used.
    pub(super) fn ungranted(&self) -> Vec<String> {
        let ungranted = self.requests().filter_map(|request| match request {
            _ if !self.is_granted(request) => Some(request.to_string()),
            Request::Files(_, files)
                if files.access == FilesAccess::ReadWrite && !self.is_writable(request) =>
            {
                Some(format!("{request} (writing)"))
            }
            _ => None,
        });
        ungranted.collect()
    }

    /// Returns the name of the configuration, if there is one and whether it was used `is_used`.
    fn config(&self, is_used: bool) -> Option<String> {
        let is_meant = self.has_config() && self.all.contains(&Use::Config) == is_used;
        is_meant.then(|| "config".to_owned())
    }
}

/// Returns the two ways in which a store or directory can be used. Writing includes reading.
fn either(is_written: bool, is_read: bool) -> Vec<(bool, &'static str)> {
    vec![(is_written, "written"), (is_read && !is_written, "read")]
}
