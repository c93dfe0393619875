//! Lines of the lock file about the rights of a plugin. A new build is compared with the accepted one
//! line by line, and a line has grown unless an accepted line of the same request covers it.
//!
//! A grant names a request, and the author of the plugin decides what that name stands for. So a line
//! that has grown and that a grant is for needs the operator's consent. In case of doubt a line has
//! grown, and is granted.

mod coverage;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, fmt};

use super::{Grant, HttpGrant, manifest::ANY, rights::of_any_host};
use airlock_egress::Rule;
use airlock_sandbox::{DeclaredEffect, Effect};

/// The lines of one build, and under a grant what its requests for any host or directory stand for.
pub(super) struct LockLines<'g> {
    lines: BTreeSet<LockLine>,
    grant: &'g Grant,
}

/// One line: `http.api https://api.example.com GET /**`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LockLine {
    /// Name of the request, such as `http.api`, or of a tool with effects, such as `effects.sync`.
    pub(super) key: String,
    /// The right; empty for a request without details.
    right: String,
}

impl<'g> LockLines<'g> {
    /// Reads the lines of a build. Adds a line for each of the operator's own rules and directories
    /// that a request for any host or any directory stands for: such a request grows, without a change
    /// of its own, when another request that named the host or the directory is gone.
    pub(super) fn new(texts: &[String], grant: &'g Grant) -> Self {
        let own: BTreeSet<_> = texts.iter().map(|text| LockLine::parse(text)).collect();
        let named = own.iter().filter(|line| line.request().0 == "http");
        let named: Vec<Rule> = named.filter_map(|line| line.right.parse().ok()).collect();
        let hosts = of_any_host(grant, &named);
        let directories = grant.files.keys().filter(|name| {
            let key = format!("files.{name}");
            own.iter().all(|line| line.key != key)
        });
        let directories: Vec<_> = directories.collect();
        let mut lines = own.clone();
        for LockLine { key, right } in &own {
            if key.starts_with("http.") && right == ANY {
                lines.extend(hosts.iter().map(|rule| LockLine::new(key, rule.to_string())));
            } else if key == "files.*" {
                let keys = directories.iter().map(|name| format!("files.{name}"));
                lines.extend(keys.map(|key| LockLine::new(key, right)));
            } else if let "read_files.*" | "write_files.*" = right.as_str() {
                let effect = right.trim_end_matches(ANY);
                let rights = directories.iter().map(|name| format!("{effect}{name}"));
                lines.extend(rights.map(|right| LockLine::new(key, right)));
            }
        }
        Self { lines, grant }
    }

    /// Returns the lines that the other build does not have.
    pub(super) fn beyond<'l>(&'l self, other: &'l Self) -> impl Iterator<Item = &'l LockLine> {
        self.lines.difference(&other.lines)
    }

    /// Returns whether one of these lines covers a line of another build.
    pub(super) fn cover(&self, line: &LockLine) -> bool {
        self.lines.iter().any(|own| own.covers(line))
    }

    /// Returns whether one of these lines is about a request.
    pub(super) fn have(&self, key: &str) -> bool {
        self.lines.iter().any(|line| line.key == key)
    }

    /// Returns whether the plugin would have any part of a line's right by the grant.
    pub(super) fn are_granted(&self, line: &LockLine) -> bool {
        let grant = self.grant;
        let (kind, name) = line.request();
        match kind {
            "http" => self.grants_host(name, &line.right) || !self.secrets_to(line).is_empty(),
            "secret" => grant.secret.contains_key(name),
            "kv" => grant.kv.contains_key(name),
            "files" => grant.files.contains_key(name) || (name == ANY && !grant.files.is_empty()),
            "scratch" => grant.scratch.is_some(),
            "slot" => grant.slots.contains_key(name),
            "tools" => grant.tools.contains(&line.right),
            "clocks" => grant.clocks,
            "effects" => self.make_possible(&line.right),
            // The plugin has its imports anyway, and the profile bounds its limits.
            "import" | "limits" => false,
            _ => true,
        }
    }

    fn grants_host(&self, name: &str, right: &str) -> bool {
        self.grant.http.iter().any(|granted| match granted {
            HttpGrant::Requested(granted) => granted == name,
            HttpGrant::Rule(granted) => {
                // Without a host of its own, a request is for each of them.
                let rule = right.parse().ok();
                rule.is_none_or(|rule| granted.shares_host(&rule))
            }
        })
    }

    /// Returns the granted secrets that are attached to requests to the destination of a line. They
    /// are sent there even if the destination is not granted by its name.
    pub(super) fn secrets_to(&self, line: &LockLine) -> Vec<&str> {
        let ("http", destination) = line.request() else { return Vec::new() };
        let secrets = self.lines.iter().filter(|secret| {
            let (kind, name) = secret.request();
            let is_granted = kind == "secret" && self.grant.secret.contains_key(name);
            is_granted && coverage::audience(&secret.right).contains(destination)
        });
        secrets.map(|secret| secret.key.as_str()).collect()
    }

    /// Returns whether a granted request makes an effect possible.
    fn make_possible(&self, effect: &str) -> bool {
        let Ok(DeclaredEffect { effect, request }) = effect.parse() else { return true };
        let needed: &[&str] = match effect {
            Effect::ReadFiles | Effect::WriteFiles => &["files"],
            Effect::Http => &["http"],
            Effect::Secret => &["secret"],
            Effect::ReadKv | Effect::WriteKv => &["kv"],
            Effect::CallTools => &["slot", "tools"],
        };
        self.lines.iter().any(|line| {
            let (kind, name) = line.request();
            let is_named = request.as_deref().is_none_or(|request| request == name);
            needed.contains(&kind) && is_named && self.are_granted(line)
        })
    }
}

impl LockLine {
    fn new(key: impl Into<String>, right: impl Into<String>) -> Self {
        Self { key: key.into(), right: right.into() }
    }

    fn parse(text: &str) -> Self {
        // No effect has a space, so the first ` of ` ends it.
        let effect = text.strip_prefix("effect ").and_then(|text| text.split_once(" of "));
        if let Some((effect, tool)) = effect {
            return Self::new(format!("effects.{tool}"), effect);
        }
        let (key, right) = text.split_once(' ').unwrap_or((text, ""));
        Self::new(key, right)
    }

    /// Returns the kind of the request, and its name; an empty name if there is one of the kind.
    fn request(&self) -> (&str, &str) {
        self.key.split_once('.').unwrap_or((&self.key, ""))
    }

    /// Returns the tool whose effect this is; `None` for another line.
    pub(super) fn tool(&self) -> Option<&str> {
        self.key.strip_prefix("effects.")
    }

    fn covers(&self, other: &Self) -> bool {
        self.key == other.key && coverage::covers(self.request().0, &self.right, &other.right)
    }
}

impl fmt::Display for LockLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, right } = self;
        match self.tool() {
            Some(tool) => write!(f, "effect {right} of {tool}"),
            None if right.is_empty() => f.write_str(key),
            None => write!(f, "{key} {right}"),
        }
    }
}
