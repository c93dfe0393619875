//! Members of a chat request that become `output_config`.

use serde_json::{Value, json};

use super::{Unsupported, member, set};
use crate::{
    Object,
    translation::{object_of, take},
};

/// Translates `reasoning_effort`. `thinking` is not set: its valid types depend on the model, and
/// the models that accept an effort either think by default or leave the choice to the caller.
pub(super) fn set_effort(chat: &mut Object) -> Result<(), Unsupported> {
    let Some(effort) = take(chat, "reasoning_effort") else { return Ok(()) };
    let effort = match effort.as_str() {
        Some("none") => {
            return set(chat, "thinking", json!({"type": "disabled"}), "reasoning_effort");
        }
        Some("minimal" | "low") => "low",
        Some(effort @ ("medium" | "high" | "xhigh" | "max")) => effort,
        _ => {
            let problem = "must be \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \"max\"";
            return Err(Unsupported::new("reasoning_effort", problem));
        }
    };
    set(member(chat, "output_config")?, "effort", effort.into(), "reasoning_effort")
}

/// Translates `response_format`.
pub(super) fn set_format(chat: &mut Object) -> Result<(), Unsupported> {
    let Some(mut format) = take(chat, "response_format") else { return Ok(()) };
    match format["type"].as_str() {
        Some("text") => Ok(()),
        Some("json_schema") => {
            let schema = named_schema(format["json_schema"].take())?;
            let format = object_of([("type", "json_schema".into()), ("schema", schema.into())]);
            set(member(chat, "output_config")?, "format", format.into(), "response_format")
        }
        _ => {
            let problem = "must be \"text\" or \"json_schema\" for Anthropic's models";
            Err(Unsupported::new("response_format.type", problem))
        }
    }
}

/// Returns the schema of a response format. Its description, which tells the model the purpose of
/// the format, becomes the one of the schema. Its name only labels it.
fn named_schema(mut format: Value) -> Result<Object, Unsupported> {
    let Some(Value::Object(mut schema)) = format.get_mut("schema").map(Value::take) else {
        return Err(Unsupported::new("response_format.json_schema.schema", "must be an object"));
    };
    if let Some(description @ Value::String(_)) = format.get_mut("description") {
        schema.entry("description").or_insert(description.take());
    }
    Ok(schema)
}
