//! The tables of a smaller plugin.toml with which the calls of a build still succeed.

use airlock_manifest::FILE;

use super::{
    named,
    request_uses::{RequestUses, UNRECORDED},
    status::UseStatus,
    table::{ManifestTable, header},
};
use airlock_plugin::{FilesAccess, Request};
use airlock_sandbox::Use;

/// Returns lines for people about the tables that could be smaller, each of which is TOML; none if no
/// table could.
pub(super) fn lines(uses: &RequestUses<'_>) -> Vec<String> {
    let manifest = uses.build.manifest;
    let (kept, dropped): (Vec<_>, Vec<_>) =
        uses.requests().partition(|request| uses.keeps(*request));
    let tools = manifest.tools.iter().filter_map(|tool| {
        Some(ManifestTable::tool(&tool.name, uses.smaller_effects(tool, &kept)?))
    });
    let requests = kept.iter().filter_map(|request| uses.smaller_request(*request));
    let replaced: Vec<_> = tools.chain(requests).collect();
    let has_unused_config = uses.has_config() && !uses.all.contains(&Use::Config);
    let is_config_removed = has_unused_config && uses.uncalled().next().is_none();
    let config = is_config_removed.then(|| "[config]".to_owned());
    let removed: Vec<_> = dropped.into_iter().map(header).chain(config).collect();
    if replaced.is_empty() && removed.is_empty() {
        return Vec::new();
    }
    let mut lines =
        vec![format!("{FILE} could request less, as far as the calls of this build show.")];
    if !manifest.request.files.is_empty() {
        let names = "A tool that only lists the names of its directories uses none of them here.";
        lines.push(names.to_owned());
    }
    lines.extend(named("Remove", &removed));
    if !replaced.is_empty() {
        lines.push("Replace:".to_owned());
        let details = uses.has_details();
        lines.extend(details.then(|| format!("# {UNRECORDED}, so they stay as they are")));
        lines.extend(replaced.iter().map(|table| format!("\n{table}")));
    }
    lines
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
                (could_be && !is_written).then(|| ManifestTable::read_only(request))
            }
            Request::Secret(name, secret) => {
                let reveal = self.has(Use::RevealedSecret, name);
                let audience = self.smallest_audience(name, secret);
                let is_smaller = audience.len() < secret.audience.len() || secret.reveal && !reveal;
                is_smaller.then(|| ManifestTable::secret(request, secret, &audience, reveal))
            }
            Request::Tools(tools) => {
                let names = tools.call.iter().map(String::as_str);
                let used: Vec<_> = names.filter(|tool| self.has(Use::Tool, tool)).collect();
                (used.len() < tools.call.len()).then(|| ManifestTable::tools(request, &used))
            }
            _ => None,
        }
    }
}
