//! Finds the calls of tools that the source of a script shows. Both executors compile this file, each with its own
//! version of the parser.
//!
//! A call is left out if the script may end well although the call is wrong:
//!
//! - The script may not reach it (see [`reach`]).
//! - The script binds the name of the namespace anywhere.
//! - The script asks whether tools exist (`hasattr`, `getattr`, `dir`).
//! - The call is in a `try` or `with` statement.
//! - The script has such a statement, or `return_exceptions`, and the call is not awaited at once although the script
//!   awaits others: what catches its failure may be elsewhere.

#[path = "reach.rs"]
mod reach;

use std::collections::BTreeMap;

use airlock_executor::{Bindings, SourceCall, SourceValue};
use ruff_python_ast::visitor::{
    Visitor, walk_except_handler, walk_expr, walk_keyword, walk_parameter, walk_pattern, walk_stmt,
};
use ruff_python_ast::{
    Alias, Arguments, ExceptHandler, Expr, ExprCall, ExprContext, ExprDict, Keyword, Number,
    Parameter, Pattern, Stmt, UnaryOp,
};
use ruff_text_size::{Ranged, TextSize};

use self::reach::{FoundArguments, FoundCall, found_calls};

/// Functions with which a script asks whether a tool exists, or sets one.
const ASKING: [&str; 4] = ["dir", "getattr", "hasattr", "setattr"];
/// Argument of a function of Python that gives failures as values.
const RETURN_EXCEPTIONS: &str = "return_exceptions";
/// Names that lead from one to a value, at most: `a = b; b = a` would lead on without end. A value behind more is unknown.
const MAX_STEPS: usize = 4;

/// Returns the calls of tools that a script shows, in the order of the source. `is_input` returns true for the names that
/// the script has from the start.
pub(crate) fn source_calls(
    body: &[Stmt],
    bindings: &Bindings,
    is_input: &dyn Fn(&str) -> bool,
) -> Vec<SourceCall> {
    if bindings.named().next().is_none() {
        return Vec::new();
    }
    let mut facts = ScriptFacts::default();
    facts.visit_body(body);
    if facts.is_opaque {
        return Vec::new();
    }
    let mut found = found_calls(body, &facts, bindings, is_input);
    found.sort_by_key(|found| found.start);
    let positions = found.iter().map(|found| found.start).zip(0..).collect();
    let values = Values { facts: &facts, is_input, positions };
    found.iter().map(|found| values.call(found)).collect()
}

/// Facts about a whole script.
#[derive(Default)]
struct ScriptFacts<'a> {
    /// Names that the script binds, in any scope.
    names: BTreeMap<&'a str, NameFacts<'a>>,
    /// True if it may catch failures anywhere.
    catches: bool,
    /// Whether none of its calls is looked at: it asks which tools exist, or has functions that run only as far as their
    /// values are read.
    is_opaque: bool,
    /// Whether it awaits anything, or can.
    awaits: bool,
}

/// Facts about a name.
#[derive(Default)]
struct NameFacts<'a> {
    /// Times that it is bound.
    bound: usize,
    /// The last value that a plain assignment gives it.
    value: Option<&'a Expr>,
    /// Times that it is read, and times that only a value under a constant key is read from it.
    read: usize,
    read_by_key: usize,
}

impl<'a> ScriptFacts<'a> {
    fn name(&mut self, name: &'a str) -> &mut NameFacts<'a> {
        self.names.entry(name).or_default()
    }

    fn bind(&mut self, name: &'a str) {
        self.name(name).bound += 1;
    }

    fn assign(&mut self, target: &'a Expr, value: &'a Expr) {
        if let Expr::Name(name) = target {
            self.name(name.id.as_str()).value = Some(value);
        }
    }

    fn is_bound(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|facts| facts.bound > 0)
    }

    fn is_bound_once(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|facts| facts.bound == 1)
    }

    /// Returns the only value that the script ever gives a name. `result` and `__name__` may have one that it does
    /// not give them.
    fn only_value(&self, name: &str) -> Option<&'a Expr> {
        if name == "result" || name.starts_with("__") {
            return None;
        }
        self.names.get(name).filter(|facts| facts.bound == 1)?.value
    }

    /// Returns whether nothing but values under constant keys is read from a name, so that they stay as they
    /// are.
    fn is_read_by_key(&self, name: &str) -> bool {
        self.names.get(name).is_some_and(|facts| facts.read == facts.read_by_key)
    }
}

