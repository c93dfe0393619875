//! The schemas of a list of tools, against which the arguments of calls and their structured results are
//! checked.
//!
//! They are compiled once, when the tools are published: a list with little work in the quick turn,
//! which seconds of another server's list do not delay, and any other list in the long turn. A schema
//! that cannot be compiled, or for which no check is bounded, is reported to the operator, and values
//! pass unchecked: the source's tools stay usable.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde_json::Value;

use airlock_core::{
    door::Admitted,
    tenant::Tenant,
    threads,
    tool::{CallError, Tool, ToolName, ToolOutput},
};
use airlock_json::{
    JsonText, raw,
    schema::{BadSchema, CompileWork, CompiledSchema, MAX_SOURCE_BYTES, Problem, Violations},
};

/// Maximum work of compiling the schemas of one kind in one list, usable or not, in documents that
/// take as much as a document may: about half a second, or two seconds for patterns made for it.
const MAX_DOCUMENTS: u64 = 5;
/// Largest list that is compiled in a turn of [`QUICK_COMPILER`], in bytes of its schemas.
const QUICK_BYTES: usize = 1 << 20;
/// Held while the schemas of a list are compiled: servers take turns, so that all of them together
/// take one CPU, and the memory of one compiler.
static COMPILER: Mutex<()> = Mutex::new(());
/// Held while a list is compiled as far as a little work goes, which is enough for ordinary ones: they
/// do not wait for servers whose lists take seconds.
static QUICK_COMPILER: Mutex<()> = Mutex::new(());

/// Compiled schemas of a list of tools.
#[derive(Default)]
pub(super) struct Schemas {
    input: HashMap<ToolName, Arc<CompiledSchema>>,
    output: HashMap<ToolName, Arc<CompiledSchema>>,
    bytes: usize,
    /// Reasons for the schemas that are left out.
    unchecked: Vec<String>,
    /// True if one was left out because the work was used up.
    is_out_of_work: bool,
}

/// Values of a source that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Checks {
    /// None: the provider checks its values itself.
    Nothing,
    /// The arguments of calls and structured results.
    ArgumentsAndResults,
}

/// Error: the schemas of a client's tools are together too large, so that values would not be checked against one of them.
#[derive(Debug, thiserror::Error)]
#[error("the schemas of all tools are together too large to be checked: {0}")]
pub struct UncheckedSchemas(String);

/// Reason that values are not checked against a schema.
#[derive(Debug, thiserror::Error)]
enum Unchecked {
    #[error(transparent)]
    Bad(#[from] BadSchema),
    #[error(
        "nothing can be checked against the {0}: with it, the source's compiled schemas take more than {MAX_SOURCE_BYTES} bytes"
    )]
    TooMany(&'static str),
}

impl Schemas {
    /// Compiles the schemas of a list of tools, as far as its values are checked. Blocks while it
    /// does.
    pub(super) fn compile(checks: Checks, tools: &[Arc<Tool>]) -> Self {
        if tools.iter().map(|tool| schema_bytes(tool)).sum::<usize>() <= QUICK_BYTES {
            let _turn = QUICK_COMPILER.lock();
            let schemas = Self::compile_within(checks, tools, CompileWork::quick);
            if !schemas.is_out_of_work {
                return schemas;
            }
        }
        let _turn = COMPILER.lock();
        Self::compile_within(checks, tools, || CompileWork::of_documents(MAX_DOCUMENTS))
    }

    /// Compiles the schemas, those of each kind with some `work`. The output schemas come first, so
    /// that a list with large ones loses the checks of arguments, which its server checks itself.
    fn compile_within(checks: Checks, tools: &[Arc<Tool>], work: fn() -> CompileWork) -> Self {
        let mut schemas = Self::default();
        if checks == Checks::Nothing {
            return schemas;
        }
        let declared = tools.iter().filter_map(|tool| Some((tool, tool.output_schema.as_ref()?)));
        schemas.output = schemas.compile_all("outputSchema", declared, work());
        let declared = tools.iter().map(|tool| (tool, &tool.input_schema));
        schemas.input = schemas.compile_all("inputSchema", declared, work());
        schemas
    }

