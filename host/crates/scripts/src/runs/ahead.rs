//! Checks the calls of a script before the first is made, so that a wrong call further down does not
//! leave half of the work done.
//!
//! The executor reads the calls from the source and leaves out those whose failure the script may
//! handle. A call is wrong here only if it would fail in any case: its namespace has no such tool, its form
//! is wrong, or [`arguments`](super::arguments) refuses what the source shows of its arguments.

use std::{cell::Cell, collections::BTreeMap, sync::Arc};

use airlock_core::{
    door::{Origin, View},
    tool::{CallError, Tool},
};
use airlock_sandbox::{Bindings, ResultPart, SourceCall, SourceValue, WrongCall};
use airlock_strings::{cut, nearest, visible_line};

use super::arguments::{
    Declared, GivenArguments, MAX_LIST, MAX_SCHEMA, MAX_UNDECLARED, result_types, shown,
};

/// Maximum number of wrong calls that are reported. More would only make the report long.
const MAX_WRONG: usize = 12;
/// Maximum bytes of the schemas that are read for one script; further calls are left to their own checks. A script of
/// 64 KiB can use thousands of parts of one result, and each is looked up in a schema without fuel: 200 MB. The calls of a
/// run read about as much as the limit: one schema each, and 64 calls by default.
const MAX_READ: usize = 64 * MAX_SCHEMA;
/// Maximum number of undeclared names that are compared for one script. A script of 64 KiB has room for 16,000, which
/// would keep a thread for seconds.
const MAX_COMPARED: usize = 8 * MAX_UNDECLARED;

/// Returns the calls of a source that would fail if the script reached them, in the order of the source.
pub(super) fn wrong_calls(
    view: &View,
    bindings: &Bindings,
    calls: &[SourceCall],
) -> Vec<WrongCall> {
    let tools = CalledTools::find(view, bindings, calls);
    let mut schemas = BTreeMap::new();
    let mut wrong = Vec::new();
    for (at, call) in (0..).zip(calls) {
        let key = (call.namespace.as_str(), call.name.as_str());
        let found = match tools.by_name.get(&key) {
            None => no_tool(bindings, call),
            Some(CalledTool { name, .. }) if call.mistake.is_some() => {
                let mistake = call.mistake.as_deref().map(bounded);
                mistake.map(|mistake| (format!("{name} {mistake}"), None, false))
            }
            // The door refuses the call, and the reason is known only then; or guards may change its arguments.
            Some(CalledTool { tool: None, .. } | CalledTool { is_guarded: true, .. }) => None,
            Some(CalledTool { name, tool: Some(tool), is_guarded: false }) => {
                let declared = schemas
                    .entry(key)
                    .or_insert_with(|| Declared::read(tools.read(tool.input_schema.as_str(), 1)?));
                let detail = declared.as_ref().and_then(|known| misfit(known, call, &tools, calls));
                detail.map(|detail| {
                    let error = CallError::bad_arguments(tool.name.as_str(), detail);
                    (format!("{name}: {}", error.message()), None, true)
                })
            }
        };
        if let Some((message, hint, by_tool)) = found {
            wrong.push(WrongCall { call: at, message, hint, by_tool });
        }
        if wrong.len() == MAX_WRONG {
            break;
        }
    }
    wrong
}

/// Returns a text of the executor on one line, and cut.
fn bounded(text: &str) -> String {
    cut(visible_line(&text[..text.floor_char_boundary(MAX_LIST)]), MAX_LIST)
}

/// The tools of a source's calls.
struct CalledTools<'c> {
    /// By namespace and name, each looked up once.
    by_name: BTreeMap<(&'c str, &'c str), CalledTool>,
    /// Bytes of schemas that may still be read.
    left: Cell<usize>,
    /// Undeclared names that may still be compared with the declared ones.
    compared: Cell<usize>,
}

/// A tool that the script can name.
struct CalledTool {
    /// The tool as the script writes it.
    name: String,
    /// `None` if the script may not see it.
    tool: Option<Arc<Tool>>,
    /// True if guards may change its arguments or its result.
    is_guarded: bool,
}

