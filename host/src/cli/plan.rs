//! `airlock plan`.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::json;

use super::{
    input,
    run::{explain, language},
};
use airlock_core::{
    door::{Admitted, Origin, ScriptLanguage},
    tool::CallError,
};
use airlock_gateway::{Gateway, command_line};
use airlock_scripts::runs::{
    CallTreatment, DescribedAnswers, EXECUTE, PlanEnd, PlannedCall, ScriptPlan, ShownArgument,
    argument_name,
};
use airlock_terminal::{
    outcome::CommandOutcome,
    output,
    session::{self, ConfigFile, ExecutorLoad},
};

/// Show which calls a script makes, without making any
///
/// The script runs twice in the sandbox, with the tools of a model's script. Each of its calls gets an answer in
/// place of a result: the one in `--answers`, or a value that fits the tool's output schema. Such values, and the
/// lengths of their lists, differ between the two runs, which shows what depends on answers. No tool is called. The
/// servers in code mode are started, because they list the tools, and guards decide before each call. With other
/// answers the script may make other calls. The exit code is 0 only if the script ran to its end both times.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  airlock plan --config airlock.json report.star\n  \
                        airlock plan --answers answers.json --json report.py")]
pub(super) struct PlanArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// The script; `-` reads it from standard input. A file `….star` is Starlark and `….py` is Python.
    /// For any other name, the configuration sets the language.
    script: PathBuf,
    /// A JSON file with the answer of each tool, which all its calls get: `{"files.read_file": {"text": "…"}}`.
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Print a JSON document: `{complete, calls, unknown_from}`. Each of `calls` has `tool`, `name`, `arguments`,
    /// `partial`, `varying`, `flows`, `times`, `rehearsed`, `needs_approval`, `question`, `sources`, `refused` and
    /// `read_only`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &PlanArgs) -> anyhow::Result<CommandOutcome> {
    let plan = plan(args).await?;
    if args.json {
        output::document(&plan)?;
    } else {
        show(&plan)?;
    }
    Ok(plan.complete.into())
}

async fn plan(args: &PlanArgs) -> anyhow::Result<ScriptPlan> {
    let source = input::file(&args.script)?;
    ensure!(!source.trim().is_empty(), "{} is empty", args.script.display());
    let answers = described(args)?;
    let mut config = args.config.load()?;
    let selected = language(&args.script);
    config.script_language = selected.unwrap_or(config.script_language);
    session::with_gateway(
        config,
        ExecutorLoad::Awaited,
        |_, client| client.policy.code_mode,
        async |gateway, signals| {
            command_line::load_executor(gateway, selected).await?;
            let call = admitted(gateway, selected, &source)?;
            let code_mode = command_line::code_mode(gateway);
            tokio::select! {
                plan = code_mode.plan(&call, &answers) => Ok(plan?),
                () = signals.next() => Err(CallError::cancelled().into()),
            }
        },
    )
    .await
}

/// Reads the answers that the caller describes.
fn described(args: &PlanArgs) -> anyhow::Result<DescribedAnswers> {
    let Some(path) = &args.answers else { return Ok(DescribedAnswers::new()) };
    let text = input::file(path)?;
    serde_json::from_str(&text)
        .with_context(|| format!("{} is not a JSON object of answers", path.display()))
}

/// Returns the call of a script. It is not run.
fn admitted(
    gateway: &Gateway,
    language: Option<ScriptLanguage>,
    source: &str,
) -> anyhow::Result<Admitted> {
    let caller = command_line::caller_in(gateway, Origin::Model, language);
    let admitted = caller.admit(EXECUTE, &json!({"code": source}).to_string());
    admitted.map_err(|error| explain(error, gateway))
}

/// Prints a plan for people.
fn show(plan: &ScriptPlan) -> anyhow::Result<()> {
    for call in &plan.calls {
        output::line(&output::for_stdout(&described_call(call)))?;
    }
    match &plan.unknown_from {
        Some(end) => output::line(&output::for_stdout(&described_end(end))),
        None if plan.calls.is_empty() => output::line("the script calls no tool"),
        None => Ok(()),
    }
}