impl<'a> Visitor<'a> for ScriptFacts<'a> {
    fn visit_stmt(&mut self, statement: &'a Stmt) {
        match statement {
            Stmt::FunctionDef(it) => self.bind(it.name.as_str()),
            Stmt::ClassDef(it) => self.bind(it.name.as_str()),
            Stmt::Try(_) | Stmt::With(_) => self.catches = true,
            Stmt::Assign(it) => {
                if let [target] = &it.targets[..] {
                    self.assign(target, &it.value);
                }
            }
            Stmt::AnnAssign(it) => {
                if let Some(value) = &it.value {
                    self.assign(&it.target, value);
                }
            }
            _ => {}
        }
        walk_stmt(self, statement);
    }

    fn visit_expr(&mut self, expression: &'a Expr) {
        match expression {
            Expr::Name(it) => {
                let name = it.id.as_str();
                self.is_opaque |= ASKING.contains(&name);
                self.awaits |= name == "asyncio";
                if it.ctx == ExprContext::Load {
                    self.name(name).read += 1;
                } else {
                    self.bind(name);
                }
            }
            // Something in it changes.
            Expr::Attribute(it) if it.ctx != ExprContext::Load => {
                if let Expr::Name(of) = &*it.value {
                    self.bind(of.id.as_str());
                }
            }
            Expr::Subscript(it) if it.ctx == ExprContext::Load => {
                if let (Expr::Name(of), Expr::StringLiteral(_)) = (&*it.value, &*it.slice) {
                    self.name(of.id.as_str()).read_by_key += 1;
                }
            }
            Expr::StringLiteral(text) if text.value.to_str() == RETURN_EXCEPTIONS => {
                self.catches = true;
            }
            Expr::Await(_) => self.awaits = true,
            Expr::Yield(_) | Expr::YieldFrom(_) => self.is_opaque = true,
            _ => {}
        }
        walk_expr(self, expression);
    }

    fn visit_keyword(&mut self, keyword: &'a Keyword) {
        self.catches |= keyword.arg.as_deref() == Some(RETURN_EXCEPTIONS);
        walk_keyword(self, keyword);
    }

    fn visit_parameter(&mut self, parameter: &'a Parameter) {
        self.bind(parameter.name.as_str());
        walk_parameter(self, parameter);
    }

    fn visit_alias(&mut self, alias: &'a Alias) {
        let name = alias.asname.as_ref().unwrap_or(&alias.name).as_str();
        self.bind(name.split('.').next().unwrap_or_default());
    }

    fn visit_except_handler(&mut self, handler: &'a ExceptHandler) {
        let ExceptHandler::ExceptHandler(it) = handler;
        if let Some(name) = &it.name {
            self.bind(name.as_str());
        }
        walk_except_handler(self, handler);
    }

    fn visit_pattern(&mut self, pattern: &'a Pattern) {
        let name = match pattern {
            Pattern::MatchAs(it) => it.name.as_ref(),
            Pattern::MatchStar(it) => it.name.as_ref(),
            Pattern::MatchMapping(it) => it.rest.as_ref(),
            _ => None,
        };
        if let Some(name) = name {
            self.bind(name.as_str());
        }
        walk_pattern(self, pattern);
    }
}

/// Reads the arguments of calls.
struct Values<'f, 'a> {
    facts: &'f ScriptFacts<'a>,
    /// Tells the names that have a value from the start, beside the one that the script may give them.
    is_input: &'f dyn Fn(&str) -> bool,
    /// Positions of the calls that were found, by their starts.
    positions: BTreeMap<TextSize, u32>,
}

