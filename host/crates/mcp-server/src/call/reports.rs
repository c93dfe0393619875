//! Sends the client what a running tool reports.

use serde_json::{Map, Value, json, value::Number};

use crate::{
    exchange::Outlet,
    meta::{LogLevel, Peer},
};
use airlock_core::{
    door::{CallId, Event, Log, Progress},
    tool::Content,
};
use airlock_wire::method;

/// Level of the messages with partial results.
const PARTIAL: LogLevel = LogLevel::Info;

/// Sends what a running tool reports.
pub(super) struct ToolReports<'r> {
    /// Token by which the client wants progress, as JSON text.
    pub(super) token: Option<&'r str>,
    /// Name that the client knows the tool by.
    pub(super) name: &'r str,
    pub(super) peer: Peer,
    pub(super) outlet: &'r Outlet,
    /// The last progress that was sent; `None` before the first.
    pub(super) last: Option<f64>,
}

impl ToolReports<'_> {
    /// Returns whether the client takes any of them.
    pub(super) fn are_wanted(&self) -> bool {
        self.token.is_some() || self.peer.log_level.is_some()
    }

    fn wants_partial_results(&self) -> bool {
        self.peer.log_level.is_some_and(|level| level <= PARTIAL)
    }

    /// Sends an event that belongs to the running call.
    pub(super) fn send(&mut self, running: CallId, event: Event) {
        match event {
            Event::Progress { call, progress } if call == running => self.progress(&progress),
            Event::Partial { call, part } if call == running => self.partial(&part),
            Event::Log { call, log } if call == running => self.log(*log),
            _ => {}
        }
    }

    /// Sends progress. It must increase with each notification (section "Progress").
    fn progress(&mut self, progress: &Progress) {
        let Some(token) = self.token else { return };
        if self.last.is_some_and(|last| progress.done <= last) {
            return;
        }
        self.last = Some(progress.done);
        let mut params = Map::new();
        let token = serde_json::from_str(token).unwrap_or_default();
        params.insert("progressToken".to_owned(), token);
        params.insert("progress".to_owned(), number(progress.done));
        params.extend(progress.total.map(|total| ("total".to_owned(), number(total))));
        params.extend(progress.message.clone().map(|text| ("message".to_owned(), text.into())));
        self.outlet.notify(method::PROGRESS, &Value::from(params));
    }

    /// Sends a log message of the source.
    fn log(&self, log: Log) {
        if self.peer.log_level.is_some_and(|level| level <= log.level) {
            let Log { level, logger, data } = log;
            let level = Value::from(level.as_str());
            let logger = Value::from(logger);
            let params = format!(r#"{{"level":{level},"logger":{logger},"data":{data}}}"#);
            self.outlet.notify(method::LOG_MESSAGE, &params);
        }
    }

    /// Sends a partial result as a log message: MCP has no other form for it.
    fn partial(&self, part: &Content) {
        if self.wants_partial_results() {
            let data = part.as_text().map_or_else(|| json!(part), Value::from);
            let params = json!({"level": PARTIAL.as_str(), "logger": self.name, "data": data});
            self.outlet.notify(method::LOG_MESSAGE, &params);
        }
    }
}

/// Returns a number, without a fraction where it has none.
fn number(value: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if value.fract() == 0.0 && value.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number of 54 bits")]
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::from)
}
