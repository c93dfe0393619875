//! `airlock runs`: shows the runs of scripts, and decides about their calls.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use super::{Done, output, session::ConfigFile};
use crate::{
    catalog::log_failure,
    config::Config,
    door::Origin,
    run::Position,
    runs::{Decisions, EXECUTE, Runs, document, summary},
    store::{self, runs::StoredRun},
    tenant::Tenant,
    text::cut,
    tool::{Answers, CallError},
};

/// Most runs in a list.
const LISTED: u32 = 100;
/// Longest arguments of a call in a text, in bytes.
const MAX_ARGUMENTS: usize = 200;

/// Show the runs of scripts, approve or deny their calls, and end them
///
/// A script stops at a call that needs an approval, and its run waits. `approve` and `deny` decide
/// about calls of such a run and go on with the script in this process; they work for runs that began
/// without a virtual key, for example with `airlock run`. The holder of a virtual key decides about
/// its runs at `/v1/runs` of the gateway.
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
    /// Approve calls that wait for it, and go on
    Approve(Decide),
    /// Deny calls that wait for an approval, and go on
    Deny(Decide),
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
    /// Positions of the calls, as `airlock runs show` prints them. Without any, all calls that wait.
    calls: Vec<Position>,
}

impl Args {
    pub(super) fn wants_json(&self) -> bool {
        match &self.command {
            Command::List(args) => args.json,
            Command::Show(args) | Command::Cancel(args) => args.json,
            Command::Approve(args) | Command::Deny(args) => args.one.json,
        }
    }
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    match &args.command {
        Command::List(args) => list(args).await,
        Command::Show(args) => {
            let runs = kept(&args.config.load()?)?;
            show(&runs.database().await?.any_run(&args.run).await?, args.json)?;
            Ok(Done::Yes)
        }
        Command::Cancel(args) => {
            let runs = kept(&args.config.load()?)?;
            runs.own(&Tenant::ANONYMOUS)
                .cancel(&args.run)
                .await
                .with_context(|| not_own(&args.run))?;
            show(&runs.own(&Tenant::ANONYMOUS).get(&args.run).await?, args.json)?;
            Ok(Done::Yes)
        }
        Command::Approve(args) => decide(args, true).await,
        Command::Deny(args) => decide(args, false).await,
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
        output::line("no runs are kept")?;
    } else {
        for run in &listed {
            output::line(&format!("{}  {}", text(&run["id"]), text(&run["state"])))?;
        }
    }
    Ok(Done::Yes)
}

async fn decide(args: &Decide, approves: bool) -> anyhow::Result<Done> {
    let One { config, run, json } = &args.one;
    let runs = kept(&config.load()?)?;
    let own = runs.own(&Tenant::ANONYMOUS);
    let stored = own.get(run).await.with_context(|| not_own(run))?;
    if args.calls.is_empty() {
        own.decide_all(run, approves).await?;
    } else {
        let mut decisions = Decisions::default();
        for position in args.calls.iter().map(ToString::to_string) {
            decisions =
                if approves { decisions.approve(&position)? } else { decisions.deny(&position)? };
        }
        own.decide(run, decisions).await?;
    }
    let ended = config
        .with_gateway(
            |_, client| client.policy.code_mode,
            async |gateway, signals| {
                let arguments = json!({"code": stored.script}).to_string();
                let answers =
                    Answers { token: run.clone(), given: std::collections::BTreeMap::new() };
                let resumed = gateway.caller(Origin::Model).resume(EXECUTE, &arguments, answers)?;
                Ok(tokio::select! {
                    ran = resumed.run() => ran,
                    () = signals.next() => Err(CallError::Cancelled),
                })
            },
        )
        .await?;
    log_failure(EXECUTE, ended.as_ref().err());
    show(&own.get(run).await?, *json)?;
    Ok(matches!(ended, Ok(_) | Err(CallError::Suspended(_))).into())
}

fn not_own(run: &str) -> String {
    format!("{run} is no run that began without a virtual key")
}

fn show(run: &StoredRun, as_json: bool) -> anyhow::Result<()> {
    let document = document(run);
    if as_json {
        return output::visible_document(&document);
    }
    let mut lines = vec![format!("{}  {}", run.id, text(&document["state"]))];
    for call in document["calls"].as_array().into_iter().flatten() {
        let arguments = cut(call["arguments"].to_string(), MAX_ARGUMENTS);
        let (position, state) = (text(&call["position"]), text(&call["state"]));
        lines.push(format!("  {position}  {state}  {}  {arguments}", text(&call["tool"])));
    }
    for (name, value) in [("output", &document["output"]), ("error", &document["error"]["message"])]
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
