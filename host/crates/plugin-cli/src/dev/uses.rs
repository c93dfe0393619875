//! The requests of plugin.toml that the calls of a build used, and the smaller tables with which
//! these calls still succeed. Nothing here reads or runs anything: it compares uses with a manifest.

mod effects;
mod kept;
mod request_uses;
mod smaller;
mod status;
mod table;
#[cfg(test)]
mod tests;

use self::request_uses::{RequestUses, TriedBuild, UNRECORDED};
use super::{build_uses::BuildUses, config::FreshBuild};

/// Returns lines about the requests that the calls of a build used.
pub(super) fn report(build: &FreshBuild<'_>, calls: &BuildUses) -> Vec<String> {
    let Some(manifest) = build.manifest() else { return Vec::new() };
    let tools = build.metadata.tools.iter().map(|tool| tool.name.as_str()).collect();
    lines(calls, &TriedBuild { manifest, tools, grants: &build.all_grants() })
}

/// Returns lines about the uses so far of what `build` requests; none if it requests nothing.
fn lines(calls: &BuildUses, build: &TriedBuild<'_>) -> Vec<String> {
    let requests = RequestUses::new(calls, build);
    let used = requests.used();
    let unused = requests.unused();
    let ungranted = requests.ungranted();
    if used.is_empty() && unused.is_empty() && ungranted.is_empty() {
        return Vec::new();
    }
    if !calls.has_calls {
        return vec!["no call has run, so the requests of plugin.toml are not judged".to_owned()];
    }
    let uncalled: Vec<_> = requests.uncalled().map(str::to_owned).collect();
    let smaller = smaller::lines(&requests);
    let is_all_used = unused.is_empty() && ungranted.is_empty() && uncalled.is_empty();
    if is_all_used && smaller.is_empty() {
        let all = "the calls of this build used every request and every declared effect";
        let details =
            if requests.has_details() { format!(" ({UNRECORDED})") } else { String::new() };
        return vec![format!("{all}{details}: {}", used.join(", "))];
    }
    // A use may be missing because a store holds its outcome.
    let is_in_doubt = calls.has_older
        && !build.manifest.request.kv.is_empty()
        && (!unused.is_empty() || !smaller.is_empty());
    let older = "the stores keep what earlier builds wrote, which may hide a use";
    let lines = [
        named("used so far", &used),
        named("never used", &unused),
        named("not granted here, so not judged", &ungranted),
        named("tools without a successful call, which keep their effects", &uncalled),
    ];
    let lines = lines.into_iter().flatten().chain(requests.kept_although_unused());
    let lines = lines.chain(is_in_doubt.then(|| older.to_owned()));
    lines.chain(smaller).collect()
}

/// Returns a line with names, if there are any.
fn named(what: &str, names: &[String]) -> Option<String> {
    (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
}
