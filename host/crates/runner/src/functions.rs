//! Functions as the tools of a private catalog, prepared once for all runs that have them.
//!
//! The catalog has two clients: `internal` with the functions, in code mode, and [`SCRIPT_CLIENT`], whose one tool is the
//! script itself. A run is a call of that tool, which the door admits; the chain of the call is the authority of the script
//! to call functions, and of nothing else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use airlock_catalog::{
    BadInternalTool, Catalog, MAX_TOOLS_PER_CLIENT, SourceKind, UncheckedSchemas, check_internal,
    own_error, read_arguments,
};
use airlock_core::{
    door::{Admitted, Approved, Caller, Filter, Origin, Provider, View},
    script_names, threads,
    tool::{
        Allowlist, CallError, ClientName, Policy, SourceSet, Tool, ToolDefinition, ToolName,
        ToolOutput, Trust,
    },
};
use airlock_json::{MAX_DEPTH, raw, schema::CompiledSchema};
use airlock_sandbox::{Bindings, GlobalFunction};
use airlock_strings::hex;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    Function, FunctionCall, RunLimits,
    depth::nests_within,
    function::{CONTEXT, FunctionBody, NESTING},
    request::is_global,
};

/// Client that has the script, and the name of the script there.
const SCRIPT_CLIENT: &str = "script";
const SCRIPT_TOOL: &str = "run";
/// Full name of the script.
const SCRIPT: &str = "script-run";

/// Functions of no program.
static NONE: LazyLock<Functions> =
    LazyLock::new(|| Functions::new([]).expect("there is nothing to refuse"));

/// Functions that scripts may call, prepared once: names, schemas, bindings. Cheap to clone.
#[derive(Clone)]
pub struct Functions(Arc<PreparedFunctions>);

struct PreparedFunctions {
    /// All that a script may call.
    view: View,
    bindings: Arc<Bindings>,
    entries: BTreeMap<String, FunctionEntry>,
    need_approvals: bool,
}

/// A function as scripts see it.
pub(crate) struct FunctionEntry {
    /// Its tool in the catalog.
    pub(crate) tool: ToolName,
    /// Names of the arguments by position.
    pub(crate) parameters: Vec<String>,
    /// Digest of all that is declared of the function.
    pub(crate) digest: String,
    /// True if a call may be repeated.
    pub(crate) is_repeatable: bool,
    /// Schema of the arguments, if calls need an approval: none is asked for a call that cannot succeed.
    pub(crate) approval_schema: Option<Arc<CompiledSchema>>,
    /// Digest of the definition of the tool, which an approval names.
    definition: Arc<str>,
}

