//! A question to the operator before a command writes what it has shown.

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    thread,
};

use anyhow::{Context as _, ensure};
use tokio::sync::oneshot;

use super::signals::Signals;
use airlock_core::tool::CallError;

/// Asks the operator whether to accept what was shown. Fails if there is no terminal to ask on, or
/// if the operator disagrees.
pub async fn confirm(question: &str, signals: &mut Signals) -> anyhow::Result<()> {
    ensure!(
        io::stdin().is_terminal() && io::stdout().is_terminal(),
        "nothing was accepted: there is no terminal to ask on; `--yes` accepts without a question"
    );
    let mut out = io::stdout();
    write!(out, "{question} [y/N] ")
        .and_then(|()| out.flush())
        .context("standard output cannot be written to")?;
    let (send, answer) = oneshot::channel();
    // A thread of its own, which the runtime does not wait for if a signal ends the command.
    thread::spawn(move || {
        let mut line = String::new();
        let read = io::stdin().lock().read_line(&mut line);
        let _ = send.send(read.map(|_| line));
    });
    let answer = tokio::select! {
        answer = answer => answer.context("the question was not answered")??,
        () = signals.next() => return Err(CallError::cancelled().into()),
    };
    let is_yes = matches!(answer.trim(), "y" | "Y" | "yes");
    ensure!(is_yes, "nothing was accepted");
    Ok(())
}
