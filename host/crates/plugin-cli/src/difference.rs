//! Shows how a plugin differs from its accepted state.

use airlock_authoring::{Component, install::Obstacle};
use airlock_core::tool::ClientName;
use airlock_plugin::{Change, Drift};
use airlock_strings::{visible, visible_line};

/// Describes for people how a plugin differs: the lines of the lock file that were added and removed,
/// those that would be granted first, and the other changes with the changed text below them. Changed
/// imports of WASI are one line, because they follow from the language and grant nothing. The notes are about
/// grants that differ from the requests.
pub(super) fn lines(
    client: &ClientName,
    component: &Component,
    drift: Option<&Drift>,
    obstacles: &[Obstacle],
    notes: &[String],
) -> Vec<String> {
    let obstacles = obstacles.iter().map(|obstacle| format!("  cannot be loaded: {obstacle}"));
    let Some(drift) = drift else {
        return [format!("{client}: as it was accepted")].into_iter().chain(obstacles).collect();
    };
    let mut lines = vec![format!("{client}:")];
    lines.extend(obstacles);
    lines.extend(notes.iter().map(|note| format!("  note: {note}")));
    lines.extend(drift.widened().map(|widening| format!("  +{widening}")));
    lines.extend(wasi(drift));
    for change in drift.changes.iter().filter(|change| !is_of_wasi(change)) {
        match change {
            // It has a line above.
            Change::Widened(_) => {}
            Change::RequestAdded { request } => lines.push(format!("  +{request}")),
            Change::RequestRemoved { request } => lines.push(format!("  -{request}")),
            _ => lines.push(format!("  {change}")),
        }
        match change {
            Change::NotAccepted => lines.extend(whole(component)),
            Change::ToolAdded { description, .. } => {
                lines.extend(description.lines().map(|line| format!("    +{line}")));
            }
            Change::ToolChanged { diff, .. } => {
                lines.extend(diff.iter().map(|line| format!("    {line}")));
            }
            _ => {}
        }
    }
    lines
}

/// Beginning of the lines of the lock file about imports of WASI.
const WASI: &str = "import wasi:";

fn is_of_wasi(change: &Change) -> bool {
    match change {
        Change::RequestAdded { request } | Change::RequestRemoved { request } => {
            request.starts_with(WASI)
        }
        _ => false,
    }
}

/// Returns the line about the imports of WASI that were added and removed, if any were.
fn wasi(drift: &Drift) -> Option<String> {
    let changed: Vec<_> = drift.changes.iter().filter(|change| is_of_wasi(change)).collect();
    let added =
        changed.iter().filter(|change| matches!(change, Change::RequestAdded { .. })).count();
    let removed = changed.len() - added;
    let told = [(added, "more"), (removed, "fewer")].into_iter().filter(|(count, _)| *count > 0);
    let told: Vec<_> = told.map(|(count, which)| format!("{count} {which}")).collect();
    (!told.is_empty()).then(|| format!("  wasi: {} interfaces imported", told.join(" and ")))
}

/// Lists everything that would be accepted of a plugin that was never accepted before.
fn whole(component: &Component) -> Vec<String> {
    let metadata = &component.metadata;
    let mut lines = vec![format!("    +{}", metadata.digest)];
    let (wasi, requests): (Vec<_>, Vec<_>) =
        metadata.lock_lines().into_iter().partition(|line| line.starts_with(WASI));
    lines.extend(
        requests.iter().map(|request| format!("    +it requests {}", visible_line(request))),
    );
    lines.extend((!wasi.is_empty()).then(|| format!("    +wasi: {} interfaces", wasi.len())));
    for tool in &metadata.tools {
        lines.push(format!("    +tool {}", visible_line(&tool.name)));
        lines.extend(visible(&tool.description).lines().map(|line| format!("    +  {line}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use airlock_authoring::Origin;
    use airlock_plugin::{Metadata, Widening};

    #[test]
    fn what_is_missing_or_would_be_granted_comes_first() {
        let widening = Widening {
            request: "kv.notes".to_owned(),
            line: "kv.notes 1MiB".to_owned(),
            is_new: false,
            secrets: Vec::new(),
        };
        let changes = vec![
            added("import wasi:io/poll@0.2.6"),
            removed("kv.notes 1KiB"),
            added("kv.cache 1MiB"),
            removed("import wasi:cli/exit@0.2.3"),
            added("import wasi:cli/exit@0.2.6"),
            Change::Widened(widening),
        ];
        let client = ClientName::parse("notes").expect("a name");
        let drift = Drift { client: client.to_string(), changes };
        let metadata = Metadata::new(b"", Vec::new(), None, Vec::new());
        let component = Component {
            path: PathBuf::new(),
            bytes: Vec::new().into(),
            metadata,
            origin: Origin::default(),
        };
        let text = "kv.cache is required and not granted".to_owned();
        let missing = Obstacle::NotGranted { request: "kv.cache".to_owned(), text };
        let note = "kv.notes holds 1KiB; the plugin requests 1MiB".to_owned();
        let lines = lines(&client, &component, Some(&drift), &[missing], &[note]);
        insta::assert_snapshot!(lines.join("\n"), @r"
        notes:
          cannot be loaded: kv.cache is required and not granted
          note: kv.notes holds 1KiB; the plugin requests 1MiB
          +kv.notes 1MiB (granted)
          wasi: 2 more and 1 fewer interfaces imported
          -kv.notes 1KiB
          +kv.cache 1MiB
        ");
    }

    fn added(request: &str) -> Change {
        Change::RequestAdded { request: request.to_owned() }
    }

    fn removed(request: &str) -> Change {
        Change::RequestRemoved { request: request.to_owned() }
    }
}
