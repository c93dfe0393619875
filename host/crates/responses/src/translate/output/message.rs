//! Message items.

use serde_json::{Value, json};

use super::{
    events::ResponseEvents,
    item::{ItemSlot, ItemStatus, Items},
};
use airlock_conversation::{Object, Wire};
use airlock_json::object;

/// Kind of a content part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartKind {
    Text,
    Refusal,
}

/// A message that is being written.
#[derive(Debug)]
pub(super) struct MessageItem {
    slot: ItemSlot,
    /// Parts that are done.
    parts: Vec<Value>,
    part: Option<OpenPart>,
}

/// A content part that is being written.
#[derive(Debug)]
struct OpenPart {
    kind: PartKind,
    text: String,
    annotations: Vec<Value>,
    logprobs: Vec<Value>,
}

impl MessageItem {
    pub(super) fn open(items: &mut Items, events: &mut ResponseEvents<'_>) -> Self {
        let slot = items.open("msg", members("in_progress", Vec::new()), events);
        Self { slot, parts: Vec::new(), part: None }
    }

    /// Returns whether a part of this kind can continue without the end of another one.
    pub(super) fn continues(&self, kind: PartKind) -> bool {
        self.part.as_ref().is_none_or(|part| part.kind == kind)
    }

    /// Appends text to the open part. A part of the other kind is done first.
    pub(super) fn add(
        &mut self,
        kind: PartKind,
        text: &str,
        logprobs: &[Value],
        events: &mut ResponseEvents<'_>,
    ) {
        self.open_part(kind, events);
        let Some(part) = &mut self.part else { return };
        part.text.push_str(text);
        part.logprobs.extend_from_slice(logprobs);
        let index = ("content_index", self.parts.len().into());
        let delta = ("delta", text.into());
        match kind {
            PartKind::Text => events.write_item(
                "response.output_text.delta",
                &self.slot,
                [index, delta, ("logprobs", logprobs.into())],
            ),
            PartKind::Refusal => {
                events.write_item("response.refusal.delta", &self.slot, [index, delta]);
            }
        }
    }

    /// Adds an annotation to the text.
    pub(super) fn annotate(&mut self, annotation: Object, events: &mut ResponseEvents<'_>) {
        self.open_part(PartKind::Text, events);
        let Some(part) = &mut self.part else { return };
        events.write_item(
            "response.output_text.annotation.added",
            &self.slot,
            [
                ("content_index", self.parts.len().into()),
                ("annotation_index", part.annotations.len().into()),
                ("annotation", annotation.clone().into()),
            ],
        );
        part.annotations.push(annotation.into());
    }

    /// Ends the message.
    pub(super) fn close(
        self,
        status: ItemStatus,
        items: &mut Items,
        events: &mut ResponseEvents<'_>,
    ) {
        self.close_with(status, &Object::new(), items, events);
    }

    /// Ends a message whose provider has the Responses API. Members that this one does not have,
    /// such as `phase`, are those of `item`.
    pub(super) fn close_with(
        mut self,
        status: ItemStatus,
        item: &Object,
        items: &mut Items,
        events: &mut ResponseEvents<'_>,
    ) {
        self.close_part(events);
        let mut members = members(status.as_str(), self.parts);
        let rest = item.iter().filter(|(name, _)| *name != "id" && !members.contains_key(*name));
        let rest: Vec<_> = rest.map(|(name, value)| (name.clone(), value.clone())).collect();
        members.extend(rest);
        items.close(&self.slot, members, events);
    }

    fn open_part(&mut self, kind: PartKind, events: &mut ResponseEvents<'_>) {
        if self.part.as_ref().is_some_and(|part| part.kind == kind) {
            return;
        }
        self.close_part(events);
        let part =
            OpenPart { kind, text: String::new(), annotations: Vec::new(), logprobs: Vec::new() };
        events.write_item(
            "response.content_part.added",
            &self.slot,
            [("content_index", self.parts.len().into()), ("part", part.to_json())],
        );
        self.part = Some(part);
    }

    fn close_part(&mut self, events: &mut ResponseEvents<'_>) {
        let Some(part) = self.part.take() else { return };
        let index = ("content_index", Value::from(self.parts.len()));
        match part.kind {
            PartKind::Text => events.write_item(
                "response.output_text.done",
                &self.slot,
                [
                    index.clone(),
                    ("text", part.text.clone().into()),
                    ("logprobs", part.logprobs.clone().into()),
                ],
            ),
            PartKind::Refusal => events.write_item(
                "response.refusal.done",
                &self.slot,
                [index.clone(), ("refusal", part.text.clone().into())],
            ),
        }
        let part = part.to_json();
        events.write_item(
            "response.content_part.done",
            &self.slot,
            [index, ("part", part.clone())],
        );
        self.parts.push(part);
    }
}

impl OpenPart {
    fn to_json(&self) -> Value {
        match self.kind {
            PartKind::Text => json!({
                "type": "output_text",
                "text": self.text,
                "annotations": self.annotations,
                "logprobs": self.logprobs,
            }),
            PartKind::Refusal => json!({"type": "refusal", "refusal": self.text}),
        }
    }
}

fn members(status: &str, content: Vec<Value>) -> Object {
    let mut members = object(json!({"type": "message", "status": status, "role": "assistant"}));
    members.insert("content".to_owned(), content.into());
    members
}

/// Returns the annotation of a source. Chat completions keep the members of an annotation in an object that
/// is named after its type. `None` for a source without a type, and for one of another API.
pub(super) fn annotation(wire: Wire, mut source: Object) -> Option<Object> {
    let kind = source.get("type")?.as_str()?.to_owned();
    match wire {
        Wire::Responses => return Some(source),
        Wire::Chat => {}
        _ => return None,
    }
    let nested = match source.get_mut(&kind).map(Value::take) {
        Some(Value::Object(nested)) => nested,
        _ => source,
    };
    let mut flat = object(json!({"type": kind}));
    flat.extend(nested.into_iter().filter(|(name, value)| name != "type" && !value.is_null()));
    Some(flat)
}

/// Returns the log probabilities of a choice's text. In a Response `bytes` and `top_logprobs` are
/// always lists. Entries without a token or a probability are left out.
pub(super) fn logprobs(logprobs: &Value) -> Vec<Value> {
    let tokens = logprobs.get("content").and_then(Value::as_array);
    tokens
        .into_iter()
        .flatten()
        .filter_map(|token| {
            let mut entry = logprob(token)?;
            let top = token.get("top_logprobs").and_then(Value::as_array).into_iter().flatten();
            let top: Vec<Value> = top.filter_map(logprob).map(Value::Object).collect();
            entry.insert("top_logprobs".to_owned(), top.into());
            Some(entry.into())
        })
        .collect()
}

fn logprob(token: &Value) -> Option<Object> {
    let text = token.get("token").filter(|text| text.is_string())?;
    let logprob = token.get("logprob").filter(|logprob| logprob.is_number())?;
    let bytes = token.get("bytes").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    Some(object(json!({"token": text, "bytes": bytes, "logprob": logprob})))
}
