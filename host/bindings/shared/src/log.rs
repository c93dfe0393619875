//! Warnings of the gateway and the sandbox for the log of the program.
//!
//! An event may be logged by any thread, also under a lock that a thread of the interpreter waits for. So it is only queued
//! there, and a task of the runtime delivers what is queued: no thread waits for events, and none is left when the runtime
//! closes.

use std::{
    cell::Cell,
    collections::VecDeque,
    fmt::{self, Write as _},
    mem, process,
    sync::OnceLock,
    time::Duration,
};

use airlock_strings::{cut, visible_line};
use parking_lot::Mutex;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
};

use crate::HostRuntime;

/// Records that wait. Further ones are counted: the handlers of the program may be slow, and a server may cause a warning
/// with each call. With [`MAX_TEXT_BYTES`], they take 4 MB.
const MAX_RECORDS: usize = 1_000;
/// Bytes of a record. Its fields may repeat what a server or a model has sent.
const MAX_TEXT_BYTES: usize = 4 << 10;
/// Longest wait for the queue. In the child of a fork, nothing may ever unlock it.
const PATIENCE: Duration = Duration::from_millis(10);
/// Beginning of the targets of the gateway's own crates.
const OWN_TARGET: &str = "airlock";

static QUEUE: Mutex<LogQueue> =
    Mutex::new(LogQueue { records: VecDeque::new(), left_out: 0, deliverer: 0 });
static DELIVER: OnceLock<LogDelivery> = OnceLock::new();

thread_local! {
    /// True while records are delivered on this thread: what that logs would be delivered without end.
    static IS_DELIVERING: Cell<bool> = const { Cell::new(false) };
}

/// Receives records, in order.
pub type LogDelivery = fn(Vec<LogRecord>);

/// A warning or an error of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRecord {
    /// True if someone must act.
    pub is_error: bool,
    /// The message with its fields, on one line.
    pub text: String,
}

struct LogQueue {
    records: VecDeque<LogRecord>,
    /// Records that the queue had no room for.
    left_out: u64,
    /// The process whose runtime has a task that delivers; 0 for none.
    deliverer: u32,
}

/// Delivers warnings and errors from now on. Does nothing if the process has a subscriber already.
pub fn forward_log(deliver: LogDelivery) {
    if DELIVER.set(deliver).is_ok() {
        // Fails if this module has a subscriber already, which then receives the events.
        let _ = tracing::subscriber::set_global_default(LogBridge);
    }
}

/// Delivers the records that wait, on this thread.
pub fn flush_log() {
    let Some(deliver) = DELIVER.get() else { return };
    IS_DELIVERING.set(true);
    while let Some(records) = take() {
        deliver(records);
    }
    IS_DELIVERING.set(false);
}

/// Takes the records that wait; `None` if there are none, so that the next record needs another task.
fn take() -> Option<Vec<LogRecord>> {
    let mut queue = QUEUE.try_lock_for(PATIENCE)?;
    let mut records: Vec<_> = mem::take(&mut queue.records).into();
    let left_out = mem::take(&mut queue.left_out);
    if left_out > 0 {
        let text = format!("{left_out} further warnings are left out");
        records.push(LogRecord { is_error: false, text });
    }
    if records.is_empty() {
        queue.deliverer = 0;
        return None;
    }
    Some(records)
}

/// Queues a record, and spawns the task that delivers it.
fn push(record: LogRecord) {
    let Some(mut queue) = QUEUE.try_lock_for(PATIENCE) else { return };
    if queue.records.len() == MAX_RECORDS {
        queue.left_out += 1;
    } else {
        queue.records.push_back(record);
    }
    if queue.deliverer == process::id() {
        return;
    }
    // Without a runtime, the next record or the end of the program delivers it.
    if let Some(runtime) = HostRuntime::running() {
        queue.deliverer = process::id();
        drop(queue);
        // It takes the lock of the interpreter, which a worker must not wait for.
        runtime.spawn_blocking(flush_log);
    }
}

/// Queues the warnings and errors of the gateway's own crates.
struct LogBridge;

