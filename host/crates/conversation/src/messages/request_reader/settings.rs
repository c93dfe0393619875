//! Members of a request that are settings.

use serde_json::{Value, json};

use super::content::kind;
use crate::{
    Conversation, ReplyFormat,
    chat::read_number,
    read::{Members, Result, Untranslatable},
};

/// Reads the settings. `max_tokens` is required, as in Anthropic's API.
pub(super) fn read(members: &mut Members<'_>, conversation: &mut Conversation) -> Result<()> {
    let settings = &mut conversation.settings;
    settings.stream = members.flag("stream", false)?;
    let most = members.count("max_tokens")?;
    settings.max_output_tokens =
        Some(most.ok_or_else(|| Untranslatable::missing(&members.path("max_tokens")))?);
    settings.temperature = read_number(members, "temperature")?;
    settings.top_p = read_number(members, "top_p")?;
    settings.top_k = members.count("top_k")?;
    settings.stop = stop_sequences(members)?;
    settings.user = user(members)?;
    settings.service_tier = service_tier(members)?;
    settings.reasoning_tokens = thinking_budget(members)?;
    output_config(members, conversation)
}

fn stop_sequences(members: &mut Members<'_>) -> Result<Vec<String>> {
    let sequences = members.list("stop_sequences")?.unwrap_or_default();
    let path = members.path("stop_sequences");
    let texts = sequences.into_iter().enumerate().map(|(index, sequence)| match sequence {
        Value::String(text) => Ok(text),
        other => Err(Untranslatable::invalid_type(&path.element(index), "a string", &other)),
    });
    texts.collect()
}

fn user(members: &mut Members<'_>) -> Result<Option<String>> {
    let Some(metadata) = members.take("metadata") else { return Ok(None) };
    let path = members.path("metadata");
    let mut metadata = Members::read(&path, metadata)?;
    let user = metadata.text("user_id")?;
    metadata.finish()?;
    Ok(user)
}

/// Reads the tier, in the words of OpenAI's API.
fn service_tier(members: &mut Members<'_>) -> Result<Option<String>> {
    let tier = match members.text("service_tier")?.as_deref() {
        None => return Ok(None),
        Some("auto") => "auto",
        Some("standard_only") => "default",
        Some(other) => {
            let path = members.path("service_tier");
            return Err(Untranslatable::invalid_value(&path, other, &["auto", "standard_only"]));
        }
    };
    Ok(Some(tier.to_owned()))
}

/// Reads the budget of `thinking`. The member itself stays: it is a hint.
fn thinking_budget(members: &Members<'_>) -> Result<Option<u64>> {
    let Some(thinking) = members.get("thinking") else { return Ok(None) };
    let path = members.path("thinking");
    if !thinking.is_object() {
        return Err(Untranslatable::invalid_type(&path, "an object", thinking));
    }
    let budget = thinking.get("budget_tokens").filter(|budget| !budget.is_null());
    match (kind(thinking), budget) {
        ("", _) => Err(Untranslatable::missing(&path.member("type"))),
        ("enabled", None) => Err(Untranslatable::missing(&path.member("budget_tokens"))),
        ("enabled", Some(budget)) => budget.as_u64().map(Some).ok_or_else(|| {
            let expected = "an integer that is not negative";
            Untranslatable::invalid_type(&path.member("budget_tokens"), expected, budget)
        }),
        _ => Ok(None),
    }
}

fn output_config(members: &mut Members<'_>, conversation: &mut Conversation) -> Result<()> {
    if let Some(config) = members.take("output_config") {
        let path = members.path("output_config");
        let mut config = Members::read(&path, config)?;
        conversation.settings.effort = config.text("effort")?;
        conversation.settings.format = format(&mut config, "format")?;
        let rest = config.into_rest();
        if rest.values().any(|value| !value.is_null()) {
            conversation.extra.insert("output_config".to_owned(), rest.into());
        }
    }
    // The older name, which Anthropic's API still accepts.
    if let Some(format) = format(members, "output_format")? {
        conversation.settings.format.get_or_insert(format);
    }
    Ok(())
}

fn format(members: &mut Members<'_>, name: &str) -> Result<Option<ReplyFormat>> {
    let Some(format) = members.take(name) else { return Ok(None) };
    let path = members.path(name);
    let mut format = Members::read(&path, format)?;
    let kind = format.required_text("type")?;
    if kind != "json_schema" {
        return Err(Untranslatable::invalid_value(&format.path("type"), &kind, &["json_schema"]));
    }
    let schema = format.required("schema")?;
    if !schema.is_object() {
        return Err(Untranslatable::invalid_type(&format.path("schema"), "an object", &schema));
    }
    format.refuse_unless("name", &json!(""), "The API has no name of a format.")?;
    Ok(Some(ReplyFormat::Schema {
        name: String::new(),
        description: None,
        schema: Some(schema),
        // The API promises JSON that matches.
        strict: Some(true),
    }))
}
