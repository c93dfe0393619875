use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::{BadProvider, Models};
use airlock_conversation::{Content, Message, Part, Reply, Role};
use airlock_core::memory::{Limited, MemoryBudget};
use airlock_json::RawObject;

/// A model with one reply. Keeps what it was asked.
#[derive(Default)]
struct Canned {
    reply: Mutex<Option<Result<ModelReply, ModelFailure>>>,
    asked: Mutex<Option<Conversation>>,
}

impl Canned {
    fn new(reply: Result<ModelReply, ModelFailure>) -> Arc<Self> {
        Arc::new(Self { reply: Mutex::new(Some(reply)), ..Self::default() })
    }
}

impl ModelSource for Canned {
    fn respond(&self, request: Conversation) -> BoxFuture<'_, Result<ModelReply, ModelFailure>> {
        *self.asked.lock() = Some(request);
        let reply = self.reply.lock().take().expect("it is asked once");
        future::ready(reply).boxed()
    }

    fn models(&self) -> Vec<String> {
        vec!["m".to_owned()]
    }
}

fn models(source: &Arc<impl ModelSource>) -> Models {
    let source: Arc<dyn ModelSource> = source.clone();
    let models = Models::default().with_sources(vec![("own".to_owned(), source)]);
    models.expect("a good name").with_settings(&[]).expect("no settings")
}

/// Asks the model. Returns the pieces of its reply, with those of each chunk of a stream.
async fn ask(
    source: &Arc<impl ModelSource>,
    is_streamed: bool,
    room: usize,
) -> Result<Vec<Vec<Delta>>, ModelError> {
    let held = MemoryBudget::new(Limited::new(room)).charge();
    let terms = Terms {
        is_streamed,
        passes_on: false,
        max_calls: 8,
        deadline: Instant::now() + Duration::from_mins(1),
        held: &held,
        observer: None,
        work: None,
    };
    let body = json!({"model": "own/m", "messages": [{"role": "user", "content": "hi"}]});
    let mut prompt = Prompt::new(RawObject::from(&object(body)));
    let models = models(source);
    let mut route = models.route(&mut prompt.body)?;
    match route.respond(&mut prompt, terms).await? {
        Response::Whole(whole) => Ok(vec![whole.into_deltas()]),
        Response::Chunks(mut chunks) => {
            let mut received = Vec::new();
            while let Some(chunk) = chunks.next().await? {
                received.push(chunk.into_deltas());
            }
            Ok(received)
        }
    }
}

fn text(text: &str) -> Delta {
    Delta::Text { choice: 0, text: text.to_owned() }
}

fn read(pieces: Vec<Vec<Delta>>) -> Reply {
    let mut reply = Reply::default();
    reply.extend(pieces.into_iter().flatten());
    reply
}

fn in_two_pieces() -> ModelReply {
    ModelReply::stream(stream::iter(["a", "b"].map(|piece| Ok(text(piece)))))
}

#[tokio::test]
async fn a_source_is_asked_with_the_conversation_and_its_reply_is_completed() {
    let source = Canned::new(Ok(ModelReply::text("hello")));
    let reply = read(ask(&source, false, 1 << 20).await.expect("a reply"));
    let message = Message::new(Role::Assistant, vec![Part::text("hello")]);
    assert_eq!(reply.choices[&0].items, [Item::Message(message)]);
    assert_eq!(reply.choices[&0].finish, Some(FinishReason::Stop));
    assert!(reply.begin.id.starts_with("own-") && reply.begin.created > 0);
    let asked = source.asked.lock().take().expect("it was asked");
    assert_eq!((asked.model.as_str(), asked.settings.stream), ("m", false));
    let Some(Item::Message(message)) = asked.items.first() else { panic!("{asked:?}") };
    assert!(matches!(&message.parts[0].content, Content::Text(text) if text == "hi"));
}

