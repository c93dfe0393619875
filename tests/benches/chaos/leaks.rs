//! Processes that were started for this run, found by a mark in their environment.

use std::{
    fs, process,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use rustix::process::{Pid, Signal, kill_process};

/// A variable that each server of this run passes on to its children.
pub(crate) struct Mark(String);

impl Mark {
    /// Creates a mark that no other run has.
    pub(crate) fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self(format!("CHAOS_MARK={}-{now}", process::id()))
    }

    /// Returns it as `NAME=value`.
    pub(crate) fn variable(&self) -> &str {
        &self.0
    }

    /// Returns all processes with the mark. Zombies have no environment and are not among them.
    pub(crate) fn processes(&self) -> Vec<Leaked> {
        let entries = fs::read_dir("/proc").expect("Linux has it");
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        ids.filter_map(|id| self.marked(id)).collect()
    }

    fn marked(&self, id: i32) -> Option<Leaked> {
        // It may end at any time.
        let environment = fs::read(format!("/proc/{id}/environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        variables.any(|variable| variable == self.0.as_bytes()).then_some(())?;
        let command = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words = command.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        Some(Leaked { id: Pid::from_raw(id)?, command: words.join(" "), leads: leads_session(id) })
    }

    /// Returns the processes that are left after `grace`, and kills them.
    pub(crate) async fn left_after(&self, grace: Duration) -> Vec<Leaked> {
        let end = Instant::now() + grace;
        let mut turns = tokio::time::interval(Duration::from_millis(50));
        loop {
            turns.tick().await;
            let left = self.processes();
            if left.is_empty() || Instant::now() >= end {
                for leaked in &left {
                    // It may have ended since.
                    let _ = kill_process(leaked.id, Signal::KILL);
                }
                return left;
            }
        }
    }
}

/// A process that outlived the gateway.
pub(crate) struct Leaked {
    pub(crate) id: Pid,
    pub(crate) command: String,
    /// Whether it leads a session of its own, which no signal to the server's group reaches.
    pub(crate) leads: bool,
}

/// Returns whether a process leads its session, from the fourth field after its name.
fn leads_session(id: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // The name of the program, in parentheses, may contain blanks.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().nth(3) == Some(id.to_string().as_str())
}
