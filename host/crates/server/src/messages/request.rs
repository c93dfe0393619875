//! Requests of the Messages API, prepared for the loop.

use std::collections::BTreeSet;

use http::{HeaderMap, Request};
use serde_json::Value;

use crate::{
    App,
    options::{self, ModelOptions},
};
use airlock_agent::recall;
use airlock_conversation::{
    Content, Conversation, Item, Media, Object, Part,
    chat::{self, ChatDialect},
    messages,
    read::{Path, Untranslatable},
};
use airlock_core::{memory::MemoryBudget, request_memory::RequestCharge};
use airlock_http::{
    alias::BelowAnthropic,
    body,
    respond::{self, ApiError},
    work,
};
use airlock_ingress::RequestBody;
use airlock_json::{self as json, RawObject, weight::weight};
use airlock_model::Prompt;
use airlock_requests::Sender;
use airlock_responses::{BuiltinTools, dropped_type};

/// Name of the provider to which a model without a provider's name goes, below `/anthropic`.
const PREFERRED: &str = "anthropic";
/// Header with the names of beta features.
const BETAS: &str = "anthropic-beta";
/// Member of a request with the models that are asked if the first one fails.
const FALLBACKS: &str = "fallbacks";
/// Types of the blocks of a message of the model that are not about tools of the provider.
const OF_MODEL: [&str; 5] = ["", "text", "thinking", "redacted_thinking", "tool_use"];
/// Tokens of an image, at least: those of Anthropic's largest one.
const IMAGE_TOKENS: usize = 1_600;
/// Bytes of a document in Base64 for each token: a page of a PDF file with text has about 100 KB and
/// 2,000 tokens.
const DOCUMENT_TOKEN_BYTES: usize = 64;

/// A request for a message.
pub(super) struct MessageRequest {
    pub(super) prompt: Prompt,
    /// The request as one of chat completions, in which calls are put back that the caller did not see;
    /// `None` if it has no calls.
    chat: Option<ChatRequest>,
    /// The model, as the caller wrote it.
    pub(super) model: String,
    pub(super) is_streamed: bool,
    pub(super) options: ModelOptions,
    /// False if the calls that run here must not be kept for a later request.
    pub(super) stores: bool,
    /// Types of the provider's tools, and of blocks about them, that are left out.
    pub(super) dropped: BTreeSet<String>,
    pub(super) media: MediaSize,
}

