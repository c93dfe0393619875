//! `airlock:host/log`. Fire and forget, bounded in number and length. For a script it is what `print` writes to.

use tracing::{debug, error, info, trace, warn};
use wasmtime::component::Linker;

use super::{BASE_FUEL, burn};
use crate::{
    catalog::{Content, cut},
    sandbox::{
        bindings::log::Level,
        instance::{Speaker, State},
    },
};

type Fields = Vec<(String, String)>;

pub(super) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    let mut log = linker.instance("airlock:host/log@0.1.0")?;
    log.func_wrap("write", |mut store, (level, message, fields): (Level, String, Fields)| {
        let bytes = message.len() + fields.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>();
        // Not counted among the host calls: lines have a limit of their own, past which they are dropped.
        burn(&mut store, BASE_FUEL + (bytes + 48 * fields.len()) as u64)?;
        store.data_mut().log(level, message, &fields);
        Ok(())
    })
}

impl State {
    /// Takes a line as long as there is room for one; the last says that more was left out.
    fn log(&mut self, level: Level, message: String, fields: &[(String, String)]) {
        let Some(left) = self.log_lines_left.checked_sub(1) else { return };
        self.log_lines_left = left;
        let line = if left == 0 { "further lines are left out".to_owned() } else { cut(message, self.limits.log_line_bytes) };
        match &self.speaker {
            Speaker::Script if level == Level::Error => self.last_words = Some(line),
            Speaker::Script => {
                if let Some(chain) = &self.chain {
                    chain.emit(Content::Text { text: line });
                }
            }
            Speaker::Plugin(plugin) => {
                let line = printable(&line);
                let fields = printable_fields(fields, self.limits.log_line_bytes);
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

/// As many fields as there is room for, as `key=value`.
fn printable_fields(fields: &[(String, String)], limit: usize) -> String {
    let mut text = String::new();
    for (key, value) in fields {
        if text.len() + key.len() + value.len() > limit {
            text.push_str(" …");
            break;
        }
        text.extend([" ", key, "=", value]);
    }
    printable(text.trim_start())
}

/// A guest's text without what would act on a terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
