//! Calls of tools, and what their arguments may come from.

use std::collections::BTreeMap;
use std::sync::Arc;

use airlock_executor::{Binding, ToolFlow, ValueFlow};
use ruff_python_ast::{Expr, ExprAttribute, ExprCall, ExprDict};

use super::heap::{Callee, SiteKey};
use super::known::CallEffect;
use super::scopes::{Place, place};
use super::state::FlowAnalysis;
use super::values::{FlowValue, MAX_TOOLS, OriginSet};

/// Paths of arguments that are told apart for each tool, at most. The values at further ones are those of the whole. The
/// gateway goes through all of them at each call of the tool.
const MAX_PATHS: usize = 64;
/// Length of a path in bytes, at most. A value that is deeper is one of the deepest object with a path. A script chooses the
/// names: with 64 paths for each of 128 tools, they take 2 MiB.
const MAX_PATH: usize = 256;
/// Names in a path, at most: more than the depth of usual arguments. A value that is deeper is one of the object around it.
const MAX_NAMES: usize = 6;

/// A tool as the source names it.
pub(super) enum NamedTool {
    Known(Arc<Binding>),
    /// There is none of this name: the script fails there.
    Missing,
}

/// The tools that a script calls.
#[derive(Default)]
pub(super) struct CalledTools {
    ids: BTreeMap<String, usize>,
    /// What the values at the paths of their arguments may come from. That at the empty path is a part of all.
    values: Vec<BTreeMap<String, OriginSet>>,
    /// The variable of each for all that the tools of its namespace were given.
    stores: Vec<Option<usize>>,
    pub(super) has_grown: bool,
    /// Set once there are more than [`MAX_TOOLS`].
    pub(super) is_full: bool,
}

impl CalledTools {
    fn id(&mut self, tool: &str, store: Option<usize>) -> usize {
        if let Some(id) = self.ids.get(tool) {
            return *id;
        }
        let id = self.values.len();
        if id == MAX_TOOLS {
            self.is_full = true;
            return 0;
        }
        self.ids.insert(tool.to_owned(), id);
        self.values.push(BTreeMap::new());
        self.stores.push(store);
        self.has_grown = true;
        id
    }

    /// Takes note that the value of an argument may come from some tools.
    fn record(&mut self, tool: usize, path: &str, origins: OriginSet) {
        let values = &mut self.values[tool];
        let is_known = values.contains_key(path) || values.len() < MAX_PATHS;
        let path = if is_known { path } else { "" };
        let value = values.entry(path.to_owned()).or_default();
        self.has_grown |= value.grow(origins);
    }

    pub(super) fn into_flows(self) -> Vec<ToolFlow> {
        let mut flows: Vec<_> = self.values.into_iter().map(flow).collect();
        for (tool, id) in self.ids {
            flows[id].tool = tool;
        }
        flows
    }
}

fn flow(values: BTreeMap<String, OriginSet>) -> ToolFlow {
    let values = values.into_iter().map(|(path, origins)| {
        let tools = origins.tools().filter_map(|tool| u32::try_from(tool).ok());
        ValueFlow { path, tools: tools.collect() }
    });
    ToolFlow { tool: String::new(), values: values.collect() }
}

