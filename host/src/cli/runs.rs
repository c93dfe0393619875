//! `airlock runs`: shows the runs of scripts, and decides about their calls.

mod text;

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::running::COMMAND_LINE;
use airlock_config::Config;
use airlock_core::door::log_failure;
use airlock_core::{
    act::Actor,
    door::Origin,
    run::{Cancelled, Phase, Position, Refused, Stage},
    tenant::Tenant,
    tool::{CallError, Suspension},
};
use airlock_gateway::command_line;
use airlock_scripts::runs::{self, Decisions, EXECUTE, RunToken, Runs, document, summary};
use airlock_store::runs::{RunError, ShownRun, StoredRun};
use airlock_terminal::{
    outcome::CommandOutcome,
    output::{self, CodedFailure},
    session::{ConfigFile, ConfigOfGroup, ExecutorLoad, with_gateway},
};

/// Most runs that are searched for those of a list or for the run that a prefix means.
const SEARCHED: u32 = 1_000;
/// Most runs in a list, unless the command line says otherwise.
const LISTED: u32 = 20;

/// Show the runs of scripts, approve or deny their calls, and end them
///
/// A script stops at a call that needs an approval, and its run is suspended. `approve` and `deny`
/// decide about calls of such a run and resume the script in this process; they work for runs that
/// began without a virtual key, for example with `airlock run`. The holder of a virtual key decides
/// about its runs at `/v1/runs` of the gateway.
///
/// The exit code of a command that resumes a run is 0 if the script has completed, 3 if the run waits
/// for another decision, and 1 if the script has failed.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  airlock runs list\n  airlock runs show run_0190…\n  airlock runs approve run_0190…\n  airlock runs deny run_0190… 3"
)]
pub(super) struct RunsArgs {
    #[command(flatten)]
    _config: ConfigOfGroup,
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Debug, clap::Subcommand)]
enum RunsCommand {
    /// List the latest runs of all callers
    List(RunListArgs),
    /// Show a run with its calls and its result
    Show(OneRunArgs),
    /// Approve pending calls, and resume the run
    Approve(DecideArgs),
    /// Deny pending calls, and resume the run
    Deny(DecideArgs),
    /// Resume an interrupted run, whose process has ended
    Resume(OneRunArgs),
    /// Decide about a call in doubt, which may have been made, and resume the run
    Resolve(ResolveArgs),
    /// Cancel a run and its calls in flight
    Cancel(OneRunArgs),
}

#[derive(Debug, clap::Args)]
struct RunListArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// Maximum number of runs.
    #[arg(long, value_name = "N", default_value_t = LISTED, value_parser = clap::value_parser!(u32).range(1..=i64::from(SEARCHED)))]
    limit: u32,
    /// List only runs in this state: `running`, `interrupted`, `suspended`, `completed`, `failed` or
    /// `cancelled`.
    #[arg(long, value_parser = ["running", "interrupted", "suspended", "completed", "failed", "cancelled"])]
    state: Option<String>,
    /// Print a JSON document: an array of runs.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct OneRunArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// The run: its identifier, or a prefix that no other run has.
    run: String,
    /// Print a JSON document: the run.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct DecideArgs {
    #[command(flatten)]
    one: OneRunArgs,
    /// Positions of the calls, as `airlock runs show` prints them. Without any, all pending calls.
    calls: Vec<Position>,
    /// The `request_state` that `airlock runs show --json` printed. With it, nothing is decided if the
    /// run has been resumed since.
    #[arg(long)]
    state: Option<String>,
}

