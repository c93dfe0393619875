//! The log of the program: with `NODE_DEBUG=airlock`, lines of its standard error.

use std::{
    env,
    io::{self, Write as _},
    process,
    sync::Arc,
};

use airlock_binding::{LogRecord, RunnerSettings, forward_log};

/// Logs the warnings and errors of the gateway and the sandbox from now on, if the program has asked for a log.
pub(crate) fn begin() {
    if is_wanted() {
        forward_log(deliver);
    }
}

/// Returns the settings of the sandbox. A log has a line when a run takes longer.
pub(crate) fn runner_settings() -> RunnerSettings {
    begin();
    let mut settings = RunnerSettings::default();
    if is_wanted() {
        settings.on_compile = Some(Arc::new(write_line));
    }
    settings
}

fn is_wanted() -> bool {
    let debugged = env::var("NODE_DEBUG").unwrap_or_default();
    debugged.split(',').any(|name| name.trim().eq_ignore_ascii_case("airlock"))
}

fn deliver(records: Vec<LogRecord>) {
    for LogRecord { is_error, text } in records {
        let level = if is_error { "error" } else { "warning" };
        write_line(&format!("{level}: {text}"));
    }
}

fn write_line(text: &str) {
    // A log that cannot be written must not end a run.
    let _ = writeln!(io::stderr(), "AIRLOCK {}: {text}", process::id());
}
