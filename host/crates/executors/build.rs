//! Builds the executors to `OUT_DIR`/<name>.wasm, where `include_bytes!` finds them.

use std::{env, path::Path, process::ExitCode};

use airlock_guest_build::Guests;

/// The executors of scripts, each with the variable that cargo sets for its feature.
const EXECUTORS: [(&str, &str); 2] =
    [("starlark", "CARGO_FEATURE_STARLARK"), ("python", "CARGO_FEATURE_PYTHON")];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let root = Path::new("../../..")
        .canonicalize()
        .map_err(|error| format!("cannot find the repository: {error}"))?;
    let guests = Guests::of_build_script(&root)?;
    for (executor, feature) in EXECUTORS {
        if env::var_os(feature).is_some() {
            guests.executor(executor)?;
        }
    }
    Ok(())
}
