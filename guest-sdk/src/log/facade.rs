//! Receives the lines of the crate `log`.

use ::log::{LevelFilter, Log, Metadata, Record};

use super::{Level, forwarded};

struct Forward;

/// Installs the receiver, unless the plugin has installed another.
pub(crate) fn install() {
    if ::log::set_logger(&Forward).is_ok() {
        level_changed(Level::Info);
    }
}

/// Tells the macros of `log` which lines to leave out.
pub(super) fn level_changed(level: Level) {
    ::log::set_max_level(match level {
        Level::Trace => LevelFilter::Trace,
        Level::Debug => LevelFilter::Debug,
        Level::Info => LevelFilter::Info,
        Level::Warn => LevelFilter::Warn,
        Level::Error => LevelFilter::Error,
    });
}

impl Log for Forward {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        forwarded::is_forwarded(level_of(metadata.level()))
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let level = level_of(record.level());
            super::write(level, record.args(), &[("target", &record.target())]);
        }
    }

    fn flush(&self) {}
}

fn level_of(level: ::log::Level) -> Level {
    match level {
        ::log::Level::Trace => Level::Trace,
        ::log::Level::Debug => Level::Debug,
        ::log::Level::Info => Level::Info,
        ::log::Level::Warn => Level::Warn,
        ::log::Level::Error => Level::Error,
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Host, Line};

    #[test]
    fn a_line_of_the_crate_log_goes_to_the_host_from_level_info_on() {
        let host = Host::new();
        host.run(|_| {
            ::log::debug!(target: "lib", "not forwarded");
            ::log::warn!(target: "lib", "read {}", 3);
        });
        let line = Line {
            level: crate::log::Level::Warn,
            message: "read 3".to_owned(),
            fields: vec![("target".to_owned(), "lib".to_owned())],
        };
        assert_eq!(host.logs(), [line]);
    }
}
