//! Scripted model: a file of turns, for demonstrations and tests. It needs no network, and its
//! responses depend on the request alone, except for generated ids and times.
//!
//! ```json
//! {"turns": [
//!   {"when": {"role": "user", "contains": "add", "offered": ["calc-add"]},
//!    "answer": {"tool_calls": [{"name": "calc-add", "arguments": {"a": 1, "b": 2}}]}},
//!   {"when": {"role": "tool", "tool_results": 1},
//!    "answer": {"content": "It is {{last_tool_result}}."}},
//!   {"answer": {"error": {"status": 429, "message": "slow down", "retry_after": 2}}}
//! ]}
//! ```
//!
//! The first turn whose `when` holds is used. All conditions of a `when` must hold; each is
//! optional:
//!
//! | condition | holds if |
//! |---|---|
//! | `role` | the last message has this role |
//! | `contains` | the text of the last message contains this text |
//! | `offered` | the request offers all these tools |
//! | `tool_results` | exactly this many tool messages follow the last user message |
//!
//! Members of an `answer`:
//!
//! | member | meaning |
//! |---|---|
//! | `content`, `reasoning` | texts of the response |
//! | `tool_calls` | calls: `name`, `arguments`, and `id`, which is generated unless given |
//! | `pace` | time before each chunk of a stream, such as `"20ms"` |
//! | `error` | `status` (400 to 599), `message`, and `retry_after` in seconds, in the place of a response |
//! | `error.after` | number of chunks of a stream before the error; a response that is not streamed is the error alone |
//!
//! A streamed response has one chunk for each word of its texts and for each 16 bytes of arguments.
//! The `arguments` of a call are any JSON; a string is sent as it is, without JSON encoding. In
//! `content` and in every string of `arguments`, `{{last_tool_result}}` and `{{last_user_message}}`
//! are replaced by those texts. A script keeps no state between requests, because the conversation
//! contains all that it needs, so any number of conversations can run at once.

mod stream;

