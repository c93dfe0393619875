//! Chats with a model that calls the tools of the gateway, whole and streamed.

use std::{
    collections::VecDeque,
    pin::Pin,
    task::{Context, Poll, ready},
};

use futures_util::{Stream, StreamExt};
use serde_json::json;

use super::{ChatFailure, GatewayRequest, Operation, RequestError};
use airlock_agent::{CallEnded, CallStarted, Event, RespondingProvider, Run, recall};
use airlock_conversation::{
    Conversation, Delta, Item, Message, Object, Part, Reply, Wire,
    chat::{self, ChatDialect},
};
use airlock_core::{
    door::{Progress, at_call_depth, poll_at_call_depth},
    tool::{self, QuestionKinds},
};
use airlock_json::RawObject;
use airlock_model::Prompt;
use airlock_requests::{PreparedChat, ToolOptions};

/// A whole reply of a model, after the calls that the gateway has made for it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ChatReply {
    /// The reply. Its calls are those that the gateway has not made: of the program's own tools in the
    /// conversation, and those that need an approval.
    pub reply: Reply,
    /// Name of the provider that has responded.
    pub provider: Option<String>,
    /// Description of the calls, as the `airlock` object of a response has it; `None` if there were none.
    pub airlock: Option<Object>,
}

/// Event of a streamed chat.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ChatEvent {
    /// A piece of the reply. Those of all rounds together are one reply.
    Delta(Delta),
    /// A call of a tool of the gateway begins, or is refused.
    CallStarted(CallStarted),
    /// Progress of a call.
    Progress {
        /// Identifier of the call in the conversation.
        tool_call_id: String,
        /// The progress.
        progress: Progress,
    },
    /// Content that a call sent before its result.
    Partial {
        /// Identifier of the call in the conversation.
        tool_call_id: String,
        /// The content.
        part: Box<tool::Content>,
    },
    /// A call has ended.
    CallEnded(CallEnded),
    /// The results of a round of calls are sent to the model, which responds again.
    Round {
        /// Rounds of calls so far.
        rounds: u32,
    },
    /// The chat is complete. This is the last event.
    Done {
        /// Description of the calls, as [`ChatReply::airlock`].
        airlock: Option<Object>,
    },
}

/// The events of a streamed chat. The model and its calls run only while the next event is waited for; to drop
/// it cancels them.
pub struct ChatEvents {
    run: Run,
    /// Events that were not returned yet.
    ready: VecDeque<ChatEvent>,
    has_ended: bool,
    operation: Operation,
}

impl ChatReply {
    /// Returns the text of the first choice, without reasoning.
    pub fn text(&self) -> String {
        let items = self.reply.choices.values().next().into_iter().flat_map(|choice| &choice.items);
        let parts = items.flat_map(|item| match item {
            Item::Message(Message { parts, .. }) => &parts[..],
            _ => &[],
        });
        parts.filter_map(Part::as_text).collect()
    }
}

impl GatewayRequest {
    /// Sends a conversation to the model that it names, as `NAME/model`, makes the calls that the model asks for
    /// and returns its last reply. To go on, append the items of its choice and those of the next turn to the
    /// conversation. [`RequestBuilder::approval`](super::RequestBuilder::approval) chooses what becomes of calls that
    /// need an approval.
    ///
    /// Fails with [`RequestError::Chat`] if the model has no reply. Dropping the future cancels the chat.
    pub async fn chat(&self, conversation: Conversation) -> Result<ChatReply, RequestError> {
        let operation = self.begin()?;
        let run = operation.start(conversation, ReplyForm::Whole).await?;
        let answering = run.answering();
        let finished = at_call_depth(operation.request.depth, run.finish()).await;
        let completion = finished.map_err(ChatFailure::new)?;
        let reply = completion.answer.map(|answer| answer.reply).unwrap_or_default();
        Ok(ChatReply { reply, provider: provider_of(&answering), airlock: completion.airlock })
    }

    /// Begins a chat as [`Self::chat`] does, and returns its events as they happen. Fails if the chat fails before
    /// the first of them.
    pub async fn chat_stream(
        &self,
        conversation: Conversation,
    ) -> Result<ChatEvents, RequestError> {
        let operation = self.begin()?;
        let mut run = operation.start(conversation, ReplyForm::Streamed).await?;
        let begun = at_call_depth(operation.request.depth, run.begin()).await;
        begun.map_err(ChatFailure::new)?;
        Ok(ChatEvents { run, ready: VecDeque::new(), has_ended: false, operation })
    }
}

