//! Exports in formats that programs of others check. They are signed by the key of the log, and say no more
//! than the log does.

use std::{
    collections::HashSet,
    io::{self, Write},
    ops::ControlFlow,
    path::Path,
};

use crate::{
    event::{EventLine, text},
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

    fn has(&self, line: &EventLine<'_>) -> bool {
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
    mut show: impl FnMut(&EventLine<'_>) -> io::Result<()>,
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

#[cfg(test)]
mod tests;
