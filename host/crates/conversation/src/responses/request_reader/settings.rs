//! The settings of a request: everything but its input and its tools.

use serde_json::Value;

use crate::{
    Conversation, Object, ReplyFormat, chat,
    read::{Members, Result, Untranslatable, excerpt},
};

/// Members that do not change the reply.
const HINTS: [&str; 2] = ["prompt_cache_key", "prompt_cache_retention"];
/// Values of `include` that are supported.
const INCLUDABLE: &[&str] =
    &[LOGPROBS, "reasoning.encrypted_content", "message.input_image.image_url"];
const LOGPROBS: &str = "message.output_text.logprobs";
/// Maximum number of members of `metadata`, from OpenAI's API reference.
const MAX_METADATA: usize = 16;
/// Maximum characters of a key of `metadata`, from OpenAI's API reference.
const MAX_METADATA_KEY: usize = 64;
/// Maximum characters of a value of `metadata`, from OpenAI's API reference.
const MAX_METADATA_VALUE: usize = 512;

/// Reads the settings. The gateway itself acts on `store`, `max_tool_calls`, `metadata` and
/// `previous_response_id`, so these are only checked.
pub(super) fn read(request: &mut Members<'_>, conversation: &mut Conversation) -> Result<()> {
    let Conversation { settings, extra, hints, .. } = conversation;
    settings.stream = request.flag("stream", false)?;
    settings.temperature = chat::read_number(request, "temperature")?;
    settings.top_p = chat::read_number(request, "top_p")?;
    settings.top_k = chat::read_top_k(request);
    settings.stop = chat::read_stop(request)?;
    settings.parallel_tool_calls = chat::read_boolean(request, "parallel_tool_calls")?;
    settings.max_output_tokens = request.count("max_output_tokens")?;
    settings.service_tier = request.text("service_tier")?;
    settings.user = chat::read_user(request, hints)?;
    for name in HINTS {
        hints.extend(request.text(name)?.map(|value| (name.to_owned(), value.into())));
    }
    let options = request.take("prompt_cache_options");
    hints.extend(options.map(|value| ("prompt_cache_options".to_owned(), value)));
    read_logprobs(request, extra)?;
    settings.format = read_text(request, extra)?;
    settings.effort = read_effort(request)?;
    check_metadata(request)?;
    request.flag("store", true)?;
    request.text("previous_response_id")?;
    request.count("max_tool_calls")?;
    Ok(())
}

/// Reads `include` and `top_logprobs`.
///
/// `reasoning.encrypted_content` has no effect: reasoning items always have it if the model sent
/// any. Neither has `message.input_image.image_url`: stored messages always have their images.
fn read_logprobs(request: &mut Members<'_>, extra: &mut Object) -> Result<()> {
    let top = request.count("top_logprobs")?;
    let mut wanted = top.is_some_and(|top| top > 0);
    let include = request.list("include")?.unwrap_or_default();
    let path = request.path("include");
    for (index, value) in include.iter().enumerate() {
        let path = path.element(index);
        match value.as_str() {
            Some(LOGPROBS) => wanted = true,
            Some(name) if INCLUDABLE.contains(&name) => {}
            Some(name) => return Err(Untranslatable::invalid_value(&path, name, INCLUDABLE)),
            None => return Err(Untranslatable::invalid_type(&path, "a string", value)),
        }
    }
    if wanted {
        extra.insert("logprobs".to_owned(), true.into());
        extra.extend(top.map(|top| ("top_logprobs".to_owned(), top.into())));
    }
    Ok(())
}

/// Reads `text`: the format of the response and its verbosity.
fn read_text(request: &mut Members<'_>, extra: &mut Object) -> Result<Option<ReplyFormat>> {
    let Some(text) = request.take("text") else { return Ok(None) };
    let path = request.path("text");
    let mut text = Members::read(&path, text)?;
    let format = match text.take("format") {
        None => None,
        Some(format) => read_format(Members::read(&text.path("format"), format)?)?,
    };
    if let Some(verbosity) = text.text("verbosity")? {
        extra.insert("verbosity".to_owned(), verbosity.into());
    }
    text.finish()?;
    Ok(format)
}

/// Returns the format; `None` for plain text, which is the default in all APIs.
fn read_format(mut format: Members<'_>) -> Result<Option<ReplyFormat>> {
    let kind = format.required_text("type")?;
    let format = match kind.as_str() {
        "text" => return Ok(None),
        "json_object" => ReplyFormat::Json,
        "json_schema" => ReplyFormat::Schema {
            name: format.required_text("name")?,
            schema: Some(format.required("schema")?),
            description: format.text("description")?,
            strict: chat::read_boolean(&mut format, "strict")?,
        },
        other => {
            let supported = &["text", "json_object", "json_schema"];
            return Err(Untranslatable::invalid_value(&format.path("type"), other, supported));
        }
    };
    Ok(Some(format))
}

/// Reads `reasoning`. Returns the effort.
fn read_effort(request: &mut Members<'_>) -> Result<Option<String>> {
    let Some(reasoning) = request.take("reasoning") else { return Ok(None) };
    let path = request.path("reasoning");
    let mut reasoning = Members::read(&path, reasoning)?;
    let effort = reasoning.text("effort")?;
    // `auto` asks for the most detailed summary that the model has. Chat completions have no
    // summaries; the reasoning itself is returned.
    let advice = "Chat completions have no summaries of reasoning. Only 'auto' is supported.";
    for name in ["summary", "generate_summary"] {
        reasoning.refuse_unless(name, &"auto".into(), advice)?;
    }
    let advice = "It has no counterpart in chat completions. Only the default is supported.";
    reasoning.refuse_unless("context", &"auto".into(), advice)?;
    reasoning.refuse_unless("mode", &"standard".into(), advice)?;
    reasoning.finish()?;
    Ok(effort)
}

/// Checks `stream_options`. The options of other APIs are others.
pub(super) fn check_stream_options(request: &mut Members<'_>) -> Result<()> {
    let Some(options) = request.take("stream_options") else { return Ok(()) };
    let path = request.path("stream_options");
    let mut options = Members::read(&path, options)?;
    let advice = "Stream events are not padded. Only false is supported.";
    options.refuse_unless("include_obfuscation", &false.into(), advice)?;
    options.finish()
}

/// Checks `metadata`. It belongs to the Response; OpenAI's chat completions accept it only with
/// their own `store`.
fn check_metadata(request: &mut Members<'_>) -> Result<()> {
    let Some(metadata) = request.take("metadata") else { return Ok(()) };
    let path = request.path("metadata");
    let Value::Object(pairs) = &metadata else {
        return Err(Untranslatable::invalid_type(&path, "an object", &metadata));
    };
    if pairs.len() > MAX_METADATA {
        let rule = format!("it has {} members, and at most {MAX_METADATA} are valid.", pairs.len());
        return Err(Untranslatable::invalid(&path, &rule));
    }
    for (key, value) in pairs {
        let shown = excerpt(key);
        let path = path.member(&shown);
        let Some(text) = value.as_str() else {
            return Err(Untranslatable::invalid_type(&path, "a string", value));
        };
        let key = key.chars().count();
        let text = text.chars().count();
        if key > MAX_METADATA_KEY || text > MAX_METADATA_VALUE {
            let rule = format!(
                "the key has {key} characters and the value {text}, and at most \
                 {MAX_METADATA_KEY} and {MAX_METADATA_VALUE} are valid."
            );
            return Err(Untranslatable::invalid(&path, &rule));
        }
    }
    Ok(())
}
