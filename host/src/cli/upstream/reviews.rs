//! The lists of MCP servers as they are now, compared with the accepted definitions.

use std::iter;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use airlock_config::{self as config, Config, Source};
use airlock_core::tool::ClientName;
use airlock_gateway::{Gateway, command_line};
use airlock_mcp_client::Pinning;
use airlock_strings::visible_line;
use airlock_terminal::output;
use airlock_upstream::pins::{self, Change, ChangeKind, Quarantined, Review};

/// Maximum characters of the name of a tool.
const NAME_WIDTH: usize = 200;
/// Most lines about the changes of one server, headings included. A server must not scroll the changes of the others away.
const MAX_LINES: usize = 2_000;

/// Lines about the definitions of a server, with the number of those that have no room.
pub(super) struct ReviewLines {
    pub(super) lines: Vec<String>,
    pub(super) hidden: usize,
}

/// One server: its list, or the reason that there is none.
pub(super) struct Reviewed {
    pub(super) client: ClientName,
    pub(super) review: Result<Review, String>,
}

/// Returns the names of the MCP servers that `names` selects; all pinned ones if it is empty. Fails if
/// a name is not that of a server whose definitions are pinned.
pub(super) fn select(config: &Config, names: &[String]) -> anyhow::Result<Vec<ClientName>> {
    let servers: Vec<_> = config.clients.iter().filter_map(pinning).collect();
    if names.is_empty() {
        let pinned = servers.into_iter().filter(|(_, pin)| *pin != Pinning::Off);
        return Ok(pinned.map(|(name, _)| name).collect());
    }
    let mut selected = Vec::new();
    for wanted in names {
        let found = servers.iter().find(|(name, _)| name.as_str() == wanted);
        let (name, pin) = found.with_context(|| {
            format!("no MCP server is named {wanted:?}; configured: {}", known(&servers))
        })?;
        ensure!(*pin != Pinning::Off, "{name} has `pin: \"off\"`, so nothing of it is pinned");
        selected.push(name.clone());
    }
    Ok(selected)
}

fn pinning(client: &config::Client) -> Option<(ClientName, Pinning)> {
    match &client.source {
        Source::Upstream(settings) => Some((client.name.clone(), settings.pin)),
        Source::Plugin(_) => None,
    }
}

fn known(servers: &[(ClientName, Pinning)]) -> String {
    if servers.is_empty() {
        return "none".to_owned();
    }
    let names: Vec<_> = servers.iter().map(|(name, _)| name.as_str()).collect();
    names.join(", ")
}

/// Returns the lists of these servers, as the gateway received them last.
pub(super) fn reviewed(gateway: &Gateway, clients: &[ClientName]) -> Vec<Reviewed> {
    let reviewed = clients.iter().map(|client| {
        let pins = command_line::upstream_pins(gateway).client(client.as_str());
        let review = pins.and_then(|pins| pins.review());
        Reviewed { client: client.clone(), review: review.ok_or_else(|| absence(gateway, client)) }
    });
    reviewed.collect()
}

/// Returns the reason that a server has sent no list.
fn absence(gateway: &Gateway, client: &ClientName) -> String {
    let snapshot = gateway.catalog().snapshot();
    let found = snapshot.clients().find(|found| found.name == *client);
    let state = found.map(|found| found.state.clone());
    let reason = state.as_ref().and_then(|state| state.reason()).unwrap_or("it does not respond");
    format!("it is not connected: {}", output::both_ends(reason, 1000))
}

/// Returns whether an operator has something to decide.
pub(super) fn differs(review: &Review) -> bool {
    !review.changes.is_empty() || review.problem.is_some()
}

/// Describes a server for people: a line for each change, with its differences below it.
pub(super) fn lines(client: &ClientName, review: &Review) -> ReviewLines {
    let count = review.accepted.len();
    let state = match (&review.problem, review.is_locked, review.pinning) {
        (Some(problem), ..) => format!("the accepted definitions are unknown: {problem}"),
        (None, true, _) if review.changes.is_empty() => {
            format!("as it was accepted ({count} tools)")
        }
        (None, false, Pinning::Strict) => "nothing was accepted yet".to_owned(),
        (None, false, _) if review.changes.is_empty() => {
            format!("as it was first used ({count} tools); not in airlock.lock yet")
        }
        (None, true, _) => format!("it changed since it was accepted ({count} tools)"),
        (None, false, _) => format!("it changed since it was first used ({count} tools)"),
    };
    let mut lines = vec![format!("{client}: {}", visible_line(&state))];
    let mut hidden = 0;
    for change in &review.changes {
        hidden += add(&mut lines, &heading(change), change);
    }
    if hidden > 0 {
        lines.push(format!(
            "  {hidden} MORE LINES ARE NOT SHOWN; `airlock upstream diff {client} --json` has all"
        ));
    }
    ReviewLines { lines, hidden }
}

