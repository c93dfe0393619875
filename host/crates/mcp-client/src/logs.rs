//! The stored stderr of one server, for operators.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use super::limits::{SHOWN_STDERR_BYTES, STDERR_SOURCES};

/// The end of the stderr of one process. It grows while the process runs, and stays after its exit.
pub(super) trait Stderr: Send + Sync {
    /// Returns the lines, oldest first: redacted, without control characters, and bounded in size.
    fn lines(&self) -> Vec<String>;
}

/// The stderr of the last processes of a server.
#[derive(Default)]
pub struct StderrLogs(Mutex<VecDeque<Arc<dyn Stderr>>>);

impl StderrLogs {
    /// Adds the stderr of a process that was started. That of the process before the last one is
    /// dropped: a crash is still there after the restart.
    pub(super) fn follow(&self, stderr: Arc<dyn Stderr>) {
        let mut sources = self.0.lock();
        if sources.len() == STDERR_SOURCES {
            sources.pop_front();
        }
        sources.push_back(stderr);
    }

    /// Returns the last lines of all processes, oldest first, at most [`SHOWN_STDERR_BYTES`]
    /// together. Empty if the server is no process of this machine.
    pub fn lines(&self) -> Vec<String> {
        // Redaction takes time, so it is done without the lock.
        let sources: Vec<_> = self.0.lock().iter().cloned().collect();
        let mut lines: Vec<String> = sources.iter().flat_map(|source| source.lines()).collect();
        let mut room = SHOWN_STDERR_BYTES;
        let fitting = lines.iter().rev().take_while(|line| {
            let length = line.len() + 1;
            let is_fitting = length <= room;
            room = room.saturating_sub(length);
            is_fitting
        });
        let shown = fitting.count();
        lines.split_off(lines.len() - shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Vec<String>);

    impl Stderr for Fixed {
        fn lines(&self) -> Vec<String> {
            self.0.clone()
        }
    }

    fn fixed(lines: &[&str]) -> Arc<dyn Stderr> {
        Arc::new(Fixed(lines.iter().map(|line| (*line).to_owned()).collect()))
    }

    #[test]
    fn the_lines_of_the_last_processes_are_shown_in_their_order() {
        let logs = StderrLogs::default();
        assert!(logs.lines().is_empty());
        for lines in [&["first"][..], &["second", "it crashed"], &["third"]] {
            logs.follow(fixed(lines));
        }
        assert_eq!(logs.lines(), ["second", "it crashed", "third"]);
    }

    #[test]
    fn only_the_last_bytes_are_shown_and_no_line_is_cut() {
        let logs = StderrLogs::default();
        let half = "x".repeat(SHOWN_STDERR_BYTES / 2 - 1);
        logs.follow(fixed(&["old", &half, &half]));
        assert_eq!(logs.lines(), [half.as_str(), half.as_str()]);
        logs.follow(fixed(&["y"]));
        assert_eq!(logs.lines(), [half.as_str(), "y"]);
    }
}
