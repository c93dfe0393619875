//! Puts the guests that are part of the binary where `include_bytes!` finds them: `OUT_DIR`/<name>.wasm.
//!
//! They are built from `plugins/`, or taken from the directory that `AIRLOCK_GUESTS` names. Beside them goes what new plugins
//! stand on.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[path = "../plugins/build/invoke.rs"]
mod invoke;
#[path = "build/vendored.rs"]
mod vendored;

/// The executor of scripts, and what the demo shows.
const GUESTS: [&str; 4] = ["starlark", "text", "files", "unruly"];

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=AIRLOCK_GUESTS");
    match root().and_then(|root| build(&root)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> Result<PathBuf, String> {
    Path::new("..").canonicalize().map_err(|error| format!("cannot find the repository: {error}"))
}

fn build(root: &Path) -> Result<(), String> {
    vendored::write(root)?;
    let directory = finished(root)?;
    GUESTS.iter().try_for_each(|guest| place(&directory, guest))
}

/// The directory with the finished components.
fn finished(root: &Path) -> Result<PathBuf, String> {
    if let Some(directory) = env::var_os("AIRLOCK_GUESTS").filter(|directory| !directory.is_empty()) {
        let directory = PathBuf::from(directory);
        println!("cargo::rerun-if-changed={}", directory.display());
        return Ok(directory);
    }
    invoke::guests(root, &GUESTS)
}

fn place(directory: &Path, guest: &str) -> Result<(), String> {
    let file = directory.join(guest).with_extension("wasm");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: this is a build script")?);
    match fs::copy(&file, out.join(guest).with_extension("wasm")) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("cannot copy {} (see AIRLOCK_GUESTS): {error}", file.display())),
    }
}
