//! The record of decisions about definitions. A source may change its list at will, so the lines of one client are
//! bounded.

use std::{
    collections::HashMap,
    mem,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde_json::Value;
use tracing::warn;

use airlock_core::{
    act::{Act, ActKind, Actor, Acts},
    tool::{ClientName, GuardAct, GuardDecision, Tool},
};
use airlock_lock::{digest, sorted};

/// Most decisions about definitions of one client that are recorded in one [`PERIOD`]: one for each tool of the longest
/// list. Each is a line of the audit log, and a server that changes its definitions causes any number of them.
const MAX_LINES: u32 = 2_000;
/// Time in which a client has so many lines, from its first decision on.
const PERIOD: Duration = Duration::from_hours(24);

/// Records decisions that withhold a definition, or replace its texts.
pub(super) struct DefinitionRecord {
    acts: Acts,
    /// One for each client that had a decision: as many as the configuration has had.
    clients: Mutex<HashMap<Option<ClientName>, LineAllowance>>,
}

/// Lines that the decisions about one client may still have in this period.
struct LineAllowance {
    begun: Instant,
    left: u32,
    /// Decisions since the last line that have none.
    left_out: u64,
}

impl DefinitionRecord {
    pub(super) fn new(acts: Acts) -> Self {
        Self { acts, clients: Mutex::default() }
    }

    /// Records decisions about the definition of a tool, as its source lists it; a denial with its code. Counts those
    /// that are beyond the bound.
    pub(super) fn add(&self, tool: &Tool, acts: &[GuardAct], code: Option<&str>, now: Instant) {
        if acts.is_empty() {
            return;
        }
        let definition = digest_of(tool);
        for act in acts {
            if let Some(left_out) = self.take(tool, now) {
                self.acts.record(|| line(tool, &definition, act, code, left_out));
            }
        }
    }

    /// Takes one line of the client of a tool. Returns the number of decisions before it that have none; `None` if no
    /// line is left.
    fn take(&self, tool: &Tool, now: Instant) -> Option<u64> {
        let mut clients = self.clients.lock();
        let allowance = clients.entry(tool.client.clone()).or_insert_with(|| LineAllowance {
            begun: now,
            left: MAX_LINES,
            left_out: 0,
        });
        let taken = allowance.take(now);
        if taken.is_none() && allowance.left_out == 1 {
            let client = tool.client.as_ref().map(ClientName::as_str);
            let limit = MAX_LINES;
            warn!(client, limit, "no more decisions about its definitions are recorded today");
        }
        taken
    }
}

impl LineAllowance {
    fn take(&mut self, now: Instant) -> Option<u64> {
        if now.saturating_duration_since(self.begun) >= PERIOD {
            self.begun = now;
            self.left = MAX_LINES;
        }
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            return Some(mem::take(&mut self.left_out));
        }
        self.left_out += 1;
        None
    }
}

fn line(tool: &Tool, definition: &str, act: &GuardAct, code: Option<&str>, left_out: u64) -> Act {
    let actor = Actor::Guard(act.guard.to_string());
    let mut line = Act::new(ActKind::DefinitionGuarded, actor, tool.full_name.as_str())
        .with("guard_digest", &*act.digest)
        .with("verdict", act.verdict.name())
        .with("definition", definition);
    if let Some(client) = &tool.client {
        line = line.with("client", client.as_str());
    }
    if let Some(code) = code.filter(|_| act.verdict == GuardDecision::Deny) {
        line = line.with("code", code);
    }
    if left_out > 0 {
        line = line.with("left_out", left_out.to_string());
    }
    line
}

/// Returns the digest of the JSON of a definition, with the members of its objects sorted.
fn digest_of(tool: &Tool) -> String {
    // It was written before, for the guards.
    let definition: Value = serde_json::to_value(tool.to_definition()).unwrap_or_default();
    digest(sorted(definition).to_string().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_period_are_bounded_and_the_next_one_has_the_number_of_those_left_out() {
        let begun = Instant::now();
        let mut allowance = LineAllowance { begun, left: MAX_LINES, left_out: 0 };
        for _ in 0..MAX_LINES {
            assert_eq!(allowance.take(begun), Some(0));
        }
        let last = begun + PERIOD.saturating_sub(Duration::from_nanos(1));
        assert_eq!([allowance.take(begun), allowance.take(last)], [None, None]);
        assert_eq!(allowance.take(begun + PERIOD), Some(2));
        assert_eq!(allowance.take(begun + PERIOD), Some(0));
        assert_eq!(allowance.left, MAX_LINES - 2);
    }
}
