//! Answers the interpreter wherever it stops: for a name that the script does not bind, a call of a
//! tool, and anything that a run does not have.

use std::collections::BTreeMap;
use std::sync::Arc;

use airlock_executor::{Binding, Bindings, Request, Script, ToolAnswer, ToolError, Tools};
use monty::{FunctionCall, NameLookup, ResolveFutures, RunProgress};
use monty_types::{
    ExcType, ExtFunctionResult, MontyException, MontyObject, MontyType, MontyUuid,
    NameLookupResult, OsFunctionCall, PrintWriter, PrintWriterCallback,
};

use crate::clock::Clock;
use crate::convert;
use crate::lower::percent;
use crate::protocol::{
    CAUGHT, FAILED, GIVEN, LATER, PERCENT, RAISE, SHOWN, TOOL_ERROR, TOOL_ERROR_TYPE,
};
use crate::tool::{self, class, object};

/// The interpreter's type of a refusal.
const REFUSED: ExcType = ExcType::RuntimeError;

/// Identity of the objects that have the attributes of a caught failure. Beyond those of
/// namespaces.
const CAUGHT_ID: MontyUuid = MontyUuid::from_u128(u128::MAX);
/// Identity of the failures of awaited calls.
const FAILED_ID: MontyUuid = MontyUuid::from_u128(u128::MAX - 1);

/// Answers of one run to the interpreter, and what it remembers for the report of a failure.
pub(crate) struct PythonSession<'a> {
    tools: &'a dyn Tools,
    /// The time that the script sees; `None` if the run has no clock.
    clock: Option<Clock>,
    bindings: &'a Bindings,
    /// Inputs that the script has not read yet, by their names.
    inputs: BTreeMap<String, MontyObject>,
    /// Calls that the script has made and not yet awaited, by the interpreter's numbers.
    later: BTreeMap<u32, (Arc<Binding>, Request)>,
    /// Failures of tools, in the order in which they were raised.
    raised: Vec<RaisedFailure>,
}

/// A failure of a tool that the script has seen.
#[derive(Clone)]
struct RaisedFailure {
    /// The tool as the script writes it.
    tool: String,
    failure: ToolError,
}

impl<'a> PythonSession<'a> {
    pub(crate) fn new(
        script: &'a Script,
        inputs: BTreeMap<String, MontyObject>,
        tools: &'a dyn Tools,
    ) -> Self {
        Self {
            tools,
            clock: script.clock_ms.map(Clock),
            bindings: &script.bindings,
            inputs,
            later: BTreeMap::new(),
            raised: Vec::new(),
        }
    }

    /// Answers the interpreter until it ends.
    pub(crate) fn drive(
        &mut self,
        mut progress: RunProgress,
        print: &mut dyn PrintWriterCallback,
    ) -> Result<MontyObject, MontyException> {
        loop {
            let print = PrintWriter::Callback(print);
            progress = match progress {
                RunProgress::Complete(value) => return Ok(value),
                RunProgress::NameLookup(lookup) => {
                    let found = self.look_up(&lookup);
                    lookup.resume(found, print)
                }
                RunProgress::FunctionCall(call) => {
                    let returned = self.call(&call);
                    call.resume(returned, print)
                }
                RunProgress::ResolveFutures(waiting) => {
                    let results = self.settle(&waiting);
                    waiting.resume(results, print)
                }
                RunProgress::OsCall(call) => {
                    let answered = self.ask_machine(&call.function_call);
                    call.resume(answered, print)
                }
            }?;
        }
    }

    /// Answers what only the machine knows. A run has no machine, but may have a clock.
    fn ask_machine(&self, call: &OsFunctionCall) -> ExtFunctionResult {
        let told = self.clock.and_then(|clock| match call {
            OsFunctionCall::DateToday => Some(clock.today()),
            OsFunctionCall::DateTimeNow(zone) => Some(clock.now(zone.as_ref())),
            _ => None,
        });
        told.map_or_else(|| refusal(call), ExtFunctionResult::Return)
    }

    /// Returns the first tool whose call the script has prepared and never awaited, as the script
    /// writes it.
    pub(crate) fn dropped(&self) -> Option<String> {
        self.later.values().next().map(|(binding, _)| binding.to_string())
    }