use std::{
    collections::BTreeSet,
    io::{self, Read as _},
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures_util::{
    FutureExt as _,
    future::{self, BoxFuture},
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use self::stream::{ScriptReader, ScriptedChunks};
use super::{
    BadProvider, BadScript, Document, ModelError, Prompt, Refusal, Response, Terms,
    backend::{Backend, ModelFuture},
    listing,
    prompt::TargetApi,
    translation,
};
use airlock_conversation::Object;
use airlock_core::{regular_file, units::Span};
use airlock_json::{self as json, Caps, object};

const LAST_TOOL_RESULT: &str = "{{last_tool_result}}";
const LAST_USER_MESSAGE: &str = "{{last_user_message}}";
/// Name of a script's only model, for lists. A request may use any name.
const MODEL: &str = "script";
/// Maximum size of a script, in bytes. The file is read into memory, and the operator may name a wrong one; scripts
/// are written by hand.
const MAX_SCRIPT_BYTES: u64 = 16 << 20;
/// Maximum memory of a conversation as a tree, in bytes.
const CAPS: Caps = Caps::memory(256 << 20);
/// Length of a conversation, in bytes, up to which its tree is not charged.
const FREE_BYTES: usize = 64 << 10;
/// Maximum number of choices (`n`) of one response. The caller chooses it, and each repeats the text of the turn.
const MAX_CHOICES: u64 = 8;

/// A loaded script.
#[derive(Debug)]
pub(super) struct ScriptedModel {
    provider: String,
    turns: Vec<ScriptedTurn>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptFile {
    turns: Vec<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedTurn {
    #[serde(default)]
    when: Condition,
    answer: TurnAnswer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    role: Option<ScriptedRole>,
    contains: Option<String>,
    #[serde(default)]
    offered: Vec<String>,
    tool_results: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScriptedRole {
    System,
    Developer,
    User,
    Assistant,
    Tool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnAnswer {
    content: Option<String>,
    reasoning: Option<String>,
    tool_calls: Option<Vec<ScriptedCall>>,
    error: Option<ScriptedError>,
    pace: Option<Span>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedCall {
    id: Option<String>,
    name: String,
    #[serde(default)]
    arguments: Value,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedError {
    status: u16,
    message: String,
    retry_after: Option<u32>,
    after: Option<usize>,
}

impl ScriptedModel {
    pub(super) fn load(provider: &str, path: &Path) -> Result<Self, BadProvider> {
        let turns = load(path)
            .map_err(|cause| BadProvider::Script { provider: provider.to_owned(), cause })?;
        Ok(Self { provider: provider.to_owned(), turns })
    }

    /// Returns the response of the first turn that matches. Memory for the tree of the conversation
    /// is held while it is read. Fails if no turn matches, or with the error of the turn.
    fn reply(
        &self,
        prompt: &Prompt,
        text: &[u8],
        terms: Terms<'_>,
    ) -> Result<Response<'static>, ModelError> {
        let Terms { is_streamed, held, .. } = terms;
        let own = held.beside();
        let checked = json::check(text, &CAPS).map_err(|error| self.bad_request(&error))?;
        let tree_bytes = checked.tree_bytes;
        if text.len() > FREE_BYTES && !own.grow(tree_bytes.saturating_add(text.len())) {
            return Err(ModelError::NoMemory { provider: self.provider.clone() });
        }
        let request: Object =
            serde_json::from_slice(text).map_err(|error| self.bad_request(&error))?;
        let offered = prompt.own_names();
        let offered = offered.chain(prompt.tools.iter().map(|tool| tool.name.as_str().to_owned()));
        let seen = ConversationState::new(&request, offered.collect());
        let turn = self.turns.iter().find(|turn| turn.when.holds(&seen));
        let answer = &turn
            .ok_or_else(|| ModelError::NoTurn {
                provider: self.provider.clone(),
                conversation: seen.describe(),
            })?
            .answer;
        let failure = answer.error.as_ref().map(|failure| failure.to_error(&self.provider));
        let begins = is_streamed && answer.begins();
        let is_refused = failure.as_ref().is_some_and(ModelError::is_before_work) && !begins;
        if let Some(work) = terms.work.filter(|_| !is_refused) {
            work.begin();
        }
        match failure {
            Some(error) if !begins => Err(error),
            failure if is_streamed => {
                let after = answer.error.as_ref().and_then(|error| error.after).unwrap_or_default();
                let completion = answer.to_completion(&request, &seen);
                let end = failure.map(|failure| (after, failure));
                let is_asked = prompt.includes_usage();
                let includes_usage = is_asked || terms.work.is_some();
                let hides_usage = includes_usage && !is_asked;
                let reader = ScriptReader::new(&self.provider, &terms, hides_usage);
                let pace = answer.pace.map(|pace| pace.0);
                let chunks = ScriptedChunks::new(&completion, includes_usage, pace, end, reader);
                Ok(Response::streamed(chunks))
            }
            _ => {
                let completion = Document::from(answer.to_completion(&request, &seen));
                ScriptReader::new(&self.provider, &terms, false)
                    .whole(completion, &terms)
                    .map(Response::Whole)
            }
        }
    }

    fn bad_request(&self, cause: &dyn std::error::Error) -> ModelError {
        ModelError::BadRequest { provider: self.provider.clone(), reason: cause.to_string() }
    }
}

impl Backend for ScriptedModel {
    fn respond<'a: 't, 't>(
        &'a self,
        prompt: &'t Prompt,
        terms: Terms<'t>,
    ) -> ModelFuture<'t, Response<'a>> {
        Box::pin(async move {
            let text =
                translation::chat_text(prompt, TargetApi::Chat, Vec::new(), terms.held).await;
            let text = text.map_err(|error| error.into_error_of(&self.provider))?;
            self.reply(prompt, &text, terms)
        })
    }

    fn list(&self) -> BoxFuture<'_, Arc<str>> {
        let model = json!({"id": MODEL, "object": "model", "created": 0, "owned_by": "airlock"});
        let text = listing::to_text(&self.provider, vec![object(model)]);
        future::ready(text.into()).boxed()
    }
}

fn load(path: &Path) -> Result<Vec<ScriptedTurn>, BadScript> {
    let text = read(path).map_err(|cause| BadScript::Read { path: path.to_owned(), cause })?;
    let file: ScriptFile = serde_json::from_str(&text)
        .map_err(|cause| BadScript::Shape { path: path.to_owned(), cause })?;
    let parsed = file.turns.into_iter().enumerate().map(|(index, turn)| {
        ScriptedTurn::parse(turn).map_err(|problem| BadScript::Turn {
            path: path.to_owned(),
            turn: index + 1,
            problem,
        })
    });
    parsed.collect()
}

/// Reads a script. Fails if it is not a regular file, or is larger than [`MAX_SCRIPT_BYTES`].
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    regular_file::open(path)?.take(MAX_SCRIPT_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_SCRIPT_BYTES {
        return Err(io::Error::other("it is larger than 16 MiB"));
    }
    Ok(text)
}

impl ScriptedTurn {
    fn parse(value: Value) -> Result<Self, String> {
        let turn: Self =
            serde_path_to_error::deserialize(value).map_err(|error| error.to_string())?;
        let answer = &turn.answer;
        let has_text =
            answer.content.is_some() || answer.reasoning.is_some() || answer.tool_calls.is_some();
        match (&answer.error, has_text) {
            (None, false) => Err("answer: needs `content`, `tool_calls` or `error`".to_owned()),
            (Some(ScriptedError { after: None, .. }), true) => {
                Err("answer: `error` excludes `content` and `tool_calls`, unless it has `after`"
                    .to_owned())
            }
            (Some(ScriptedError { status, .. }), _) if !(400..600).contains(status) => {
                Err(format!("answer.error.status: found {status}, expected 400 to 599"))
            }
            _ => Ok(turn),
        }
    }
}

impl Condition {
    fn holds(&self, seen: &ConversationState) -> bool {
        self.role.is_none_or(|role| seen.role == Some(role))
            && self.contains.as_ref().is_none_or(|text| seen.last_text.contains(text.as_str()))
            && self.offered.iter().all(|name| seen.offered.contains(name))
            && self.tool_results.is_none_or(|count| seen.tool_results == count)
    }
}

/// The parts of a conversation that turns use.
struct ConversationState {
    role: Option<ScriptedRole>,
    last_text: String,
    last_user_message: String,
    last_tool_result: String,
    tool_results: usize,
    offered: BTreeSet<String>,
}

impl ConversationState {
    fn new(request: &Object, offered: BTreeSet<String>) -> Self {
        let messages =
            request.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut seen = Self {
            role: messages.last().and_then(role_of),
            last_text: messages.last().map(text_of).unwrap_or_default(),
            last_user_message: String::new(),
            last_tool_result: String::new(),
            tool_results: 0,
            offered,
        };
        for message in messages {
            match role_of(message) {
                Some(ScriptedRole::User) => {
                    seen.last_user_message = text_of(message);
                    seen.tool_results = 0;
                }
                Some(ScriptedRole::Tool) => {
                    seen.last_tool_result = text_of(message);
                    seen.tool_results += 1;
                }
                _ => {}
            }
        }
        seen
    }

    fn fill_in(&self, text: &str) -> String {
        // Read in one pass, so that a placeholder in a tool's result is not replaced.
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("{{") {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            let (stands_for, length) = if rest.starts_with(LAST_TOOL_RESULT) {
                (self.last_tool_result.as_str(), LAST_TOOL_RESULT.len())
            } else if rest.starts_with(LAST_USER_MESSAGE) {
                (self.last_user_message.as_str(), LAST_USER_MESSAGE.len())
            } else {
                ("{{", 2)
            };
            out.push_str(stands_for);
            rest = &rest[length..];
        }
        out + rest
    }

    fn fill_in_all(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.fill_in(text).into(),
            Value::Array(items) => items.iter().map(|item| self.fill_in_all(item)).collect(),
            Value::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), self.fill_in_all(value))).collect()
            }
            other => other.clone(),
        }
    }

    fn describe(&self) -> String {
        let role = self.role.map_or("nobody".to_owned(), |role| format!("{role:?}").to_lowercase());
        let text = airlock_strings::cut(self.last_text.clone(), 80);
        let results = self.tool_results;
        let offered = self.offered.len();
        format!(
            "a conversation whose last message is {text:?} by {role}, with {results} tool results and {offered} tools offered"
        )
    }
}

