//! Log lines on their way to standard error.
//!
//! A gateway logs a line for each request. If the workers of the runtime wrote these lines themselves,
//! each would be a system call under the lock of standard error, and a program that stops to read
//! standard error would stop the workers with the next line. So they only add lines to a buffer, and a
//! thread of its own writes those that have come together. A warning or an error may be the last line
//! before a crash: it is written at once, and its thread waits until it is, for a bounded time. If standard
//! error is not read, only the first such thread waits: further ones go on until a write ends.

mod form;

use std::{
    io::{self, Write},
    mem,
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

pub(crate) use self::form::LineForm;

/// Time for which lines come together before they are written.
const PAUSE: Duration = Duration::from_millis(5);
/// Longest time for which a thread waits until its warning is written.
const URGENT_WAIT: Duration = Duration::from_millis(100);
/// Longest time for which the end of the process waits for its last lines.
const LAST_WAIT: Duration = Duration::from_secs(1);
/// Maximum bytes of the lines that wait. Lines beyond it are counted and left out: if standard error is not read, each
/// request would add one for ever.
const MAX_WAITING: usize = 1 << 20;

/// Lines of the log that are not written yet. Clones share them.
#[derive(Clone)]
pub(crate) struct LogLines(Arc<Lines>);

#[derive(Default)]
struct Lines {
    waiting: Mutex<WaitingLines>,
    /// Wakes the thread that writes.
    filled: Condvar,
    /// Wakes threads that wait until their lines are written.
    drained: Condvar,
    /// Longest time for which a thread waits until its warning is written.
    urgent_wait: Duration,
    form: LineForm,
}

#[derive(Default)]
struct WaitingLines {
    text: Vec<u8>,
    /// Number of lines that were left out since the last ones were written.
    lost: u64,
    /// Number of lines that were ever added.
    added: u64,
    /// Number of these lines that are written.
    written: u64,
    /// True if a thread waits until its line is written.
    is_urgent: bool,
    /// True if such a thread has waited in vain since the last write ended.
    is_stalled: bool,
}

/// Writes one line.
pub(crate) struct StderrLine<'a> {
    lines: &'a Lines,
    is_urgent: bool,
}

impl LogLines {
    /// Starts the thread that writes lines of this form to standard error. Fails if it cannot be started.
    pub(crate) fn to_stderr(form: LineForm) -> io::Result<Self> {
        Self::to(io::stderr(), URGENT_WAIT, form)
    }

    /// Starts the thread that writes lines to `out`. A warning waits for it at most `urgent_wait`.
    fn to(
        out: impl Write + Send + 'static,
        urgent_wait: Duration,
        form: LineForm,
    ) -> io::Result<Self> {
        let lines = Arc::new(Lines { urgent_wait, form, ..Lines::default() });
        let writer = lines.clone();
        thread::Builder::new()
            .name("airlock-log".to_owned())
            .spawn(move || writer.write_on(out))?;
        Ok(Self(lines))
    }

