//! Settings → `generationConfig`.

use serde_json::Value;

use super::TARGET;
use crate::{
    Object, ReplyFormat, Settings,
    gemini::object_of,
    read::{Path, Result, Untranslatable},
    target::member,
};

const CONFIG: &str = "generationConfig";

/// Members of chat completions that only the name of differs, each with the value that asks for
/// nothing. Some models refuse even that, such as penalties of 0.
const RENAMED: [(&str, &str, Option<f64>); 6] = [
    ("n", "candidateCount", Some(1.0)),
    ("seed", "seed", None),
    ("top_k", "topK", None),
    ("presence_penalty", "presencePenalty", Some(0.0)),
    ("frequency_penalty", "frequencyPenalty", Some(0.0)),
    ("top_logprobs", "logprobs", Some(0.0)),
];

/// Writes `settings`, and the sampling in `extra`, into the `generationConfig` of `extra`.
pub(super) fn write(extra: &mut Object, settings: Settings, is_old: bool) -> Result<()> {
    let mut own: Vec<(&str, &str, Value)> = Vec::new();
    for (from, to, nothing) in RENAMED {
        let value = extra.shift_remove(from);
        let value = value.filter(|value| nothing.is_none() || value.as_f64() != nothing);
        own.extend(value.map(|value| (from, to, value)));
    }
    match extra.shift_remove("logprobs") {
        None | Some(Value::Bool(false)) => {}
        Some(value) => own.push(("logprobs", "responseLogprobs", value)),
    }
    let thinking = thinking(&settings, is_old)?;
    let Settings { max_output_tokens, temperature, top_p, top_k, stop, format, .. } = settings;
    own.extend(max_output_tokens.map(|max| ("max_tokens", "maxOutputTokens", max.into())));
    own.extend(temperature.map(|number| ("temperature", "temperature", number.into())));
    own.extend(top_p.map(|number| ("top_p", "topP", number.into())));
    own.extend(top_k.map(|number| ("top_k", "topK", number.into())));
    if !stop.is_empty() {
        own.push(("stop", "stopSequences", stop.into()));
    }
    own.extend(thinking.map(|config| ("reasoning_effort", "thinkingConfig", config.into())));
    for (name, value) in format.map(response_format).transpose()?.into_iter().flatten() {
        own.push(("response_format", name, value));
    }
    if own.is_empty() {
        return Ok(());
    }
    let config = member(extra, CONFIG)?;
    own.into_iter().try_for_each(|(from, to, value)| TARGET.set(config, to, value, from))
}

/// Returns `thinkingConfig`; `None` for the model's default. A budget is more exact than an effort,
/// and the API refuses both together.
fn thinking(settings: &Settings, is_old: bool) -> Result<Option<Object>> {
    let effort = settings.effort.as_deref();
    let (name, value): (_, Value) = match (settings.reasoning_tokens, effort) {
        (None, None) => return Ok(None),
        (Some(tokens), _) => ("thinkingBudget", tokens.into()),
        // Models that always think refuse it.
        (None, Some("none")) => ("thinkingBudget", 0.into()),
        (None, Some(effort)) => {
            let (level, budget) = amount(effort).ok_or_else(|| bad_effort(effort))?;
            if is_old { ("thinkingBudget", budget.into()) } else { ("thinkingLevel", level.into()) }
        }
    };
    let mut config = object_of([(name, value)]);
    if config.get("thinkingBudget").is_none_or(|budget| *budget != 0) {
        // A caller that asks for reasoning receives it, as from the other providers.
        config.insert("includeThoughts".to_owned(), true.into());
    }
    Ok(Some(config))
}

/// Returns the level and the budget of an effort, as Gemini's endpoint for OpenAI's clients translates
/// it. Gemini has no level above `high`.
fn amount(effort: &str) -> Option<(&'static str, u64)> {
    Some(match effort {
        "minimal" => ("MINIMAL", 1_024),
        "low" => ("LOW", 1_024),
        "medium" => ("MEDIUM", 8_192),
        "high" | "xhigh" | "max" => ("HIGH", 24_576),
        _ => return None,
    })
}

fn bad_effort(found: &str) -> Untranslatable {
    let supported = ["none", "minimal", "low", "medium", "high", "xhigh", "max"];
    Untranslatable::invalid_value(&Path::Root.member("reasoning_effort"), found, &supported)
}

/// Returns the members for the format of the text. The description of a schema, which tells the model
/// the purpose of the format, becomes the one of the schema. Its name only labels it.
fn response_format(format: ReplyFormat) -> Result<Vec<(&'static str, Value)>> {
    const JSON: (&str, &str) = ("responseMimeType", "application/json");
    let json = (JSON.0, JSON.1.into());
    match format {
        ReplyFormat::Text => Ok(Vec::new()),
        ReplyFormat::Json => Ok(vec![json]),
        ReplyFormat::Schema { description, schema, .. } => {
            let Some(Value::Object(mut schema)) = schema else {
                let rule = "It must be a JSON Schema object.";
                let path = Path::Member(&Path::Root, "response_format");
                let path = path.member("json_schema");
                return Err(Untranslatable::invalid(&path.member("schema"), rule));
            };
            if let Some(description) = description {
                schema.entry("description").or_insert(description.into());
            }
            // Not `responseSchema`, which has a few keywords of OpenAPI alone.
            Ok(vec![json, ("responseJsonSchema", schema.into())])
        }
    }
}
