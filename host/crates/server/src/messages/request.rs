//! Requests of the Messages API → chat completion requests.

use std::collections::BTreeSet;

use http::{HeaderMap, Request};
use hyper::body::Incoming;
use serde_json::Value;

use crate::{
    App, BuiltinTools,
    alias::BelowAnthropic,
    body,
    memory::RequestCharge,
    options,
    respond::{self, ApiError},
    responses::dropped_type,
    sender::Sender,
    work,
};
use airlock_agent::recall;
use airlock_conversation::{
    Content, Conversation, Item, Media, Part, ToolDefinition,
    chat::{self, ChatDialect},
    messages,
    read::{Path, Untranslatable},
};
use airlock_json::{self as json, RawObject};
use airlock_model::{Object, weight};

/// Name of the provider to which a model without a provider's name goes, below `/anthropic`.
const PREFERRED: &str = "anthropic";
/// Header with the names of beta features.
const BETAS: &str = "anthropic-beta";
/// Member of a request with the models that are asked if the first one fails.
const FALLBACKS: &str = "fallbacks";
/// Tokens of an image, at least: those of Anthropic's largest one.
const IMAGE_TOKENS: usize = 1_600;
/// Bytes of a document in Base64 for each token: a page of a PDF file with text has about 100 KB and
/// 2,000 tokens.
const DOCUMENT_TOKEN_BYTES: usize = 64;

/// A chat completion request.
pub(super) struct ChatRequest {
    pub(super) body: RawObject,
    /// The model, as the caller wrote it.
    pub(super) model: String,
    pub(super) is_streamed: bool,
    /// True if the caller asked for events of tools.
    pub(super) wants_events: bool,
    /// False if the calls that run here must not be kept for a later request.
    pub(super) stores: bool,
    /// Types of the provider's tools, and of blocks about them, that are left out.
    pub(super) dropped: BTreeSet<String>,
    pub(super) media: MediaSize,
}

/// Images and documents of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct MediaSize {
    /// Bytes of their Base64.
    pub(super) bytes: usize,
    /// Tokens that a model reads, estimated.
    pub(super) tokens: usize,
}

/// Reads a request. Fails if it is invalid or has no counterpart.
pub(super) async fn read(
    app: &App,
    request: Request<Incoming>,
    charge: &RequestCharge,
) -> Result<ChatRequest, ApiError> {
    read_with(app, request, charge, |_| {}).await
}

/// Reads a request for the number of its tokens, which needs no `max_tokens`.
pub(super) async fn read_without_limit(
    app: &App,
    request: Request<Incoming>,
    charge: &RequestCharge,
) -> Result<ChatRequest, ApiError> {
    let add_limit = |body: &mut Object| {
        body.entry("max_tokens").or_insert_with(|| 1.into());
    };
    read_with(app, request, charge, add_limit).await
}

async fn read_with(
    app: &App,
    request: Request<Incoming>,
    charge: &RequestCharge,
    complete: impl FnOnce(&mut Object),
) -> Result<ChatRequest, ApiError> {
    let events_header = options::events(request.headers())?;
    let betas = betas(request.headers())?;
    let is_below_anthropic = request.extensions().get::<BelowAnthropic>().is_some();
    let mut body = body::object(request, &app.settings, charge).await?;
    complete(&mut body);
    if body.get("messages").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        let error = ApiError::bad_request("invalid_value", "`messages` must have a message");
        return Err(error.about("messages"));
    }
    let extension = options::take_parsed_extension(&mut body)?;
    if is_below_anthropic && let Some(Value::String(model)) = body.get_mut("model") {
        *model = app.models.qualified(model, PREFERRED);
    }
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_anthropic = app.models.has_messages(&model);
    // It is the gateway's own, as in chat completions.
    let stores = body.shift_remove("store").is_none_or(|store| store != false);
    let policy = app.settings.builtin_tools.clone();
    let translated = work::on_tree(charge, move |charge| {
        // The request of chat is made from the parts of this one.
        charge.grow(body.values().map(weight).sum())?;
        let fallbacks = body.shift_remove(FALLBACKS).filter(is_of_gateway);
        let mut conversation = messages::read_request(body)?;
        let dropped = drop_native(&mut conversation, &policy)?;
        let media = media_of(&conversation);
        let is_streamed = conversation.settings.stream;
        let hints =
            if is_anthropic { take_hints(&mut conversation, betas) } else { Object::default() };
        let dialect =
            if is_anthropic { ChatDialect::WithAnthropicMembers } else { ChatDialect::OpenAi };
        let mut chat = chat::write_request(conversation, dialect)?;
        chat.extend(hints);
        chat.extend(fallbacks.map(|fallbacks| (FALLBACKS.to_owned(), fallbacks)));
        charge.grow(json::text_len(&chat))?;
        let mut body = RawObject::from(&chat);
        if is_streamed {
            body.set("stream_options", r#"{"include_usage":true}"#);
        }
        let wants_events = extension.events.unwrap_or(events_header);
        Ok(ChatRequest { body, model, is_streamed, wants_events, stores, dropped, media })
    });
    translated.await
}

