//! The requests of plugin.toml that the calls of a build used, and the smaller tables with which
//! these calls still succeed. Nothing here reads or runs anything: it compares uses with a manifest.

mod effects;
mod smallest;
mod table;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::BTreeSet;

use airlock_manifest::FILE;

use self::{smallest::Smallest, table::Table};
use super::config::Entry;
use crate::cli::plugin::grant::GrantOption;
use airlock_plugin::{Effect, FilesAccess, Manifest, Request};
use airlock_sandbox::{ToolUses, Use};

/// Uses by the calls of one build.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Digest of the component; empty before the first one.
    build: String,
    /// True if another build was called before, with the same stores.
    has_older: bool,
    /// True if the plugin has run.
    has_calls: bool,
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

/// Returns lines about the requests that the calls of a build used.
pub(super) fn report(entry: &Entry<'_>, session: &Session) -> Vec<String> {
    let Some(manifest) = entry.manifest() else { return Vec::new() };
    let tools = entry.metadata.tools.iter().map(|tool| tool.name.as_str()).collect();
    session.report(&Build { manifest, tools, grants: &entry.all_grants() })
}

impl Session {
    /// Begins the session of a build. The uses of another build are dropped: they tell nothing about
    /// this one.
    pub(super) fn load(&mut self, digest: &str) {
        if self.build != digest {
            let has_older = self.has_older || self.has_calls;
            *self = Self { build: digest.to_owned(), has_older, ..Self::default() };
        }
    }

    /// Adds the uses of a call of `tool`, and of the calls that it made.
    pub(super) fn add(&mut self, tool: &str, succeeded: bool, uses: ToolUses) {
        self.has_calls = true;
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
        let used = seen.used();
        let unused = seen.unused();
        let ungranted = seen.ungranted();
        if used.is_empty() && unused.is_empty() && ungranted.is_empty() {
            return Vec::new();
        }
        if !self.has_calls {
            return vec![
                "no call has run, so the requests of plugin.toml are not judged".to_owned(),
            ];
        }
        let uncalled: Vec<_> = seen.uncalled().map(str::to_owned).collect();
        let smallest = Smallest::of(&seen);
        let is_all_used = unused.is_empty() && ungranted.is_empty() && uncalled.is_empty();
        if is_all_used && smallest.is_none() {
            let all = "the calls of this build used every request and every declared effect";
            let details =
                if seen.has_details() { format!(" ({UNRECORDED})") } else { String::new() };
            return vec![format!("{all}{details}: {}", used.join(", "))];
        }
        // A use may be missing because a store holds its outcome.
        let is_in_doubt = self.has_older
            && !build.manifest.request.kv.is_empty()
            && (!unused.is_empty() || smallest.is_some());
        let older = "the stores keep what earlier builds wrote, which may hide a use";
        let lines = [
            line("used so far", &used),
            line("never used", &unused),
            line("not granted here, so not judged", &ungranted),
            line("tools without a successful call, which keep their effects", &uncalled),
        ];
        let lines = lines.into_iter().flatten().chain(seen.kept_although_unused());
        let lines = lines.chain(is_in_doubt.then(|| older.to_owned()));
        lines.chain(smallest.iter().flat_map(Smallest::lines)).collect()
    }
}

/// Returns a line with names, if there are any.
fn line(what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
}

/// Parts of requests that the recorder does not know.
const UNRECORDED: &str = "methods, paths and sizes are not recorded";

/// The uses by a session of what a build requests.
struct Seen<'a> {
    session: &'a Session,
    build: &'a Build<'a>,
    /// Uses by all tools.
    uses: BTreeSet<Use>,
}

impl<'a> Seen<'a> {
    fn new(session: &'a Session, build: &'a Build<'a>) -> Self {
        Self { session, build, uses: session.uses.values().flatten().cloned().collect() }
    }

    fn requests(&self) -> impl Iterator<Item = Request<'a>> {
        self.build.manifest.request.all()
    }

    /// Returns whether a request has parts that the recorder does not know.
    fn has_details(&self) -> bool {
        self.requests().any(|request| {
            !matches!(
                request,
                Request::Secret(..) | Request::Slot(..) | Request::Tools(_) | Request::Clocks(_)
            )
        })
    }

    fn has_config(&self) -> bool {
        self.build.manifest.config_schema().is_some()
    }

    /// Returns the tools without a successful call.
    fn uncalled(&self) -> impl Iterator<Item = &'a str> {
        let tools = self.build.tools.iter().copied();
        tools.filter(move |tool| !self.session.succeeded.contains(*tool))
    }

    /// Returns the ways in which a request can be used, each with whether it was.
    fn ways(&self, request: Request<'a>) -> Vec<(bool, &'a str)> {
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
            Request::Scratch(_) => vec![(self.uses.contains(&Use::Scratch), "")],
            Request::Slot(name, _) => vec![(self.has(Use::Slot, name), "")],
            Request::Tools(tools) => {
                tools.call.iter().map(|tool| (self.has(Use::Tool, tool), tool.as_str())).collect()
            }
            Request::Clocks(_) => vec![(self.uses.contains(&Use::Clocks), "")],
        }
    }

    fn has(&self, used: fn(String) -> Use, name: &str) -> bool {
        self.uses.contains(&used(name.to_owned()))
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
                matches!(grant, GrantOption::Host { .. })
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
