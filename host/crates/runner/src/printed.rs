//! The printed text of a run: kept within a bound, and delivered while the script runs.
//!
//! A guest prints on its own stack, which is too small for the program's hook. So lines wait until the guest gives its thread
//! back, which it does after each slice of fuel, and before a function that it calls.

use std::{future::poll_fn, mem, pin::Pin};

use parking_lot::Mutex;

use crate::PrintHook;

/// Line in the place of those that do not fit.
const LEFT_OUT: &str = "[further output is left out]";

/// The printed text of a run.
pub(crate) struct PrintedText {
    on_print: Option<PrintHook>,
    limit: usize,
    lines: Mutex<KeptLines>,
}

#[derive(Default)]
struct KeptLines {
    text: String,
    /// Lines in the text.
    count: u64,
    /// Lines at the beginning that were delivered by an earlier run of the script.
    delivered: u64,
    /// Lines that are not delivered yet.
    waiting: Vec<String>,
    is_full: bool,
}

impl PrintedText {
    /// Creates the text of a run, at most `limit` bytes. Of the lines, the first `delivered` are not delivered again.
    pub(crate) fn new(on_print: Option<PrintHook>, limit: usize, delivered: u64) -> Self {
        Self { on_print, limit, lines: Mutex::new(KeptLines { delivered, ..KeptLines::default() }) }
    }

    /// Adds a line. Beyond the bound, a last line says that further ones are left out.
    pub(crate) fn push(&self, mut line: String) {
        let mut lines = self.lines.lock();
        if lines.is_full {
            return;
        }
        let with_break = line.len() + usize::from(lines.count > 0);
        if lines.text.len().saturating_add(with_break) > self.limit {
            lines.is_full = true;
            LEFT_OUT.clone_into(&mut line);
        }
        if lines.count > 0 {
            lines.text.push('\n');
        }
        lines.text.push_str(&line);
        lines.count += 1;
        if self.on_print.is_some() && lines.count > lines.delivered {
            lines.waiting.push(line);
        }
    }

    /// Delivers the lines that wait.
    pub(crate) fn deliver(&self) {
        let Some(on_print) = &self.on_print else { return };
        let waiting = mem::take(&mut self.lines.lock().waiting);
        for line in waiting {
            on_print(&line);
        }
    }

    /// Runs a script, and delivers its lines between its slices.
    pub(crate) async fn beside<T>(&self, mut script: impl Future<Output = T> + Unpin) -> T {
        poll_fn(|context| {
            let polled = Pin::new(&mut script).poll(context);
            self.deliver();
            polled
        })
        .await
    }

    /// Returns the text and the number of its lines.
    pub(crate) fn take(&self) -> (String, u64) {
        let mut lines = self.lines.lock();
        (mem::take(&mut lines.text), lines.count)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn printed(limit: usize, lines: &[&str]) -> String {
        let text = PrintedText::new(None, limit, 0);
        for line in lines {
            text.push((*line).to_owned());
        }
        text.take().0
    }

    #[test]
    fn text_is_kept_up_to_the_limit_and_a_last_line_says_that_there_was_more() {
        assert_eq!(printed(3, &["a", "b"]), "a\nb");
        assert_eq!(printed(2, &["a", "b", "c"]), format!("a\n{LEFT_OUT}"));
        assert_eq!(printed(1, &["", "", ""]), format!("\n\n{LEFT_OUT}"));
        assert_eq!(printed(1, &["ab"]), LEFT_OUT);
    }

    #[tokio::test]
    async fn lines_are_delivered_in_order_and_those_of_an_earlier_run_are_not_repeated() {
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let kept = heard.clone();
        let hook: PrintHook = Arc::new(move |line: &str| kept.lock().push(line.to_owned()));
        let text = PrintedText::new(Some(hook), 100, 1);
        let script = async {
            for line in ["a", "b"] {
                text.push(line.to_owned());
            }
            tokio::task::yield_now().await;
            let early = heard.lock().clone();
            text.push("c".to_owned());
            early
        };
        assert_eq!(text.beside(Box::pin(script)).await, ["b"]);
        assert_eq!(*heard.lock(), ["b", "c"]);
        assert_eq!(text.take(), ("a\nb\nc".to_owned(), 3));
    }
}
