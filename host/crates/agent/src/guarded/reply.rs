//! The texts of a response of a model. Guards see each text whole, however it was streamed, or in `windows`.
//!
//! The form in which a chat completion came is dropped: it has more than guards see, such as the first of two members of
//! one name, the role, and padding.

mod windows;

use std::collections::{HashMap, hash_map::Entry};

use serde_json::Value;

pub(crate) use self::windows::ReplyWindows;
use super::{
    ModelReview,
    texts::{
        ASSISTANT, CALL, REASONING, TextCollector, TextCounter, TextVisitor, TextWriter,
        visit_object, visit_reasoning, visit_value,
    },
};
use crate::{Failure, allowance::Allowance, controlled::ControlledRequest};
use airlock_conversation::{Delta, Wire, chat};
use airlock_core::{memory::Charge, threads};
use airlock_model::{Chunks, ReplyChunk, Response};

/// Member with the log probabilities of the parts of a text, which repeat it.
const LOGPROBS: &str = "logprobs";

/// A response as guards leave it.
pub(crate) struct ReviewedReply<'r> {
    pub(crate) response: Response<'r>,
    /// The decisions about a stream that are made while it arrives; `None` if the response is decided.
    pub(crate) windows: Option<Box<ReplyWindows<'r>>>,
}

impl<'r> From<Response<'r>> for ReviewedReply<'r> {
    fn from(response: Response<'r>) -> Self {
        Self { response, windows: None }
    }
}

impl ModelReview<'_> {
    /// Decides about a response, which is received to its end before, or has a stream decided in windows if all guards
    /// that look at it permit this. Fails if a guard withholds it or fails, if the provider fails, at the deadline, or if
    /// there is no memory.
    pub(crate) async fn receive<'r>(
        &'r self,
        response: Response<'r>,
        allowance: &'r Allowance,
        controlled: Option<&'r mut ControlledRequest>,
    ) -> Result<ReviewedReply<'r>, Failure> {
        let chunks = match response {
            Response::Whole(whole) => return Ok(self.whole(whole, allowance).await?.into()),
            Response::Chunks(chunks) => chunks,
        };
        let Some(window) = self.window() else {
            return Ok(self.kept(chunks, allowance, controlled).await?.into());
        };
        let windows = Some(Box::new(ReplyWindows::new(self, window, allowance, controlled)));
        Ok(ReviewedReply { response: Response::Chunks(chunks), windows })
    }

    /// Returns the window of a stream; `None` if it is kept whole, as it is with placeholders: one can be divided.
    fn window(&self) -> Option<usize> {
        let guards = self.guards.filter(|_| self.exchange.placeholders.is_empty())?;
        guards.stream_window(&self.exchange.membership)
    }

    /// Receives a stream to its end, and decides about it. The pieces of a long one are joined on a blocking thread.
    async fn kept(
        &self,
        mut chunks: Chunks<'_>,
        allowance: &Allowance,
        mut controlled: Option<&mut ControlledRequest>,
    ) -> Result<Response<'static>, Failure> {
        let mut kept = Vec::new();
        let mut kept_bytes = 0_usize;
        while let Some(mut chunk) = allowance.within(chunks.next()).await?? {
            if let Some(controlled) = &mut controlled {
                controlled.receives(&chunk);
            }
            // A timer does not fire while the stream is always ready.
            if allowance.is_over() {
                return Err(allowance.timeout());
            }
            let bytes = chunk.bytes();
            if !chunk.keep(&allowance.held) || !allowance.held.grow(bytes) {
                return Err(Failure::NoMemory);
            }
            kept_bytes = kept_bytes.saturating_add(bytes);
            kept.push(chunk);
        }
        let joining = threads::read(&self.exchange.tenant, kept_bytes, move || {
            let deltas = kept.iter().flat_map(ReplyChunk::deltas).cloned().collect();
            (joined(deltas), kept)
        });
        let (mut deltas, mut kept) = allowance.within(joining).await?;
        let is_changed = allowance.within(self.deltas(&mut deltas, &allowance.held)).await??;
        if is_changed {
            return Ok(Response::Chunks(vec![ReplyChunk::from(deltas)].into()));
        }
        kept.iter_mut().for_each(ReplyChunk::drop_exact);
        kept.retain(|chunk| !chunk.is_empty());
        Ok(Response::Chunks(kept.into()))
    }

    async fn whole(
        &self,
        mut whole: ReplyChunk,
        allowance: &Allowance,
    ) -> Result<Response<'static>, Failure> {
        let mut deltas = joined(whole.take_deltas());
        allowance.within(self.deltas(&mut deltas, &allowance.held)).await??;
        whole.drop_exact();
        whole.extend(deltas);
        Ok(Response::Whole(whole))
    }

    /// Puts the originals of placeholders back into a whole response, and decides about its texts. Returns whether one
    /// was replaced. Fails if there is no memory for their copies too.
    async fn deltas(&self, deltas: &mut Vec<Delta>, held: &Charge) -> Result<bool, Failure> {
        let is_restored = self.restore(deltas, held).await?;
        let is_rewritten = self.guards.is_some() && self.rewrite(deltas, held).await?;
        let is_changed = is_restored || is_rewritten;
        if is_changed {
            deltas.retain(|delta| !is_logprobs(delta));
            deltas.iter_mut().for_each(empty_logprobs);
        }
        Ok(is_changed)
    }

    /// Decides about the texts of a whole response, and replaces those that the guards replace. Returns whether one
    /// was replaced.
    async fn rewrite(&self, deltas: &mut [Delta], held: &Charge) -> Result<bool, Failure> {
        let mut counter = TextCounter::default();
        for delta in &mut *deltas {
            visit_delta(delta, &mut counter);
        }
        let copies = held.beside();
        if !copies.grow(counter.memory()) {
            return Err(Failure::NoMemory);
        }
        let mut reader = TextCollector::default();
        for delta in &mut *deltas {
            visit_delta(delta, &mut reader);
        }
        let Some(texts) = self.decide(reader.0, false).await? else { return Ok(false) };
        let mut writer = TextWriter::new(texts);
        for delta in deltas.iter_mut() {
            visit_delta(delta, &mut writer);
            if writer.take_changed()
                && let Delta::ReasoningEnd { reasoning, .. } = delta
            {
                // It is the provider's proof of another text.
                reasoning.seal = None;
            }
        }
        Ok(true)
    }
}

