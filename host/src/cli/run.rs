//! `airlock run`.

use std::{
    future::Future,
    path::{Path, PathBuf},
};

use anyhow::ensure;
use serde::Serialize;
use serde_json::{Value, json};

use super::input;
use airlock_core::{
    door::{Caller, Origin, ScriptLanguage},
    tool::{CallError, HostCode, ToolOutput},
};
use airlock_gateway::{Gateway, command_line};
use airlock_scripts::runs::EXECUTE;
use airlock_terminal::{
    outcome::CommandOutcome,
    output::{self, CommandFailure},
    record::{LedgerReport, NestedCall, millis},
    session::{self, ConfigFile, ExecutorLoad},
};

/// Run a script over the tools of code-mode clients
///
/// The script runs in the sandbox with the rights of a model's script: a call of a tool that is not
/// in `tools_to_auto_execute` suspends the run, unless you pass `--approve`; `airlock runs approve`
/// approves the call and resumes the run. The value of `result` is printed. The exit code is 3 if the
/// run waits for a decision.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  airlock run --config airlock.json report.star\n  \
                        echo 'result = 6 * 7' | airlock run --config airlock.json -")]
pub(super) struct RunArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// The script; `-` reads it from standard input. A file `….star` is Starlark and `….py` is Python.
    /// For any other name, the configuration sets the language.
    script: PathBuf,
    /// Approve every call that the script makes.
    #[arg(long)]
    approve: bool,
    /// Print a JSON document: `{run, status, result, output, calls, fuel, duration_ms, waits, error}`.
    /// `waits` contains the calls for which a suspended run waits.
    #[arg(long)]
    json: bool,
}

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum RunStatus {
    Ok,
    /// The script or a tool failed.
    Error,
    /// A limit of the sandbox ended the run.
    Limit,
    NeedsApproval,
    Cancelled,
}

#[derive(Debug, Serialize)]
struct RunReport {
    /// Identifier of the run; `None` if runs are not kept.
    run: Option<String>,
    status: RunStatus,
    result: Value,
    /// Text that the script printed.
    output: String,
    calls: Vec<NestedCall>,
    fuel: Option<u64>,
    duration_ms: f64,
    /// The calls that the run waits for; `None` if it is not suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Value>,
    error: Option<CommandFailure>,
    #[serde(skip)]
    suspension: Option<String>,
}

pub(super) async fn run(args: &RunArgs) -> anyhow::Result<CommandOutcome> {
    let report = match execute(args).await {
        Err(error) if args.json => RunReport::not_started(&error),
        report => report?,
    };
    if args.json {
        output::document(&report)?;
    } else {
        show(&report, &args.config.option(), &args.script)?;
    }
    Ok(match report.status {
        RunStatus::Ok => CommandOutcome::Success,
        // The run waits only if it is kept.
        RunStatus::NeedsApproval if report.run.is_some() => CommandOutcome::Waiting,
        _ => CommandOutcome::Failure,
    })
}

async fn execute(args: &RunArgs) -> anyhow::Result<RunReport> {
    let source = input::file(&args.script)?;
    ensure!(!source.trim().is_empty(), "{} is empty", args.script.display());
    let mut config = args.config.load()?;
    let selected = language(&args.script);
    config.script_language = selected.unwrap_or(config.script_language);
    session::with_gateway(
        config,
        ExecutorLoad::Awaited,
        |_, client| client.policy.code_mode,
        async |gateway, signals| {
            let mut caller = command_line::caller_in(gateway, Origin::Model, selected);
            if args.approve {
                caller = caller.approving_scripts();
            }
            command_line::load_executor(gateway, selected).await?;
            let script = run_script(&caller, &source, signals.next()).await;
            script.map_err(|error| explain(error, gateway))
        },
    )
    .await
}

/// Returns the language of a script by the name of its file.
pub(super) fn language(script: &Path) -> Option<ScriptLanguage> {
    match script.extension()?.to_str()? {
        "star" => Some(ScriptLanguage::Starlark),
        "py" => Some(ScriptLanguage::Python),
        _ => None,
    }
}

