//! Builds the plugins of the demo to `OUT_DIR`/<name>.wasm, where `include_bytes!` finds them.

use std::{env, path::Path, process::ExitCode};

use airlock_guest_build::Guests;

/// Plugins that the demo of the command line shows.
const PLUGINS: [&str; 3] = ["text", "files", "unruly"];

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
    if env::var_os("CARGO_FEATURE_CLI").is_none() {
        return Ok(());
    }
    let root = Path::new("..")
        .canonicalize()
        .map_err(|error| format!("cannot find the repository: {error}"))?;
    let guests = Guests::of_build_script(&root)?;
    for plugin in PLUGINS {
        guests.plugin(plugin)?;
    }
    Ok(())
}