#[tokio::test]
async fn calls_are_pieces_of_a_reply_that_ends_with_them() {
    let call = ToolCall::function("c1", "web-read", r#"{"a":1}"#);
    let source = Canned::new(Ok(ModelReply::calls([call.clone()])));
    let reply = read(ask(&source, false, 1 << 20).await.expect("a reply"));
    assert_eq!(reply.choices[&0].items, [Item::ToolCall(call)]);
    assert_eq!(reply.choices[&0].finish, Some(FinishReason::ToolCalls));
}

#[tokio::test]
async fn a_stream_is_received_piece_by_piece_and_whole_by_a_caller_that_asks_for_no_stream() {
    let source = Canned::new(Ok(in_two_pieces()));
    let streamed = ask(&source, true, 1 << 20).await.expect("a reply");
    let lengths: Vec<_> = streamed.iter().map(Vec::len).collect();
    assert_eq!(lengths, [2, 1, 1], "{streamed:?}");
    let source = Canned::new(Ok(in_two_pieces()));
    let whole = ask(&source, false, 1 << 20).await.expect("a reply");
    assert_eq!(whole.len(), 1);
    assert_eq!(read(streamed).choices[&0].items, read(whole).choices[&0].items);
}

#[tokio::test]
async fn a_beginning_and_an_end_of_the_source_stay_the_only_ones() {
    let begin = Delta::Begin(Begin { id: "x".to_owned(), ..Begin::default() });
    let end = Delta::End { choice: 0, reason: FinishReason::Length };
    let pieces = vec![begin, text("a"), end];
    let source = Canned::new(Ok(ModelReply::whole(pieces.clone())));
    assert_eq!(ask(&source, false, 1 << 20).await.expect("a reply"), [pieces]);
}

#[tokio::test]
async fn a_failure_has_its_status_its_code_and_the_time_to_wait() {
    let wait = Duration::from_secs(7);
    let failure = ModelFailure::new("slow down").with_status(429).with_code("busy");
    let source = Canned::new(Err(failure.with_retry_after(wait)));
    let error = ask(&source, false, 1 << 20).await.expect_err("a failure");
    assert_eq!((error.status().as_u16(), error.retry_after()), (429, Some(wait)));
    assert_eq!(error.to_object()["code"], "busy");
    assert!(error.permits_fallback());
    for (status, expected) in [(200, 502), (399, 502), (400, 400), (599, 599), (600, 502), (0, 502)]
    {
        assert_eq!(ModelFailure::new("x").with_status(status).status.as_u16(), expected);
    }
    let late = [Ok(text("a")), Err(ModelFailure::new("cut off"))];
    let source = Canned::new(Ok(ModelReply::stream(stream::iter(late))));
    let error = ask(&source, true, 1 << 20).await.expect_err("it breaks");
    assert_eq!(error.status(), StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn a_reply_without_room_in_the_memory_of_the_request_fails() {
    for is_streamed in [false, true] {
        let source = Canned::new(Ok(ModelReply::text("x".repeat(200_000))));
        let error = ask(&source, is_streamed, 100_000).await.expect_err("no room");
        assert!(matches!(error, ModelError::NoMemory { .. }), "{error}");
    }
}

/// A model that responds with its depth, twice: in its reply, and in the stream that this is.
struct Deep;

impl ModelSource for Deep {
    fn respond(&self, _: Conversation) -> BoxFuture<'_, Result<ModelReply, ModelFailure>> {
        let depth = call_depth();
        let pieces = stream::once(async move { Ok(text(&format!("{depth} {}", call_depth()))) });
        async move { Ok(ModelReply::stream(pieces)) }.boxed()
    }
}

#[tokio::test]
async fn a_model_has_the_depth_of_a_call_until_the_end_of_its_reply() {
    for is_streamed in [false, true] {
        let asked = at_call_depth(2, ask(&Arc::new(Deep), is_streamed, 1 << 20)).await;
        let pieces = asked.expect("a reply");
        assert!(pieces.iter().flatten().any(|piece| *piece == text("3 3")), "{pieces:?}");
        assert_eq!(call_depth(), 0);
    }
}

#[tokio::test]
async fn the_models_of_a_source_are_listed_and_its_name_is_checked() {
    let source = Canned::new(Ok(ModelReply::text("")));
    let listed = models(&source).list().await;
    let listed: Value = serde_json::from_str(&listed[0]).expect("one model");
    assert_eq!(listed["id"], "own/m");
    for names in [&["a", "a"][..], &[""], &["a/b"]] {
        let sources = names.iter().map(|name| {
            let source: Arc<dyn ModelSource> = source.clone();
            ((*name).to_owned(), source)
        });
        let refused = Models::default().with_sources(sources.collect()).expect_err("bad names");
        let is_expected = match names.len() {
            2 => matches!(refused, BadProvider::Duplicate { .. }),
            _ => matches!(refused, BadProvider::Name { .. }),
        };
        assert!(is_expected, "{refused}");
    }
}