/// Removes notes of the gateway from the messages, and puts calls back that the caller did not see.
pub(super) async fn restore(
    app: &App,
    sender: &Sender,
    body: &mut RawObject,
    charge: &RequestCharge,
) -> Result<(), ApiError> {
    let tenant = sender.tenant();
    let memory = charge.clone();
    let charged = move |bytes| memory.grow(bytes);
    recall::chat::remove_notes(&tenant, body, charged.clone()).await?;
    app.hooks.recall.restore_messages(&tenant, body, charged).await?;
    Ok(())
}

/// Returns whether `fallbacks` are those of the gateway. Anthropic's, which replace a model that refuses,
/// are left out: they are the text `default`, or models without a provider.
fn is_of_gateway(fallbacks: &Value) -> bool {
    let is_anthropics = |model: &Value| model.is_object() && model.get("provider").is_none();
    match fallbacks {
        Value::Null => false,
        Value::String(text) => text != "default",
        Value::Array(models) => models.is_empty() || !models.iter().all(is_anthropics),
        _ => true,
    }
}

/// Returns the names of beta features that the caller asks for.
fn betas(headers: &HeaderMap) -> Result<Vec<Value>, ApiError> {
    let names = respond::names(headers, BETAS)?.unwrap_or_default();
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(Value::from).collect())
}

/// Takes the members that only Anthropic's models know, with the names of beta features.
fn take_hints(conversation: &mut Conversation, mut betas: Vec<Value>) -> Object {
    let mut hints = std::mem::take(&mut conversation.hints);
    if hints.contains_key("thinking") {
        // The member has the budget too.
        conversation.settings.reasoning_tokens = None;
    }
    if let Some(Value::Array(own)) = hints.shift_remove("betas") {
        betas.extend(own);
    }
    if !betas.is_empty() {
        hints.insert("betas".to_owned(), betas.into());
    }
    hints
}

/// Leaves out the tools that run at the provider, or whose definition is the provider's, and the blocks
/// about them. Fails if the operator refuses them, or if one of them has to be called. No policy of the
/// gateway decides about them.
fn drop_native(
    conversation: &mut Conversation,
    policy: &BuiltinTools,
) -> Result<BTreeSet<String>, Untranslatable> {
    let is_refused = *policy == BuiltinTools::Refuse;
    let mut dropped = BTreeSet::new();
    let mut names = BTreeSet::new();
    let root = Path::Root;
    let tools = root.member("tools");
    for (index, tool) in conversation.tools.iter().enumerate() {
        let ToolDefinition::Native(tool) = tool else { continue };
        if is_refused {
            let advice = "Tools of the provider are refused by this gateway.";
            let path = tools.element(index);
            let path = path.member("type");
            return Err(Untranslatable::unsupported_value(
                &path,
                &tool.kind.as_str().into(),
                advice,
            ));
        }
        dropped.insert(dropped_type(&tool.kind));
        names.extend(tool.object.get("name").and_then(Value::as_str).map(str::to_owned));
    }
    if let Some(airlock_conversation::ToolChoice::Function(name)) = &conversation.tool_choice
        && names.contains(name)
    {
        let advice = "The tool is one of the provider, which this gateway leaves out.";
        let path = root.member("tool_choice");
        let name = name.as_str().into();
        return Err(Untranslatable::unsupported_value(&path.member("name"), &name, advice));
    }
    conversation.tools.retain(|tool| matches!(tool, ToolDefinition::Function(_)));
    for item in &conversation.items {
        let Item::Native(item) = item else { continue };
        if is_refused {
            let advice =
                "Tools of the provider are refused by this gateway, and so are blocks about them.";
            let path = root.member("messages");
            return Err(Untranslatable::unsupported_value(
                &path,
                &item.kind.as_str().into(),
                advice,
            ));
        }
        dropped.insert(dropped_type(&item.kind));
    }
    conversation.items.retain(|item| !matches!(item, Item::Native(_)));
    Ok(dropped)
}