    /// Returns the tools of the run.
    pub(crate) fn bindings(&self) -> &'a Bindings {
        self.bindings
    }

    /// Returns the tool as the script writes it, and the failure with this text that was raised
    /// last.
    pub(crate) fn raised(&self, message: &str) -> Option<(&str, &ToolError)> {
        let raised = self.raised.iter().rev().find(|raised| raised.failure.message == message)?;
        Some((&raised.tool, &raised.failure))
    }

    fn look_up(&mut self, lookup: &NameLookup) -> NameLookupResult {
        let Some(id) = lookup.object_id() else {
            // Read at the end of every script, whether it was assigned or not.
            if lookup.name == "result" {
                return NameLookupResult::Value(MontyObject::None);
            }
            let name = lookup.name.as_str();
            if let Some(name) = name.strip_prefix(GIVEN) {
                let found = self.bindings.function(name).map(|_| function(name.to_owned()));
                return found.or_else(|| self.inputs.remove(name)).into();
            }
            let found = tool::namespace(self.bindings, name).or_else(|| match name {
                CAUGHT | PERCENT | RAISE | SHOWN | "dir" => Some(function(name.to_owned())),
                FAILED => {
                    let class = class(FAILED.to_owned(), FAILED_ID);
                    Some(MontyObject::Type(MontyType::Instance(Box::new(class))))
                }
                _ => None,
            });
            return found.into();
        };
        tool::name_of(self.bindings, id)
            .and_then(|namespace| self.bindings.look_up(namespace, &lookup.name))
            .map(|binding| function(binding.to_string()))
            .into()
    }

    /// Answers a call of something that is not in the script.
    fn call(&mut self, call: &FunctionCall) -> ExtFunctionResult {
        let name = call.function_name.as_str();
        if call.object_id.is_none()
            && let Some(function) = self.bindings.function(name)
        {
            return self.call_tool(function.clone(), call);
        }
        match (call.object_id, name) {
            (None, CAUGHT) => ExtFunctionResult::Return(self.caught(&call.args)),
            (None, SHOWN) => ExtFunctionResult::Return(self.shown(&call.args)),
            (None, RAISE) => self.raise(&call.args),
            (None, PERCENT) => formatted(&call.args),
            (None, "dir") => self.listed(&call.args),
            // A name that the script does not bind.
            (None, _) if !name.contains('.') => ExtFunctionResult::NotFound(name.to_owned()),
            (object, _) => match self.find(object, name) {
                Ok(binding) => self.call_tool(binding, call),
                Err(message) => error(ExcType::AttributeError, message),
            },
        }
    }

    /// Finds the tool that a call names: an attribute of a namespace, or a function from
    /// [`PythonSession::look_up`].
    fn find(&self, object: Option<MontyUuid>, name: &str) -> Result<Arc<Binding>, String> {
        let Some(id) = object else {
            let found = name
                .split_once('.')
                .and_then(|(namespace, name)| self.bindings.find(namespace, name));
            return found.ok_or_else(|| no_such_tool(name));
        };
        let namespace = tool::name_of(self.bindings, id).ok_or_else(|| no_such_tool(name))?;
        let found = self.bindings.look_up(namespace, name);
        found.ok_or_else(|| format!("'{namespace}' object has no attribute {}", quoted(name)))
    }

    /// Makes a call now, or keeps it until the script awaits it.
    fn call_tool(&mut self, binding: Arc<Binding>, call: &FunctionCall) -> ExtFunctionResult {
        let is_later = call.args.first() == Some(&LATER);
        let positional = &call.args[usize::from(is_later)..];
        let arguments = match arguments(&binding, positional, &call.kwargs) {
            Ok(arguments) => arguments,
            Err(what) => return error(ExcType::TypeError, format!("{binding} {what}")),
        };
        let request = Request { tool: binding.tool.clone(), arguments };
        if is_later {
            self.later.insert(call.call_id, (binding, request));
            return ExtFunctionResult::Future(call.call_id);
        }
        let answer = self.tools.call(request);
        self.returned(&binding, answer)
    }

    /// Makes the calls that the script waits for, all at once, in the order in which it made them.
    fn settle(&mut self, waiting: &ResolveFutures) -> Vec<(u32, ExtFunctionResult)> {
        let mut ids = waiting.pending_call_ids().to_vec();
        ids.sort_unstable();
        let calls: Vec<_> =
            ids.iter().filter_map(|id| Some((*id, self.later.remove(id)?))).collect();
        let requests = calls.iter().map(|(_, (_, request))| request.clone()).collect();
        let answers = self.tools.call_batch(requests);
        // The interpreter would end the task of a call that fails, whatever the script catches. So
        // the failure is a value first, and the script raises it where it awaits the call.
        let results = calls.into_iter().zip(answers).map(|((id, (binding, _)), answer)| {
            let result = match self.returned(&binding, answer) {
                ExtFunctionResult::Error(_) => {
                    ExtFunctionResult::Return(failed(self.raised.len() - 1))
                }
                returned => returned,
            };
            (id, result)
        });
        results.collect()
    }

    /// Raises the failure of an awaited call.
    fn raise(&mut self, arguments: &[MontyObject]) -> ExtFunctionResult {
        let at = match arguments {
            [MontyObject::ClassInstance(object)] => match object.attrs.iter().next() {
                Some((_, MontyObject::Int(at))) => usize::try_from(*at).ok(),
                _ => None,
            },
            _ => None,
        };
        match at.filter(|at| *at < self.raised.len()) {
            Some(at) => {
                // The last one that was raised is the one that a handler looks at.
                let raised = self.raised[at].clone();
                let message = raised.failure.message.clone();
                self.raised.push(raised);
                error(TOOL_ERROR_TYPE, message)
            }
            None => error(ExcType::TypeError, format!("{RAISE} takes a failure")),
        }
    }

    fn returned(
        &mut self,
        binding: &Binding,
        answer: Result<ToolAnswer, ToolError>,
    ) -> ExtFunctionResult {
        match answer.and_then(tool::value) {
            Ok(value) => ExtFunctionResult::Return(value),
            Err(failure) => {
                let message = failure.message.clone();
                self.raised.push(RaisedFailure { tool: binding.to_string(), failure });
                error(TOOL_ERROR_TYPE, message)
            }
        }
    }

    /// Returns the names of a namespace's tools, sorted, for `dir`.
    fn listed(&self, arguments: &[MontyObject]) -> ExtFunctionResult {
        let namespace = match arguments {
            [MontyObject::ClassInstance(object)] => {
                tool::name_of(self.bindings, object.instance_id)
            }
            _ => None,
        };
        let Some(namespace) = namespace else {
            return error(ExcType::TypeError, "dir takes a namespace of tools".into());
        };
        let mut names = self.bindings.names(namespace);
        names.sort_unstable();
        let names = names.into_iter().map(MontyObject::String);
        ExtFunctionResult::Return(MontyObject::List(names.collect()))
    }

    /// Returns the failure that an exception with this text stands for: that of a tool, or one that
    /// the script itself raised.
    fn failure(&self, message: Option<&str>) -> ToolError {
        let message = message.unwrap_or_default();
        self.raised(message).map_or_else(
            || ToolError { kind: "other".into(), message: message.into(), ..<_>::default() },
            |(_, failure)| failure.clone(),
        )
    }

    /// Writes a `ToolError` with its kind; `None` for any other value.
    fn shown(&self, arguments: &[MontyObject]) -> MontyObject {
        match arguments {
            [MontyObject::Exception { exc_type, arg }] if *exc_type == TOOL_ERROR_TYPE => {
                let ToolError { kind, message, .. } = self.failure(arg.as_deref());
                MontyObject::String(format!("{TOOL_ERROR}: {message} (kind: {kind})"))
            }
            _ => MontyObject::None,
        }
    }

    /// Returns an object with the attributes of a caught exception: those of a `ToolError` if a
    /// tool failed, and none otherwise.
    fn caught(&self, arguments: &[MontyObject]) -> MontyObject {
        let (name, attributes) = match arguments {
            [MontyObject::Exception { exc_type, arg }] if *exc_type == TOOL_ERROR_TYPE => {
                (TOOL_ERROR.to_owned(), attributes(self.failure(arg.as_deref())))
            }
            [MontyObject::Exception { exc_type, .. }] => (exc_type.to_string(), Vec::new()),
            // Not bound by `except` any more.
            [other] => return other.clone(),
            _ => return MontyObject::None,
        };
        object(class(name, CAUGHT_ID), attributes)
    }
}