/// Reason that functions cannot be given to scripts.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BadFunction {
    /// The name cannot be that of a variable of a script.
    #[error(
        "{0:?} cannot be the name of a function: use ASCII letters, digits and `_`, not a digit or `__` first, and no \
         keyword of Python or Starlark"
    )]
    Name(String),
    /// A built-in of a language of scripts has the name.
    #[error("{0:?} cannot be the name of a function: it is a built-in of a language of scripts")]
    BuiltIn(String),
    /// Another function has the name.
    #[error("two functions are named {0:?}")]
    Duplicate(String),
    /// The name is too long, or the input schema is not valid.
    #[error(transparent)]
    Definition(#[from] BadInternalTool),
    /// A name of an argument by position is there twice, or the input schema does not declare it.
    #[error("the parameter {parameter:?} of the function {function:?} {problem}")]
    Parameter {
        /// The function.
        function: String,
        /// Name of the argument.
        parameter: String,
        /// The mistake.
        problem: &'static str,
    },
    /// Results cannot be checked against the output schema.
    #[error("results of the function {function:?} cannot be checked")]
    OutputSchema {
        /// The function.
        function: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The schemas of all functions take too much work or memory to be compiled.
    #[error(transparent)]
    Schemas(#[from] UncheckedSchemas),
    /// There are too many functions.
    #[error("a script cannot have more than {MAX_TOOLS_PER_CLIENT} functions")]
    TooMany,
}

impl Functions {
    /// Prepares functions. Compiles their schemas, which blocks: about 0.1 ms for an ordinary one.
    pub fn new(functions: impl IntoIterator<Item = Function>) -> Result<Self, BadFunction> {
        let mut entries = BTreeMap::new();
        let mut definitions = Vec::new();
        let mut bodies = BTreeMap::new();
        for function in functions {
            let name = function.definition.name.clone();
            check_name(&name)?;
            if entries.contains_key(&name) {
                return Err(BadFunction::Duplicate(name));
            }
            if entries.len() == MAX_TOOLS_PER_CLIENT {
                return Err(BadFunction::TooMany);
            }
            let tool = check_internal(function.definition.clone())?;
            entries.insert(name.clone(), FunctionEntry::new(&tool, &function)?);
            let Function { definition, body, output_schema, .. } = function;
            let output = output_schema.map(|schema| compiled(&name, &schema)).transpose()?;
            definitions.push(definition);
            bodies.insert(name, PreparedBody { body, output });
        }
        let bindings = bindings(&entries);
        let view = view(&entries, definitions, bodies)?;
        let need_approvals = entries.values().any(FunctionEntry::needs_approval);
        Ok(Self(Arc::new(PreparedFunctions { view, bindings, entries, need_approvals })))
    }

    /// Returns no functions.
    pub fn none() -> Self {
        NONE.clone()
    }

    /// Names of the functions in scripts.
    pub(crate) fn bindings(&self) -> &Arc<Bindings> {
        &self.0.bindings
    }

    /// Finds a function by its name.
    pub(crate) fn entry(&self, name: &str) -> Option<&FunctionEntry> {
        self.0.entries.get(name)
    }

    /// Iterates over the functions by name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &FunctionEntry)> {
        self.0.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// Returns whether calls of any function need an approval.
    pub(crate) fn need_approvals(&self) -> bool {
        self.0.need_approvals
    }

    /// Admits a script with these limits.
    pub(crate) fn admit_script(&self, limits: &RunLimits) -> Result<Admitted, CallError> {
        Caller::new(self.0.view.clone(), Origin::Caller, limits.budget()).admit(SCRIPT, "{}")
    }
}

impl FunctionEntry {
    fn new(tool: &Tool, function: &Function) -> Result<Self, BadFunction> {
        let parameters = parameters(tool, function.parameters.as_deref())?;
        let declared =
            json!([tool.digest(), function.output_schema, parameters, function.needs_approval]);
        let approval_schema = if function.needs_approval {
            let schema = CompiledSchema::compile_text("inputSchema", &tool.input_schema);
            let tool = tool.original.clone();
            let schema = schema.map_err(|error| BadInternalTool::Schema {
                tool,
                of: "arguments",
                source: error.into(),
            })?;
            Some(Arc::new(schema))
        } else {
            None
        };
        Ok(Self {
            tool: tool.full_name.clone(),
            parameters,
            digest: hex(&Sha256::digest(declared.to_string())),
            is_repeatable: tool.annotations.read_only == Some(true),
            approval_schema,
            definition: tool.digest().into(),
        })
    }

    fn needs_approval(&self) -> bool {
        self.approval_schema.is_some()
    }

    /// Returns the approval of a call with these arguments.
    pub(crate) fn approved(&self, arguments: &str) -> Approved {
        Approved {
            tool: self.tool.as_str().into(),
            definition: self.definition.clone(),
            arguments: arguments.into(),
            covers_nested: false,
            by_operators: false,
            decided_by: None,
            sources: SourceSet::default(),
        }
    }
}

fn check_name(name: &str) -> Result<(), BadFunction> {
    if !is_global(name) {
        Err(BadFunction::Name(name.to_owned()))
    } else if script_names::is_taken(name) {
        Err(BadFunction::BuiltIn(name.to_owned()))
    } else {
        Ok(())
    }
}

/// Returns the names of arguments by position: those that were set, or else those of the schema.
fn parameters(tool: &Tool, set: Option<&[String]>) -> Result<Vec<String>, BadFunction> {
    let properties = raw::member(tool.input_schema.as_str(), "properties").and_then(raw::members);
    let declared: Option<Vec<String>> =
        properties.map(|properties| properties.map(|(name, _)| name.into_owned()).collect());
    let Some(set) = set else { return Ok(declared.unwrap_or_default()) };
    let mut known = BTreeSet::new();
    for parameter in set {
        let is_declared = declared.as_ref().is_none_or(|declared| declared.contains(parameter));
        let problem = if !known.insert(parameter) {
            "is there twice"
        } else if !is_declared {
            "is not declared by the input schema"
        } else {
            continue;
        };
        return Err(BadFunction::Parameter {
            function: tool.original.clone(),
            parameter: parameter.clone(),
            problem,
        });
    }
    Ok(set.to_vec())
}

fn compiled(function: &str, schema: &Value) -> Result<Arc<CompiledSchema>, BadFunction> {
    let compiled = CompiledSchema::compile("outputSchema", schema);
    compiled.map(Arc::new).map_err(|error| BadFunction::OutputSchema {
        function: function.to_owned(),
        source: error.into(),
    })
}

/// Returns the bindings of functions. A script knows a function, and its errors, by its name alone.
fn bindings(entries: &BTreeMap<String, FunctionEntry>) -> Arc<Bindings> {
    let functions = entries.iter().map(|(name, entry)| global(name, &entry.parameters));
    Arc::new(Bindings::with_functions(functions.collect()))
}

/// Returns the binding of a function.
pub(crate) fn global(name: &str, parameters: &[String]) -> GlobalFunction {
    GlobalFunction {
        name: name.to_owned(),
        parameters: parameters.to_vec(),
        tool: ToolName::alias(name),
    }
}

/// Publishes the functions and the script in a catalog of their own, and returns the view of it.
fn view(
    entries: &BTreeMap<String, FunctionEntry>,
    definitions: Vec<ToolDefinition>,
    bodies: BTreeMap<String, PreparedBody>,
) -> Result<View, BadFunction> {
    let automatic = entries.iter().filter(|(_, entry)| !entry.needs_approval());
    let automatic: Vec<_> = automatic.map(|(name, _)| name).collect();
    let functions = Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::parse(&automatic).expect("names are distinct, and none is `*`"),
        code_mode: true,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    let script = Policy {
        execute: Allowlist::All,
        auto_execute: Allowlist::All,
        trust: Trust::Trusted,
        ..Policy::default()
    };
    let catalog = Catalog::new();
    let internal = ClientName::internal();
    catalog.add_client(&internal, SourceKind::Internal, functions);
    let bodies = Arc::new(Bodies(bodies));
    let dropped = catalog.blocking_publish_checked(&internal, definitions, bodies)?;
    debug_assert!(dropped.is_empty(), "each was checked: {dropped:?}");
    let client = ClientName::parse(SCRIPT_CLIENT).expect("a good name");
    catalog.add_client(&client, SourceKind::Internal, script);
    let definition = ToolDefinition::new(SCRIPT_TOOL, "", json!({}));
    catalog.blocking_publish(&client, vec![definition], Arc::new(Bodies::default()));
    Ok(catalog.snapshot().view(&Filter::none(), None))
}

/// Runs the functions, by their names.
#[derive(Default)]
struct Bodies(BTreeMap<String, PreparedBody>);

struct PreparedBody {
    body: FunctionBody,
    /// Schema of the results.
    output: Option<Arc<CompiledSchema>>,
}

/// Error: a result nests deeper than an executor reads.
#[derive(Debug, thiserror::Error)]
#[error("the result nests more than {MAX_DEPTH} levels")]
struct TooDeep;

impl Provider for Bodies {
    /// Runs a function until it ends, or until the script is stopped, which drops the future. Returns its value as text.
    fn call(&self, mut call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let name = call.tool().name.clone();
            let Some(PreparedBody { body, output }) = self.0.get(&call.tool().original) else {
                return Err(CallError::not_found(name.as_str()));
            };
            let arguments = read_arguments(&mut call).await;
            let chain = call.chain();
            let context = CONTEXT.try_with(Clone::clone).ok().flatten();
            let deadline = chain.deadline();
            let nesting = NESTING.try_with(|nesting| *nesting).unwrap_or_default();
            let made = FunctionCall { id: chain.id(), arguments, deadline, context, nesting };
            let value = body(made).await.map_err(|error| own_error(error.into()))?;
            if !nests_within(&value, MAX_DEPTH) {
                return Err(CallError::bad_result(name, TooDeep));
            }
            let mut result = ToolOutput { structured: Some(value), ..ToolOutput::default() };
            if output.is_some() {
                let tenant = chain.tenant();
                threads::check_result(tenant, &name, output.as_ref(), &mut result).await?;
            }
            // As JSON text, from which the executor makes the same value: the results of a block wait for each other, and as
            // trees they take up to 150 times as much memory.
            let value = result.structured.unwrap_or_default();
            Ok(ToolOutput::text(value.to_string()))
        })
    }
}