fn is_logprobs(delta: &Delta) -> bool {
    matches!(delta, Delta::Member { name, .. } if name == LOGPROBS)
}

/// Removes the log probabilities of the parts of an item.
fn empty_logprobs(delta: &mut Delta) {
    let Delta::ItemEnd { item, .. } = delta else { return };
    let Some(Value::Array(parts)) = item.get_mut("content") else { return };
    for probabilities in parts.iter_mut().filter_map(|part| part.get_mut(LOGPROBS)) {
        *probabilities = Value::Array(Vec::new());
    }
}

/// Kind of a text, of which a choice has one at a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum OpenText {
    Text,
    Refusal,
    Reasoning,
}

/// Joins the pieces of each text, at the place of the first: nothing that a guard looks for is in two pieces. Texts
/// around reasoning or calls are one, because a chat completion has one text.
fn joined(deltas: Vec<Delta>) -> Vec<Delta> {
    let mut whole: Vec<Delta> = Vec::new();
    // Places of the texts that are continued, and of the arguments of calls.
    let mut open: HashMap<(u64, OpenText), usize> = HashMap::new();
    let mut arguments: HashMap<(u64, u64), usize> = HashMap::new();
    let mut members = HashMap::new();
    for delta in deltas {
        let Some(mut delta) = join_member(delta, &mut members, &mut whole) else { continue };
        end_texts(&delta, &mut open);
        let next = whole.len();
        let place = match (kind_of(&delta), &delta) {
            (Some(text), _) => *open.entry(text).or_insert(next),
            (None, Delta::Arguments { choice, index, .. }) => {
                *arguments.entry((*choice, *index)).or_insert(next)
            }
            (None, _) => next,
        };
        if let Some(sum) = whole.get_mut(place).and_then(text_of)
            && let Some(piece) = text_of(&mut delta)
        {
            sum.push_str(piece);
        } else {
            whole.push(delta);
        }
    }
    whole
}

