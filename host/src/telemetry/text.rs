//! Lines of the log for people, without colours.
//!
//! They are the same as those of `tracing_subscriber`'s own format, which writes each name and each `=` through a style,
//! and computes the date of each line: a line took 8 % of the instructions of a chat request. A line is written as a
//! `String` here, and handed over whole: each part of it went through two writers behind pointers.

use std::{
    cell::{Cell, RefCell},
    error::Error,
    fmt::{self, Write as _},
    mem,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tracing::{
    Event, Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    field::VisitOutput as _,
    fmt::{
        FmtContext, FormatEvent, FormatFields, FormattedFields,
        format::{DefaultVisitor, Writer},
    },
    registry::LookupSpan,
};

thread_local! {
    /// The second of the last line of this thread, since 1970, and its text without the zone.
    static LAST_SECOND: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
    /// Room for a line of this thread.
    static LINE: Cell<String> = const { Cell::new(String::new()) };
}

/// Format of lines for people, without colours.
pub(super) struct UncolouredText;

impl<S, N> FormatEvent<S, N> for UncolouredText
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // Taken, because a value may log a line of its own while it is written.
        let mut line = LINE.take();
        line.clear();
        let written = write_line(&mut line, context, event);
        let written = written.and_then(|()| writer.write_str(&line));
        LINE.set(line);
        written
    }
}

fn write_line<S, N>(
    line: &mut String,
    context: &FmtContext<'_, S, N>,
    event: &Event<'_>,
) -> fmt::Result
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    write_time(line)?;
    let metadata = event.metadata();
    line.push_str(title_of(*metadata.level()));
    write_spans(context, line)?;
    line.push_str(metadata.target());
    line.push_str(": ");
    let mut fields = UncolouredFields { line, is_first: true, result: Ok(()) };
    event.record(&mut fields);
    fields.result?;
    line.push('\n');
    Ok(())
}

/// Writes the time of this moment, with microseconds and a space. The date and time of a second are written once for
/// all lines of a thread in it.
fn write_time(line: &mut String) -> fmt::Result {
    // A clock that is before 1970 shows its beginning.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    LAST_SECOND.with_borrow_mut(|(second, text)| {
        if *second != now.as_secs() {
            text.clear();
            let whole = UNIX_EPOCH + Duration::from_secs(now.as_secs());
            write!(text, "{}", humantime::format_rfc3339_seconds(whole))?;
            // The zone.
            text.pop();
            *second = now.as_secs();
        }
        line.push_str(text);
        write!(line, ".{:06}Z ", now.subsec_micros())
    })
}

fn title_of(level: Level) -> &'static str {
    match level {
        Level::TRACE => "TRACE ",
        Level::DEBUG => "DEBUG ",
        Level::INFO => " INFO ",
        Level::WARN => " WARN ",
        Level::ERROR => "ERROR ",
    }
}

/// Writes the spans of an event, the outermost first.
fn write_spans<S, N>(context: &FmtContext<'_, S, N>, line: &mut String) -> fmt::Result
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    let Some(scope) = context.event_scope() else { return Ok(()) };
    for span in scope.from_root() {
        line.push_str(span.metadata().name());
        let extensions = span.extensions();
        let fields = extensions.get::<FormattedFields<N>>();
        if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
            write!(line, "{{{fields}}}")?;
        }
        line.push(':');
    }
    line.push(' ');
    Ok(())
}

/// Writes the fields of an event.
struct UncolouredFields<'l> {
    line: &'l mut String,
    /// True before the first field.
    is_first: bool,
    result: fmt::Result,
}

