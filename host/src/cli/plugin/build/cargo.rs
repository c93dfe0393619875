//! Rust: cargo compiles the component.

use std::{path::PathBuf, process::Stdio};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tokio::fs;

use super::{
    process::{asked, command},
    project::Project,
};

const TARGET: &str = "wasm32-wasip2";

/// Compiles the crate. Cargo prints its own progress and errors; the author needs both.
pub(super) async fn compile(project: &Project) -> anyhow::Result<Vec<u8>> {
    find_target(project).await?;
    let mut cargo = command("cargo", &project.directory);
    let output = cargo
        // `rustc` sets the crate type: a library that is an `rlib` as well gets no link-time
        // optimisation.
        .args(["rustc", "--lib", "--crate-type", "cdylib", "--release", "--target", TARGET])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .await
        .context("cargo cannot be started")?;
    ensure!(output.status.success(), "cargo could not compile it; its errors are above");
    let file = component(project, &String::from_utf8_lossy(&output.stdout))?;
    fs::read(&file).await.with_context(|| format!("{} cannot be read", file.display()))
}

/// Checks that a Rust compiler is installed, and that it compiles to WebAssembly.
async fn find_target(project: &Project) -> anyhow::Result<()> {
    let rustc = || command("rustc", &project.directory);
    if asked(rustc().arg("--version")).await.is_none()
        || asked(command("cargo", &project.directory).arg("--version")).await.is_none()
    {
        bail!("Rust is not installed; see https://rustup.rs");
    }
    let libraries = asked(rustc().args(["--print", "target-libdir", "--target", TARGET])).await;
    if !libraries.is_some_and(|libraries| PathBuf::from(libraries).is_dir()) {
        bail!("this Rust cannot compile to WebAssembly; run `rustup target add {TARGET}`");
    }
    Ok(())
}

/// Finds the component among the files that cargo reports.
fn component(project: &Project, messages: &str) -> anyhow::Result<PathBuf> {
    let manifest = project.directory.join("Cargo.toml");
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let ours = messages
        .filter(|message| message["manifest_path"].as_str().is_some_and(|path| manifest == *path));
    let files =
        ours.flat_map(|message| message["filenames"].as_array().cloned().unwrap_or_default());
    let mut files = files.filter_map(|file| Some(PathBuf::from(file.as_str()?)));
    let is_component =
        |file: &PathBuf| file.extension().is_some_and(|extension| extension == "wasm");
    files.find(is_component).context("cargo wrote no component for this crate")
}