/// Joins a piece of an unknown member with those before it, whose places are in `members`. Returns any other delta.
fn join_member(
    delta: Delta,
    members: &mut HashMap<(u64, String), usize>,
    whole: &mut [Delta],
) -> Option<Delta> {
    let Delta::Member { choice, wire: Wire::Chat, name, value } = delta else { return Some(delta) };
    let rest = match members.entry((choice, name.clone())) {
        Entry::Vacant(first) => {
            first.insert(whole.len());
            Some(value)
        }
        Entry::Occupied(place) => match whole.get_mut(*place.get()) {
            Some(Delta::Member { value: sum, .. }) => chat::join_member(&name, sum, value),
            _ => Some(value),
        },
    };
    rest.map(|value| Delta::Member { choice, wire: Wire::Chat, name, value })
}

/// Forgets the texts that end before a delta: a text after it is another one.
fn end_texts(delta: &Delta, open: &mut HashMap<(u64, OpenText), usize>) {
    match delta {
        Delta::ReasoningPart { choice, .. } | Delta::ReasoningEnd { choice, .. } => {
            open.remove(&(*choice, OpenText::Reasoning));
        }
        Delta::ItemEnd { choice, .. } => open.retain(|(of, _), _| of != choice),
        _ => {}
    }
}

fn kind_of(delta: &Delta) -> Option<(u64, OpenText)> {
    match delta {
        Delta::Text { choice, .. } => Some((*choice, OpenText::Text)),
        Delta::Refusal { choice, .. } => Some((*choice, OpenText::Refusal)),
        Delta::Reasoning { choice, .. } => Some((*choice, OpenText::Reasoning)),
        _ => None,
    }
}

fn text_of(delta: &mut Delta) -> Option<&mut String> {
    match delta {
        Delta::Text { text, .. }
        | Delta::Refusal { text, .. }
        | Delta::Reasoning { text, .. }
        | Delta::Arguments { text, .. } => Some(text),
        _ => None,
    }
}

