//! Settings → members of the request.

use serde_json::{Number, Value, json};

use super::{
    super::object_of,
    target::{TARGET, invalid},
};
use crate::{
    Object, ReplyFormat, Settings, Wire,
    read::{Result, Untranslatable},
    target::member,
};

/// `max_tokens` of a request that has no limit. The Messages API requires the member, and chat
/// clients expect no limit. All current models accept this many, and Anthropic's SDKs require a
/// stream above 21,333, because such a response can take more than ten minutes.
pub(super) const DEFAULT_MAX_TOKENS: u64 = 16_384;
/// Member with the effort and the format.
const OUTPUT_CONFIG: &str = "output_config";
const THINKING: &str = "thinking";

/// Writes the settings into `body`, which has the members that pass through.
pub(super) fn write(settings: Settings, wire: Wire, body: &mut Object) -> Result<()> {
    if !settings.stop.is_empty() {
        TARGET.set(body, "stop_sequences", settings.stop.into(), "stop")?;
    }
    write_user(settings.user, body)?;
    write_effort(settings.effort, wire, body)?;
    write_format(settings.format, body)?;
    write_tier(settings.service_tier.as_deref(), body)?;
    check_temperature(settings.temperature.as_ref())?;
    if let Some(tokens) = settings.reasoning_tokens.filter(|_| !body.contains_key(THINKING)) {
        let thinking = json!({"type": "enabled", "budget_tokens": tokens});
        body.insert(THINKING.to_owned(), thinking);
    }
    let limit = settings.max_output_tokens.unwrap_or_else(|| default_limit(body));
    for (name, value) in [
        ("max_tokens", Some(limit.into())),
        ("temperature", settings.temperature.map(Value::from)),
        ("top_p", settings.top_p.map(Value::from)),
        ("top_k", settings.top_k.map(Value::from)),
        ("stream", settings.stream.then(|| true.into())),
    ] {
        body.extend(value.map(|value| (name.to_owned(), value)));
    }
    Ok(())
}

/// Returns the default of `max_tokens`. Tokens of thinking count towards it, and it must exceed their
/// budget.
fn default_limit(body: &Object) -> u64 {
    let budget = body.get(THINKING).and_then(|thinking| thinking.get("budget_tokens"));
    DEFAULT_MAX_TOKENS.saturating_add(budget.and_then(Value::as_u64).unwrap_or(0))
}

/// Writes the identifier of the user, unless the caller sent Anthropic's own.
fn write_user(user: Option<String>, body: &mut Object) -> Result<()> {
    if let Some(user) = user {
        member(body, "metadata")?.entry("user_id").or_insert(user.into());
    }
    Ok(())
}

/// Writes the effort. `thinking` is not set: its valid types depend on the model, and the models that
/// accept an effort either think by default or leave the choice to the caller.
fn write_effort(effort: Option<String>, wire: Wire, body: &mut Object) -> Result<()> {
    const PARAM: &str = "reasoning_effort";
    let Some(effort) = effort else { return Ok(()) };
    let effort = match effort.as_str() {
        // The provider judges its own levels.
        own if wire == Wire::Messages => own,
        "none" => return TARGET.set(body, THINKING, json!({"type": "disabled"}), PARAM),
        "minimal" | "low" => "low",
        effort @ ("medium" | "high" | "xhigh" | "max") => effort,
        other => {
            let supported = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
            let path = crate::read::Path::Root.member(PARAM);
            return Err(Untranslatable::invalid_value(&path, other, &supported));
        }
    };
    TARGET.set(member(body, OUTPUT_CONFIG)?, "effort", effort.into(), PARAM)
}

/// Writes the format. One of an unknown type is still a member of `body`.
fn write_format(format: Option<ReplyFormat>, body: &mut Object) -> Result<()> {
    const PARAM: &str = "response_format";
    let rule = "it must be 'text' or 'json_schema' for Anthropic's models.";
    match format {
        None if body.contains_key(PARAM) => Err(invalid("response_format.type", rule)),
        None | Some(ReplyFormat::Text) => Ok(()),
        Some(ReplyFormat::Json) => Err(invalid("response_format.type", rule)),
        Some(ReplyFormat::Schema { description, schema, .. }) => {
            let schema = described(schema, description)?;
            let format = object_of([("type", "json_schema".into()), ("schema", schema.into())]);
            TARGET.set(member(body, OUTPUT_CONFIG)?, "format", format.into(), PARAM)
        }
    }
}

/// Returns the schema of a format. Its description, which tells the model the purpose of the format,
/// becomes the one of the schema. Its name only labels it.
fn described(schema: Option<Value>, description: Option<String>) -> Result<Object> {
    let Some(Value::Object(mut schema)) = schema else {
        return Err(invalid("response_format.json_schema.schema", "it must be an object."));
    };
    if let Some(description) = description {
        schema.entry("description").or_insert(description.into());
    }
    Ok(schema)
}

fn write_tier(tier: Option<&str>, body: &mut Object) -> Result<()> {
    let tier = match tier {
        None => return Ok(()),
        Some("auto") => "auto",
        Some("default" | "standard_only") => "standard_only",
        Some(_) => {
            let rule = "it must be 'auto' or 'default' for Anthropic's models.";
            return Err(invalid("service_tier", rule));
        }
    };
    body.insert("service_tier".to_owned(), tier.into());
    Ok(())
}

fn check_temperature(temperature: Option<&Number>) -> Result<()> {
    let temperature = temperature.map(|temperature| temperature.as_f64().unwrap_or(f64::NAN));
    if temperature.is_none_or(|temperature| (0.0..=1.0).contains(&temperature)) {
        return Ok(());
    }
    Err(invalid("temperature", "it must be from 0 to 1 for Anthropic's models."))
}