#[derive(Debug, clap::Args)]
struct ResolveArgs {
    #[command(flatten)]
    one: OneRunArgs,
    /// Position of the call, as `airlock runs show` prints it.
    call: Position,
    /// `retry` makes the call once more; `skip` gives it the answer `--value`.
    #[arg(value_enum)]
    action: Action,
    /// Answer of a call that is skipped, as JSON.
    #[arg(long, value_name = "JSON", default_value = "null")]
    value: String,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Action {
    /// Make the call again
    Retry,
    /// Make it again, and approve the calls that a plugin makes in it
    Approve,
    /// Give it an answer
    Skip,
}

pub(super) async fn run(args: &RunsArgs) -> anyhow::Result<CommandOutcome> {
    match &args.command {
        RunsCommand::List(args) => list(args).await,
        RunsCommand::Show(args) => {
            let runs = kept(&args.config.load_of_gateway()?)?;
            show(&find(&runs, &args.run, &args.config.option()).await?, args.json)?;
            Ok(CommandOutcome::Success)
        }
        RunsCommand::Cancel(args) => Box::pin(cancel(args)).await,
        RunsCommand::Approve(args) => Box::pin(decide(args, true)).await,
        RunsCommand::Deny(args) => Box::pin(decide(args, false)).await,
        RunsCommand::Resume(args) => Box::pin(resume(args, Decisions::default(), &[])).await,
        RunsCommand::Resolve(args) => Box::pin(resolve(args)).await,
    }
}

/// Returns the runs that a gateway with this configuration keeps.
pub(super) fn kept(config: &Config) -> anyhow::Result<Runs> {
    ensure!(
        config.runs.journal,
        "no runs are kept: mcp.tool_manager_config.code_mode_journal is false"
    );
    Ok(Runs::new(config.runs, config.store_settings()?.into()))
}

/// Returns the run of an identifier, or of a prefix of one. Fails if there is no such run, or several. `option` names the
/// configuration.
pub(super) async fn find(runs: &Runs, name: &str, option: &str) -> anyhow::Result<ShownRun> {
    let database = runs.database().await?;
    match database.show_any_run(name).await {
        Err(RunError::Unknown) => {}
        found => return Ok(found?),
    }
    let listed = database.any_runs(SEARCHED).await?;
    let ids = listed.iter().map(|run| run.id.as_str());
    let meant = ids.filter(|id| {
        let short = id.strip_prefix("run_").unwrap_or(id);
        !name.is_empty() && (id.starts_with(name) || short.starts_with(name))
    });
    let found: Vec<_> = meant.collect();
    let name = output::one_line(name, 64);
    match found[..] {
        [one] => Ok(database.show_any_run(one).await?),
        [] => Err(CodedFailure::new(
            "run_not_found",
            format!("there is no run {name}; `airlock runs list{option}` shows the runs"),
        )
        .into()),
        _ => Err(CodedFailure::new(
            "run_ambiguous",
            format!("{} runs begin with {name}; give more of the identifier", found.len()),
        )
        .into()),
    }
}

async fn list(args: &RunListArgs) -> anyhow::Result<CommandOutcome> {
    let runs = kept(&args.config.load_of_gateway()?)?;
    let database = runs.database().await?;
    let searched = if args.state.is_some() { SEARCHED } else { args.limit };
    let listed = database.any_runs(searched).await?;
    let described = listed.into_iter().map(|run| (summary(&run), run));
    let listed = described.filter(|(summary, _)| has_state(summary, args.state.as_deref()));
    let listed: Vec<_> = listed.take(args.limit as usize).collect();
    if args.json {
        let listed: Vec<_> = listed.into_iter().map(|(summary, _)| summary).collect();
        output::document(&listed)?;
    } else if listed.is_empty() {
        output::line("there are no runs")?;
    } else {
        output::line(text::HEADER)?;
        for (summary, run) in &listed {
            match database.show_any_run(&run.id).await {
                Ok(run) => output::line(&text::row(summary, &run))?,
                // It was removed meanwhile.
                Err(RunError::Unknown) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(CommandOutcome::Success)
}

fn has_state(summary: &Value, state: Option<&str>) -> bool {
    state.is_none_or(|state| summary["state"].as_str() == Some(state))
}

async fn cancel(args: &OneRunArgs) -> anyhow::Result<CommandOutcome> {
    let runs = kept(&args.config.load_of_gateway()?)?;
    let run = find(&runs, &args.run, &args.config.option()).await?;
    let own = runs.own(&Tenant::ANONYMOUS);
    let id = &run.run.id;
    let cancelled = own.cancel(id).await.map_err(|error| explain(&error, &run.run))?;
    let is_requested = cancelled == Cancelled::Requested;
    let run = own.show(id).await?;
    if !is_requested {
        show(&run, args.json)?;
    } else if args.json {
        let mut document = document(&run);
        document["cancel_requested"] = true.into();
        output::document(&document)?;
    } else {
        output::line(&requested(id, runs.settings().bounds.lease))?;
    }
    Ok(CommandOutcome::Success)
}

/// Describes a cancellation that another process has to act on, which looks for it when it renews its
/// lease.
fn requested(run: &str, lease: Duration) -> String {
    let seconds = lease.as_millis().div_ceil(1_000).max(1);
    format!("{run}: cancellation requested; the process that runs it ends it within {seconds} s")
}

async fn decide(args: &DecideArgs, approves: bool) -> anyhow::Result<CommandOutcome> {
    let OneRunArgs { config, run, .. } = &args.one;
    let runs = kept(&config.load_of_gateway()?)?;
    let stored = find(&runs, run, &config.option()).await?;
    let run = &stored.run.id;
    let pending: Vec<_> = stored
        .calls
        .iter()
        .filter(|call| args.calls.is_empty() || args.calls.contains(&call.position))
        .filter(|call| matches!(call.call.claimed().stage, Stage::Pending { .. }))
        .collect();
    let mut positions = args.calls.clone();
    if positions.is_empty() {
        positions = pending.iter().map(|call| call.position).collect();
        ensure!(
            !positions.is_empty(),
            "no call of {run} is pending; `airlock runs show {run}{}` shows its state",
            config.option()
        );
    }
    let mut decisions = Decisions::default();
    for position in positions {
        decisions =
            if approves { decisions.approve(position) } else { decisions.deny(position, None) };
    }
    // Nothing but the calls that were shown is decided about.
    let own_state = document(&stored)["request_state"].as_str().unwrap_or_default().to_owned();
    let state = args.state.as_ref().unwrap_or(&own_state);
    let decisions = decisions
        .shown_in(run, state)
        .with_context(|| format!("--state is not of {run}; expected the form {own_state}"))?;
    let heading = if approves { "approved:" } else { "denied:" };
    let told = [heading.to_owned()].into_iter().chain(text::decided(&pending));
    Box::pin(resume(&args.one, decisions, &told.collect::<Vec<_>>())).await
}

async fn resolve(args: &ResolveArgs) -> anyhow::Result<CommandOutcome> {
    let OneRunArgs { config, run, .. } = &args.one;
    let runs = kept(&config.load_of_gateway()?)?;
    let stored = find(&runs, run, &config.option()).await?.run;
    // As it is now: a command that is repeated finds another state.
    let state = RunToken::Shown { run: stored.id.clone(), epoch: stored.lease.epoch }.to_string();
    let decisions = match args.action {
        Action::Retry => Decisions::default().retry(args.call),
        Action::Approve => Decisions::default().retry_approved(args.call),
        Action::Skip => {
            let value = serde_json::from_str(&args.value)
                .with_context(|| format!("--value is not JSON: {}", args.value))?;
            Decisions::default().skip(args.call, value).context("--value is too large")?
        }
    };
    let decisions = decisions.shown_in(&stored.id, &state).context("the run has a state")?;
    Box::pin(resume(&args.one, decisions, &[])).await
}

/// Stores decisions, prints the lines that describe them, and resumes the script in this process.
async fn resume(
    args: &OneRunArgs,
    decisions: Decisions,
    told: &[String],
) -> anyhow::Result<CommandOutcome> {
    let OneRunArgs { config, run, json } = args;
    let loaded = config.load_of_gateway()?;
    let runs = kept(&loaded)?;
    let stored = find(&runs, run, &config.option()).await?;
    let run = &stored.run.id;
    let ended = with_gateway(
        loaded,
        ExecutorLoad::Awaited,
        |_, client| client.policy.code_mode,
        async |gateway, signals| {
            let resumed = runs::resume(&gateway.caller(Origin::Model), run, &stored.run.script)?;
            // In this order: if the run cannot be resumed, nothing is decided.
            let actor = Actor::Operator(COMMAND_LINE.to_owned());
            let recorded = runs.with_acts(command_line::approvals(gateway).acts().clone());
            let decided = recorded.own(&Tenant::ANONYMOUS).decide(run, decisions, &actor).await;
            decided.map_err(|error| explain(&error, &stored.run))?;
            for line in told {
                output::hint(line);
            }
            Ok(tokio::select! {
                ran = resumed.run() => ran,
                () = signals.next() => Err(CallError::cancelled()),
            })
        },
    )
    .await?;
    log_failure(EXECUTE, ended.as_ref().err());
    show(&runs.database().await?.show_any_run(run).await?, *json)?;
    let suspension = ended.as_ref().err().and_then(CallError::suspension);
    if let (Some(suspension), false) = (suspension, *json) {
        output::hint(&next_step(&config.option(), suspension));
    }
    Ok(if suspension.is_some() { CommandOutcome::Waiting } else { ended.is_ok().into() })
}

/// Returns the command that resumes a suspended run.
pub(super) fn next_step(config: &str, suspension: &Suspension) -> String {
    let run = &suspension.run;
    match suspension.in_doubt.first() {
        Some(call) => format!(
            "call {} may have been made: `airlock runs resolve{config} {run} {} retry` makes it again, \
             `skip --value JSON` gives it an answer",
            call.position, call.position
        ),
        None => format!(
            "`airlock runs show{config} {run}` shows the calls, `airlock runs approve{config} {run}` \
             approves them and resumes the run"
        ),
    }
}

/// Adds the reason that a run cannot be changed by this command.
fn explain(error: &RunError, run: &StoredRun) -> anyhow::Error {
    let id = &run.id;
    let message = match (error, run.lease.phase) {
        (RunError::Unknown, _) => {
            format!("{id} began with a virtual key; its holder decides about it at /v1/runs/{id}")
        }
        (RunError::NoCall(position), _) => {
            format!("{id} has no call {position}; `airlock runs show {id}` shows its calls")
        }
        (RunError::Refused { refused: Refused::Running, .. }, Phase::Running { until_ms }) => {
            format!(
                "{id} is running: a process holds its lease until {}, and extends it while it lives; if the \
             process has ended, try again after that time",
                text::time(until_ms)
            )
        }
        (RunError::Refused { .. }, _) => format!("{id} cannot be changed: {error}"),
        (RunError::Unavailable(_), _) => format!("{id}: {error}"),
    };
    CodedFailure::new(runs::code(error), message).into()
}

fn show(run: &ShownRun, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return output::document(&document(run));
    }
    output::line(&output::for_stdout(&text::run(run)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requested_cancellation_names_the_time_until_it_takes_effect() {
        let soon = requested("run_1", Duration::from_millis(200));
        assert!(soon.ends_with("ends it within 1 s"));
        let late = requested("run_1", Duration::from_millis(15_001));
        assert!(late.ends_with("ends it within 16 s"));
    }
}
