//! Runs cargo for a guest, independently of an outer cargo.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A guest's crate.
pub(crate) struct Crate<'a> {
    pub(crate) package: String,
    pub(crate) directory: &'a Path,
}

/// Compiles the library of a crate below `target`, and returns the WebAssembly module. `root` is
/// the repository.
pub(crate) fn compile(
    root: &Path,
    guest: &Crate<'_>,
    triple: &str,
    profile: &str,
    flags: &[&str],
    target: &Path,
) -> Result<Vec<u8>, String> {
    let rustflags: Vec<String> =
        remapped().into_iter().chain(flags.iter().map(ToString::to_string)).collect();
    let output = cargo(toolchain(root)?)
        // The profiles of all workspaces are in the repository's `.cargo/config.toml`, which cargo
        // finds from its working directory.
        .current_dir(root)
        // `rustc` sets the crate type: a library that is an `rlib` as well gets no link-time
        // optimisation.
        .args([
            "rustc",
            "--quiet",
            "--lib",
            "--crate-type",
            "cdylib",
            "--profile",
            profile,
            "--target",
            triple,
        ])
        .args(["--package", &guest.package, "--manifest-path"])
        .arg(guest.directory.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .env("CARGO_ENCODED_RUSTFLAGS", rustflags.join("\x1f"))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(format!(
            "cargo could not compile the guest {}; run with -vv for its errors",
            guest.package
        ));
    }
    // Directories in which cargo puts the output of these profiles.
    let directory = match profile {
        "dev" | "test" => "debug",
        "bench" => "release",
        other => other,
    };
    let file = target
        .join(triple)
        .join(directory)
        .join(guest.package.replace('-', "_"))
        .with_extension("wasm");
    crate::read(&file)
}

/// Returns a flag that keeps this machine's paths out of panic messages, so that the same source
/// compiles to the same component on any machine.
fn remapped() -> Option<String> {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(env::home_dir()?.join(".cargo")))?;
    Some(format!("--remap-path-prefix={}=cargo", home.display()))
}

/// Prepares cargo without the variables that an outer cargo or clippy set for its own compilation;
/// these would recompile the guest each time, or lint it. The outer job server is removed as well:
/// build scripts that wait for each other's guests keep its tokens, and then only one compiler runs
/// at a time.
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
    const KEPT: [&str; 6] = [
        "CARGO_HOME",
        "CARGO_HTTP_",
        "CARGO_NET_",
        "CARGO_REGISTRIES_",
        "CARGO_REGISTRY_",
        "CARGO_TERM_",
    ];
    const OTHERS: [&str; 8] = [
        "CLIPPY_ARGS",
        "MAKEFLAGS",
        "MFLAGS",
        "RUSTC",
        "RUSTC_WORKSPACE_WRAPPER",
        "RUSTC_WRAPPER",
        "RUSTDOCFLAGS",
        "RUSTFLAGS",
    ];
    let name = name.to_string_lossy();
    OTHERS.contains(&&*name)
        || (name.starts_with("CARGO") && !KEPT.iter().any(|kept| name.starts_with(kept)))
}

/// Returns the argument that selects a toolchain with the WebAssembly targets; `None` if the
/// default one has them.
fn toolchain(root: &Path) -> Result<Option<String>, String> {
    let script = root.join("plugins/wasm-toolchain.sh");
    println!("cargo::rerun-if-changed={}", script.display());
    // Without bash only the default toolchain is used. It reports its own error if it lacks the
    // target.
    let Ok(output) = Command::new("bash").arg(script).arg("--check").output() else {
        return Ok(None);
    };
    if !output.status.success() {
        let found =
            env::var("RUSTUP_TOOLCHAIN").unwrap_or_else(|_| "the default toolchain".to_owned());
        let targets = "wasm32-wasip2 wasm32-unknown-unknown";
        return Err(format!(
            "{found} lacks the targets {targets}: run `rustup target add {targets}` for it, or `make wasm`"
        ));
    }
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(Some(name).filter(|name| !name.is_empty()))
}
