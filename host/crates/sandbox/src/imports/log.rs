//! Log lines of guests. Writing never fails because of a limit: the number and length of lines are
//! bounded for each call, and the rate for all calls of a tenant together. For a script, lines are
//! the output of `print`.

use crate::run::{
    charge::{BASE_FUEL, charge},
    state::{GuestSide, State, Store},
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

/// Writes one line.
pub(crate) fn write<G: GuestSide>(
    store: &mut Store<'_, G>,
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

impl<G: GuestSide> State<G> {
    /// Handles one line if the call may still write one. The last line allowed states that further
    /// lines are left out.
    fn log(&mut self, level: Level, message: &str, fields: &[(String, String)]) {
        let Some(left) = self.log_lines_left.checked_sub(1) else { return };
        self.log_lines_left = left;
        let message = if left == 0 { "further lines are left out" } else { message };
        G::log(self, level, message, fields);
    }
}
