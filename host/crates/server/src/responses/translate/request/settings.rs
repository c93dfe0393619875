//! The settings of a request: everything but its input and its tools.

use serde_json::{Value, json};

use airlock_conversation::read::{Members, Untranslatable, excerpt};
use airlock_model::Object;

/// Settings with the same name and meaning in both APIs, which the Response repeats.
const SAME: &[(&str, Kind)] = &[
    ("temperature", Kind::Number),
    ("top_p", Kind::Number),
    ("parallel_tool_calls", Kind::Boolean),
    ("user", Kind::Text),
    ("safety_identifier", Kind::Text),
    ("service_tier", Kind::Text),
    ("prompt_cache_key", Kind::Text),
    ("prompt_cache_retention", Kind::Text),
];
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

/// Type of a setting. Checked here, because the Response repeats the value.
#[derive(Clone, Copy)]
enum Kind {
    Number,
    Boolean,
    Text,
}

/// Translates the settings. Returns `max_tool_calls`.
pub(super) fn translate(
    request: &mut Members<'_>,
    body: &mut Object,
) -> Result<Option<u64>, Untranslatable> {
    for (name, kind) in SAME {
        if let Some(value) = request.take(name) {
            kind.check(request, name, &value)?;
            body.insert((*name).to_owned(), value);
        }
    }
    // The default in both APIs. OpenAI's chat completions refuse it in a request without tools.
    if body.get("parallel_tool_calls") == Some(&Value::Bool(true)) {
        body.remove("parallel_tool_calls");
    }
    if let Some(tokens) = request.count("max_output_tokens")? {
        body.insert("max_completion_tokens".to_owned(), tokens.into());
    }
    logprobs(request, body)?;
    text(request, body)?;
    reasoning(request, body)?;
    check_metadata(request)?;
    request.text("previous_response_id")?;
    request.count("max_tool_calls")
}

impl Kind {
    fn check(self, request: &Members<'_>, name: &str, value: &Value) -> Result<(), Untranslatable> {
        let (is_right, expected) = match self {
            Self::Number => (value.is_number(), "a number"),
            Self::Boolean => (value.is_boolean(), "a boolean"),
            Self::Text => (value.is_string(), "a string"),
        };
        if is_right {
            return Ok(());
        }
        Err(Untranslatable::invalid_type(&request.path(name), expected, value))
    }
}

/// Translates `include` and `top_logprobs`.
///
/// `reasoning.encrypted_content` has no effect: reasoning items always have it if the model sent
/// any. Neither has `message.input_image.image_url`: stored messages always have their images.
fn logprobs(request: &mut Members<'_>, body: &mut Object) -> Result<(), Untranslatable> {
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
        body.insert("logprobs".to_owned(), true.into());
        body.extend(top.map(|top| ("top_logprobs".to_owned(), top.into())));
    }
    Ok(())
}

/// Translates `text`: the format of the response and its verbosity.
fn text(request: &mut Members<'_>, body: &mut Object) -> Result<(), Untranslatable> {
    let Some(text) = request.take("text") else { return Ok(()) };
    let path = request.path("text");
    let mut text = Members::read(&path, text)?;
    if let Some(format) = text.take("format") {
        let format = response_format(Members::read(&text.path("format"), format)?)?;
        body.extend(format.map(|format| ("response_format".to_owned(), format)));
    }
    if let Some(verbosity) = text.text("verbosity")? {
        body.insert("verbosity".to_owned(), verbosity.into());
    }
    text.finish()
}

/// Returns the `response_format`; `None` for plain text, which is the default in both APIs.
fn response_format(mut format: Members<'_>) -> Result<Option<Value>, Untranslatable> {
    let kind = format.required_text("type")?;
    let format = match kind.as_str() {
        "text" => return Ok(None),
        "json_object" => json!({"type": kind}),
        "json_schema" => {
            let name = format.required_text("name")?;
            let schema = format.required("schema")?;
            let mut inner = Object::new();
            inner.insert("name".to_owned(), name.into());
            inner.insert("schema".to_owned(), schema);
            inner.extend(format.into_rest());
            json!({"type": kind, "json_schema": inner})
        }
        other => {
            let supported = &["text", "json_object", "json_schema"];
            return Err(Untranslatable::invalid_value(&format.path("type"), other, supported));
        }
    };
    Ok(Some(format))
}

/// Translates `reasoning`.
fn reasoning(request: &mut Members<'_>, body: &mut Object) -> Result<(), Untranslatable> {
    let Some(reasoning) = request.take("reasoning") else { return Ok(()) };
    let path = request.path("reasoning");
    let mut reasoning = Members::read(&path, reasoning)?;
    if let Some(effort) = reasoning.text("effort")? {
        body.insert("reasoning_effort".to_owned(), effort.into());
    }
    // `auto` asks for the most detailed summary that the model has. Chat completions have no
    // summaries; the reasoning itself is returned.
    let advice = "Chat completions have no summaries of reasoning. Only 'auto' is supported.";
    for name in ["summary", "generate_summary"] {
        reasoning.refuse_unless(name, &"auto".into(), advice)?;
    }
    let advice = "It has no counterpart in chat completions. Only the default is supported.";
    reasoning.refuse_unless("context", &"auto".into(), advice)?;
    reasoning.refuse_unless("mode", &"standard".into(), advice)?;
    reasoning.finish()
}

/// Checks `stream_options`. It is not translated: the options of chat completions are others.
pub(super) fn stream_options(request: &mut Members<'_>) -> Result<(), Untranslatable> {
    let Some(options) = request.take("stream_options") else { return Ok(()) };
    let path = request.path("stream_options");
    let mut options = Members::read(&path, options)?;
    let advice = "Stream events are not padded. Only false is supported.";
    options.refuse_unless("include_obfuscation", &false.into(), advice)?;
    options.finish()
}

/// Checks `metadata`. It belongs to the Response; OpenAI's chat completions accept it only with
/// their own `store`.
fn check_metadata(request: &mut Members<'_>) -> Result<(), Untranslatable> {
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
