//! `airlock replay`.

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::runs::{find, kept};
use airlock_core::{
    door::Origin,
    tool::{Allowlist, Policy, ToolOutput, Trust},
};
use airlock_gateway::{Gateway, NativeTool, command_line};
use airlock_scripts::runs::{EXECUTE, RunEnding, RunOutcome, end};
use airlock_store::runs::StoredRun;
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigFile, spinner};

/// Replay a run from its journal, offline, and compare
///
/// The script runs once more in the sandbox. Its calls get the answers that the journal has; no tool
/// is called and no server is started. The result, the printed text, the error and the fuel are
/// compared with those that the run ended with. The exit code is 0 only if all are identical.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  airlock replay run_0190…\n  airlock replay --json run_0190…")]
pub(super) struct ReplayArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// The run, as `airlock runs list` names it, or a prefix that no other run has.
    run: String,
    /// Print a JSON document: `{run, identical, differences, stored, derived}`. The last two are the
    /// ends that were compared: `{result, output, fuel, error}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &ReplayArgs) -> anyhow::Result<CommandOutcome> {
    let config = args.config.load()?;
    let runs = kept(&config)?;
    let id = find(&runs, &args.run, &args.config.option()).await?.run.id;
    let stored = runs.database().await?.any_run(&id).await?;
    let ended = stored.outcome.as_deref().and_then(RunOutcome::read);
    let ended = ended
        .with_context(|| format!("{} has not ended; there is nothing to compare", args.run))?;
    ensure!(
        ended.status != RunEnding::Cancelled,
        "{} was cancelled; there is nothing to compare",
        args.run
    );
    let derived = derive(config, &stored).await?;
    let differences = ended.differences(&derived);
    let is_identical = differences.is_empty();
    if args.json {
        output::document(&json!({
            "run": stored.id,
            "identical": is_identical,
            "differences": differences,
            "stored": end(ended),
            "derived": end(derived),
        }))?;
    } else if is_identical {
        let fuel = derived.fuel.unwrap_or_default();
        output::line(&format!("identical: result, output, error and fuel ({fuel})"))?;
    } else {
        output::line(&format!("not identical: {}", differences.join(", ")))?;
    }
    Ok(is_identical.into())
}

/// Runs the script of a stored run with the answers of its journal.
async fn derive(
    mut config: airlock_config::Config,
    stored: &StoredRun,
) -> anyhow::Result<RunOutcome> {
    config.clients.clear();
    config.providers.clear();
    // A tool that is never called: without one there is no code mode.
    let policy = Policy {
        execute: Allowlist::All,
        code_mode: true,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    let gateway = Gateway::builder(config)
        .register_tool(NativeTool::new("nothing", "", json!({"type": "object"}), |_, _| async {
            Ok(ToolOutput::default())
        }))?
        .native_policy(policy)
        .on_compile(spinner::compiling)
        .start()
        .await?;
    let code_mode = command_line::code_mode(&gateway);
    let arguments = json!({"code": stored.script}).to_string();
    let call = gateway.caller(Origin::Model).admit(EXECUTE, &arguments)?;
    let derived = code_mode.replay(&call, stored).await;
    gateway.stop().await;
    Ok(derived)
}