fn role_of(message: &Value) -> Option<ScriptedRole> {
    ScriptedRole::deserialize(message.get("role")?).ok()
}

/// Returns the text of a message, whether it is a string or a list of parts.
fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

impl TurnAnswer {
    /// Returns whether a streamed response has chunks before its error.
    fn begins(&self) -> bool {
        self.error.as_ref().is_none_or(|error| error.after.is_some_and(|after| after > 0))
    }

    fn to_completion(&self, request: &Object, seen: &ConversationState) -> Object {
        let content = self.content.as_ref().map(|text| seen.fill_in(text));
        let mut message = json!({"role": "assistant", "content": content, "refusal": null});
        if let Some(reasoning) = &self.reasoning {
            message["reasoning_content"] = reasoning.as_str().into();
        }
        let choices = request.get("n").and_then(Value::as_u64).unwrap_or(1).clamp(1, MAX_CHOICES);
        let calls: Vec<Value> =
            self.tool_calls.iter().flatten().map(|call| call.to_json(seen)).collect();
        let finish_reason = if calls.is_empty() { "stop" } else { "tool_calls" };
        if !calls.is_empty() {
            message["tool_calls"] = calls.into();
        }
        let usage = usage(request, &message);
        let choices = (0..choices).map(|index| json!({"index": index, "message": message, "logprobs": null, "finish_reason": finish_reason}));
        let choices: Vec<Value> = choices.collect();
        object(json!({
            "id": format!("chatcmpl-{}", Uuid::new_v4().simple()),
            "object": "chat.completion",
            "created": SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            "model": request.get("model").unwrap_or(&MODEL.into()),
            "choices": choices,
            "usage": usage,
        }))
    }
}

