//! Log lines on their way to standard error.
//!
//! A gateway logs a line for each request. If the workers of the runtime wrote these lines themselves,
//! each would be a system call under the lock of standard error, and a program that stops to read
//! standard error would stop the workers with the next request. So they only add lines to a buffer, and a
//! thread of its own writes those that have come together. A warning or an error is written at once and
//! by its own thread, with the lines before it, because it may be the last line before a crash.

use std::{
    io::{self, Write},
    mem,
    sync::Arc,
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// Time for which lines come together before they are written.
const PAUSE: Duration = Duration::from_millis(5);
/// Maximum bytes of the lines that wait. Lines beyond it are counted and left out.
const MAX_WAITING: usize = 1 << 20;

/// Lines of the log that are not written yet. Clones share them.
#[derive(Clone)]
pub(crate) struct LogLines(Arc<Lines>);

struct Lines {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    /// The output. It is locked before `waiting`, so that lines keep their order.
    out: Mutex<Box<dyn Write + Send>>,
}

#[derive(Default)]
struct Waiting {
    text: Vec<u8>,
    /// Number of lines that were left out since the last ones were written.
    lost: u64,
}

/// Writes one line.
pub(crate) struct Line<'a> {
    lines: &'a Lines,
    is_urgent: bool,
}

impl LogLines {
    /// Starts the thread that writes lines to standard error. Fails if it cannot be started.
    pub(crate) fn to_stderr() -> io::Result<Self> {
        let lines = Self::to(io::stderr());
        let writer = lines.0.clone();
        thread::Builder::new().name("airlock-log".to_owned()).spawn(move || writer.write_on())?;
        Ok(lines)
    }

    fn to(out: impl Write + Send + 'static) -> Self {
        Self(Arc::new(Lines {
            waiting: Mutex::default(),
            filled: Condvar::new(),
            out: Mutex::new(Box::new(out)),
        }))
    }

    /// Writes the lines that wait.
    pub(crate) fn flush(&self) {
        self.0.write_out();
    }
}

impl<'a> MakeWriter<'a> for LogLines {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { lines: &self.0, is_urgent: true }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Line<'a> {
        Line { lines: &self.0, is_urgent: *metadata.level() <= Level::WARN }
    }
}

impl Write for Line<'_> {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.lines.add(text);
        if self.is_urgent {
            self.lines.write_out();
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn add(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.text.len() + line.len() > MAX_WAITING {
            waiting.lost += 1;
            return;
        }
        let is_first = waiting.text.is_empty();
        waiting.text.extend_from_slice(line);
        drop(waiting);
        if is_first {
            self.filled.notify_one();
        }
    }

    /// Writes lines for as long as the process runs.
    fn write_on(&self) {
        loop {
            let mut waiting = self.waiting.lock();
            self.filled.wait_while(&mut waiting, |waiting| waiting.text.is_empty());
            drop(waiting);
            thread::sleep(PAUSE);
            self.write_out();
        }
    }

    fn write_out(&self) {
        let mut out = self.out.lock();
        let Waiting { text, lost } = mem::take(&mut *self.waiting.lock());
        // No other place is left to report a failure.
        let _ = out.write_all(&text);
        if lost > 0 {
            let _ =
                writeln!(out, "{lost} lines of the log were left out: standard error was not read");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Output whose every write is received by a test.
    struct Sent(Sender<String>);

    impl Write for Sent {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(String::from_utf8_lossy(text).into_owned());
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines() -> (LogLines, Receiver<String>) {
        let (sender, written) = channel();
        (LogLines::to(Sent(sender)), written)
    }

    fn log(lines: &LogLines, is_urgent: bool, text: &str) {
        let mut line = Line { lines: &lines.0, is_urgent };
        line.write_all(text.as_bytes()).expect("a line never fails");
    }

    #[test]
    fn lines_wait_for_each_other_and_a_warning_takes_them_along() {
        let (lines, written) = lines();
        log(&lines, false, "one\n");
        log(&lines, false, "two\n");
        assert!(written.try_recv().is_err(), "nothing is written by the thread that logs");
        log(&lines, true, "warning\n");
        assert_eq!(written.try_recv().as_deref(), Ok("one\ntwo\nwarning\n"));
        log(&lines, false, "three\n");
        lines.flush();
        assert_eq!(written.try_recv().as_deref(), Ok("three\n"));
    }

    #[test]
    fn the_thread_writes_what_waits() {
        let (lines, written) = lines();
        let writer = lines.0.clone();
        thread::spawn(move || writer.write_on());
        for text in ["one\n", "two\n"] {
            log(&lines, false, text);
            assert_eq!(written.recv().as_deref(), Ok(text));
        }
    }

    #[test]
    fn lines_beyond_the_bound_are_counted_and_left_out() {
        let (lines, written) = lines();
        let half = format!("{}\n", "x".repeat(MAX_WAITING / 2 - 1));
        for _ in 0..2 {
            log(&lines, false, &half);
        }
        log(&lines, false, "lost\n");
        log(&lines, true, "lost too\n");
        assert_eq!(written.try_recv().map(|text| text.len()), Ok(MAX_WAITING));
        let said: String = written.try_iter().collect();
        assert_eq!(said, "2 lines of the log were left out: standard error was not read\n");
        log(&lines, true, "again\n");
        assert_eq!(written.try_recv().as_deref(), Ok("again\n"));
    }
}