impl<'a> FlowAnalysis<'a, '_> {
    /// Returns the tool that an expression names; `None` if it is anything else.
    pub(super) fn tool_of(&self, expression: &Expr) -> Option<NamedTool> {
        match expression {
            Expr::Attribute(attribute) => self.tool_in_namespace(attribute),
            // A script that binds the name of a tool is not analysed.
            Expr::Name(name) => {
                self.bindings.function(name.id.as_str()).cloned().map(NamedTool::Known)
            }
            _ => None,
        }
    }

    pub(super) fn tool_in_namespace(&self, attribute: &ExprAttribute) -> Option<NamedTool> {
        let Expr::Name(namespace) = &*attribute.value else { return None };
        let namespace = namespace.id.as_str();
        let is_tool = self.bindings.has(namespace);
        is_tool.then(|| {
            let found = self.bindings.find(namespace, attribute.attr.as_str());
            found.map_or(NamedTool::Missing, NamedTool::Known)
        })
    }

    /// Returns a tool as a value.
    pub(super) fn tool_value(&mut self, tool: &Binding) -> FlowValue {
        let id = self.tool_id(tool);
        self.heap.callee(SiteKey::Tool(id), Callee::Tool(id))
    }

    fn tool_id(&mut self, tool: &Binding) -> usize {
        let namespace = tool.namespace.as_deref().unwrap_or_default();
        let store = self.scopes.resolve(0, namespace);
        self.tools.id(&tool.tool, store)
    }

    /// Passes a value to a tool, or the reasons for which it is called. Each tool of its namespace may return it
    /// later.
    pub(super) fn pass_to_tool(&mut self, tool: usize, path: &str, origins: OriginSet) {
        self.tools.record(tool, path, origins);
        if let Some(store) = self.tools.stores[tool] {
            self.add_to_variable(store, FlowValue::plain(origins));
        }
    }

    /// Returns what the results of a tool may come from: the tool, and all that those of its namespace were given.
    pub(super) fn tool_origins(&self, tool: usize) -> OriginSet {
        let given = self.tools.stores[tool].map(|store| self.variable_value(store).origins);
        OriginSet::of_tool(tool).with(given.unwrap_or_default())
    }

    pub(super) fn named_value(&mut self, tool: &NamedTool) -> FlowValue {
        match tool {
            NamedTool::Known(tool) => self.tool_value(tool),
            NamedTool::Missing => FlowValue::default(),
        }
    }

    pub(super) fn tool_call(
        &mut self,
        tool: &NamedTool,
        call: &'a ExprCall,
        is_awaited: bool,
    ) -> FlowValue {
        let NamedTool::Known(tool) = tool else {
            self.arguments(&call.arguments);
            return FlowValue::default();
        };
        let id = self.tool_id(tool);
        self.reached(id, is_awaited);
        let is_shown = !call.arguments.args.iter().any(Expr::is_starred_expr);
        for (at, argument) in call.arguments.args.iter().enumerate() {
            match tool.parameters.get(at).filter(|_| is_shown) {
                Some(name) => self.argument(id, name, argument),
                None => self.argument(id, "", argument),
            }
        }
        for keyword in &call.arguments.keywords {
            let name = keyword.arg.as_deref().unwrap_or_default();
            self.argument(id, name, &keyword.value);
        }
        self.result(id, place(call))
    }

    /// Takes note that a tool is called here. A call that is not awaited at once is made anywhere.
    fn reached(&mut self, tool: usize, is_awaited: bool) {
        let is_later = self.scopes.awaits && !is_awaited;
        let control = self.control();
        let control = if is_later { control.with(self.any_control) } else { control };
        self.pass_to_tool(tool, "", control);
    }

    /// Computes an argument, by parts as far as it is shown.
    fn argument(&mut self, tool: usize, path: &str, value: &'a Expr) {
        if let Expr::Dict(members) = value {
            return self.members(tool, path, members);
        }
        let value = self.expression(value);
        self.record(tool, path, value);
    }

    fn members(&mut self, tool: usize, path: &str, members: &'a ExprDict) {
        for item in &members.items {
            let inner = item.key.as_ref().and_then(|key| inner_path(path, key));
            if let Some(path) = inner {
                self.argument(tool, &path, &item.value);
                continue;
            }
            for part in item.key.iter().chain([&item.value]) {
                let value = self.expression(part);
                self.record(tool, path, value);
            }
        }
    }

    fn record(&mut self, tool: usize, path: &str, value: FlowValue) {
        // An iterator is read.
        self.consume(value);
        let origins = self.origins(value);
        self.pass_to_tool(tool, path, origins);
    }

    /// Returns the result of a call.
    fn result(&mut self, tool: usize, own: Place) -> FlowValue {
        let origins = self.tool_origins(tool);
        self.made(own, FlowValue::plain(origins)).with_origins(origins)
    }

    /// Calls several tools at once, as `gather` of a Starlark script does.
    pub(super) fn gather(&mut self, call: &'a ExprCall) -> FlowValue {
        if let Some(planned) = self.planned_calls(call) {
            let answers = planned.iter().map(|planned| self.planned(planned));
            let answers = answers.fold(FlowValue::default(), FlowValue::with);
            return self.gathered(call, answers);
        }
        if let [Expr::ListComp(list)] = &call.arguments.args[..]
            && self.is_planned(&list.elt)
        {
            let scope = self.scopes.scope_at(place(list));
            let answers =
                self.turns(&list.generators, scope, |analysis| analysis.planned(&list.elt));
            return self.gathered(call, answers);
        }
        let given = self.arguments(&call.arguments);
        self.apply(CallEffect::Any, "", place(call), None, given.all)
    }

    fn gathered(&mut self, call: &'a ExprCall, answers: FlowValue) -> FlowValue {
        for keyword in &call.arguments.keywords {
            self.expression(&keyword.value);
        }
        self.made(place(call), answers)
    }

    /// Returns the calls that `gather` makes; `None` if the source does not show each of them.
    pub(super) fn planned_calls(&self, call: &'a ExprCall) -> Option<&'a [Expr]> {
        let [Expr::List(list)] = &call.arguments.args[..] else { return None };
        list.elts.iter().all(|planned| self.is_planned(planned)).then_some(&list.elts[..])
    }

    fn is_planned(&self, planned: &Expr) -> bool {
        let Expr::Tuple(pair) = planned else { return false };
        matches!(&pair.elts[..], [tool, Expr::Dict(_)] if self.tool_of(tool).is_some())
    }

    /// Makes a call of `gather`: a tuple of a tool and a dict.
    pub(super) fn planned(&mut self, planned: &'a Expr) -> FlowValue {
        match planned {
            Expr::Tuple(pair) => match &pair.elts[..] {
                [tool, arguments] => self.call_with(tool, Some(arguments), place(planned)),
                _ => FlowValue::default(),
            },
            _ => FlowValue::default(),
        }
    }

    /// Makes a call whose failure is a value.
    pub(super) fn attempt(&mut self, call: &'a ExprCall) -> FlowValue {
        match &call.arguments.args[..] {
            [tool] if self.tool_of(tool).is_some() => self.call_with(tool, None, place(call)),
            [tool, arguments @ Expr::Dict(_)] if self.tool_of(tool).is_some() => {
                self.call_with(tool, Some(arguments), place(call))
            }
            _ => {
                let given = self.arguments(&call.arguments);
                self.apply(CallEffect::Any, "", place(call), None, given.all)
            }
        }
    }

    fn call_with(&mut self, tool: &'a Expr, arguments: Option<&'a Expr>, own: Place) -> FlowValue {
        let Some(NamedTool::Known(tool)) = self.tool_of(tool) else {
            return self.joined(&arguments.into_iter().collect::<Vec<_>>());
        };
        let id = self.tool_id(&tool);
        self.reached(id, true);
        if let Some(arguments) = arguments {
            self.argument(id, "", arguments);
        }
        self.result(id, own)
    }
}

/// Returns the path of a member of the value at another path; `None` if the source does not show its name, or if
/// it is too long.
fn inner_path(path: &str, key: &Expr) -> Option<String> {
    let Expr::StringLiteral(key) = key else { return None };
    let separator = if path.is_empty() { "" } else { "." };
    let inner = format!("{path}{separator}{}", key.value.to_str());
    let is_short = inner.len() <= MAX_PATH && inner.split('.').count() <= MAX_NAMES;
    is_short.then_some(inner)
}