/// Describes the definitions that were pinned on first use and are not in the lock file: each as a
/// whole, with a line before it. Empty if there are none.
pub(super) fn first_used(review: &Review) -> ReviewLines {
    let mut lines = Vec::new();
    let mut hidden = 0;
    if review.is_locked {
        return ReviewLines { lines, hidden };
    }
    for (tool, definition) in &review.accepted {
        let change = Change {
            tool: tool.clone(),
            kind: ChangeKind::New,
            was: None,
            accepted: None,
            pending: Some(definition.clone()),
            is_offered: true,
        };
        let heading = format!("{}: as it was first used", output::one_line(tool, NAME_WIDTH));
        hidden += add(&mut lines, &heading, &change);
    }
    if hidden > 0 {
        lines.push(format!("  {hidden} MORE LINES ARE NOT SHOWN"));
    }
    ReviewLines { lines, hidden }
}

/// Adds a heading and the differences below it, within the bound on lines. Returns the number of
/// lines that are not shown.
fn add(lines: &mut Vec<String>, heading: &str, change: &Change) -> usize {
    let shown = pins::shown(change);
    let room = MAX_LINES.saturating_sub(lines.len());
    let hidden = shown.hidden + (1 + shown.lines.len()).saturating_sub(room);
    let differences = shown.lines.iter().map(|line| format!("    {line}"));
    lines.extend(iter::once(format!("  {heading}")).chain(differences).take(room));
    hidden
}

fn heading(change: &Change) -> String {
    let tool = output::one_line(&change.tool, NAME_WIDTH);
    let outcome = if change.is_offered { "every call needs an approval" } else { "withheld" };
    match (change.kind, &change.was) {
        (ChangeKind::Changed, _) if change.is_offered => {
            format!("{tool}: changed; the old definition is used")
        }
        (ChangeKind::Changed, _) => format!("{tool}: changed; withheld"),
        (ChangeKind::Removed, _) => format!("{tool}: removed by the server"),
        (ChangeKind::Renamed, Some(was)) => {
            format!("{tool}: renamed, was {}; {outcome}", output::one_line(was, NAME_WIDTH))
        }
        _ => format!("{tool}: new; {outcome}"),
    }
}

/// Describes a server for programs.
pub(super) fn document(reviewed: &Reviewed) -> Value {
    let client = &reviewed.client;
    let review = match &reviewed.review {
        Ok(review) => review,
        Err(reason) => return json!({"client": client, "reason": reason, "changes": []}),
    };
    let changes = review.changes.iter().map(|change| {
        let mut document = json!(Quarantined::new(change));
        document["accepted"] = json!(change.accepted.as_ref().map(pins::Definition::value));
        document["pending"] = json!(change.pending.as_ref().map(pins::Definition::value));
        document["diff"] = json!(pins::shown(change).lines);
        document
    });
    // Those of a file were accepted already.
    let first_used = review.accepted.iter().filter(|_| !review.is_locked);
    let first_used = first_used
        .map(|(tool, definition)| json!({"tool": tool, "definition": definition.value()}));
    json!({
        "client": client,
        "pin": review.pinning,
        "locked": review.is_locked,
        "accepted_tools": review.accepted.len(),
        "review": review.digest(),
        "reason": review.problem,
        "changes": changes.collect::<Vec<_>>(),
        "first_used": first_used.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_without_room_is_counted_and_not_shown() {
        let change = Change {
            tool: "a".to_owned(),
            kind: ChangeKind::Removed,
            was: None,
            accepted: None,
            pending: None,
            is_offered: false,
        };
        let mut lines = Vec::new();
        let hidden = (0..MAX_LINES + 3).map(|_| add(&mut lines, &heading(&change), &change));
        assert_eq!((hidden.sum::<usize>(), lines.len()), (3, MAX_LINES));
        assert_eq!(lines[MAX_LINES - 1], "  a: removed by the server");
    }
}