/// Returns the size of all images and documents.
fn media_of(conversation: &Conversation) -> MediaSize {
    let parts = conversation.items.iter().flat_map(|item| match item {
        Item::Message(message) => message.parts.as_slice(),
        Item::ToolResult(result) => result.parts.as_slice(),
        _ => &[],
    });
    parts.fold(MediaSize::default(), MediaSize::with)
}

impl MediaSize {
    fn with(self, part: &Part) -> Self {
        let (bytes, tokens) = match &part.content {
            Content::Image { media: Media::Base64 { data, .. }, .. } => (data.len(), IMAGE_TOKENS),
            Content::File { media: Media::Base64 { data, .. }, .. } => {
                (data.len(), data.len().div_ceil(DOCUMENT_TOKEN_BYTES))
            }
            Content::Image { .. } => (0, IMAGE_TOKENS),
            _ => (0, 0),
        };
        Self { bytes: self.bytes + bytes, tokens: self.tokens + tokens }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_model::object;

    fn conversation(more: &Value) -> Conversation {
        let mut request = object(json!({"model": "m", "max_tokens": 9, "messages": []}));
        request.extend(more.as_object().expect("members").clone());
        messages::read_request(request).expect("a good request")
    }

    #[test]
    fn tools_of_the_provider_and_blocks_about_them_are_left_out_or_refused() {
        let request = json!({
            "tools": [
                {"type": "web_search_20250305", "name": "web_search"},
                {"name": "mine", "input_schema": {"type": "object"}},
            ],
            "messages": [{"role": "assistant", "content": [
                {"type": "text", "text": "a"},
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            ]}],
        });
        let mut read = conversation(&request);
        let dropped = drop_native(&mut read, &BuiltinTools::Drop).expect("they are left out");
        let expected = ["server_tool_use", "web_search_20250305", "web_search_tool_result"];
        assert_eq!(dropped, expected.map(str::to_owned).into());
        assert_eq!((read.tools.len(), read.items.len()), (1, 1));

        let mut read = conversation(&request);
        let error = drop_native(&mut read, &BuiltinTools::Refuse).expect_err("they are refused");
        assert_eq!(error.param, "tools[0].type");

        let mut request = request;
        request["tool_choice"] = json!({"type": "tool", "name": "web_search"});
        let mut read = conversation(&request);
        let error = drop_native(&mut read, &BuiltinTools::Drop).expect_err("it has to be called");
        assert_eq!(error.param, "tool_choice.name");
    }

    #[test]
    fn members_for_anthropics_models_have_the_names_of_beta_features() {
        let more = json!({
            "thinking": {"type": "enabled", "budget_tokens": 2_000},
            "context_management": {"edits": []}, "betas": ["b"],
        });
        let mut read = conversation(&more);
        assert_eq!(read.settings.reasoning_tokens, Some(2_000));
        let hints = take_hints(&mut read, vec!["a".into()]);
        assert_eq!(
            Value::from(hints),
            json!({
                "context_management": {"edits": []},
                "thinking": {"type": "enabled", "budget_tokens": 2_000},
                "betas": ["a", "b"],
            })
        );
        assert_eq!(read.settings.reasoning_tokens, None);
        assert!(take_hints(&mut conversation(&json!({})), Vec::new()).is_empty());
    }

    #[test]
    fn fallbacks_of_anthropics_form_are_left_out() {
        for (fallbacks, expected) in [
            (json!(["a/m"]), true),
            (json!([{"provider": "a", "model": "m"}]), true),
            // Refused later, with the reason.
            (json!({}), true),
            (json!("default"), false),
            (json!([{"model": "m"}]), false),
            (Value::Null, false),
        ] {
            assert_eq!(is_of_gateway(&fallbacks), expected, "{fallbacks}");
        }
    }

    #[test]
    fn an_image_counts_as_its_tokens_and_not_as_its_text() {
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A".repeat(100)}});
        let file = json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A".repeat(65)}});
        let result = json!({"type": "tool_result", "tool_use_id": "t", "content": [image]});
        let content = json!([result, image, file, {"type": "text", "text": "x"}]);
        let read = conversation(&json!({"messages": [{"role": "user", "content": content}]}));
        let expected = MediaSize { bytes: 265, tokens: 2 * IMAGE_TOKENS + 2 };
        assert_eq!(media_of(&read), expected);
    }
}
