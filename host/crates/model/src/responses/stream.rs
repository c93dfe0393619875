//! Steps of a Response → chunks of a chat completion.
//!
//! Beside OpenAI's members, a delta can have members that other gateways have too:
//! `reasoning_content`, the readable reasoning or its summary; and `reasoning_details`, in
//! `OpenRouter`'s form, with the encrypted reasoning, which the next request must contain if tools
//! were called.

use serde_json::{Value, json};

use super::{
    event::{ResponseHead, ResponseReader, ResponseStep},
    messages::{ENCRYPTED, FORMAT, SUMMARY},
};
use crate::{
    Object, Part, object,
    translation::{ResponseError, object_of},
};

/// Text between two parts of reasoning.
const SEPARATOR: &str = "\n\n";

/// A chunk, with its native form.
pub(super) type Chunk = (Object, Option<Part>);

/// Translation of one Response.
#[derive(Debug)]
pub(super) struct ResponseTranslation {
    reader: ResponseReader,
    includes_usage: bool,
    head: ResponseHead,
    /// Tier that was used, once it is known.
    service_tier: Option<String>,
    /// Reasoning details so far.
    details: usize,
}

impl ResponseTranslation {
    /// `includes_usage` adds a last chunk without choices.
    pub(super) fn new(includes_usage: bool) -> Self {
        Self {
            reader: ResponseReader::default(),
            includes_usage,
            head: ResponseHead::default(),
            service_tier: None,
            details: 0,
        }
    }

    /// Returns whether the Response is complete. A stream that ends earlier was cut.
    pub(super) fn has_ended(&self) -> bool {
        self.reader.has_ended()
    }

    /// Returns the chunks for the data of one event. Fails if it reports an error, or cannot follow
    /// the events before it.
    pub(super) fn event(&mut self, data: &Object) -> Result<Vec<Chunk>, ResponseError> {
        let steps = self.reader.event(data)?;
        Ok(steps.into_iter().flat_map(|step| self.step(step)).collect())
    }

    /// Returns the chunks for a Response that was not streamed.
    pub(super) fn whole(&mut self, response: &Object) -> Result<Vec<Chunk>, ResponseError> {
        let steps = self.reader.whole(response)?;
        Ok(steps.into_iter().flat_map(|step| self.step(step)).collect())
    }

    fn step(&mut self, step: ResponseStep) -> Vec<Chunk> {
        let (delta, part) = match step {
            ResponseStep::Begin(head) => {
                self.head = head;
                (object_of([("role", "assistant".into()), ("content", "".into())]), None)
            }
            ResponseStep::Text { text, logprobs } => {
                let logprobs = (!logprobs.is_empty())
                    .then(|| object_of([("content", logprobs.into())]).into());
                let delta = object_of([("content", text.into())]);
                return vec![(self.chunk(delta, logprobs, None), None)];
            }
            ResponseStep::Refusal(text) => (object_of([("refusal", text.into())]), None),
            ResponseStep::Joint => {
                (object_of([("reasoning_content", SEPARATOR.into())]), Some(Part::Joint))
            }
            ResponseStep::Reasoning { item_id, summary, text } => (
                object_of([("reasoning_content", text.clone().into())]),
                Some(Part::Reasoning { item_id, summary, text }),
            ),
            ResponseStep::Annotation(annotation) => {
                (object_of([("annotations", vec![Value::Object(annotation)].into())]), None)
            }
            ResponseStep::Call { index, tool, id, name } => {
                let body = json!({"name": name, tool.input(): ""});
                let call =
                    json!({"index": index, "id": id, "type": tool.body(), tool.body(): body});
                (object_of([("tool_calls", vec![call].into())]), None)
            }
            ResponseStep::Input { index, tool, text } => {
                let body = object_of([(tool.input(), text.into())]);
                let call = object_of([("index", index.into()), (tool.body(), body.into())]);
                (object_of([("tool_calls", vec![Value::Object(call)].into())]), None)
            }
            ResponseStep::Item { index, item } => {
                (self.state(&item), Some(Part::Item { index, item }))
            }
            ResponseStep::End { finish_reason, service_tier, usage } => {
                self.service_tier = service_tier;
                return self.end(finish_reason, usage);
            }
        };
        vec![(self.chunk(delta, None, None), part)]
    }

    fn end(&self, finish_reason: &str, usage: Option<Object>) -> Vec<Chunk> {
        let mut chunks = vec![(self.chunk(Object::new(), None, Some(finish_reason)), None)];
        if self.includes_usage {
            chunks.push((self.frame(Vec::new(), usage.into()), None));
        }
        chunks
    }

    /// Returns the delta with the reasoning of an item that the next request must contain; an empty
    /// one if there is none.
    fn state(&mut self, item: &Object) -> Object {
        let Some(data @ Value::String(_)) = item.get("encrypted_content") else {
            return Object::new();
        };
        if item.get("type").is_none_or(|kind| kind != "reasoning") {
            return Object::new();
        }
        let parts = item.get("summary").and_then(Value::as_array).into_iter().flatten();
        let mut details: Vec<Object> = parts
            .filter_map(|part| part.get("text").and_then(Value::as_str))
            .map(|text| object(json!({"type": SUMMARY, "summary": text})))
            .collect();
        details.push(object(json!({"type": ENCRYPTED, "data": data})));
        // Checked to be short when the item was added; any other value would be copied as it is.
        let id = item.get("id").and_then(Value::as_str);
        let listed = details.into_iter().map(|mut detail| {
            detail.insert("id".to_owned(), id.into());
            detail.insert("format".to_owned(), FORMAT.into());
            detail.insert("index".to_owned(), self.details.into());
            self.details += 1;
            Value::Object(detail)
        });
        let listed: Vec<Value> = listed.collect();
        object_of([("reasoning_details", listed.into())])
    }

    fn chunk(&self, delta: Object, logprobs: Option<Value>, finish_reason: Option<&str>) -> Object {
        let choice = object_of([
            ("index", 0.into()),
            ("delta", delta.into()),
            ("logprobs", logprobs.unwrap_or_default()),
            ("finish_reason", finish_reason.into()),
        ]);
        self.frame(vec![choice.into()], Value::Null)
    }

    fn frame(&self, choices: Vec<Value>, usage: Value) -> Object {
        let mut chunk = object_of([
            ("id", self.head.id.as_str().into()),
            ("object", "chat.completion.chunk".into()),
            ("created", self.head.created.into()),
            ("model", self.head.model.as_str().into()),
            ("choices", choices.into()),
        ]);
        if let Some(tier) = &self.service_tier {
            chunk.insert("service_tier".to_owned(), tier.as_str().into());
        }
        // OpenAI's reference: with `include_usage`, all other chunks have a usage of null.
        if self.includes_usage {
            chunk.insert("usage".to_owned(), usage);
        }
        chunk
    }
}

#[cfg(test)]
mod tests;
