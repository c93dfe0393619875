//! Processes that outlive those that start them.

use std::{
    env, io,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
    thread,
};

use crate::dice::Dice;

/// First argument of a process that only waits. A second argument makes it ignore SIGTERM.
pub(crate) const SLEEPER: &str = "sleeper";

/// Starts up to three processes that wait for ever. Some have a session of their own, some ignore
/// SIGTERM, some hold the server's stdout open.
pub(crate) fn start(dice: &mut Dice) {
    for _ in 0..=dice.below(3) {
        let own = env::current_exe().expect("a program knows its own file");
        let mut command = if dice.one_in(2) {
            // A session of its own, which a signal to the server's group does not reach.
            let mut command = Command::new("setsid");
            command.arg(own);
            command
        } else {
            Command::new(own)
        };
        command.arg(SLEEPER).stdin(Stdio::null()).stderr(Stdio::null());
        if dice.one_in(2) {
            command.arg("deaf");
        }
        if dice.one_in(2) {
            command.stdout(Stdio::null());
        }
        // Without `setsid`, or at a limit of processes, there is one less to find.
        drop(command.spawn());
    }
}

/// Closes the stdout of this process, and waits until it is killed.
pub(crate) fn without_stdout() -> io::Result<()> {
    let own = env::current_exe().expect("a program knows its own file");
    // It returns only if the program cannot be started once more.
    Err(Command::new(own).arg(SLEEPER).stdout(Stdio::null()).exec())
}

/// Waits until the process is killed.
pub(crate) fn sleep(ignores_term: bool) -> ! {
    if ignores_term {
        ignore_term();
    }
    loop {
        thread::park();
    }
}

/// Makes this process ignore SIGTERM.
pub(crate) fn ignore_term() {
    thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a process has the descriptors for it");
        runtime.block_on(async {
            let kind = tokio::signal::unix::SignalKind::terminate();
            let mut signals = tokio::signal::unix::signal(kind).expect("SIGTERM can be caught");
            while signals.recv().await.is_some() {}
        });
    });
}