impl<'c> CalledTools<'c> {
    fn find(view: &View, bindings: &Bindings, calls: &'c [SourceCall]) -> Self {
        let mut tools = BTreeMap::new();
        let mut missing = 0;
        for SourceCall { namespace, name, .. } in calls {
            let key = (namespace.as_str(), name.as_str());
            if tools.contains_key(&key) {
                continue;
            }
            let Some(binding) = bindings.find(namespace, name) else {
                // Each of them is wrong, and more are not reported.
                missing += usize::from(bindings.tools(namespace).next().is_some());
                if missing == MAX_WRONG {
                    break;
                }
                continue;
            };
            let entry = view.find(&Origin::Script, binding.tool.as_str());
            let is_guarded = entry.is_some_and(|entry| view.is_guarded(&Origin::Script, entry));
            let tool = entry.map(|entry| entry.tool.clone());
            let name = format!("{namespace}.{}", binding.name);
            tools.insert(key, CalledTool { name, tool, is_guarded });
        }
        Self { by_name: tools, left: Cell::new(MAX_READ), compared: Cell::new(MAX_COMPARED) }
    }

    /// Returns a schema that is to be read so many times; `None` if too much was read.
    fn read<'s>(&self, schema: &'s str, times: usize) -> Option<&'s str> {
        self.left.set(self.left.get().checked_sub(schema.len().saturating_mul(times))?);
        Some(schema)
    }

    /// Returns the JSON types of a part of the result of one of the `calls`, and words for the part;
    /// `None` if the tool declares no result. The gateway refuses results that are not as declared, unless guards have
    /// written them.
    fn result(&self, part: &ResultPart, calls: &[SourceCall]) -> Option<(Vec<String>, String)> {
        let call = calls.get(usize::try_from(part.call).ok()?)?;
        let called = self.by_name.get(&(call.namespace.as_str(), call.name.as_str()))?;
        if called.is_guarded {
            return None;
        }
        let schema = called.tool.as_ref()?.output_schema.as_ref()?;
        // Each key is looked up in what is left of it.
        let schema = self.read(schema.as_str(), 1 + part.keys.len())?;
        let types = result_types(schema, &part.keys)?;
        let name = &called.name;
        let words = match &part.keys[..] {
            [] => format!("the result of `{name}`"),
            keys => {
                let keys: Vec<_> = keys.iter().map(|key| format!("[\"{}\"]", shown(key))).collect();
                format!("`{name}(…){}`", cut(keys.concat(), MAX_LIST))
            }
        };
        Some((types, words))
    }
}

/// Describes the first error of a call's arguments, as far as the source shows them.
fn misfit(
    declared: &Declared<'_>,
    call: &SourceCall,
    tools: &CalledTools<'_>,
    calls: &[SourceCall],
) -> Option<String> {
    let given: GivenArguments<'_> = call
        .arguments
        .iter()
        .map(|(name, value)| match value {
            SourceValue::Known(json) => (name.as_str(), Some(json.as_str())),
            SourceValue::Unknown | SourceValue::Part(_) => (name.as_str(), None),
        })
        .collect();
    declared.misfit(&given, !call.is_open, &tools.compared).or_else(|| {
        call.arguments.iter().find_map(|(name, value)| {
            let SourceValue::Part(part) = value else { return None };
            let (types, source) = tools.result(part, calls)?;
            declared.misfit_of_types(name, &types, &source)
        })
    })
}

/// Describes a call of a tool that its namespace does not have: message, hint, and that the script fails
/// by itself. `None` if there is no such namespace, which the executor knows better.
fn no_tool(bindings: &Bindings, call: &SourceCall) -> Option<(String, Option<String>, bool)> {
    let namespace = &call.namespace;
    let known: Vec<_> = bindings.tools(namespace).collect();
    if known.is_empty() {
        return None;
    }
    let meant = nearest(&call.name, known.iter().copied());
    let meant =
        meant.map_or(String::new(), |meant| format!("did you mean `{namespace}.{meant}`? "));
    let known: Vec<_> = known.iter().map(|name| format!("`{name}`")).collect();
    let hint = format!("{meant}`{namespace}` has {}", cut(known.join(", "), MAX_LIST));
    let message = format!("`{namespace}` has no tool `{}`", shown(&call.name));
    Some((message, Some(hint), false))
}

#[cfg(test)]
mod tests;