/// Visits the texts of a piece of a response, also where they are repeated.
pub(super) fn visit_delta(delta: &mut Delta, visitor: &mut impl TextVisitor) {
    match delta {
        Delta::Text { text, .. } | Delta::Refusal { text, .. } => visitor.visit(ASSISTANT, text),
        Delta::Reasoning { text, .. } => visitor.visit(REASONING, text),
        Delta::Arguments { text, .. } => visitor.visit(CALL, text),
        Delta::ReasoningEnd { reasoning, .. } => visit_reasoning(reasoning, visitor),
        Delta::Citation { citation: object, .. } | Delta::ItemEnd { item: object, .. } => {
            visit_object(object, "", ASSISTANT, visitor);
        }
        Delta::Call { extra, .. } => visit_object(extra, "", CALL, visitor),
        // Taken out if a text is replaced.
        Delta::Member { name, .. } if name.as_str() == LOGPROBS => {}
        Delta::Member { name, value, .. } | Delta::ChunkMember { name, value, .. } => {
            visit_value(value, name, ASSISTANT, visitor);
        }
        Delta::Begin(begin) => visit_object(&mut begin.extra, "", ASSISTANT, visitor),
        Delta::ReasoningPart { .. }
        | Delta::ServiceTier(_)
        | Delta::End { .. }
        | Delta::Usage(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use airlock_conversation::FinishReason;
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use crate::tests::SETTINGS;
    use airlock_core::{
        door::{Membership, ReviewedExchange},
        memory::MemoryBudget,
        tenant::Tenant,
        tool::GuardHook,
    };

    fn text(choice: u64, text: &str) -> Delta {
        Delta::Text { choice, text: text.to_owned() }
    }

    fn arguments(index: u64, text: &str) -> Delta {
        Delta::Arguments { choice: 0, index, text: text.to_owned() }
    }

    fn member(name: &str, value: Value) -> Delta {
        Delta::Member { choice: 0, wire: Wire::Chat, name: name.to_owned(), value }
    }

    fn logprobs() -> Delta {
        member(LOGPROBS, json!({"content": [{"token": "a"}]}))
    }

    #[tokio::test]
    async fn the_pieces_of_a_long_stream_are_joined_on_a_blocking_thread() {
        let exchange = ReviewedExchange {
            hook: GuardHook::AfterModel,
            model: "demo/m".to_owned(),
            tenant: Tenant::of_key([8; 32], "kept"),
            membership: Membership::default().into(),
            acts: Arc::default(),
            placeholders: Arc::default(),
        };
        let review = ModelReview { guards: None, exchange, fallbacks: Vec::new() };
        let allowance = Allowance::new(&SETTINGS, &MemoryBudget::unlimited());
        for (pieces, is_here) in [(1, true), (1_000, false)] {
            let chunks: Vec<ReplyChunk> = (0..pieces).map(|_| vec![text(0, "a")].into()).collect();
            let occupied = threads::occupy(&review.exchange.tenant).await;
            let mut keeping = Box::pin(review.kept(chunks.into(), &allowance, None));
            let at_once = keeping.as_mut().now_or_never();
            assert_eq!(at_once.is_some(), is_here, "{pieces}");
            drop(occupied);
            let kept = if let Some(kept) = at_once { kept } else { keeping.await };
            assert!(kept.is_ok(), "{pieces}");
        }
    }

    #[test]
    fn pieces_of_a_text_are_joined_also_among_those_of_other_choices() {
        let reasoning = Delta::Reasoning { choice: 0, text: "why".to_owned() };
        let end = Delta::End { choice: 0, reason: FinishReason::Stop };
        let pieces = vec![
            text(0, "a"),
            logprobs(),
            text(1, "x"),
            text(0, "b"),
            reasoning.clone(),
            text(0, "c"),
            arguments(0, "{"),
            arguments(1, "["),
            text(1, "y"),
            arguments(0, "}"),
            end.clone(),
        ];
        let expected = [
            text(0, "abc"),
            logprobs(),
            text(1, "xy"),
            reasoning,
            arguments(0, "{}"),
            arguments(1, "["),
            end,
        ];
        assert_eq!(joined(pieces), expected);
    }

    #[test]
    fn pieces_of_unknown_members_are_joined_and_those_of_calls_are_not() {
        for (name, pieces, expected) in [
            ("odd", [json!("a"), json!("b")], vec![json!("ab")]),
            ("odd", [json!("a"), json!(["b"])], vec![json!("a"), json!(["b"])]),
            (
                "audio",
                [json!({"id": "1", "transcript": "a"}), json!({"id": "1", "transcript": "b"})],
                vec![json!({"id": "1", "transcript": "ab"})],
            ),
            (
                "reasoning_details",
                ["a", "b"]
                    .map(|text| json!([{"type": "reasoning.text", "index": 0, "text": text}])),
                vec![json!([{"type": "reasoning.text", "index": 0, "text": "ab"}])],
            ),
            ("tool_calls", [json!([1]), json!([2])], vec![json!([1]), json!([2])]),
        ] {
            let pieces = pieces.into_iter().flat_map(|value| [member(name, value), text(0, "x")]);
            let whole = joined(pieces.collect());
            let members = whole.into_iter().filter_map(|delta| match delta {
                Delta::Member { value, .. } => Some(value),
                _ => None,
            });
            assert_eq!(members.collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn log_probabilities_of_an_item_are_removed() {
        let item = json!({"type": "message", "content": [
            {"type": "output_text", "text": "a", "logprobs": [{"token": "a"}]}, 1,
        ]});
        let Value::Object(item) = item else { unreachable!("it is an object") };
        let mut delta = Delta::ItemEnd { choice: 0, index: 0, item };
        empty_logprobs(&mut delta);
        let Delta::ItemEnd { item, .. } = delta else { unreachable!("it is an item") };
        let expected = json!([{"type": "output_text", "text": "a", "logprobs": []}, 1]);
        assert_eq!(item["content"], expected);
    }

    #[test]
    fn texts_of_two_items_are_not_joined() {
        let end = Delta::ItemEnd { choice: 0, index: 0, item: airlock_conversation::Object::new() };
        let pieces = vec![text(0, "a"), end.clone(), text(0, "b"), text(0, "c")];
        assert_eq!(joined(pieces), [text(0, "a"), end, text(0, "bc")]);
    }

    #[test]
    fn texts_that_a_response_repeats_are_visited_each_time() {
        let item = json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "a"}]});
        let Value::Object(item) = item else { unreachable!("it is an object") };
        let mut reader = TextCollector::default();
        for mut delta in [text(0, "a"), logprobs(), Delta::ItemEnd { choice: 0, index: 0, item }] {
            visit_delta(&mut delta, &mut reader);
        }
        let found: Vec<_> = reader.0.iter().map(|text| text.text.as_str()).collect();
        assert_eq!(found, ["a", "a"]);
    }
}
