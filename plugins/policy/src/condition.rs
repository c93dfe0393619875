//! The expression of a rule: parsed, its names checked, and evaluated.

use cel::{
    ExecutionError, IdedExpr, Value,
    common::ast::{EntryExpr, Expr},
    parser::PrattParser,
};

use crate::facts::Facts;

/// Functions that an expression can call, beside operators and macros.
const FUNCTIONS: [&str; 24] = [
    "bool",
    "bytes",
    "charAt",
    "contains",
    "double",
    "dyn",
    "endsWith",
    "format",
    "indexOf",
    "int",
    "join",
    "lastIndexOf",
    "lowerAscii",
    "replace",
    "reverse",
    "size",
    "split",
    "startsWith",
    "string",
    "substring",
    "trim",
    "type",
    "uint",
    "upperAscii",
];
/// Names of types, beside those that are functions too.
const TYPES: [&str; 3] = ["list", "map", "null_type"];

/// A parsed expression.
#[derive(Debug)]
pub struct Condition(IdedExpr);

impl Condition {
    /// Parses an expression. The error has the first problem, with its line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        // The other parser of the crate builds its tables in every instance.
        PrattParser::new().parse(text).map(Self).map_err(|errors| {
            let Some(error) = errors.errors.first() else { return "it is no CEL".to_owned() };
            let (line, column) = error.pos;
            format!("{line}:{column}: {}", error.msg)
        })
    }

    /// Fails at the first name that is neither one of these values nor a function.
    pub fn check_names(&self, known: &[&str]) -> Result<(), String> {
        unknown(&self.0, known).map_or(Ok(()), Err)
    }

    /// Evaluates the expression. Fails if it is not true or false. The text of the error has no values, only types and
    /// names of members.
    pub fn holds(&self, facts: &Facts) -> Result<bool, String> {
        match Value::resolve(&self.0, facts.context()) {
            Ok(Value::Bool(is_true)) => Ok(is_true),
            Ok(other) => Err(format!("it is of the type {}, and not bool", other.type_of())),
            Err(error) => Err(shown(&error)),
        }
    }
}

/// Returns the text of an error that has no values; another text for other errors.
fn shown(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(key) => format!("there is no member {key:?}"),
        ExecutionError::NoSuchOverload(_) | ExecutionError::UndeclaredReference(_) => {
            error.to_string()
        }
        _ => "its operands do not fit".to_owned(),
    }
}

/// Returns the problem with the first unknown name in an expression.
fn unknown<'e>(expr: &'e IdedExpr, known: &[&'e str]) -> Option<String> {
    match &expr.expr {
        Expr::Ident(name) => {
            let name = name.as_str();
            let is_known = known.contains(&name) || TYPES.contains(&name) || is_function(name);
            (!is_known).then(|| format!("there is no value `{name}`"))
        }
        Expr::Call(call) => {
            let name = call.func_name.as_str();
            // All others are operators.
            if name.starts_with(char::is_alphabetic) && !is_function(name) {
                return Some(format!("there is no function `{name}`"));
            }
            let target = call.target.as_deref().into_iter();
            target.chain(&call.args).find_map(|part| unknown(part, known))
        }
        Expr::Comprehension(turns) => {
            let second = turns.iter_var2.as_deref();
            let own = [turns.iter_var.as_str(), turns.accu_var.as_str()];
            let inner: Vec<_> = known.iter().copied().chain(own).chain(second).collect();
            let outer = [&turns.iter_range, &turns.accu_init];
            let body = [&turns.loop_cond, &turns.loop_step, &turns.result];
            let outer = outer.into_iter().find_map(|part| unknown(part, known));
            outer.or_else(|| body.into_iter().find_map(|part| unknown(part, &inner)))
        }
        Expr::List(list) => list.elements.iter().find_map(|element| unknown(element, known)),
        Expr::Map(map) => map.entries.iter().find_map(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => {
                unknown(&entry.key, known).or_else(|| unknown(&entry.value, known))
            }
            EntryExpr::StructField(field) => unknown(&field.value, known),
        }),
        Expr::Select(select) => unknown(&select.operand, known),
        Expr::Struct(of_type) => Some(format!("there is no type `{}`", of_type.type_name)),
        Expr::Literal(_) | Expr::Unspecified => None,
    }
}

/// Returns whether a name is that of a function. Those of conversions are names of types too.
fn is_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}
