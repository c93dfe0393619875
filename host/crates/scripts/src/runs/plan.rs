//! Plans of scripts: which calls a script makes, found without making any.
//!
//! The script is rehearsed twice. Its calls get described answers: those of the caller, or values of the tools'
//! output schemas, which differ between the rehearsals, as do the lengths of their lists. What is the same
//! in both depends on no answer.
//!
//! | file | purpose |
//! |---|---|
//! | `rehearsal` | the calls of one rehearsal, and their answers |
//! | `example` | a value of an output schema |
//! | `flows` | the answers of which an argument has values |
//! | `manifest` | two rehearsals → the plan, and the manifest that a person approves |

mod example;
mod flows;
mod manifest;
mod rehearsal;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use self::rehearsal::{Rehearsal, RehearsedCalls, Rehearsing};
pub use self::{
    manifest::{PlanEnd, PlannedCall, ScriptPlan},
    rehearsal::CallTreatment,
};
use super::{EffectManifest, Runs, can_wait};
use crate::{CodeMode, Runner, meta::MetaArguments};
use airlock_core::{
    door::{Admitted, Chain},
    tool::CallError,
};
use airlock_sandbox::{Bindings, Script, ScriptError};

/// Answers that a caller describes: the result of each call of a tool, by the name of the tool in scripts
/// (`files.read_file`) or by its full name.
pub type DescribedAnswers = BTreeMap<String, Value>;

/// Reason that a script has no plan.
#[derive(Debug, thiserror::Error)]
pub enum NotPlanned {
    /// An answer is described for a tool that the script does not have.
    #[error("{0:?} has a described answer, and is not a tool of scripts")]
    UnknownTool(String),
    /// The script cannot begin.
    #[error(transparent)]
    Refused(#[from] CallError),
}

impl CodeMode {
    /// Plans a script. The call is of the tool that runs scripts; no tool of the script is called.
    pub async fn plan(
        &self,
        call: &Admitted,
        answers: &DescribedAnswers,
    ) -> Result<ScriptPlan, NotPlanned> {
        let chain = call.chain();
        let bindings = self.scopes.get(chain.view()).bindings();
        let answers = by_tool(&bindings, answers)?;
        let arguments = MetaArguments::new(call.arguments());
        let source = arguments.code().map_err(CallError::from)?.to_owned();
        let (language, runner) = self.runner(self.selected(chain));
        let script = Script {
            name: language.file_name.to_owned(),
            source,
            bindings,
            clock_ms: self.runs.as_ref().and_then(clock),
            inputs: None,
            last_expression: false,
            follows_values: chain.view().follows_arguments(),
        };
        Ok(planned(chain, runner, &script, answers).await?)
    }
}

/// Returns the manifest of a script that would run in the chain; `None` if a plan does not bound its calls. A script
/// that fails in the first rehearsal is not rehearsed again. Fails if it cannot begin for a reason that passes.
pub(super) async fn planned_manifest(
    chain: &Chain,
    runner: &dyn Runner,
    script: &Script,
) -> Result<Option<EffectManifest>, CallError> {
    let answers = Arc::new(DescribedAnswers::new());
    let first = Rehearsing { answers: answers.clone(), variant: 0 };
    let first = rehearse(chain, runner, script.clone(), first).await?;
    if first.failure.is_some() {
        return Ok(None);
    }
    let second = Rehearsing { answers, variant: 1 };
    let second = rehearse(chain, runner, script.clone(), second).await?;
    Ok(ScriptPlan::new(first, second, &script.bindings).manifest())
}

/// Plans a script that would run in the chain. Fails if it cannot begin for a reason that passes.
async fn planned(
    chain: &Chain,
    runner: &dyn Runner,
    script: &Script,
    answers: DescribedAnswers,
) -> Result<ScriptPlan, CallError> {
    let answers = Arc::new(answers);
    let first = Rehearsing { answers: answers.clone(), variant: 0 };
    let first = rehearse(chain, runner, script.clone(), first).await?;
    let second = Rehearsing { answers, variant: 1 };
    let second = rehearse(chain, runner, script.clone(), second).await?;
    Ok(ScriptPlan::new(first, second, &script.bindings))
}

async fn rehearse(
    chain: &Chain,
    runner: &dyn Runner,
    script: Script,
    rehearsing: Rehearsing,
) -> Result<Rehearsal, CallError> {
    let chain = chain.rehearsal();
    let calls = Arc::new(RehearsedCalls::new(chain.clone(), rehearsing));
    match runner.run_script(script, &chain, calls.clone()).await {
        Err(ScriptError::Stopped(error)) if can_wait(&error) => Err(error),
        ended => Ok(calls.end(ended.err())),
    }
}

/// Returns the time that scripts see, in milliseconds since 1970; `None` if they see none.
fn clock(runs: &Runs) -> Option<i64> {
    runs.settings().clock.then(|| runs.now_ms())
}

/// Returns described answers by the full names of their tools.
fn by_tool(
    bindings: &Bindings,
    answers: &DescribedAnswers,
) -> Result<DescribedAnswers, NotPlanned> {
    answers
        .iter()
        .map(|(name, answer)| {
            let in_scripts = name.split_once('.');
            let found = in_scripts.and_then(|(namespace, name)| bindings.find(namespace, name));
            let found = found.or_else(|| bindings.iter().find(|known| known.tool.as_str() == name));
            let tool = found.ok_or_else(|| NotPlanned::UnknownTool(name.clone()))?;
            Ok((tool.tool.to_string(), answer.clone()))
        })
        .collect()
}

#[cfg(test)]
mod tests;