impl Subscriber for LogBridge {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
            && *metadata.level() <= Level::WARN
            && metadata.target().starts_with(OWN_TARGET)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        if IS_DELIVERING.get() {
            return;
        }
        let mut text = LogText::default();
        event.record(&mut text);
        let is_error = *event.metadata().level() == Level::ERROR;
        let text = cut(visible_line(&(text.message.0 + &text.fields.0)), MAX_TEXT_BYTES);
        push(LogRecord { is_error, text });
    }

    // No span is enabled.
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// The message of an event, and its fields as ` name=value`.
#[derive(Default)]
struct LogText {
    message: BoundedText,
    fields: BoundedText,
}

/// The beginning of a text, with at most one character beyond [`MAX_TEXT_BYTES`]. Writing to it fails then, so that the rest
/// of a long value is not formatted.
#[derive(Default)]
struct BoundedText(String);

impl fmt::Write for BoundedText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = MAX_TEXT_BYTES + char::MAX.len_utf8() - self.0.len();
        self.0.push_str(&piece[..piece.floor_char_boundary(room)]);
        if self.0.len() > MAX_TEXT_BYTES { Err(fmt::Error) } else { Ok(()) }
    }
}

impl Visit for LogText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // It fails once the text is full. The text is then too long for a record, which is cut.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use tracing::{error, info, warn};

    use super::*;

    static DELIVERED: Mutex<Vec<LogRecord>> = Mutex::new(Vec::new());

    fn deliver(records: Vec<LogRecord>) {
        warn!("what a receiver logs is not delivered");
        DELIVERED.lock().extend(records);
    }

    fn record(is_error: bool, text: &str) -> LogRecord {
        LogRecord { is_error, text: text.to_owned() }
    }

    fn delivered() -> Vec<LogRecord> {
        flush_log();
        mem::take(&mut *DELIVERED.lock())
    }

    /// Writes more than a record holds, and counts the pieces that were taken.
    struct LongValue<'c>(&'c Cell<usize>);

    impl fmt::Debug for LongValue<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for _ in 0..MAX_TEXT_BYTES {
                f.write_str("ü")?;
                self.0.set(self.0.get() + 1);
            }
            Ok(())
        }
    }

    #[test]
    fn a_value_is_formatted_as_far_as_a_record_has_room() {
        let taken = Cell::new(0);
        let mut text = BoundedText::default();
        assert!(write!(text, "{:?}", LongValue(&taken)).is_err());
        assert_eq!((taken.get(), text.0.len()), (MAX_TEXT_BYTES / 2, MAX_TEXT_BYTES + 2));
        assert!(write!(text, " name={:?}", "ü".repeat(10)).is_err());
        assert!(text.0.len() <= MAX_TEXT_BYTES + 4, "{}", text.0.len());
        let mut text = BoundedText::default();
        assert!(text.write_str(&"ü".repeat(MAX_TEXT_BYTES / 2)).is_ok(), "it has room");
        assert!(cut(text.0, MAX_TEXT_BYTES).ends_with('ü'), "it is whole");
    }

    /// One test: the queue is that of the process. No runtime is there, so nothing is delivered but by `flush_log`.
    #[test]
    fn warnings_and_errors_are_delivered_on_one_line_and_their_number_is_bounded() {
        forward_log(deliver);
        info!("it is neither");
        warn!(target: "hyper", "another crate has logged it");
        warn!(client = "a\nb", count = 3, "a server is not connected");
        error!("no more memory");
        let expected = [
            record(false, r#"a server is not connected client="a\nb" count=3"#),
            record(true, "no more memory"),
        ];
        assert_eq!(delivered(), expected);
        warn!("{}", "two\nlines".repeat(MAX_TEXT_BYTES));
        let long = delivered().pop().expect("it is delivered").text;
        assert!(long.len() <= MAX_TEXT_BYTES && !long.contains('\n'), "{long}");
        for _ in 0..MAX_RECORDS + 5 {
            warn!("again");
        }
        let many = delivered();
        assert_eq!(many.len(), MAX_RECORDS + 1);
        assert_eq!(many[MAX_RECORDS].text, "5 further warnings are left out");
        assert!(delivered().is_empty());
    }
}
