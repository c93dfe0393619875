//! Scripts in the interpreter of Starlark without a sandbox.

use std::{env, fs, path::Path, process::Command, time::Duration};

use airlock_tests::Setup;

/// Returns the time of a script without a sandbox. The native interpreter is another program,
/// because its features of `serde_json` must not reach this one.
pub(crate) fn script(setup: &Setup, source: &str, times: usize) -> Option<Duration> {
    let program = env::var_os("NATIVE_SCRIPT")?;
    let file = setup.directory().join("native.star");
    fs::write(&file, source).expect("a file");
    let output = Command::new(Path::new(&program))
        .arg(&file)
        .arg(times.to_string())
        .output()
        .expect("it can be started");
    let nanoseconds = String::from_utf8_lossy(&output.stdout).trim().parse();
    let said = String::from_utf8_lossy(&output.stderr);
    Some(Duration::from_nanos(
        nanoseconds.unwrap_or_else(|_| panic!("the native interpreter failed: {said}")),
    ))
}