impl<'a> Values<'_, 'a> {
    fn call(&self, found: &FoundCall<'_>) -> SourceCall {
        let FoundCall { tool, namespace, arguments, .. } = *found;
        let name = tool.attr.as_str();
        let mut shown = SourceArguments::default();
        let is_right = match arguments {
            FoundArguments::Call(arguments) => self.arguments(arguments, &mut shown),
            FoundArguments::Dict(all) => {
                self.dict(all, &mut shown);
                true
            }
        };
        let mistake = (!is_right).then(|| {
            format!("takes arguments by name, like `{namespace}.{name}(name = …)`, or one dict")
        });
        SourceCall {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            arguments: shown.named.into_iter().collect(),
            is_open: shown.is_open,
            mistake,
            range: tool.range().to_std_range(),
        }
    }

    /// Reads the arguments of a call. Returns false if it certainly has any by position but one dict.
    fn arguments(&self, arguments: &Arguments, shown: &mut SourceArguments) -> bool {
        for keyword in &arguments.keywords {
            match &keyword.arg {
                Some(name) => shown.insert(name.as_str(), self.value(&keyword.value)),
                None => shown.is_open = true,
            }
        }
        let by_position = &arguments.args[..];
        if by_position.iter().any(is_hidden) {
            shown.is_open = true;
            return true;
        }
        match by_position {
            [] => true,
            [only] if shown.named.is_empty() => {
                match only {
                    Expr::Dict(all) if arguments.keywords.is_empty() => self.dict(all, shown),
                    _ => shown.is_open = true,
                }
                match self.value(only) {
                    SourceValue::Known(json) => json == "{}",
                    _ => true,
                }
            }
            _ => false,
        }
    }

    fn dict(&self, all: &ExprDict, arguments: &mut SourceArguments) {
        for item in &all.items {
            match &item.key {
                Some(Expr::StringLiteral(name)) => {
                    arguments.insert(name.value.to_str(), self.value(&item.value));
                }
                _ => arguments.is_open = true,
            }
        }
        if arguments.is_open {
            // The rest may replace any of them.
            arguments.named.values_mut().for_each(|value| *value = SourceValue::Unknown);
        }
    }

    fn value(&self, expression: &Expr) -> SourceValue {
        self.value_within(expression, MAX_STEPS)
    }

    /// Returns the value of an expression. Follows `steps` names at most.
    fn value_within(&self, expression: &Expr, steps: usize) -> SourceValue {
        match expression {
            Expr::StringLiteral(_) | Expr::FString(_) => known("\"\""),
            Expr::BooleanLiteral(it) => known(if it.value { "true" } else { "false" }),
            Expr::NoneLiteral(_) => known("null"),
            Expr::List(_) | Expr::ListComp(_) | Expr::Tuple(_) => known("[]"),
            Expr::Dict(_) | Expr::DictComp(_) => known("{}"),
            Expr::NumberLiteral(it) => number(&it.value, ""),
            Expr::UnaryOp(it) => match (it.op, &*it.operand) {
                (UnaryOp::USub, Expr::NumberLiteral(of)) => number(&of.value, "-"),
                _ => SourceValue::Unknown,
            },
            Expr::Name(it) if steps > 0 => match self.only_value(it.id.as_str()) {
                Some(value) => self.value_within(value, steps - 1),
                None => SourceValue::Unknown,
            },
            Expr::Subscript(it) => match (&*it.value, &*it.slice) {
                (Expr::Name(of), Expr::StringLiteral(key)) => {
                    part(self.untouched_result(of.id.as_str()), key.value.to_str())
                }
                _ => self.result(expression),
            },
            _ => self.result(expression),
        }
    }

    fn only_value(&self, name: &str) -> Option<&'a Expr> {
        if (self.is_input)(name) { None } else { self.facts.only_value(name) }
    }

    /// Returns the part of a call's result that an expression is, without any name between them.
    fn result(&self, expression: &Expr) -> SourceValue {
        match expression {
            Expr::Await(it) => self.result(&it.value),
            Expr::Call(it) => match self.positions.get(&it.start()) {
                Some(call) if is_call_of_attribute(it) => {
                    SourceValue::Part { call: *call, keys: Vec::new() }
                }
                _ => SourceValue::Unknown,
            },
            Expr::Subscript(it) => match &*it.slice {
                Expr::StringLiteral(key) => part(self.result(&it.value), key.value.to_str()),
                _ => SourceValue::Unknown,
            },
            _ => SourceValue::Unknown,
        }
    }

    /// Returns the whole result of a call that a name holds, if nothing changes what is in it.
    fn untouched_result(&self, name: &str) -> SourceValue {
        let value = self.only_value(name).filter(|_| self.facts.is_read_by_key(name));
        match value.map(|value| self.result(value)) {
            Some(SourceValue::Part { call, keys }) if keys.is_empty() => {
                SourceValue::Part { call, keys }
            }
            _ => SourceValue::Unknown,
        }
    }
}

/// Arguments of a call by name.
#[derive(Default)]
struct SourceArguments {
    named: BTreeMap<String, SourceValue>,
    is_open: bool,
}

impl SourceArguments {
    fn insert(&mut self, name: &str, value: SourceValue) {
        self.named.insert(name.to_owned(), value);
    }
}

/// Returns whether a call is one that can be found: another may begin at the same place, like `a.b()()`.
fn is_call_of_attribute(call: &ExprCall) -> bool {
    matches!(&*call.func, Expr::Attribute(tool) if tool.value.is_name_expr())
}

/// Returns whether an argument by position is several, or the mark of a call that is awaited later.
fn is_hidden(argument: &Expr) -> bool {
    argument.is_starred_expr() || argument.is_ellipsis_literal_expr()
}

fn known(json: &str) -> SourceValue {
    SourceValue::Known(json.to_owned())
}

/// Returns the value under a key of a result.
fn part(value: SourceValue, key: &str) -> SourceValue {
    match value {
        SourceValue::Part { call, mut keys } => {
            keys.push(key.to_owned());
            SourceValue::Part { call, keys }
        }
        _ => SourceValue::Unknown,
    }
}

/// Returns the value of a number, which a call may have as a text or not at all.
fn number(number: &Number, sign: &str) -> SourceValue {
    json_number(number, sign).map_or(SourceValue::Unknown, SourceValue::Known)
}

fn json_number(number: &Number, sign: &str) -> Option<String> {
    match number {
        Number::Int(it) => {
            let value = it.as_u64()?;
            let fits = sign.is_empty() || i64::try_from(value).is_ok();
            fits.then(|| format!("{sign}{value}"))
        }
        Number::Float(it) => it.is_finite().then(|| format!("{sign}{it:?}")),
        Number::Complex { .. } => None,
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
