//! Exports in formats that programs of others check. They are signed by the key of the log, and say no more
//! than the log does.

use std::{
    collections::HashSet,
    io::{self, Write},
    ops::ControlFlow,
    path::Path,
    time::{Duration, UNIX_EPOCH},
};

use serde_json::{Map, Value};

use crate::{
    event::Line,
    read::{ReadError, each_line},
};

mod dsse;
mod pipelock;

pub use self::{dsse::dsse, pipelock::pipelock};

/// Reason why a log is not exported.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The export cannot be written.
    #[error("the export cannot be written")]
    Write(#[from] io::Error),
    /// No line is about the run.
    #[error("no line of the log is about the run {0:?}")]
    NoRun(String),
    /// The run has more lines than a statement has.
    #[error(
        "the run {run:?} has more than {lines} lines or {bytes} bytes, the most of one statement; export them with --format jsonl"
    )]
    LongRun {
        /// The run.
        run: String,
        /// Most lines.
        lines: usize,
        /// Most bytes of them.
        bytes: usize,
    },
    /// There is no checkpoint.
    #[error("the log has no checkpoint")]
    NoCheckpoint,
}

/// Selects lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only those about this run of a script and about its calls.
    pub run: Option<String>,
}

/// The lines that are selected in one log.
enum SelectedLines {
    All,
    Run { run: String, calls: HashSet<String> },
}

impl SelectedLines {
    /// Finds the calls of a run: not all lines of a call name the run.
    fn find(path: &Path, selection: &Selection) -> Result<Self, ReadError> {
        let Some(run) = selection.run.clone() else { return Ok(Self::All) };
        let mut calls = HashSet::new();
        each_line(path, |line| {
            let call = line.is_about("run", &run).then(|| line.members()).flatten();
            calls.extend(call.as_ref().and_then(|event| text(event, "call")).map(str::to_owned));
            ControlFlow::Continue(())
        })?;
        Ok(Self::Run { run, calls })
    }

    fn has(&self, line: &Line<'_>) -> bool {
        let Self::Run { run, calls } = self else { return true };
        line.is_about("run", run)
            || line
                .members()
                .is_some_and(|event| text(&event, "call").is_some_and(|call| calls.contains(call)))
    }
}

/// Writes the lines as they are.
pub fn jsonl(path: &Path, selection: &Selection, out: &mut dyn Write) -> Result<(), ExportError> {
    each_selected(path, selection, |line| {
        out.write_all(line.bytes)?;
        out.write_all(b"\n")
    })
}

/// Shows each selected line, until one cannot be written.
fn each_selected(
    path: &Path,
    selection: &Selection,
    mut show: impl FnMut(&Line<'_>) -> io::Result<()>,
) -> Result<(), ExportError> {
    let selected = SelectedLines::find(path, selection)?;
    let mut written = Ok(());
    each_line(path, |line| {
        if selected.has(line) {
            written = show(line);
        }
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    Ok(written?)
}

/// Returns a text of an event; `None` if it has none of this name.
fn text<'m>(event: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    event.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Returns the time of an event as RFC 3339 has it, with as many digits as it needs, as Go writes it.
fn time(event: &Map<String, Value>) -> String {
    /// The last second of the year 9999, the latest that is written in RFC 3339.
    const LATEST: Duration = Duration::from_secs(253_402_300_799);
    let since = event.get("time_ms").and_then(Value::as_u64).unwrap_or(0);
    let time = UNIX_EPOCH + Duration::from_millis(since).min(LATEST);
    let text = humantime::format_rfc3339_millis(time).to_string();
    let text = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    // Seconds may end with a zero themselves.
    let seconds = "0000-00-00T00:00:00".len();
    format!("{text:0<seconds$}Z")
}

#[cfg(test)]
mod tests;
