//! Runs cargo for a guest, as if nobody had called us from inside another cargo.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::guest::{Guest, Kind};
use crate::options;

/// Compiles a guest's library below `target`/guests; answers the WebAssembly.
pub(crate) fn compile(guest: &Guest, target: &Path) -> Result<Vec<u8>> {
    let (triple, flags) = match guest.kind {
        // What `getrandom` wants to hear before it compiles for a target without an entropy source.
        Kind::Executor => ("wasm32-unknown-unknown", "\x1f--cfg\x1fgetrandom_backend=\"custom\""),
        Kind::Plugin { .. } | Kind::Text => ("wasm32-wasip2", ""),
    };
    let directory = target.join("guests");
    let mut command = cargo(toolchain()?);
    command
        // With `rustc` for the crate type: a library that is an `rlib` as well gets no link-time optimisation.
        .args(["rustc", "--quiet", "--lib", "--crate-type", "cdylib", "--profile", "guest", "--target", triple])
        // For guests outside our workspace, which do not know the profile.
        .args(["--config", "profile.guest.inherits=\"release\"", "--package", &guest.package, "--manifest-path"])
        .arg(&guest.path)
        .arg("--target-dir")
        .arg(&directory)
        .env("CARGO_ENCODED_RUSTFLAGS", format!("{}{flags}", remapped()))
        .stdin(Stdio::null());
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo could not compile it; the errors are above");
    }
    let file = directory.join(triple).join("guest").join(format!("{}.wasm", guest.library.replace('-', "_")));
    fs::read(&file).with_context(|| format!("cargo left no {}", file.display()))
}

/// What cargo knows of the workspace of a manifest.
pub(crate) fn metadata(manifest: &Path) -> Result<Value> {
    let output = cargo(None)
        .args(["metadata", "--quiet", "--no-deps", "--format-version", "1", "--manifest-path"])
        .arg(manifest)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!("cargo cannot read {}; its error is above", manifest.display());
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")
}

/// A flag that keeps this machine's paths out of panic messages, so that the same source is the same component anywhere.
fn remapped() -> String {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(env::home_dir()?.join(".cargo")));
    home.map(|home| format!("--remap-path-prefix={}=cargo", home.display())).unwrap_or_default()
}

/// Cargo without what an outer cargo, clippy or build script set for its own compilation.
fn cargo(toolchain: Option<String>) -> Command {
    let mut command = Command::new("cargo");
    if let Some(toolchain) = toolchain {
        command.arg(toolchain).env_remove("RUSTUP_TOOLCHAIN");
    }
    env::vars_os().map(|(name, _)| name).filter(is_foreign).for_each(|name| {
        command.env_remove(name);
    });
    command
}

fn is_foreign(name: &OsString) -> bool {
    const KEPT: [&str; 6] = ["CARGO_HOME", "CARGO_HTTP_", "CARGO_NET_", "CARGO_REGISTRIES_", "CARGO_REGISTRY_", "CARGO_TERM_"];
    const OTHERS: [&str; 8] =
        ["CLIPPY_ARGS", "MAKEFLAGS", "MFLAGS", "RUSTC", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER", "RUSTDOCFLAGS", "RUSTFLAGS"];
    let name = name.to_string_lossy();
    OTHERS.contains(&&*name) || (name.starts_with("CARGO") && !KEPT.iter().any(|kept| name.starts_with(kept)))
}

/// The argument that selects a toolchain with the WebAssembly targets; none if the default one has them.
fn toolchain() -> Result<Option<String>> {
    let script = options::here().join("../wasm-toolchain.sh");
    // Without bash there is only the default toolchain, and its own words if it lacks the target.
    let Ok(output) = Command::new("bash").arg(script).arg("--check").output() else {
        return Ok(None);
    };
    if !output.status.success() {
        bail!("no Rust toolchain here compiles to WebAssembly: run `make wasm`");
    }
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Some(name).filter(|name| !name.is_empty()))
}