#[cfg(test)]
mod tests {
    use airlock_core::tool::HostCode;

    use super::*;

    fn function(name: &str, schema: Value) -> Function {
        Function::new(name, "", schema, async |_| Ok(Value::Null))
    }

    fn refusal(function: Function) -> BadFunction {
        Functions::new([function]).err().expect("it is refused")
    }

    fn digest(function: Function) -> String {
        let functions = Functions::new([function]).expect("a function");
        functions.entry("f").expect("it is there").digest.clone()
    }

    #[test]
    fn a_name_that_no_global_can_have_is_refused() {
        for name in ["", "a b", "a-b", "1a", "größe", "for", "load", "__f"] {
            let refused = refusal(function(name, json!({})));
            assert!(matches!(&refused, BadFunction::Name(found) if found == name), "{refused}");
        }
        for name in ["print", "result", "json", "gather", "ToolError"] {
            let refused = refusal(function(name, json!({})));
            assert!(matches!(&refused, BadFunction::BuiltIn(found) if found == name), "{refused}");
        }
        let long = refusal(function(&"a".repeat(56), json!({})));
        assert!(matches!(long, BadFunction::Definition(BadInternalTool::Name(_))), "{long}");
        let twice = [function("a", json!({})), function("a", json!({}))];
        assert!(matches!(Functions::new(twice).err(), Some(BadFunction::Duplicate(_))));
        assert!(Functions::new([function("a", json!({})), function("A", json!({}))]).is_ok());
    }

