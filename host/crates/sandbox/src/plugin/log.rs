//! Log lines of plugins. They go to the operator's log.

use airlock_core::log_rate::LineVerdict;
use tracing::{debug, enabled, error, info, trace, warn};

use super::{Effect, side::PluginSide};
use crate::{imports::log::Level, run::state::State};

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

impl State<PluginSide> {
    /// Logs the effects that the guest tried to have and that its tool does not declare, in one
    /// line for the call: many refusals carry no text to the guest.
    pub(super) fn log_refused_effects(&mut self) {
        if self.running.wasi_http.was_denied() {
            self.lacks(Effect::Http, None);
        }
        if self.call.guest.wasi.denied_a_change() {
            for request in self.call.guest.rights.grants.unwritable() {
                self.lacks(Effect::WriteFiles, Some(&request));
            }
        }
        let effects: Vec<_> = self.running.refused.iter().map(ToString::to_string).collect();
        if effects.is_empty() {
            return;
        }
        let plugin = &self.call.guest.rights.plugin.client;
        let tool = &self.call.tool;
        let effects = effects.join(", ");
        let bytes = tool.as_str().len() + effects.len();
        if self.call.guest.rights.plugin.log.take(self.call.tenant(), bytes) == LineVerdict::Write {
            warn!(%plugin, %tool, effects, "refused: plugin.toml does not declare these effects of the tool");
        }
    }

    /// Writes one line to the operator's log, unless the plugin writes more than it may.
    pub(super) fn log_line(&self, level: Level, message: &str, fields: &[(String, String)]) {
        if !level.is_logged() {
            return;
        }
        let plugin = &self.call.guest.rights.plugin.client;
        let scrubber = &self.call.guest.rights.grants.scrubber;
        let limit = self.call.limits.log_line_bytes;
        let line = scrubber.line(message, limit);
        let fields = scrubber.line(&joined(fields, limit), limit);
        let tenant = self.call.tenant();
        match self.call.guest.rights.plugin.log.take(tenant, line.len() + fields.len()) {
            LineVerdict::Write => {}
            LineVerdict::Drop => return,
            LineVerdict::DropAndSay => {
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
