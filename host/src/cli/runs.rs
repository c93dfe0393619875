//! `airlock runs`: shows the runs of scripts, and decides about their calls.

use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::{Done, output, session::ConfigFile};
use crate::{
    catalog::log_failure,
    config::Config,
    door::Origin,
    run::{Position, Stage},
    runs::{self, Decisions, EXECUTE, Runs, document, summary},
    store::{
        self,
        runs::{RunError, ShownRun},
    },
    tenant::Tenant,
    text::cut,
    tool::{CallError, Suspension},
};

/// Most runs in a list.
const LISTED: u32 = 100;
/// Longest arguments of a call in a text, in bytes.
const MAX_ARGUMENTS: usize = 200;

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
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the latest runs of all callers
    List(List),
    /// Show a run with its calls and its result
    Show(One),
    /// Approve pending calls, and resume the run
    Approve(Decide),
    /// Deny pending calls, and resume the run
    Deny(Decide),
    /// Resume an interrupted run, whose process has ended
    Resume(One),
    /// Decide about a call in doubt, which may have been made, and resume the run
    Resolve(Resolve),
    /// End a run
    Cancel(One),
}

#[derive(Debug, clap::Args)]
struct List {
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: an array of runs.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct One {
    #[command(flatten)]
    config: ConfigFile,
    /// The run.
    run: String,
    /// Print a JSON document: the run.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct Decide {
    #[command(flatten)]
    one: One,
    /// Positions of the calls, as `airlock runs show` prints them. Without any, all pending calls.
    calls: Vec<Position>,
}

#[derive(Debug, clap::Args)]
struct Resolve {
    #[command(flatten)]
    one: One,
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
    Retry,
    Skip,
}

impl Args {
    pub(super) fn wants_json(&self) -> bool {
        match &self.command {
            Command::List(args) => args.json,
            Command::Show(args) | Command::Resume(args) | Command::Cancel(args) => args.json,
            Command::Approve(args) | Command::Deny(args) => args.one.json,
            Command::Resolve(args) => args.one.json,
        }
    }
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    match &args.command {
        Command::List(args) => list(args).await,
        Command::Show(args) => {
            let runs = kept(&args.config.load()?)?;
            show(&runs.database().await?.show_any_run(&args.run).await?, args.json)?;
            Ok(Done::Yes)
        }
        Command::Cancel(args) => {
            let runs = kept(&args.config.load()?)?;
            let cancelled = runs.own(&Tenant::ANONYMOUS).cancel(&args.run).await;
            cancelled.map_err(|error| explain(error, &args.run))?;
            show(&runs.database().await?.show_any_run(&args.run).await?, args.json)?;
            Ok(Done::Yes)
        }
        Command::Approve(args) => decide(args, true).await,
        Command::Deny(args) => decide(args, false).await,
        Command::Resume(args) => resume(args, Decisions::default()).await,
        Command::Resolve(args) => resolve(args).await,
    }
}

/// Returns the runs that a gateway with this configuration keeps.
pub(super) fn kept(config: &Config) -> anyhow::Result<Runs> {
    ensure!(
        config.runs.journal,
        "no runs are kept: mcp.tool_manager_config.code_mode_journal is false"
    );
    Ok(Runs::new(config.runs, store::Settings::new(&config.store)))
}

async fn list(args: &List) -> anyhow::Result<Done> {
    let runs = kept(&args.config.load()?)?;
    let listed = runs.database().await?.any_runs(LISTED).await?;
    let listed: Vec<Value> = listed.iter().map(summary).collect();
    if args.json {
        output::document(&listed)?;
    } else if listed.is_empty() {
        output::line("there are no runs")?;
    } else {
        for run in &listed {
            output::line(&row(run))?;
        }
    }
    Ok(Done::Yes)
}

/// Returns the line of a run in a list: id, state, time of its begin, language, and the number of
/// pending calls if there are any.
fn row(run: &Value) -> String {
    let began = Duration::from_millis(run["created_at_ms"].as_u64().unwrap_or_default());
    let began = humantime::format_rfc3339_seconds(UNIX_EPOCH + began);
    let (id, state, language) = (text(&run["id"]), text(&run["state"]), text(&run["language"]));
    let waiting = match run["pending_calls"].as_u64() {
        None | Some(0) => String::new(),
        Some(1) => "  1 call pending".to_owned(),
        Some(calls) => format!("  {calls} calls pending"),
    };
    format!("{id}  {state:<11}  {began}  {language:<8}{waiting}").trim_end().to_owned()
}

async fn decide(args: &Decide, approves: bool) -> anyhow::Result<Done> {
    let One { config, run, .. } = &args.one;
    let runs = kept(&config.load()?)?;
    let stored = runs.own(&Tenant::ANONYMOUS).get(run).await;
    let stored = stored.map_err(|error| explain(error, run))?;
    let mut positions = args.calls.clone();
    if positions.is_empty() {
        let pending =
            stored.calls.iter().filter(|stored| matches!(stored.call.stage, Stage::Pending { .. }));
        positions = pending.map(|stored| stored.position).collect();
        ensure!(
            !positions.is_empty(),
            "no call of {run} is pending; `airlock runs show {run}` shows its state"
        );
    }
    let mut decisions = Decisions::default();
    for position in positions {
        decisions = if approves { decisions.approve(position) } else { decisions.deny(position) };
    }
    resume(&args.one, decisions).await
}

async fn resolve(args: &Resolve) -> anyhow::Result<Done> {
    let decisions = match args.action {
        Action::Retry => Decisions::default().retry(args.call),
        Action::Skip => {
            let value = serde_json::from_str(&args.value)
                .with_context(|| format!("--value is not JSON: {}", args.value))?;
            Decisions::default().skip(args.call, value)
        }
    };
    resume(&args.one, decisions).await
}

/// Stores decisions and resumes the script in this process.
async fn resume(args: &One, decisions: Decisions) -> anyhow::Result<Done> {
    let One { config, run, json } = args;
    let runs = kept(&config.load()?)?;
    let own = runs.own(&Tenant::ANONYMOUS);
    let stored = own.get(run).await.map_err(|error| explain(error, run))?;
    let ended = config
        .with_gateway(
            |_, client| client.policy.code_mode,
            async |gateway, signals| {
                let resumed = runs::resume(&gateway.caller(Origin::Model), run, &stored.script)?;
                // In this order: if the run cannot be resumed, nothing is decided.
                own.decide(run, decisions).await.map_err(|error| explain(error, run))?;
                Ok(tokio::select! {
                    ran = resumed.run() => ran,
                    () = signals.next() => Err(CallError::Cancelled),
                })
            },
        )
        .await?;
    log_failure(EXECUTE, ended.as_ref().err());
    show(&runs.database().await?.show_any_run(run).await?, *json)?;
    if let (Err(CallError::Suspended(suspension)), false) = (&ended, *json) {
        output::hint(&next_step(&config.option(), suspension));
    }
    Ok(match ended {
        Ok(_) => Done::Yes,
        Err(CallError::Suspended(_)) => Done::Waits,
        Err(_) => Done::No,
    })
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

/// Adds the reason that a run cannot be found or changed by this command.
fn explain(error: RunError, run: &str) -> anyhow::Error {
    match error {
        RunError::Unknown => {
            anyhow::anyhow!("there is no run {run} that began without a virtual key")
        }
        error => anyhow::Error::new(error).context(format!("{run} cannot be changed")),
    }
}

fn show(shown: &ShownRun, as_json: bool) -> anyhow::Result<()> {
    let (run, document) = (&shown.run, document(shown));
    if as_json {
        return output::visible_document(&document);
    }
    let mut lines = vec![format!("{}  {}", run.id, text(&document["state"]))];
    for call in document["calls"].as_array().into_iter().flatten() {
        let arguments = cut(call["arguments"].to_string(), MAX_ARGUMENTS);
        let (position, state) = (text(&call["position"]), text(&call["state"]));
        lines.push(format!("  {position}  {state}  {}  {arguments}", text(&call["tool"])));
    }
    let error = match document["error"]["line"].as_u64() {
        Some(line) => format!("error in line {line}"),
        None => "error".to_owned(),
    };
    for (name, value) in [("output", &document["output"]), (&*error, &document["error"]["message"])]
    {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            lines.push(format!("{name}:\n{text}"));
        }
    }
    if !document["result"].is_null() {
        lines.push(format!("result:\n{:#}", document["result"]));
    }
    output::line(&output::for_stdout(&lines.join("\n")))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
