//! The requests of plugin.toml that the calls of a session used, and the smaller tables with which
//! these calls still succeed. Nothing here reads or runs anything: it compares uses with a manifest.

mod smallest;
mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use airlock_manifest::FILE;

use self::{smallest::Smallest, table::Table};
use crate::{
    cli::plugin::grant::GrantOption,
    plugin::{Effect, FilesAccess, Manifest, Request},
    sandbox::{ToolUses, Use},
};

/// Uses by the calls of a session.
#[derive(Debug, Default)]
pub(super) struct Session {
    uses: ToolUses,
    /// Tools with a call that succeeded. A call that failed may have ended before its other uses.
    succeeded: BTreeSet<String>,
}

/// A build, and the grants that it is called with.
pub(super) struct Build<'a> {
    pub(super) manifest: &'a Manifest,
    pub(super) tools: BTreeSet<&'a str>,
    pub(super) grants: &'a [GrantOption],
}

impl Session {
    /// Adds the uses of a call of `tool`, and of the calls that it made.
    pub(super) fn add(&mut self, tool: &str, succeeded: bool, uses: ToolUses) {
        for (tool, uses) in uses {
            self.uses.entry(tool).or_default().extend(uses);
        }
        if succeeded {
            self.succeeded.insert(tool.to_owned());
        }
    }

    /// Returns lines about the uses so far of what `build` requests; none if it requests nothing.
    pub(super) fn report(&self, build: &Build<'_>) -> Vec<String> {
        let seen = Seen::new(self, build);
        let (used, unused) = (seen.used(), seen.unused());
        let ungranted = seen.ungranted();
        if used.is_empty() && unused.is_empty() && ungranted.is_empty() {
            return Vec::new();
        }
        let uncalled: Vec<_> = seen.uncalled().map(str::to_owned).collect();
        let smallest = Smallest::of(&seen);
        let is_all_used = unused.is_empty() && ungranted.is_empty() && uncalled.is_empty();
        if is_all_used && smallest.is_none() {
            let all = "the calls of this session used every request and every declared effect";
            return vec![format!("{all}: {}", used.join(", "))];
        }
        let line = |what: &str, names: Vec<String>| {
            (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
        };
        let lines = [
            line("used so far", used),
            line("never used", unused),
            line("not granted here, so not judged", ungranted),
            line("tools without a successful call, which keep their effects", uncalled),
        ];
        lines.into_iter().flatten().chain(smallest.iter().flat_map(Smallest::lines)).collect()
    }
}

/// The uses by a session of what a build requests.
struct Seen<'a> {
    session: &'a Session,
    build: &'a Build<'a>,
    /// Uses by all tools that the build has.
    uses: BTreeSet<Use>,
}

impl<'a> Seen<'a> {
    fn new(session: &'a Session, build: &'a Build<'a>) -> Self {
        let tools = session.uses.iter().filter(|(tool, _)| build.tools.contains(tool.as_str()));
        Self { session, build, uses: tools.flat_map(|(_, uses)| uses).cloned().collect() }
    }

    fn requests(&self) -> impl Iterator<Item = Request<'a>> {
        self.build.manifest.request.all()
    }

    fn has_config(&self) -> bool {
        self.build.manifest.config_schema().is_some()
    }

    /// Returns the tools without a successful call.
    fn uncalled(&self) -> impl Iterator<Item = &'a str> {
        let called = |tool: &&str| self.session.succeeded.contains(*tool);
        self.build.tools.iter().copied().filter(move |tool| !called(tool))
    }

    /// Returns the ways in which a request can be used, each with whether it was.
    fn ways(&self, request: Request<'a>) -> Vec<(bool, &'a str)> {
        let is = |used: fn(String) -> Use, name: &str| self.uses.contains(&used(name.to_owned()));
        match request {
            Request::Http(name, _) => vec![(is(Use::Http, name), "")],
            Request::Secret(name, _) => vec![
                (is(Use::KnownSecret, name), "known"),
                (is(Use::AttachedSecret, name), "attached"),
                (is(Use::RevealedSecret, name), "revealed"),
            ],
            Request::Kv(name, _) => either(is(Use::WriteKv, name), is(Use::ReadKv, name)),
            Request::Files(name, _) => either(is(Use::WriteFiles, name), is(Use::ReadFiles, name)),
            Request::Scratch(_) => vec![(self.uses.contains(&Use::Scratch), "")],
            Request::Slot(name, _) => vec![(is(Use::Slot, name), "")],
            Request::Tools(tools) => {
                tools.call.iter().map(|tool| (is(Use::Tool, tool), tool.as_str())).collect()
            }
            Request::Clocks(_) => vec![(self.uses.contains(&Use::Clocks), "")],
        }
    }

    fn is_used(&self, request: Request<'a>) -> bool {
        self.ways(request).iter().any(|(is_used, _)| *is_used)
    }

    /// Returns whether the session's calls had the right that is requested.
    fn is_granted(&self, request: Request<'_>) -> bool {
        let requests = &self.build.manifest.request;
        let key = request.to_string();
        self.build.grants.iter().any(|grant| match (request, grant) {
            (Request::Http(_, http), _) if http.is_any_host() => {
                matches!(grant, GrantOption::Host(_))
            }
            (Request::Files("*", _), GrantOption::Files { name, .. }) => {
                !requests.files.contains_key(name)
            }
            _ => grant.request().as_deref() == Some(key.as_str()),
        })
    }

    fn used(&self) -> Vec<String> {
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

    fn unused(&self) -> Vec<String> {
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
    fn ungranted(&self) -> Vec<String> {
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
        let is_meant = self.has_config() && self.uses.contains(&Use::Config) == is_used;
        is_meant.then(|| "config".to_owned())
    }
}

/// Returns the two ways in which a store or directory can be used. Writing includes reading.
fn either(is_written: bool, is_read: bool) -> Vec<(bool, &'static str)> {
    vec![(is_written, "written"), (is_read && !is_written, "read")]
}
