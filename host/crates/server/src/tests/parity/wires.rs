//! Providers of every API that give the same answers.

use super::*;
use airlock_model::{self as model, Api, Apis, Kind, Service};
use airlock_test_http::model::{self as service, FakeService};

/// The API of a provider, and its form of an answer.
pub(super) struct ProviderWire {
    pub(super) name: &'static str,
    service: fn(&str) -> Service,
    /// Returns the answer that is not streamed.
    whole: fn(&Answer) -> Value,
    /// Returns the events of the streamed answer.
    events: fn(&Answer) -> Vec<Value>,
}

/// An answer of a model.
pub(super) struct Answer {
    text: &'static str,
    /// Identifiers and names of its calls.
    calls: &'static [(&'static str, &'static str)],
}

/// Conversations: the answers of the model, of which the last one has no results.
pub(super) const CONVERSATIONS: [&[Answer]; 5] = [
    &[DONE],
    &[Answer { text: "Now", calls: &[("a", "desk-echo"), ("b", "desk-fail")] }, DONE],
    &[
        Answer { text: "First", calls: &[("a", "desk-other")] },
        Answer { text: "Then", calls: &[("b", "desk-echo")] },
        DONE,
    ],
    &[Answer { text: "May I?", calls: &[("a", "desk-write")] }],
    &[Answer {
        text: "Now",
        calls: &[("a", "desk-echo"), ("b", "mine"), ("c", "desk-write"), ("d", "desk-fail")],
    }],
];
const DONE: Answer = Answer { text: "done", calls: &[] };

pub(super) const WIRES: [ProviderWire; 4] = [
    ProviderWire {
        name: "chat completions",
        service: |base_url| Service::new(Api::OpenAi, base_url),
        whole: chat_completion,
        events: chat_chunks,
    },
    ProviderWire {
        name: "Responses",
        service: |base_url| Service {
            apis: Apis::Responses,
            ..Service::new(Api::OpenAi, base_url)
        },
        whole: native_response,
        events: |answer| {
            let begin = json!({"type": "response.created", "response": {"id": "r", "model": "m"}});
            let end = json!({"type": "response.completed", "response": native_response(answer)});
            vec![begin, end]
        },
    },
    ProviderWire {
        name: "Messages",
        service: |base_url| Service::new(Api::Anthropic, base_url),
        whole: native_message,
        events: message_events,
    },
    ProviderWire {
        name: "generateContent",
        service: |base_url| Service::new(Api::Gemini, base_url),
        whole: content,
        events: |answer| vec![content(answer)],
    },
];

fn arguments(id: &str) -> Value {
    json!({"n": id})
}

fn chat_calls(answer: &Answer) -> Vec<Value> {
    let calls = answer.calls.iter().enumerate().map(|(index, (id, name))| {
        let function = json!({"name": name, "arguments": arguments(id).to_string()});
        json!({"index": index, "id": id, "type": "function", "function": function})
    });
    calls.collect()
}

fn chat_end(answer: &Answer) -> &'static str {
    if answer.calls.is_empty() { "stop" } else { "tool_calls" }
}

