//! The tables of a smaller plugin.toml with which the calls of a build still succeed.

use airlock_manifest::FILE;

use super::{
    request_uses::{RequestUses, UNRECORDED},
    status::UseStatus,
    table::{self, ManifestTable},
};
use airlock_plugin::{FilesAccess, Request};
use airlock_sandbox::Use;

/// The tables of plugin.toml that could be smaller.
pub(super) struct SmallerManifest {
    replaced: Vec<ManifestTable>,
    /// Headers of the tables that could be removed.
    removed: Vec<String>,
    /// True if the plugin requests directories.
    has_files: bool,
    /// True if the requests have parts that the recorder does not know.
    has_details: bool,
}

impl SmallerManifest {
    /// Returns what could be smaller; `None` if nothing could.
    pub(super) fn new(uses: &RequestUses<'_>) -> Option<Self> {
        let (kept, dropped): (Vec<_>, Vec<_>) =
            uses.requests().partition(|request| uses.keeps(*request));
        let tools = uses.build.manifest.tools.iter().filter_map(|tool| {
            let effects = uses.smaller_effects(tool, &kept)?;
            Some(ManifestTable::tool(&tool.name, effects))
        });
        let requests = kept.iter().filter_map(|request| uses.smaller_request(*request));
        let spared = uses.last_with_wasi();
        let removed = dropped.into_iter().map(header);
        let removed = removed.filter(|header| spared.as_ref() != Some(header));
        let has_unused_config = uses.has_config() && !uses.all.contains(&Use::Config);
        let is_config_removed = has_unused_config && uses.uncalled().next().is_none();
        let config = is_config_removed.then(|| "[config]".to_owned());
        let smallest = Self {
            replaced: tools.chain(requests).collect(),
            removed: removed.chain(config).collect(),
            has_files: !uses.build.manifest.request.files.is_empty(),
            has_details: uses.has_details(),
        };
        (!smallest.replaced.is_empty() || !smallest.removed.is_empty()).then_some(smallest)
    }

    /// Returns it as lines for people, in which each table is TOML.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines =
            vec![format!("{FILE} could request less, as far as the calls of this build show.")];
        if self.has_files {
            let names =
                "A tool that only lists the names of its directories uses none of them here.";
            lines.push(names.to_owned());
        }
        if !self.removed.is_empty() {
            lines.push(format!("Remove: {}", self.removed.join(", ")));
        }
        if !self.replaced.is_empty() {
            lines.push("Replace:".to_owned());
            lines.extend(
                self.has_details.then(|| format!("# {UNRECORDED}, so they stay as they are")),
            );
            lines.extend(self.replaced.iter().map(|table| format!("\n{table}")));
        }
        lines
    }
}

impl<'a> RequestUses<'a> {
    /// Returns the smaller table of a request that was used; `None` if it is as small as it can be.
    fn smaller_request(&self, request: Request<'a>) -> Option<ManifestTable> {
        if self.status(request) != UseStatus::Used {
            return None;
        }
        match request {
            Request::Files(name, files) => {
                let is_written = self.has(Use::WriteFiles, name);
                let could_be = files.access == FilesAccess::ReadWrite && self.is_writable(request);
                (could_be && !is_written).then(|| ManifestTable::read_only(name, files))
            }
            Request::Secret(name, secret) => {
                let reveal = self.has(Use::RevealedSecret, name);
                let audience = self.smallest_audience(name, secret);
                let is_smaller = audience.len() < secret.audience.len() || secret.reveal && !reveal;
                is_smaller.then(|| ManifestTable::secret(name, secret, &audience, reveal))
            }
            Request::Tools(tools) => {
                let used = self.ways(request).into_iter().filter(|(is_used, _)| *is_used);
                let used: Vec<_> = used.map(|(_, tool)| tool).collect();
                (used.len() < tools.call.len()).then(|| ManifestTable::tools(tools, &used))
            }
            _ => None,
        }
    }

    /// Returns a line about each request that stays although it was granted and not used, with the
    /// reason.
    pub(super) fn kept_although_unused(&self) -> Vec<String> {
        let unused = self.requests().filter(|request| self.status(*request) == UseStatus::Unused);
        let of_audience = unused.filter_map(|request| {
            let Request::Http(name, _) = request else { return None };
            let secrets = self.secrets_kept_for(name);
            let secrets: Vec<_> = secrets.iter().map(|name| format!("secret.{name}")).collect();
            let header = header(request);
            (!secrets.is_empty())
                .then(|| format!("{header} stays: it is in the audience of {}", secrets.join(", ")))
        });
        let wasi = self.last_with_wasi().map(|header| {
            format!(
                "{header} stays: a plugin in Rust without such a request is built without WASI, unless \
                 {FILE} has `[build]` with `wasi = true`"
            )
        });
        of_audience.chain(wasi).collect()
    }

    /// Returns the header of the request that must stay although it was not used: a plugin in Rust has
    /// WASI only if it has one of these requests.
    fn last_with_wasi(&self) -> Option<String> {
        let mut requests = self.requests().filter(needs_wasi);
        let is_kept = self.requests().any(|request| needs_wasi(&request) && self.keeps(request));
        requests.next().filter(|_| !is_kept).map(header)
    }
}

fn needs_wasi(request: &Request<'_>) -> bool {
    matches!(request, Request::Files(..) | Request::Scratch(_) | Request::Clocks(_))
}

/// Returns the line that begins the table of a request.
fn header(request: Request<'_>) -> String {
    let path: Vec<_> = [Some(request.kind()), request.name()].into_iter().flatten().collect();
    table::header(&path)
}
