//! Receives the events of the crate `tracing`, and adds the fields of their spans.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::{Debug, Display};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Metadata, Subscriber};

use super::{Level, forwarded};

thread_local! {
    /// The spans that this thread is in, from the outermost to the innermost.
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Installs the receiver, unless the plugin has installed another.
pub(crate) fn install() {
    let _ = tracing_core::dispatcher::set_global_default(tracing_core::Dispatch::new(
        Forward::default(),
    ));
}

/// Makes `tracing` ask again which events are wanted.
pub(super) fn level_changed() {
    tracing_core::callsite::rebuild_interest_cache();
}

#[derive(Default)]
struct Forward(Mutex<Spans>);

#[derive(Default)]
struct Spans {
    last: u64,
    open: BTreeMap<u64, OpenSpan>,
}

struct OpenSpan {
    name: &'static str,
    fields: Vec<(String, String)>,
    parent: Option<u64>,
    /// Handles on the span, and spans inside it.
    uses: usize,
}

impl Spans {
    /// Returns the span and those around it, from the outermost on.
    fn chain(&self, innermost: Option<u64>) -> Vec<&OpenSpan> {
        let mut chain = Vec::new();
        let mut next = innermost;
        while let Some(span) = next.and_then(|id| self.open.get(&id)) {
            chain.push(span);
            next = span.parent;
        }
        chain.reverse();
        chain
    }

    /// Ends one use of a span. Without any left, it is dropped, which ends a use of its parent.
    fn release(&mut self, id: u64) -> bool {
        let Some(span) = self.open.get_mut(&id) else { return false };
        span.uses -= 1;
        if span.uses > 0 {
            return false;
        }
        if let Some(parent) = self.open.remove(&id).and_then(|span| span.parent) {
            self.release(parent);
        }
        true
    }
}

impl Forward {
    fn spans(&self) -> MutexGuard<'_, Spans> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscriber for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        forwarded::is_forwarded(level_of(metadata))
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent = match attributes.parent() {
            Some(parent) => Some(parent.into_u64()),
            None if attributes.is_contextual() => innermost(),
            None => None,
        };
        let mut spans = self.spans();
        spans.last += 1;
        let id = spans.last;
        if let Some(parent) = parent.and_then(|parent| spans.open.get_mut(&parent)) {
            parent.uses += 1;
        }
        let name = attributes.metadata().name();
        spans.open.insert(id, OpenSpan { name, fields: fields.values, parent, uses: 1 });
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        if let Some(span) = self.spans().open.get_mut(&id.into_u64()) {
            // A value that is recorded again replaces the earlier one.
            span.fields.retain(|(name, _)| fields.values.iter().all(|(new, _)| new != name));
            span.fields.append(&mut fields.values);
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let parent = match event.parent() {
            Some(parent) => Some(parent.into_u64()),
            None if event.is_contextual() => innermost(),
            None => None,
        };
        let Fields { message, mut values } = fields;
        {
            // Unlocked before the line is written: a value's `Display` may itself log.
            let spans = self.spans();
            let chain = spans.chain(parent);
            for span in &chain {
                let fields = span.fields.iter();
                values.extend(
                    fields.map(|(name, value)| (format!("{}.{name}", span.name), value.clone())),
                );
            }
            if !chain.is_empty() {
                let names: Vec<_> = chain.iter().map(|span| span.name).collect();
                values.push(("span".to_owned(), names.join(":")));
            }
        }
        values.push(("target".to_owned(), event.metadata().target().to_owned()));
        let values: Vec<(&str, &dyn Display)> =
            values.iter().map(|(name, value)| (name.as_str(), value as &dyn Display)).collect();
        super::write(level_of(event.metadata()), message, &values);
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(position) = entered.iter().rposition(|span| *span == id.into_u64()) {
                entered.remove(position);
            }
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = self.spans().open.get_mut(&id.into_u64()) {
            span.uses += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        self.spans().release(id.into_u64())
    }
}

fn innermost() -> Option<u64> {
    ENTERED.with_borrow(|entered| entered.last().copied())
}

fn level_of(metadata: &Metadata<'_>) -> Level {
    match *metadata.level() {
        tracing_core::Level::TRACE => Level::Trace,
        tracing_core::Level::DEBUG => Level::Debug,
        tracing_core::Level::INFO => Level::Info,
        tracing_core::Level::WARN => Level::Warn,
        tracing_core::Level::ERROR => Level::Error,
    }
}

/// The message and the other values of an event or a span.
#[derive(Default)]
struct Fields {
    message: String,
    values: Vec<(String, String)>,
}

impl Fields {
    fn add(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            name => self.values.push((name.to_owned(), value)),
        }
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.add(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.add(field, value.to_owned());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.add(field, value.to_string());
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::Host;

    #[test]
    fn an_event_goes_to_the_host_with_the_fields_of_its_spans() {
        let host = Host::new();
        host.run(|_| {
            let outer = tracing::info_span!("call", tool = "read", rows = tracing::field::Empty);
            let _outer = outer.enter();
            outer.record("rows", 3);
            let inner = tracing::info_span!("row", id = 7);
            inner.in_scope(|| {
                tracing::debug!("not forwarded");
                tracing::warn!(target: "lib", cell = "a", "cell {} skipped", 1);
            });
            tracing::info!(target: "lib", "done");
        });
        let lines = host.logs();
        let shown: Vec<_> = lines
            .iter()
            .map(|line| {
                let fields = line.fields.iter().map(|(name, value)| format!(" {name}={value}"));
                format!("{:?} {}{}", line.level, line.message, fields.collect::<String>())
            })
            .collect();
        assert_eq!(
            shown,
            [
                "Warn cell 1 skipped cell=a call.tool=read call.rows=3 row.id=7 span=call:row target=lib",
                "Info done call.tool=read call.rows=3 span=call target=lib",
            ]
        );
    }

    #[test]
    fn a_span_lives_as_long_as_a_span_inside_it() {
        let host = Host::new();
        host.run(|_| {
            let inner = {
                let outer = tracing::info_span!("outer", a = 1);
                tracing::info_span!(parent: &outer, "inner")
            };
            tracing::info!(target: "lib", parent: &inner, "x");
        });
        let fields = host.logs()[0].fields.clone();
        assert_eq!(fields[0], ("outer.a".to_owned(), "1".to_owned()));
    }
}
