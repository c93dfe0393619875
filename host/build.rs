//! Builds the plugins of the demo to `OUT_DIR`/<name>.wasm, where `include_bytes!` finds them.

use std::{env, process::ExitCode};

/// Plugins that the demo of the command line shows.
const PLUGINS: [&str; 3] = ["text", "files", "unruly"];

fn main() -> ExitCode {
    if env::var_os("CARGO_FEATURE_CLI").is_none() {
        println!("cargo::rerun-if-changed=build.rs");
        return ExitCode::SUCCESS;
    }
    airlock_guest_build::build("..", |guests| {
        PLUGINS.iter().try_for_each(|plugin| guests.plugin(plugin).map(drop))
    })
}