/// A request as one of chat completions.
struct ChatRequest {
    members: RawObject,
    /// True if they are for a provider of Anthropic's API.
    is_anthropic: bool,
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
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<MessageRequest, ApiError> {
    read_with(app, request, charge, |_| {}).await
}

/// Reads a request for the number of its tokens, which needs no `max_tokens`.
pub(super) async fn read_without_limit(
    app: &App,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<MessageRequest, ApiError> {
    read_with(app, request, charge, |body| {
        body.entry("max_tokens").or_insert_with(|| 1.into());
    })
    .await
}

async fn read_with(
    app: &App,
    request: Request<RequestBody>,
    charge: &RequestCharge,
    complete: impl FnOnce(&mut Object),
) -> Result<MessageRequest, ApiError> {
    let options = ModelOptions::from_headers(request.headers())?;
    let betas = betas(request.headers())?;
    let is_below_anthropic = request.extensions().get::<BelowAnthropic>().is_some();
    let mut body = body::object(request, app.settings.bodies(), charge).await?;
    complete(&mut body);
    if body.get("messages").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        let error = ApiError::bad_request("invalid_value", "`messages` must have a message");
        return Err(error.about("messages"));
    }
    let options = options.overridden_by(&options::take_parsed_extension(&mut body)?);
    if is_below_anthropic && let Some(Value::String(model)) = body.get_mut("model") {
        *model = app.parts.models.qualified(model, PREFERRED);
    }
    let model = body.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_anthropic = app.parts.models.has_messages(&model);
    // It is the gateway's own, as in chat completions.
    let stores = body.shift_remove("store").is_none_or(|store| store != false);
    let policy = app.settings.builtin_tools.clone();
    let prepared = work::on_tree(charge, move |charge| {
        for name in messages::OF_PAYER {
            body.shift_remove(name);
        }
        if !body.get(FALLBACKS).is_some_and(is_of_gateway) {
            body.shift_remove(FALLBACKS);
        }
        let dropped = drop_native(&mut body, &policy)?;
        add_betas(&mut body, betas);
        charge.grow(json::text_len(&body))?;
        let mut prompt = Prompt::messages(RawObject::from(&body));
        let fallbacks = body.shift_remove(FALLBACKS);
        // It is made from the parts of the tree.
        charge.grow(body.values().map(weight).sum())?;
        let conversation = messages::read_request(body)?;
        let media = media_of(&conversation);
        // The input of a call may have the form of an image, and is text.
        prompt.image_bytes = Some(image_bytes(&conversation));
        let is_streamed = conversation.settings.stream;
        let has_calls = conversation.items.iter().any(|item| matches!(item, Item::ToolCall(_)));
        let chat = has_calls.then(|| as_chat(conversation, is_anthropic, fallbacks, charge));
        Ok(MessageRequest {
            prompt,
            chat: chat.transpose()?,
            model,
            is_streamed,
            options,
            stores,
            dropped,
            media,
        })
    });
    prepared.await
}

/// Returns a request as a chat completion request.
fn as_chat(
    conversation: Conversation,
    is_anthropic: bool,
    fallbacks: Option<Value>,
    charge: &RequestCharge,
) -> Result<ChatRequest, ApiError> {
    let is_streamed = conversation.settings.stream;
    let dialect =
        if is_anthropic { ChatDialect::WithAnthropicMembers } else { ChatDialect::OpenAi };
    let mut chat = chat::write_request(conversation, dialect)?;
    chat.extend(fallbacks.map(|fallbacks| (FALLBACKS.to_owned(), fallbacks)));
    charge.grow(json::text_len(&chat))?;
    let mut members = RawObject::from(&chat);
    if is_streamed {
        members.set("stream_options", r#"{"include_usage":true}"#);
    }
    Ok(ChatRequest { members, is_anthropic })
}

/// Removes notes of the gateway from the messages, and puts calls back that the caller did not see. The
/// request is then one of chat completions; one in which nothing has to be changed stays as it came.
pub(super) async fn restore(
    app: &App,
    sender: &Sender,
    request: &mut MessageRequest,
    charge: &RequestCharge,
) -> Result<(), ApiError> {
    let Some(ChatRequest { mut members, is_anthropic }) = request.chat.take() else {
        return Ok(());
    };
    let mut restored = members.clone();
    let tenant = sender.tenant();
    recall::chat::remove_notes(&tenant, &mut restored, charge.grower()).await?;
    app.parts.recall.restore_messages(&tenant, &mut restored, charge.grower()).await?;
    if restored.get("messages") == members.get("messages") {
        members.remove(FALLBACKS);
        let held = MemoryBudget::new(charge.clone()).charge();
        request.prompt.keep_chat(members, is_anthropic, held);
    } else {
        request.prompt = Prompt::new(restored);
    }
    Ok(())
}

/// Returns whether `fallbacks` are those of the gateway. Anthropic's, which replace a model that refuses,
/// are left out: they are the text `default`, or models without a provider.
fn is_of_gateway(fallbacks: &Value) -> bool {
    match fallbacks {
        Value::Null => false,
        Value::String(text) => text != "default",
        Value::Array(models) => {
            models.is_empty()
                || models.iter().any(|model| !model.is_object() || model.get("provider").is_some())
        }
        _ => true,
    }
}

/// Returns the names of beta features that the caller asks for.
fn betas(headers: &HeaderMap) -> Result<Vec<Value>, ApiError> {
    let names = respond::names(headers, BETAS)?.unwrap_or_default();
    let names = names.split(',').map(str::trim).filter(|name| !name.is_empty());
    Ok(names.map(Value::from).collect())
}

/// Adds the names of beta features of the header to those in the body.
fn add_betas(body: &mut Object, mut betas: Vec<Value>) {
    if betas.is_empty() {
        return;
    }
    if let Some(Value::Array(own)) = body.shift_remove("betas") {
        betas.extend(own);
    }
    body.insert("betas".to_owned(), betas.into());
}

/// Leaves out the tools that run at the provider, or whose definition is the provider's, and the blocks
/// about them. Returns their types. Fails if the operator refuses them, or if one of them has to be called.
/// No policy of the gateway decides about them.
fn drop_native(
    body: &mut Object,
    policy: &BuiltinTools,
) -> Result<BTreeSet<String>, Untranslatable> {
    let root = Path::Root;
    let mut dropped = BTreeSet::new();
    let mut names = BTreeSet::new();
    if let Some(Value::Array(tools)) = body.get_mut("tools") {
        let natives = drop_all(tools, &["", "custom"], &root.member("tools"), policy)?;
        for tool in natives {
            dropped.insert(dropped_type(kind(&tool)));
            names.extend(tool.get("name").and_then(Value::as_str).map(str::to_owned));
        }
    }
    let choice = body.get("tool_choice").and_then(|choice| choice.get("name")?.as_str());
    if let Some(name) = choice.filter(|name| names.contains(*name)) {
        let advice = "The tool is one of the provider, which this gateway leaves out.";
        let path = root.member("tool_choice");
        return Err(Untranslatable::unsupported_value(&path.member("name"), &name.into(), advice));
    }
    if let Some(Value::Array(messages)) = body.get_mut("messages") {
        let path = root.member("messages");
        let mut emptied = BTreeSet::new();
        for (index, message) in messages.iter_mut().enumerate() {
            let path = path.element(index);
            if message.get("role").is_some_and(|role| role == "assistant")
                && let Some(Value::Array(blocks)) = message.get_mut("content")
            {
                let natives = drop_all(blocks, &OF_MODEL, &path.member("content"), policy)?;
                dropped.extend(natives.iter().map(|block| dropped_type(kind(block))));
                if blocks.is_empty() && !natives.is_empty() {
                    emptied.insert(index);
                }
            }
        }
        // Anthropic's API refuses a message without content.
        let mut indices = 0..;
        messages.retain(|_| indices.next().is_none_or(|index| !emptied.contains(&index)));
    }
    Ok(dropped)
}

/// Takes the objects of other types than the `known` ones from a list. Fails if there is one and the operator
/// refuses it.
fn drop_all(
    list: &mut Vec<Value>,
    known: &[&str],
    path: &Path<'_>,
    policy: &BuiltinTools,
) -> Result<Vec<Value>, Untranslatable> {
    let natives = list.iter().position(|value| value.is_object() && !known.contains(&kind(value)));
    let Some(first) = natives else { return Ok(Vec::new()) };
    if *policy == BuiltinTools::Refuse {
        let advice =
            "Tools of the provider are refused by this gateway, and so are blocks about them.";
        let found = kind(&list[first]).into();
        let path = path.element(first);
        return Err(Untranslatable::unsupported_value(&path.member("type"), &found, advice));
    }
    Ok(list.extract_if(.., |value| value.is_object() && !known.contains(&kind(value))).collect())
}

fn kind(value: &Value) -> &str {
    value.get("type").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the size of all images and documents.
fn media_of(conversation: &Conversation) -> MediaSize {
    parts(conversation).fold(MediaSize::default(), MediaSize::with)
}

/// Returns the bytes of all images in Base64.
fn image_bytes(conversation: &Conversation) -> usize {
    let images = parts(conversation).filter_map(|part| match &part.content {
        Content::Image { media: Media::Base64 { data, .. }, .. } => Some(data.len()),
        _ => None,
    });
    images.sum()
}

fn parts(conversation: &Conversation) -> impl Iterator<Item = &Part> {
    conversation.items.iter().flat_map(|item| match item {
        Item::Message(message) => message.parts.as_slice(),
        Item::ToolResult(result) => result.parts.as_slice(),
        _ => &[],
    })
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
    use airlock_json::object;

    fn conversation(more: &Value) -> Conversation {
        let mut request = object(json!({"model": "m", "max_tokens": 9, "messages": []}));
        request.extend(more.as_object().expect("members").clone());
        messages::read_request(request).expect("a good request")
    }

    #[test]
    fn tools_of_the_provider_and_blocks_about_them_are_left_out_or_refused() {
        let mine = json!({"name": "mine", "input_schema": {"type": "object"}});
        let text = json!({"type": "text", "text": "a"});
        let mut request = object(json!({
            "tools": [{"type": "web_search_20250305", "name": "web_search"}, mine],
            "messages": [{"role": "assistant", "content": [
                text,
                {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            ]}, {"role": "assistant", "content": []}, {"role": "assistant", "content": [
                {"type": "server_tool_use", "id": "t", "name": "web_search", "input": {}},
            ]}],
        }));
        let mut left = request.clone();
        let dropped = drop_native(&mut left, &BuiltinTools::Drop).expect("they are left out");
        let expected = ["server_tool_use", "web_search_20250305", "web_search_tool_result"];
        assert_eq!(dropped, expected.map(str::to_owned).into());
        let messages =
            json!([{"role": "assistant", "content": [text]}, {"role": "assistant", "content": []}]);
        assert_eq!(Value::from(left), json!({"tools": [mine], "messages": messages}));

        let error = drop_native(&mut request.clone(), &BuiltinTools::Refuse);
        assert_eq!(error.expect_err("they are refused").param, "tools[0].type");
        let mut blocks = request.clone();
        blocks.shift_remove("tools");
        let error = drop_native(&mut blocks, &BuiltinTools::Refuse);
        assert_eq!(error.expect_err("they are refused").param, "messages[0].content[1].type");

        request.insert("tool_choice".to_owned(), json!({"type": "tool", "name": "web_search"}));
        let error = drop_native(&mut request, &BuiltinTools::Drop);
        assert_eq!(error.expect_err("it has to be called").param, "tool_choice.name");
    }

    #[test]
    fn names_of_beta_features_are_those_of_the_header_and_of_the_body() {
        for (own, header, expected) in [
            (json!({"betas": ["b"]}), vec!["a".into()], json!({"betas": ["a", "b"]})),
            (json!({}), vec!["a".into()], json!({"betas": ["a"]})),
            (json!({"betas": ["b"]}), Vec::new(), json!({"betas": ["b"]})),
            (json!({}), Vec::new(), json!({})),
        ] {
            let mut body = object(own);
            add_betas(&mut body, header);
            assert_eq!(Value::from(body), expected);
        }
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
        assert_eq!(image_bytes(&read), 200);
    }

    #[test]
    fn the_input_of_a_call_is_no_image() {
        let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
        let call =
            json!({"type": "tool_use", "id": "t", "name": "x", "input": {"content": [image]}});
        let result = json!({"type": "tool_result", "tool_use_id": "t", "content": "y"});
        let read = conversation(&json!({"messages": [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]}));
        assert_eq!(image_bytes(&read), 0);
    }
}