/// Explains why the meta-tool is missing. Without a tool for scripts there is no meta-tool to run
/// them, and the error alone would report an unknown tool.
pub(super) fn explain(error: CallError, gateway: &Gateway) -> anyhow::Error {
    if error.code() != HostCode::NotFound {
        return error.into();
    }
    let mut message =
        "no script can run: no client with `is_code_mode_client` has a tool".to_owned();
    for absent in session::absent_sources(gateway, |client| client.policy.code_mode) {
        message.push_str("\n  ");
        message.push_str(&absent);
    }
    anyhow::Error::new(error).context(message)
}

/// Runs a script through the door until it ends or `cancelled` resolves. Fails only if the script
/// did not start.
async fn run_script(
    caller: &Caller,
    source: &str,
    cancelled: impl Future<Output = ()>,
) -> Result<RunReport, CallError> {
    let admitted = caller.admit(EXECUTE, &json!({"code": source}).to_string())?;
    let result = tokio::select! {
        result = admitted.run() => result,
        () = cancelled => Err(CallError::cancelled()),
    };
    Ok(RunReport::new(&result, LedgerReport::read(caller.ledger())))
}

impl RunReport {
    fn not_started(error: &anyhow::Error) -> Self {
        Self {
            run: None,
            status: error.downcast_ref().map_or(RunStatus::Error, RunStatus::from_error),
            result: Value::Null,
            output: String::new(),
            calls: Vec::new(),
            fuel: None,
            duration_ms: 0.0,
            waits: None,
            error: Some(CommandFailure::from(error)),
            suspension: None,
        }
    }

    fn new(result: &Result<ToolOutput, CallError>, account: LedgerReport) -> Self {
        let structured = result.as_ref().ok().and_then(|output| output.structured.as_ref());
        let error = result.as_ref().err();
        let suspension = error.and_then(CallError::suspension);
        Self {
            run: account.run,
            status: result.as_ref().err().map_or(RunStatus::Ok, RunStatus::from_error),
            result: structured
                .and_then(|structured| structured.get("result"))
                .cloned()
                .unwrap_or_default(),
            output: account.emitted.join("\n"),
            calls: account.nested,
            fuel: account.fuel,
            duration_ms: millis(account.duration),
            waits: suspension.map(airlock_core::tool::Suspension::to_json),
            suspension: error.filter(|_| suspension.is_some()).map(ToString::to_string),
            error: error.filter(|_| suspension.is_none()).map(CommandFailure::from),
        }
    }
}

impl RunStatus {
    fn from_error(error: &CallError) -> Self {
        match error.code() {
            _ if error.is_unapproved() || error.suspension().is_some() => Self::NeedsApproval,
            HostCode::Cancelled => Self::Cancelled,
            _ if error.limit().is_some() => Self::Limit,
            _ => Self::Error,
        }
    }
}

/// Returns a message about a script with the name of its file, for the name that the executor gives it.
fn located(message: &str, script: &Path) -> String {
    if script == Path::new("-") {
        return message.to_owned();
    }
    let file = script.display();
    let mut message = message.to_owned();
    for name in ["code.star", "code.py"] {
        for mark in ["-->", "  *"] {
            message = message.replace(&format!("{mark} {name}:"), &format!("{mark} {file}:"));
        }
        message = message.replace(&format!("File \"{name}\","), &format!("File \"{file}\","));
    }
    message
}

/// Prints a report for people. `config` is the option that names the configuration.
fn show(report: &RunReport, config: &str, script: &Path) -> anyhow::Result<()> {
    if !report.output.is_empty() {
        output::line(&output::for_stdout(&report.output))?;
    }
    if let Some(suspension) = &report.suspension {
        output::waiting(&located(suspension, script));
        if let Some(run) = &report.run {
            output::hint(&format!(
                "`airlock runs show{config} {run}` shows the calls, `airlock runs approve{config} {run}` approves them and resumes the run"
            ));
        }
        return Ok(());
    }
    match (&report.error, &report.result) {
        (Some(failure), _) => {
            output::complain(&CommandFailure {
                message: located(&failure.message, script),
                ..failure.clone()
            });
            if report.status == RunStatus::NeedsApproval {
                output::hint("`--approve` approves every call of the script");
            } else if let Some(run) = &report.run {
                output::hint(&format!("`airlock runs show{config} {run}` shows the run"));
            }
        }
        (None, Value::Null) => {}
        (None, Value::String(text)) => output::line(&output::for_stdout(text))?,
        (None, result) => output::document(result)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests;
