//! The values that an expression sees.

use std::{collections::HashMap, sync::Arc};

use airlock_guest::{
    Error,
    guard::{Call, Outcome},
};
use cel::{Context, Env, Value, extensions};
use serde_json::Value as Json;

/// Names of the values before a call.
pub const BEFORE: &[&str] = &["tool", "client", "arguments", "effects", "origin", "key", "tenant"];
/// Names of the values after a call.
pub const AFTER: &[&str] =
    &["tool", "client", "arguments", "effects", "origin", "key", "tenant", "result", "error"];

/// The values that an expression sees, with the functions of CEL.
pub struct Facts(Context<'static, 'static>);

impl Facts {
    /// Reads a call, and its outcome if there is one. Fails if one of them cannot be parsed.
    pub fn new(call: &Call, outcome: Option<&Outcome>) -> Result<Self, Error> {
        let mut context = Context::with_env(Arc::new(functions()));
        for (name, text) in [
            ("tool", &call.tool),
            ("client", &call.client),
            ("origin", &call.origin),
            ("tenant", &call.tenant),
        ] {
            context.add_variable_from_value(name, Value::from(text.as_str()));
        }
        let key = call.key.as_deref().map_or(Value::Null, Value::from);
        context.add_variable_from_value("key", key);
        context.add_variable_from_value("effects", effects(call));
        context.add_variable_from_value("arguments", value(call.arguments()?));
        if let Some(outcome) = outcome {
            let [result, error] = match outcome {
                Outcome::Success(_) => [value(outcome.parse()?), Value::Null],
                Outcome::Failure(_) => [Value::Null, value(outcome.parse()?)],
            };
            context.add_variable_from_value("result", result);
            context.add_variable_from_value("error", error);
        }
        Ok(Self(context))
    }

    /// The context that expressions are evaluated in.
    pub fn context(&self) -> &Context<'static, 'static> {
        &self.0
    }
}

/// Returns the functions of CEL, and those for texts.
fn functions() -> Env {
    let mut functions = Env::stdlib();
    functions.add_extension(extensions::strings).expect("nothing else has added it");
    functions
}

fn effects(call: &Call) -> Value {
    let effects = &call.effects;
    let members = [
        ("read_only", effects.read_only),
        ("destructive", effects.destructive),
        ("idempotent", effects.idempotent),
        ("open_world", effects.open_world),
        ("trusted", Some(effects.trusted)),
    ];
    let members = members.map(|(name, effect)| (name, effect.map_or(Value::Null, Value::Bool)));
    Value::from(HashMap::from(members))
}

/// Returns the value of a JSON document. Integers within 64 bits keep their digits.
fn value(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(is_true) => Value::Bool(is_true),
        Json::Number(number) => {
            let integer = number.as_i64().map(Value::Int);
            let integer = integer.or_else(|| number.as_u64().map(Value::UInt));
            integer.unwrap_or_else(|| number.as_f64().map_or(Value::Null, Value::Float))
        }
        Json::String(text) => Value::from(text),
        Json::Array(items) => Value::List(Arc::new(items.into_iter().map(value).collect())),
        Json::Object(members) => {
            let members = members.into_iter().map(|(name, json)| (name, value(json)));
            Value::from(members.collect::<HashMap<String, Value>>())
        }
    }
}