impl ScriptedCall {
    fn to_json(&self, seen: &ConversationState) -> Value {
        let id = self.id.clone().unwrap_or_else(|| format!("call_{}", Uuid::new_v4().simple()));
        let arguments = match seen.fill_in_all(&self.arguments) {
            Value::String(text) => text,
            Value::Null => "{}".to_owned(),
            other => other.to_string(),
        };
        json!({"id": id, "type": "function", "function": {"name": self.name, "arguments": arguments}})
    }
}

impl ScriptedError {
    fn to_error(&self, provider: &str) -> ModelError {
        let status = StatusCode::from_u16(self.status)
            .expect("ScriptedTurn::parse() let only 400 to 599 through");
        let kind = if status.is_server_error() { "server_error" } else { "invalid_request_error" };
        let refusal = Refusal {
            status,
            error: object(
                json!({"message": self.message, "type": kind, "param": null, "code": "scripted"}),
            ),
            retry_after: self.retry_after.map(|seconds| Duration::from_secs(seconds.into())),
        };
        ModelError::Refused { provider: provider.to_owned(), refusal: Box::new(refusal) }
    }
}

/// Returns rough token counts: four bytes per token.
fn usage(request: &Object, message: &Value) -> Value {
    let prompt = request.get("messages").map_or(0, |messages| messages.to_string().len());
    let prompt = prompt.div_ceil(4);
    let completion = message.to_string().len().div_ceil(4);
    json!({"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion})
}

#[cfg(test)]
mod tests;