/// Returns a function that the session answers.
fn function(name: String) -> MontyObject {
    MontyObject::Function { name, docstring: None }
}

/// Returns what an awaited call gives if its tool failed, by the number of the failure.
fn failed(at: usize) -> MontyObject {
    let at = MontyObject::Int(i64::try_from(at).unwrap_or(i64::MAX));
    object(class(FAILED.to_owned(), FAILED_ID), vec![(MontyObject::String("at".into()), at)])
}

fn attributes(failure: ToolError) -> Vec<(MontyObject, MontyObject)> {
    let data = failure.data.and_then(|json| convert::from_json(&json).ok());
    let wait = failure.retry_after_ms.and_then(|wait| i64::try_from(wait).ok());
    let wait = wait.map(MontyObject::Int);
    let values = [
        MontyObject::String(failure.kind),
        failure.code.map_or(MontyObject::None, MontyObject::String),
        MontyObject::String(failure.message),
        data.unwrap_or(MontyObject::None),
        wait.unwrap_or(MontyObject::None),
    ];
    let names = ToolError::ATTRIBUTES.map(|name| MontyObject::String(name.to_owned()));
    names.into_iter().zip(values).collect()
}

/// Serializes the arguments of a call of a tool: keyword arguments, or one dict; by position those that
/// have names in the binding.
fn arguments(
    tool: &Binding,
    positional: &[MontyObject],
    named: &[(MontyObject, MontyObject)],
) -> Result<String, String> {
    let serialized = match positional {
        [only @ MontyObject::Dict(_)] if named.is_empty() && tool.parameters.is_empty() => {
            convert::to_json(only)
        }
        [only] if named.is_empty() && tool.parameters.is_empty() => {
            return Err(format!(
                "takes no {} by position: write the name of the parameter, like `{tool}(name = …)`",
                only.type_name()
            ));
        }
        [_, ..] if tool.parameters.is_empty() => {
            return Err(format!("takes arguments by name, like `{tool}(name = …)`, or one dict"));
        }
        _ => {
            let by_name = named.iter().filter_map(|(name, _)| match name {
                MontyObject::String(name) => Some(name.as_str()),
                _ => None,
            });
            let parameters = tool.by_position(positional.len(), by_name)?;
            convert::to_object(parameters.iter().map(String::as_str).zip(positional), named)
        }
    };
    serialized.map_err(|unfit| format!("cannot be called with this: {unfit}"))
}

