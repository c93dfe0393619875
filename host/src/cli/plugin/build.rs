//! `airlock plugin build`: compiles sources to a component that embeds its tools and its requests.

mod cargo;
mod componentize;
mod finish;
mod process;
mod project;
mod step;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::bail;
use serde_json::json;

use self::{finish::Finished, project::Project};
use super::language::Language;
use crate::{
    cli::{Done, output, signals::Signals},
    text::visible,
};

/// Build a plugin from its sources
///
/// Compiles the sources in a directory, asks the component for its tools in a sandbox that denies
/// everything, and embeds the tools and `plugin.toml` in it. The files show the language:
/// Cargo.toml for Rust, package.json for JavaScript, app.py and requirements.txt for Python. The
/// compilers for JavaScript and Python are installed into the directory, once.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin build\n  airlock plugin build weather --output weather.wasm"
)]
pub(super) struct Args {
    /// The plugin's directory.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Path of the component. Default: the plugin's id and `.wasm`, in its directory.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print a JSON document: `{ok, file, bytes, digest, tools, elapsed_ms}`.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let started = Instant::now();
    let mut signals = Signals::catch()?;
    let finished = tokio::select! {
        finished = build(args) => finished?,
        // Dropping the future of the build also ends the compiler.
        () = signals.next() => bail!("stopped; nothing was written"),
    };
    report(args, &finished, started.elapsed())?;
    Ok(Done::Yes)
}

async fn build(args: &Args) -> anyhow::Result<Finished> {
    let project = Project::find(&args.directory)?;
    let compiled = match project.language {
        Language::Rust => cargo::compile(&project).await?,
        Language::JavaScript => componentize::javascript(&project).await?,
        Language::Python => componentize::python(&project).await?,
    };
    let file = args
        .output
        .clone()
        .unwrap_or_else(|| project.directory.join(format!("{}.wasm", project.manifest.id)));
    finish::finish(&project, compiled, file).await
}

fn report(args: &Args, finished: &Finished, elapsed: Duration) -> anyhow::Result<()> {
    let Finished { file, bytes, metadata } = finished;
    if args.json {
        let tools: Vec<_> = metadata.tools.iter().map(|tool| &tool.name).collect();
        return output::document(&json!({
            "ok": true,
            "file": file,
            "bytes": bytes,
            "digest": metadata.digest,
            "tools": tools,
            "elapsed_ms": elapsed.as_millis(),
        }));
    }
    output::line(&format!(
        "{}  {} KiB  {}",
        file.display(),
        bytes.div_ceil(1024),
        metadata.digest
    ))?;
    for tool in &metadata.tools {
        output::line(&format!(
            "  {}  {}",
            tool.name,
            output::one_line(&visible(&tool.description), 100)
        ))?;
    }
    output::line(&format!("built in {:.1} s", elapsed.as_secs_f64()))
}
