//! Builds every guest of the project, or takes those of the directory that `AIRLOCK_GUESTS` names, and writes down where
//! they are.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

#[path = "../plugins/build/invoke.rs"]
mod invoke;

fn main() -> ExitCode {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=AIRLOCK_GUESTS");
    match guests() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo::error={message}");
            ExitCode::FAILURE
        }
    }
}

fn guests() -> Result<(), String> {
    let components = finished()?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: this is a build script")?);
    let constants = constants(&components).map_err(|error| format!("cannot list {}: {error}", components.display()))?;
    fs::write(out.join("guests.rs"), constants).map_err(|error| format!("cannot write what guests there are: {error}"))
}

/// The directory with the finished components.
fn finished() -> Result<PathBuf, String> {
    if let Some(directory) = env::var_os("AIRLOCK_GUESTS").filter(|directory| !directory.is_empty()) {
        let directory = PathBuf::from(directory);
        println!("cargo::rerun-if-changed={}", directory.display());
        return Ok(directory);
    }
    let root = Path::new("..").canonicalize().map_err(|error| format!("cannot find the repository: {error}"))?;
    invoke::guests(&root, &[])
}

/// A constant for each component: `pub const TEXT: &str = "…/text.wasm";`.
fn constants(components: &Path) -> std::io::Result<String> {
    let mut files = fs::read_dir(components)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "wasm"));
    files.sort();
    let constant = |file: &PathBuf| {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let name = stem.to_uppercase().replace('-', "_");
        format!("/// The component `{stem}`.\npub const {name}: &str = {:?};\n", file.display().to_string())
    };
    Ok(files.iter().map(constant).collect())
}