    fn compile_all<'t>(
        &mut self,
        which: &'static str,
        declared: impl Iterator<Item = (&'t Arc<Tool>, &'t JsonText)>,
        mut work: CompileWork,
    ) -> HashMap<ToolName, Arc<CompiledSchema>> {
        let mut compiled = HashMap::new();
        for (tool, schema) in declared {
            match self.compile_one(which, schema, &mut work) {
                Ok(schema) => {
                    compiled.insert(tool.full_name.clone(), Arc::new(schema));
                }
                Err(reason) => {
                    self.is_out_of_work |= reason.is_too_much_work();
                    self.unchecked.push(format!("tool {:?}: {reason}", tool.original));
                }
            }
        }
        compiled
    }

    fn compile_one(
        &mut self,
        which: &'static str,
        schema: &JsonText,
        work: &mut CompileWork,
    ) -> Result<CompiledSchema, Unchecked> {
        let compiled = CompiledSchema::compile_text_within(which, schema, work)?;
        let bytes = self.bytes.saturating_add(compiled.bytes());
        if bytes > MAX_SOURCE_BYTES {
            return Err(Unchecked::TooMany(which));
        }
        self.bytes = bytes;
        Ok(compiled)
    }

    /// Reasons for the schemas that nothing is checked against.
    pub(super) fn unchecked(&self) -> &[String] {
        &self.unchecked
    }

    /// Fails if nothing is checked against a schema.
    pub(super) fn require_all(&self) -> Result<(), UncheckedSchemas> {
        self.unchecked.first().map_or(Ok(()), |reason| Err(UncheckedSchemas(reason.clone())))
    }

    /// Checks the arguments of a call.
    pub(super) async fn check_arguments(&self, call: &Admitted) -> Result<(), CallError> {
        let Some(schema) = self.input.get(&call.tool().full_name) else { return Ok(()) };
        let tenant = call.chain().tenant();
        let checked = threads::check_arguments(tenant, schema, call.arguments(), check_members);
        checked.await.map_err(|violations| unfit(call, &violations))
    }

    /// Checks the arguments of a call of the program itself, as [`Self::check_arguments`]. Returns the call with arguments
    /// that fit the schema as they are: without those that are `null` in the place of an absent one. It keeps the tree of
    /// short ones ([`Admitted::members`]), of which its function takes the arguments next.
    pub(super) async fn fitted(&self, mut call: Admitted) -> Result<Admitted, CallError> {
        let Some(schema) = self.input.get(&call.tool().full_name) else { return Ok(call) };
        let is_short = call.arguments().as_str().len() <= threads::INLINE_BYTES;
        if is_short && schema.fits_quickly(call.members()) {
            return Ok(call);
        }
        let members = call.take_members();
        let tenant = call.chain().tenant();
        let arguments = call.arguments();
        let checked = match members {
            Some(members) => {
                let members = Value::Object(members);
                threads::check_unfit(tenant, schema, arguments, members, check_members).await
            }
            None => threads::check_arguments(tenant, schema, arguments, check_members).await,
        };
        checked.map_err(|violations| unfit(&call, &violations))?;
        Ok(self.without_nulls(call).await)
    }

    /// Returns a call whose arguments were checked, with arguments that fit the schema as they are: without those that are
    /// `null` in the place of an absent one.
    async fn without_nulls(&self, call: Admitted) -> Admitted {
        let Some(schema) = self.input.get(&call.tool().full_name) else { return call };
        let arguments = call.arguments();
        let has_null = raw::members(arguments.as_str())
            .is_some_and(|mut members| members.any(|(_, value)| value == "null"));
        if !has_null {
            return call;
        }
        let tenant = call.chain().tenant();
        let checked = threads::check_arguments(tenant, schema, arguments, check_exactly).await;
        if checked.is_ok() {
            return call;
        }
        let bytes = arguments.as_str().len();
        let tenant = tenant.clone();
        threads::read(&tenant, bytes, move || call.without_nulls()).await
    }

    /// Checks the structured result of a call.
    pub(super) async fn check_result(
        &self,
        tool: &Tool,
        tenant: &Tenant,
        output: &mut ToolOutput,
    ) -> Result<(), CallError> {
        // Names on the wire change with those of other clients; this one does not.
        let name = &tool.full_name;
        let Some(schema) = self.output.get(name) else { return Ok(()) };
        threads::check_result(tenant, name, Some(schema), output).await
    }
}

impl Unchecked {
    fn is_too_much_work(&self) -> bool {
        matches!(self, Self::Bad(BadSchema { problem: Problem::TooMuchWork, .. }))
    }
}

fn schema_bytes(tool: &Tool) -> usize {
    let output = tool.output_schema.as_ref().map_or(0, |schema| schema.as_str().len());
    tool.input_schema.as_str().len() + output
}

fn unfit(call: &Admitted, violations: &Violations) -> CallError {
    CallError::invalid_arguments(call.tool().name.clone(), violations)
}

/// Checks arguments as they are.
#[expect(clippy::needless_pass_by_value, reason = "the form of every check of arguments")]
fn check_exactly(schema: &CompiledSchema, members: Value) -> Result<(), Violations> {
    schema.check(&members)
}

/// Checks arguments. A `null` may stand for an absent one: clients send it for an argument that they do
/// not use, and the server receives it unchanged.
pub fn check_members(schema: &CompiledSchema, mut members: Value) -> Result<(), Violations> {
    let Err(violations) = schema.check(&members) else { return Ok(()) };
    if let Some(members) = members.as_object_mut() {
        let all = members.len();
        members.retain(|_, value| !value.is_null());
        if members.len() == all {
            return Err(violations);
        }
    }
    schema.check(&members).map_err(|_| violations)
}

#[cfg(test)]
mod tests;
