//! Builds the executors to `OUT_DIR`/<name>.wasm, where `include_bytes!` finds them.

use std::{env, process::ExitCode};

/// The executors of scripts, each with the variable that cargo sets for its feature.
const EXECUTORS: [(&str, &str); 2] =
    [("starlark", "CARGO_FEATURE_STARLARK"), ("python", "CARGO_FEATURE_PYTHON")];

fn main() -> ExitCode {
    airlock_guest_build::build("../../..", |guests| {
        for (executor, feature) in EXECUTORS {
            if env::var_os(feature).is_some() {
                guests.executor(executor)?;
            }
        }
        Ok(())
    })
}
