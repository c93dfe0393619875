//! Log lines of guests. Writing never fails because of a limit: the number and length of lines are
//! bounded for each call, and the rate for all calls of a tenant together. For a script, lines are
//! the output of `print`.

use airlock_core::tool::Content;
use tracing::{debug, enabled, error, info, trace, warn};

use crate::{
    Effect,
    run::{
        charge::{BASE_FUEL, charge},
        log_rate::Verdict,
        state::{Guest, State, Store},
    },
};

/// Severity of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

impl Level {
    /// Returns whether the operator's log records this level.
    fn is_logged(self) -> bool {
        match self {
            Self::Trace => enabled!(tracing::Level::TRACE),
            Self::Debug => enabled!(tracing::Level::DEBUG),
            Self::Info => enabled!(tracing::Level::INFO),
            Self::Warn => enabled!(tracing::Level::WARN),
            Self::Error => enabled!(tracing::Level::ERROR),
        }
    }
}

/// Writes one line.
pub(crate) fn write(
    store: &mut Store<'_>,
    level: Level,
    message: &str,
    fields: &[(String, String)],
) -> wasmtime::Result<()> {
    let bytes =
        message.len() + fields.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
    // Not counted as a host call: lines have a limit of their own, beyond which they are dropped.
    charge(store, BASE_FUEL + (bytes + 48 * fields.len()) as u64)?;
    store.data_mut().log(level, message, fields);
    Ok(())
}

impl State {
    /// Logs the effects that the guest tried to have and that its tool does not declare, in one
    /// line for the call: many refusals carry no text to the guest.
    pub(crate) fn log_refused_effects(&mut self) {
        if self.wasi_http.was_denied() {
            self.lacks(Effect::Http, None);
        }
        if self.call.wasi.denied_a_change() {
            for request in self.call.grants.unwritable() {
                self.lacks(Effect::WriteFiles, Some(&request));
            }
        }
        let effects: Vec<_> = self.refused.iter().map(ToString::to_string).collect();
        let (Guest::Plugin(plugin, rate), false) = (&self.call.guest, effects.is_empty()) else {
            return;
        };
        let tool = &self.call.tool;
        let effects = effects.join(", ");
        let bytes = tool.as_str().len() + effects.len();
        if rate.take(self.call.tenant(), bytes) == Verdict::Write {
            warn!(%plugin, %tool, effects, "refused: plugin.toml does not declare these effects of the tool");
        }
    }

    /// Handles one line if the call may still write one. The last line allowed states that further
    /// lines are left out.
    fn log(&mut self, level: Level, message: &str, fields: &[(String, String)]) {
        let Some(left) = self.log_lines_left.checked_sub(1) else { return };
        self.log_lines_left = left;
        let message = if left == 0 { "further lines are left out" } else { message };
        let scrubber = &self.call.grants.scrubber;
        let limit = self.call.limits.log_line_bytes;
        match &self.call.guest {
            Guest::Script(_) if level == Level::Error => {
                self.last_error_line = Some(scrubber.cut(message, limit));
            }
            Guest::Script(_) => {
                if let Some(chain) = &self.call.chain {
                    chain.reporter().emit(Content::text(scrubber.cut(message, limit)));
                }
            }
            Guest::Plugin(plugin, rate) => {
                if !level.is_logged() {
                    return;
                }
                let line = scrubber.line(message, limit);
                let fields = scrubber.line(&joined(fields, limit), limit);
                let tenant = self.call.tenant();
                match rate.take(tenant, line.len() + fields.len()) {
                    Verdict::Write => {}
                    Verdict::Drop => return,
                    Verdict::DropAndSay => {
                        warn!(%plugin, caller = %tenant, "plugin log lines are dropped: its calls write more lines than permitted");
                        return;
                    }
                }
                match level {
                    Level::Trace => trace!(%plugin, line, fields, "plugin log"),
                    Level::Debug => debug!(%plugin, line, fields, "plugin log"),
                    Level::Info => info!(%plugin, line, fields, "plugin log"),
                    Level::Warn => warn!(%plugin, line, fields, "plugin log"),
                    Level::Error => error!(%plugin, line, fields, "plugin log"),
                }
            }
        }
    }
}

/// Joins fields as `key=value` while they fit into `limit` bytes; ` …` stands for the rest.
fn joined(fields: &[(String, String)], limit: usize) -> String {
    let mut text = String::new();
    for (key, value) in fields {
        if text.len() + key.len() + value.len() > limit {
            text.push_str(" …");
            break;
        }
        text.extend([" ", key, "=", value]);
    }
    text.trim_start().to_owned()
}