/// Formats a text with `%`.
fn formatted(arguments: &[MontyObject]) -> ExtFunctionResult {
    let [MontyObject::String(format), value] = arguments else {
        return error(ExcType::TypeError, "unsupported operand types for %".into());
    };
    match percent::format(format, value) {
        Ok(text) => ExtFunctionResult::Return(MontyObject::String(text)),
        Err(message) => error(ExcType::TypeError, message),
    }
}

/// Refuses what only the machine could answer.
fn refusal(call: &OsFunctionCall) -> ExtFunctionResult {
    let reason = match call {
        OsFunctionCall::DateToday | OsFunctionCall::DateTimeNow(_) => {
            "a run has no clock: pass the date in as data (an operator can give runs one: `code_mode_clock`)"
        }
        OsFunctionCall::Getenv(_) | OsFunctionCall::GetEnviron => {
            "a run has no environment: pass the value in as data"
        }
        _ => "a run has no files: call a tool that reads or writes them",
    };
    error(REFUSED, format!("{}: {reason}", call.name()))
}

fn error(kind: ExcType, message: String) -> ExtFunctionResult {
    ExtFunctionResult::Error(MontyException::new(kind, Some(message)))
}

fn no_such_tool(name: &str) -> String {
    format!("there is no tool {}", quoted(name))
}

fn quoted(name: &str) -> String {
    format!("'{name}'")
}
