//! How a build script gets guests: it includes this file and calls [`guests`].
//!
//! ```ignore
//! #[path = "../plugins/build/invoke.rs"]
//! mod invoke;
//! ```
//!
//! It needs no crates, and tells cargo itself what the outcome depends on.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the named guests of `plugins`, or all of the repository if there are no names; answers the directory with `<name>.wasm` for each.
///
/// `root` is the repository. The error is for `cargo::error=`: what went wrong and what to type.
pub(crate) fn guests(root: &Path, names: &[&str]) -> Result<PathBuf, String> {
    let tool = ["plugins/build/Cargo.toml", "plugins/build/src", "plugins/wasm-toolchain.sh", "wit", "Cargo.lock", "guest-sdk"];
    let everything = ["plugins", "guest-sdk", "tests/guests"].map(PathBuf::from);
    let asked: Vec<_> = names.iter().map(|name| Path::new("plugins").join(name)).collect();
    let sources = if names.is_empty() { everything.to_vec() } else { asked };
    for source in sources.into_iter().chain(tool.map(PathBuf::from)) {
        println!("cargo::rerun-if-changed={}", root.join(source).display());
    }
    for variable in ["AIRLOCK_WASM_TOOLCHAIN", "RUSTUP_TOOLCHAIN"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let target = target()?;
    let out = target.join("plugins");
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["run", "--quiet", "--manifest-path"])
        .arg(root.join("plugins/build/Cargo.toml"))
        .arg("--target-dir")
        .arg(target.join("airlock-build"))
        .arg("--")
        .arg("--target")
        .arg(&target)
        .arg("--out")
        .arg(&out)
        .args(names);
    // What the outer cargo or clippy set for the crate being built would rebuild the tool each time, or lint it.
    for variable in [
        "CARGO_BUILD_TARGET",
        "CARGO_ENCODED_RUSTFLAGS",
        "CARGO_MAKEFLAGS",
        "CARGO_TARGET_DIR",
        "CLIPPY_ARGS",
        "MAKEFLAGS",
        "RUSTC",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "RUSTFLAGS",
    ] {
        command.env_remove(variable);
    }
    let output = command.output().map_err(|error| format!("cannot start cargo: {error}"))?;
    if output.status.success() {
        return Ok(out);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    eprint!("{said}");
    // The tool's last words are one line that says what to type; cargo shows the rest if asked with -vv.
    let last = said.lines().rfind(|line| line.starts_with("airlock-build: "));
    Err(last.unwrap_or("the guests could not be built; the reason is above").to_owned())
}

/// The target directory of the cargo that runs this build script: `OUT_DIR` is `<target>/[<triple>/]<profile>/build/…/out`.
fn target() -> Result<PathBuf, String> {
    if let Some(directory) = env::var_os("CARGO_TARGET_DIR") {
        let directory = PathBuf::from(directory);
        if directory.is_absolute() {
            return Ok(directory);
        }
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set: this is for build scripts")?);
    let lost = || format!("{} is not where cargo puts what build scripts make", out.display());
    let build = out.ancestors().find(|directory| directory.ends_with("build")).ok_or_else(lost)?;
    // build → profile → target, with the triple between the last two where one was asked for.
    let above = build.ancestors().nth(2).ok_or_else(lost)?;
    let is_triple = above.file_name().is_some_and(|name| env::var_os("TARGET").is_some_and(|triple| name == triple));
    let target = if is_triple { above.parent() } else { Some(above) };
    target.map(Path::to_path_buf).ok_or_else(lost)
}