    /// Waits until the lines that wait are written, for a bounded time.
    pub(crate) fn flush(&self) {
        self.0.flush();
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = StderrLine<'a>;

    fn make_writer(&'a self) -> StderrLine<'a> {
        StderrLine { lines: &self.0, is_urgent: true }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> StderrLine<'a> {
        StderrLine { lines: &self.0, is_urgent: *metadata.level() <= Level::WARN }
    }
}

impl Write for StderrLine<'_> {
    /// Adds a whole line, as the format of `tracing_subscriber` writes it.
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.lines.add(&self.lines.form.visible(text), self.is_urgent);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn add(&self, line: &[u8], is_urgent: bool) {
        let mut waiting = self.waiting.lock();
        if waiting.text.len() + line.len() > MAX_WAITING {
            waiting.lost += 1;
            return;
        }
        let is_first = waiting.text.is_empty();
        waiting.text.extend_from_slice(line);
        waiting.added += 1;
        waiting.is_urgent |= is_urgent;
        if is_first || is_urgent {
            self.filled.notify_one();
        }
        if is_urgent {
            self.wait_for_written(&mut waiting);
        }
    }

    /// Waits until the lines so far are written. After a wait in vain, further ones end at once.
    fn wait_for_written(&self, waiting: &mut MutexGuard<'_, WaitingLines>) {
        let added = waiting.added;
        let waited = self.drained.wait_while_for(
            waiting,
            |waiting| waiting.written < added && !waiting.is_stalled,
            self.urgent_wait,
        );
        if waited.timed_out() && waiting.written < added {
            waiting.is_stalled = true;
            self.drained.notify_all();
        }
    }

    fn flush(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_urgent = true;
        self.filled.notify_one();
        let added = waiting.added;
        self.drained.wait_while_for(&mut waiting, |waiting| waiting.written < added, LAST_WAIT);
    }

    /// Writes lines for as long as the process runs.
    fn write_on(&self, mut out: impl Write) {
        loop {
            let mut waiting = self.waiting.lock();
            self.filled.wait_while(&mut waiting, |waiting| waiting.text.is_empty());
            self.filled.wait_while_for(&mut waiting, |waiting| !waiting.is_urgent, PAUSE);
            let text = mem::take(&mut waiting.text);
            let lost = mem::take(&mut waiting.lost);
            let added = waiting.added;
            waiting.is_urgent = false;
            drop(waiting);
            write_all(&mut out, &text, lost);
            let mut waiting = self.waiting.lock();
            waiting.written = added;
            waiting.is_stalled = false;
            drop(waiting);
            self.drained.notify_all();
        }
    }
}

fn write_all(out: &mut impl Write, text: &[u8], lost: u64) {
    // No other place is left to report a failure.
    let _ = out.write_all(text);
    if lost > 0 {
        let _ = writeln!(out, "{lost} lines of the log were left out: standard error was not read");
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::mpsc::{Receiver, Sender, channel},
        time::Instant,
    };

    use super::*;

    /// Longest wait of a test for a line that is written.
    const PATIENCE: Duration = Duration::from_mins(1);

    /// Output whose every write is received by a test, and ends once the test has dropped or used `end`.
    struct Gated {
        written: Sender<String>,
        end: Receiver<()>,
    }

    impl Write for Gated {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let _ = self.written.send(String::from_utf8_lossy(text).into_owned());
            let _ = self.end.recv();
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines(urgent_wait: Duration) -> (LogLines, Receiver<String>, Sender<()>) {
        let (sender, written) = channel();
        let (ends, end) = channel();
        let gated = Gated { written: sender, end };
        let lines = LogLines::to(gated, urgent_wait, LineForm::Plain);
        (lines.expect("a thread starts"), written, ends)
    }

    fn log(lines: &LogLines, is_urgent: bool, text: &str) {
        let mut line = StderrLine { lines: &lines.0, is_urgent };
        line.write_all(text.as_bytes()).expect("a line never fails");
    }

    /// Receives what is written until it ends with `end`.
    fn receive(written: &Receiver<String>, end: &str) -> String {
        let mut text = String::new();
        while !text.ends_with(end) {
            text += &written.recv_timeout(PATIENCE).expect("the thread writes");
        }
        text
    }

    #[test]
    fn a_warning_is_written_with_the_lines_before_it_when_its_thread_goes_on() {
        let (lines, written, ends) = lines(PATIENCE);
        drop(ends);
        log(&lines, false, "one\n");
        log(&lines, false, "two\n");
        log(&lines, true, "warning\n");
        assert_eq!(written.try_iter().collect::<String>(), "one\ntwo\nwarning\n");
    }

    #[test]
    fn a_value_that_is_displayed_begins_no_line_of_its_own() {
        let (lines, written, ends) = lines(PATIENCE);
        drop(ends);
        log(&lines, true, "failed cause=no\n2026-01-01T00:00:00Z  INFO forged\n");
        let text = receive(&written, "forged\n");
        assert_eq!(text.lines().count(), 1, "{text}");
    }

    #[test]
    fn the_thread_writes_what_waits() {
        let (lines, written, ends) = lines(PATIENCE);
        drop(ends);
        for text in ["one\n", "two\n"] {
            log(&lines, false, text);
            assert_eq!(written.recv_timeout(PATIENCE).as_deref(), Ok(text));
        }
    }

    #[test]
    fn while_the_output_is_not_read_only_the_first_warning_waits() {
        let wait = Duration::from_millis(100);
        let (lines, written, ends) = lines(wait);
        log(&lines, true, "first\n");
        assert!(lines.0.waiting.lock().is_stalled, "it has waited in vain");
        let begun = Instant::now();
        for _ in 0..600 {
            log(&lines, true, "next\n");
        }
        assert!(begun.elapsed() < wait * 300, "{:?}", begun.elapsed());
        drop(ends);
        let all = format!("first\n{}", "next\n".repeat(600));
        assert_eq!(receive(&written, &all), all);
        log(&lines, true, "last\n");
        assert_eq!(receive(&written, "last\n"), "last\n");
    }

    #[test]
    fn lines_beyond_the_bound_are_counted_and_left_out() {
        let (lines, written, ends) = lines(PATIENCE);
        log(&lines, false, "first\n");
        assert_eq!(receive(&written, "first\n"), "first\n");
        let half = format!("{}\n", "x".repeat(MAX_WAITING / 2 - 1));
        for _ in 0..2 {
            log(&lines, false, &half);
        }
        log(&lines, false, "lost\n");
        log(&lines, true, "lost too\n");
        drop(ends);
        assert_eq!(receive(&written, &half).len(), MAX_WAITING);
        let lost = "2 lines of the log were left out: standard error was not read\n";
        assert_eq!(receive(&written, lost), lost);
        log(&lines, true, "again\n");
        assert_eq!(receive(&written, "again\n"), "again\n");
    }
}