    #[test]
    fn schemas_that_nothing_can_be_checked_against_are_refused() {
        let refused = refusal(function("a", json!({"type": "array"})));
        assert!(matches!(refused, BadFunction::Definition(_)), "{refused}");
        let refused = refusal(function("a", json!({})).output_schema(json!({"type": "strin"})));
        assert!(matches!(refused, BadFunction::OutputSchema { .. }), "{refused}");
        assert!(Functions::new([function("a", json!({})).output_schema(json!({}))]).is_ok());
    }

    #[test]
    fn arguments_by_position_are_those_of_the_schema_or_those_that_were_set() {
        let schema = json!({"properties": {"b": {}, "a": {}}});
        assert_eq!(by_position(function("f", schema.clone())), "b a");
        assert_eq!(by_position(function("f", json!({}))), "");
        let named = function("f", schema.clone()).parameters(names(&["a"]));
        assert_eq!(by_position(named), "a");
        let open = function("f", json!({})).parameters(names(&["x"]));
        assert_eq!(by_position(open), "x");
        for wrong in [["a", "a"], ["a", "c"]] {
            let refused = refusal(function("f", schema.clone()).parameters(names(&wrong)));
            assert!(matches!(refused, BadFunction::Parameter { .. }), "{wrong:?}");
        }
    }

    fn by_position(function: Function) -> String {
        let functions = Functions::new([function]).expect("a function");
        functions.entry("f").expect("it is there").parameters.join(" ")
    }

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn the_digest_covers_all_that_is_declared() {
        let schema = json!({"properties": {"a": {"type": "string"}}});
        let same = digest(function("f", schema.clone()));
        assert_eq!(digest(function("f", schema.clone())), same);
        let described = Function::new("f", "Does it.", schema.clone(), async |_| Ok(Value::Null));
        for other in [
            described,
            function("f", json!({"properties": {"a": {"type": "integer"}}})),
            function("f", schema.clone()).output_schema(json!({})),
            function("f", schema.clone()).parameters(Vec::new()),
            function("f", schema.clone()).needs_approval(),
            function("f", schema.clone()).read_only(),
        ] {
            assert_ne!(digest(other), same);
        }
    }

    #[test]
    fn only_the_script_is_offered_to_the_program_and_only_functions_to_the_script() {
        let functions =
            Functions::new([function("f", json!({})), function("g", json!({})).needs_approval()]);
        let functions = functions.expect("functions");
        let admitted = functions.admit_script(&RunLimits::default()).expect("it is admitted");
        let chain = admitted.chain();
        let script = &Origin::Script;
        assert!(chain.admit(script, "internal-f", "{}").is_ok());
        assert!(
            chain
                .admit(script, "internal-g", "{}")
                .err()
                .is_some_and(|error| error.is_unapproved())
        );
        let approved = functions.entry("g").expect("it is there").approved("{}");
        assert!(chain.admit_approved(script, "internal-g", "{}", Some(&approved)).is_ok());
        let other = chain.admit_approved(script, "internal-g", r#"{"a": 1}"#, Some(&approved));
        assert!(other.err().is_some_and(|error| error.is_unapproved()));
        let again = chain.admit(script, SCRIPT, "{}");
        assert_eq!(again.err().expect("it is hidden").code(), HostCode::NotFound);
    }
}