impl UncolouredFields<'_> {
    /// Writes a field with a value that has nothing to escape, or is escaped.
    fn write(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if self.result.is_ok() {
            self.separate();
            self.line.push_str(field.name());
            self.line.push('=');
            self.result = self.line.write_fmt(value);
        }
    }

    fn separate(&mut self) {
        if !mem::take(&mut self.is_first) {
            self.line.push(' ');
        }
    }

    /// Writes a message that has nothing to escape. False, and nothing is written, if it has.
    fn write_message(&mut self, value: &dyn fmt::Debug) -> bool {
        let start = self.line.len();
        let was_first = self.is_first;
        self.separate();
        let written = write!(self.line, "{value:?}");
        let is_plain = self.line[start..].bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if written.is_ok() && is_plain {
            return true;
        }
        self.line.truncate(start);
        self.is_first = was_first;
        false
    }

    /// Writes a field as the format of `tracing_subscriber` does.
    fn write_by_default(&mut self, record: impl FnOnce(&mut DefaultVisitor<'_>)) {
        if self.result.is_ok() {
            let is_first = mem::take(&mut self.is_first);
            let mut visitor = DefaultVisitor::new(Writer::new(self.line), is_first);
            record(&mut visitor);
            self.result = visitor.finish();
        }
    }
}

impl Visit for UncolouredFields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if has_own_form(field) {
            self.write_by_default(|visitor| visitor.record_str(field, value));
        } else if value.bytes().all(is_plain) {
            self.write(field, format_args!("\"{value}\""));
        } else {
            self.write(field, format_args!("{value:?}"));
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.write_by_default(|visitor| visitor.record_error(field, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" && self.result.is_ok() && self.write_message(value) {
            return;
        }
        if has_own_form(field) {
            self.write_by_default(|visitor| visitor.record_debug(field, value));
        } else {
            self.write(field, format_args!("{value:?}"));
        }
    }
}

/// Returns whether a field is not written as its name and its value: the message, and one with the name of a keyword.
fn has_own_form(field: &Field) -> bool {
    let name = field.name();
    name == "message" || name.starts_with("r#")
}

/// Returns whether a byte stands for itself in a text between double quotes.
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use parking_lot::Mutex;
    use tracing::{info, info_span, subscriber::with_default, warn};

    use super::*;

    /// Log that a test reads.
    #[derive(Clone, Default)]
    struct KeptLines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for KeptLines {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(text);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl KeptLines {
        /// Returns the lines without their times, which are checked.
        fn without_times(&self) -> Vec<String> {
            let text = String::from_utf8(self.0.lock().clone()).expect("text");
            let lines = text.lines().map(|line| {
                let (time, rest) = line.split_once(' ').expect("a time");
                assert_eq!(time.len(), "2026-11-29T22:52:24.657003Z".len(), "{line}");
                humantime::parse_rfc3339(time).expect("a time");
                rest.to_owned()
            });
            lines.collect()
        }
    }

    fn log_all() {
        let failed = anyhow::anyhow!("the cause").context("a \u{1b}[31mfailure");
        let error: &(dyn Error + 'static) = failed.as_ref();
        info!(text = "a b", quoted = "a\"b", path = "a\\b\n\u{e9}", empty = "", "request");
        info!(%failed, debug = ?Some("x"), status = 200_u16, less = -1, is = true, half = 0.5, "request");
        warn!(error, r#type = "a", none = None::<u64>, "a {} message \u{1b}[31m", "long");
        info!(message = "of a field");
        info!(alone = 1);
        let _outer = info_span!("outer", user = "a b", count = 2).entered();
        let _inner = info_span!("inner").entered();
        info!("in spans");
        warn!(target: "another::target", at = 1, "in spans");
    }

    #[test]
    fn a_line_is_that_of_the_default_format() {
        let plain = KeptLines::default();
        let writer = plain.clone();
        let builder = tracing_subscriber::fmt().with_ansi(false);
        let builder = builder.with_writer(move || writer.clone());
        with_default(builder.event_format(UncolouredText).finish(), log_all);
        let default = KeptLines::default();
        let writer = default.clone();
        let builder = tracing_subscriber::fmt().with_ansi(false);
        with_default(builder.with_writer(move || writer.clone()).finish(), log_all);
        let lines = plain.without_times();
        assert_eq!(lines, default.without_times());
        assert_eq!(lines.len(), 7);
        assert!(
            lines[0].starts_with(" INFO airlock::telemetry::text::tests: request text=\"a b\"")
        );
    }
}
