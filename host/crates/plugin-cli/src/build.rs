//! `airlock plugin build`.

mod step;
mod transcript;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::bail;
use serde_json::json;

pub(super) use self::transcript::Transcript;

use airlock_authoring::{BuildProfile, BuiltComponent};
use airlock_strings::visible;
use airlock_terminal::{
    outcome::CommandOutcome,
    output::{self, CommandFailure},
    signals::Signals,
    spinner,
};

/// Build a plugin or a guard from its sources
///
/// Compiles the sources in a directory, asks the component for its tools in a sandbox that denies
/// everything, and embeds the tools and `plugin.toml` in it. Of a guard, `plugin.toml` alone is
/// embedded, and a guard that imports anything is refused. The files show the language:
/// Cargo.toml for Rust, package.json for JavaScript and TypeScript, app.py and requirements.txt for
/// Python. A guard in JavaScript or Python is a module `guard.js` or `guard.py`. The compilers for
/// JavaScript and Python are installed into the directory, once. Warnings and errors of the compiler are
/// printed to standard error.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin build\n  airlock plugin build weather --output weather.wasm"
)]
pub(super) struct BuildArgs {
    /// The plugin's directory.
    #[arg(default_value = ".")]
    directory: PathBuf,
    /// Path of the component. Default: the plugin's id and `.wasm`, in its directory.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print a JSON document: `{ok, file, bytes, digest, tools, elapsed_ms, findings, output}`, or
    /// `{ok, error, output}` after a failure. `output` is what the compiler and other tools printed.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &BuildArgs) -> anyhow::Result<CommandOutcome> {
    let started = Instant::now();
    let mut signals = Signals::catch()?;
    let mut transcript = Transcript::new(args.json);
    let output = args.output.clone();
    let building = airlock_authoring::build(
        &args.directory,
        output,
        BuildProfile::Release,
        &mut transcript,
        &spinner::compiling,
    );
    let finished = tokio::select! {
        outcome = building => outcome,
        // Dropping the future of the build also ends the compiler.
        () = signals.next() => bail!("stopped; nothing was written"),
    };
    match finished {
        Ok(finished) => report(args, &finished, &transcript, started.elapsed())?,
        Err(error) if args.json => {
            let error = CommandFailure::from(&anyhow::Error::from(error));
            let output = transcript.outputs();
            output::document(&json!({"ok": false, "error": error, "output": output}))?;
            return Ok(CommandOutcome::Failure);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(CommandOutcome::Success)
}

fn report(
    args: &BuildArgs,
    finished: &BuiltComponent,
    transcript: &Transcript,
    elapsed: Duration,
) -> anyhow::Result<()> {
    let BuiltComponent { file, bytes, metadata, findings } = finished;
    if args.json {
        let tools: Vec<_> = metadata.tools.iter().map(|tool| &tool.name).collect();
        return output::document(&json!({
            "ok": true,
            "file": file,
            "bytes": bytes,
            "digest": metadata.digest,
            "tools": tools,
            "elapsed_ms": elapsed.as_millis(),
            "findings": findings,
            "output": transcript.outputs(),
        }));
    }
    for finding in findings {
        output::warning(&finding.lines().join("\n"));
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