fn described_call(call: &PlannedCall) -> String {
    let arguments = call.arguments.shown("…").map(|shown| {
        let ShownArgument { name, value } = shown;
        let origins = call.flows.get(name).map(|tools| format!(" from {}", tools.join(", ")));
        format!("{}={value}{}", argument_name(name), origins.unwrap_or_default())
    });
    let arguments: Vec<_> = arguments.collect();
    let times = match (call.times, call.rehearsed) {
        (Some(1), _) => "once".to_owned(),
        (Some(times), _) => format!("{times} times"),
        (None, [one, other]) => format!("as often as answers say ({one} and {other} here)"),
    };
    let changes = if call.read_only { ", read-only" } else { "" };
    let treatment = described_treatment(&call.treatment);
    format!("{}({}): {times}{changes}{treatment}", call.name, arguments.join(", "))
}

/// Describes what happens to a call before it is made, as the end of a sentence.
fn described_treatment(treatment: &CallTreatment) -> String {
    let CallTreatment { needs_approval, question, sources, refused } = treatment;
    if let Some(reason) = refused {
        return format!(", refused: {reason}");
    }
    if !needs_approval {
        return String::new();
    }
    let mut text = ", waits for an approval".to_owned();
    // Writing to a String cannot fail.
    if !sources.is_empty() {
        let _ = write!(text, ", because untrusted content from {sources} was read before");
    }
    if let Some(question) = question {
        let _ = write!(text, ", because a guard asks: {question}");
    }
    text
}

fn described_end(end: &PlanEnd) -> String {
    let from = end.line.map_or(String::new(), |line| format!(" from line {line}"));
    let text = format!("unknown{from}: {}", end.message);
    if end.undescribed.is_empty() {
        return text;
    }
    let tools = end.undescribed.join(", ");
    format!("{text}\n  no output schema describes the results of {tools}; `--answers` can")
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use serde_json::Map;

    use super::*;
    use airlock_scripts::runs::ExpectedArguments;

    #[test]
    fn a_call_is_shown_with_its_arguments_and_how_often_it_is_made() {
        let arguments = ExpectedArguments {
            constant: Map::from_iter([("state".to_owned(), json!("open"))]),
            varying: BTreeSet::from(["page".to_owned()]),
            ..ExpectedArguments::default()
        };
        let mut call = PlannedCall {
            tool: "tracker-list".into(),
            name: "tracker.list".into(),
            written: arguments.clone(),
            arguments: arguments.clone(),
            times: Some(1),
            rehearsed: [1, 1],
            treatment: CallTreatment::default(),
            flows: BTreeMap::new(),
            read_only: true,
            definition: "d".into(),
        };
        let shown = "tracker.list(state=\"open\", page=…): once, read-only";
        assert_eq!(described_call(&call), shown);
        let named = PlannedCall {
            arguments: ExpectedArguments {
                constant: Map::from_iter([("a): once; b.c(d".to_owned(), json!(1))]),
                varying: BTreeSet::from(["e=1, f".to_owned()]),
                ..ExpectedArguments::default()
            },
            ..call
        };
        let shown = "tracker.list(\"a): once; b.c(d\"=1, \"e=1, f\"=…): once, read-only";
        assert_eq!(described_call(&named), shown);
        call = PlannedCall { arguments, ..named };
        call.times = None;
        call.rehearsed = [1, 2];
        call.read_only = false;
        call.treatment.needs_approval = true;
        call.flows.insert("page".into(), vec!["tracker.count".into(), "tracker.list".into()]);
        let shown = "tracker.list(state=\"open\", page=… from tracker.count, tracker.list): as often as answers say (1 and 2 here), waits for an approval";
        assert_eq!(described_call(&call), shown);
    }

    #[test]
    fn a_treatment_names_the_reason_of_an_approval_or_a_refusal() {
        let mut treatment = CallTreatment::default();
        assert_eq!(described_treatment(&treatment), "");
        treatment.needs_approval = true;
        assert_eq!(described_treatment(&treatment), ", waits for an approval");
        treatment.sources.insert("web");
        treatment.question = Some("sure?".into());
        let shown = ", waits for an approval, because untrusted content from web was read before, because a guard asks: sure?";
        assert_eq!(described_treatment(&treatment), shown);
        treatment.refused = Some("no".into());
        assert_eq!(described_treatment(&treatment), ", refused: no");
    }

    #[test]
    fn the_end_of_a_plan_names_the_tools_without_an_answer() {
        let mut end = PlanEnd { line: Some(2), message: "no key".into(), undescribed: Vec::new() };
        assert_eq!(described_end(&end), "unknown from line 2: no key");
        end.undescribed = vec!["a-b".into()];
        end.line = None;
        let shown =
            "unknown: no key\n  no output schema describes the results of a-b; `--answers` can";
        assert_eq!(described_end(&end), shown);
    }
}
