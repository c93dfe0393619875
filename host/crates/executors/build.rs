//! Builds the executors to `OUT_DIR`/<name>.wasm, where `include_bytes!` finds them, and writes the SHA-256 digest of each
//! to `OUT_DIR`/<name>.sha256.

use std::{env, fs, path::Path, process::ExitCode};

use sha2::{Digest as _, Sha256};

/// The executors of scripts, each with the variable that cargo sets for its feature.
const EXECUTORS: [(&str, &str); 2] =
    [("starlark", "CARGO_FEATURE_STARLARK"), ("python", "CARGO_FEATURE_PYTHON")];

fn main() -> ExitCode {
    airlock_guest_build::build("../../..", |guests| {
        for (executor, feature) in EXECUTORS {
            if env::var_os(feature).is_some() {
                write_digest(&guests.executor(executor)?)?;
            }
        }
        Ok(())
    })
}

/// Writes the digest of a component beside it.
fn write_digest(component: &Path) -> Result<(), String> {
    let digest = fs::read(component).map(Sha256::digest);
    let written = digest.and_then(|digest| fs::write(component.with_extension("sha256"), digest));
    written.map_err(|error| format!("cannot write the digest of {}: {error}", component.display()))
}