/// Form of a chat.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplyForm {
    /// The reply alone.
    Whole,
    /// Events.
    Streamed,
}

impl Operation {
    /// Starts the loop for a conversation.
    async fn start(
        &self,
        mut conversation: Conversation,
        form: ReplyForm,
    ) -> Result<Run, RequestError> {
        self.check_depth()?;
        let is_streamed = form == ReplyForm::Streamed;
        conversation.settings.stream = is_streamed;
        let mut body = written(conversation)?;
        let charge = self.charge(body.text_len())?;
        let tenant = self.tenant();
        recall::chat::remove_notes(&tenant, &mut body, charge.grower()).await?;
        self.parts.recall.restore_messages(&tenant, &mut body, charge.grower()).await?;
        self.parts.wait_for_sources(&self.sender).await;
        let most = self.parts.agent.timeout;
        let chat = PreparedChat {
            // Not chat completions: those may be passed on without being read.
            wire: Wire::Messages,
            may_store: body.get("store") != Some("false"),
            prompt: Prompt::new(body),
            is_streamed,
            wants_events: is_streamed,
            questions: QuestionKinds::NONE,
            notes: Object::new(),
            tools: ToolOptions::default(),
            timeout: self.timeout.map_or(most, |limit| limit.min(most)),
            charge,
            observer: None,
        };
        Ok(self.parts.start_chat(&self.sender, chat))
    }
}

/// Writes a conversation as the body of a chat completion request.
fn written(conversation: Conversation) -> Result<RawObject, RequestError> {
    let is_streamed = conversation.settings.stream;
    let dialect = if conversation.wire == Wire::Messages {
        ChatDialect::WithAnthropicMembers
    } else {
        ChatDialect::OpenAi
    };
    let mut body = chat::write_request(conversation, dialect)?;
    if is_streamed {
        // Providers count the tokens of a stream only if they are asked to.
        body.entry("stream_options").or_insert_with(|| json!({"include_usage": true}));
    }
    Ok(RawObject::from(&body))
}

fn provider_of(answering: &RespondingProvider) -> Option<String> {
    answering.provider().map(str::to_owned)
}

impl ChatEvents {
    /// Returns the next event; `None` after the last one. After a failure there are no more. Dropping the future
    /// loses no event.
    pub async fn next(&mut self) -> Option<Result<ChatEvent, ChatFailure>> {
        StreamExt::next(self).await
    }

    /// Returns the name of the provider that responds; `None` if none has yet.
    pub fn provider(&self) -> Option<String> {
        provider_of(&self.run.answering())
    }

    /// Adds what the program receives for an event.
    fn add(&mut self, event: Event) -> Result<(), ChatFailure> {
        let event = match event {
            Event::Chunk(chunk) => {
                self.ready.extend(chunk.into_deltas().into_iter().map(ChatEvent::Delta));
                return Ok(());
            }
            Event::Started(started) => ChatEvent::CallStarted(*started),
            Event::Progress { tool_call_id, progress } => {
                ChatEvent::Progress { tool_call_id, progress }
            }
            Event::Partial { tool_call_id, part } => ChatEvent::Partial { tool_call_id, part },
            Event::Ended(ended) => ChatEvent::CallEnded(*ended),
            Event::Round { rounds } => ChatEvent::Round { rounds },
            Event::Done(completion) => {
                self.has_ended = true;
                ChatEvent::Done { airlock: completion.airlock }
            }
            Event::Failed(error) => {
                self.has_ended = true;
                return Err(ChatFailure::new(error));
            }
        };
        self.ready.push_back(event);
        Ok(())
    }
}

impl Stream for ChatEvents {
    type Item = Result<ChatEvent, ChatFailure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if self.has_ended {
                return Poll::Ready(None);
            }
            let depth = self.operation.request.depth;
            let polled = poll_at_call_depth(depth, || self.run.poll_next_unpin(context));
            let Some(event) = ready!(polled) else {
                return Poll::Ready(None);
            };
            if let Err(failure) = self.add(event) {
                return Poll::Ready(Some(Err(failure)));
            }
        }
    }
}

airlock_strings::debug_fields!(ChatEvents { has_ended });