fn chat_usage() -> Value {
    json!({"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5})
}

fn chat_completion(answer: &Answer) -> Value {
    let mut message = json!({"role": "assistant", "content": answer.text});
    if !answer.calls.is_empty() {
        message["tool_calls"] = chat_calls(answer).into();
    }
    let choice = json!({"index": 0, "message": message, "finish_reason": chat_end(answer)});
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": chat_usage()})
}

fn chat_chunks(answer: &Answer) -> Vec<Value> {
    let mut deltas =
        vec![json!({"role": "assistant", "content": ""}), json!({"content": answer.text})];
    deltas.extend(chat_calls(answer).into_iter().map(|call| json!({"tool_calls": [call]})));
    let choices = deltas
        .into_iter()
        .map(|delta| json!([{"index": 0, "delta": delta, "finish_reason": null}]));
    let end = json!([{"index": 0, "delta": {}, "finish_reason": chat_end(answer)}]);
    let chunks = choices
        .chain([end])
        .map(|choices| json!({"id": "c", "created": 1, "model": "m", "choices": choices}));
    let usage =
        json!({"id": "c", "created": 1, "model": "m", "choices": [], "usage": chat_usage()});
    chunks.chain([usage]).collect()
}

fn native_response(answer: &Answer) -> Value {
    let text = json!({"type": "output_text", "text": answer.text, "annotations": []});
    let message = json!({"id": "msg", "type": "message", "role": "assistant", "status": "completed", "content": [text]});
    let calls = answer.calls.iter().map(|(id, name)| {
        json!({"id": format!("fc_{id}"), "type": "function_call", "status": "completed", "call_id": id, "name": name, "arguments": arguments(id).to_string()})
    });
    let output: Vec<Value> = [message].into_iter().chain(calls).collect();
    let usage = json!({"input_tokens": 2, "output_tokens": 3, "total_tokens": 5});
    json!({"id": "r", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": output, "usage": usage})
}

fn native_message(answer: &Answer) -> Value {
    let calls = answer.calls.iter();
    let calls = calls.map(
        |(id, name)| json!({"type": "tool_use", "id": id, "name": name, "input": arguments(id)}),
    );
    let content: Vec<Value> =
        [json!({"type": "text", "text": answer.text})].into_iter().chain(calls).collect();
    let reason = if answer.calls.is_empty() { "end_turn" } else { "tool_use" };
    json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "content": content, "stop_reason": reason, "usage": {"input_tokens": 2, "output_tokens": 3}})
}

fn message_events(answer: &Answer) -> Vec<Value> {
    let mut message = native_message(answer);
    let content = message["content"].take();
    let reason = message["stop_reason"].take();
    message["content"] = json!([]);
    let mut events = vec![json!({"type": "message_start", "message": message})];
    for (index, block) in content.as_array().into_iter().flatten().enumerate() {
        let mut start = block.clone();
        let delta = if block["type"] == "text" {
            start["text"] = "".into();
            json!({"type": "text_delta", "text": block["text"]})
        } else {
            start["input"] = json!({});
            json!({"type": "input_json_delta", "partial_json": block["input"].to_string()})
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 3}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn content(answer: &Answer) -> Value {
    let calls = answer.calls.iter();
    let calls = calls
        .map(|(id, name)| json!({"functionCall": {"id": id, "name": name, "args": arguments(id)}}));
    let parts: Vec<Value> = [json!({"text": answer.text})].into_iter().chain(calls).collect();
    let candidate =
        json!({"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"});
    let usage = json!({"promptTokenCount": 2, "candidatesTokenCount": 3, "totalTokenCount": 5});
    json!({"responseId": "g", "modelVersion": "m", "candidates": [candidate], "usageMetadata": usage})
}

impl ProviderWire {
    /// Starts a gateway whose provider gives the answers, streamed or whole.
    pub(super) async fn gateway(
        &self,
        answers: &[Answer],
        is_streamed: bool,
    ) -> (Gateway, FakeService) {
        let answers = answers.iter().map(|answer| {
            if !is_streamed {
                return service::json("200 OK", &(self.whole)(answer).to_string());
            }
            let events = (self.events)(answer).into_iter();
            let events: Vec<_> = events.map(|event| format!("data: {event}\n\n")).collect();
            service::events(&events.concat())
        });
        let fake = FakeService::start(answers.collect()).await;
        let kind = Kind::Service(Box::new((self.service)(&fake.base_url)));
        let provider = model::Settings { name: "demo".to_owned(), kind, fallbacks: Vec::new() };
        let models = Models::new(&[provider]).expect("a good provider");
        (Gateway::with_models(settings(), models, None).await, fake)
    }
}
