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
//! | `manifest` | two rehearsals → the plan |

mod example;
mod manifest;
mod rehearsal;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

pub use self::manifest::{PlanEnd, PlannedCall, ScriptPlan};
use self::rehearsal::{Rehearsal, RehearsedCalls, Rehearsing};
use super::Runs;
use crate::{CodeMode, meta::MetaArguments};
use airlock_core::{door::Admitted, tool::CallError};
use airlock_sandbox::{Bindings, Script};

/// Answers that a caller describes: the result of each call of a tool, by the name of the tool in scripts
/// (`files.read_file`) or by its full name.
pub type DescribedAnswers = BTreeMap<String, Value>;

/// Reason that a script has no plan.
#[derive(Debug, thiserror::Error)]
pub enum NotPlanned {
    /// An answer is described for a tool that the script does not have.
    #[error("{0:?} has a described answer, and is no tool of scripts")]
    UnknownTool(String),
    /// The script cannot begin.
    #[error(transparent)]
    Refused(#[from] CallError),
}

impl CodeMode {
    /// Plans a script. Both calls are of the tool that runs scripts, with the same script; no tool of the script
    /// is called.
    pub async fn plan(
        &self,
        calls: &[Admitted; 2],
        answers: &DescribedAnswers,
    ) -> Result<ScriptPlan, NotPlanned> {
        let bindings = self.scopes.get(calls[0].chain().view()).bindings();
        let answers = Arc::new(by_tool(&bindings, answers)?);
        let first = Rehearsing { answers: answers.clone(), variant: 0 };
        let first = self.rehearse(&calls[0], &bindings, first).await?;
        let second = Rehearsing { answers, variant: 1 };
        let second = self.rehearse(&calls[1], &bindings, second).await?;
        Ok(ScriptPlan::new(first, second, &bindings))
    }

    async fn rehearse(
        &self,
        call: &Admitted,
        bindings: &Arc<Bindings>,
        rehearsing: Rehearsing,
    ) -> Result<Rehearsal, CallError> {
        let chain = call.chain();
        let arguments = MetaArguments::new(call.arguments());
        let source = arguments.code()?.to_owned();
        let (language, runner) = self.runner(self.selected(chain));
        let script = Script {
            name: language.file_name.to_owned(),
            source,
            bindings: bindings.clone(),
            clock_ms: self.runs.as_ref().and_then(clock),
            inputs: None,
            last_expression: false,
        };
        let calls = Arc::new(RehearsedCalls::new(chain.clone(), rehearsing));
        let ended = runner.run_script(script, chain, calls.clone()).await;
        Ok(calls.end(ended.err()))
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
