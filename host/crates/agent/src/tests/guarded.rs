//! Requests and responses about which guards decide.

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::{
    controlled::providers,
    received::ReceivedStream,
    streams::{seen, seen_by, streamed},
    *,
};
use airlock_core::{
    door::{
        CallGuards, FinishedCall, GuardedCall, Membership, ModelGuards, PlaceholderSpan,
        Placeholders, ProposedCall, ReviewedExchange, ReviewedText,
    },
    tool::{CallError, GuardAct, GuardDecision, GuardHook, HostCode, ModelRefusal, ToolOutput},
};
use airlock_fakes::RecordingControl;
use airlock_test_http::model::{self as service, FakeService};

/// An address that is hidden in requests.
pub(super) const ADDRESS: &str = "ann@a.example";

/// Replaces `top secret` by `hidden` at one hook, and denies texts with `forbidden`. In requests, it hides [`ADDRESS`].
pub(super) struct Reviewing {
    hook: GuardHook,
    /// Window of streams. With one, it also looks at responses to requests at which it looks.
    window: Option<usize>,
    /// The texts that it was asked about, each with its role.
    pub(super) asked: Mutex<Vec<Vec<String>>>,
    /// The models of the exchanges that it was asked about.
    models: Mutex<Vec<String>>,
}

impl Reviewing {
    pub(super) fn at(hook: GuardHook) -> Arc<Self> {
        Self::in_windows(hook, None)
    }

    pub(super) fn in_windows(hook: GuardHook, window: Option<usize>) -> Arc<Self> {
        Arc::new(Self { hook, window, asked: Mutex::default(), models: Mutex::default() })
    }

    /// Returns a caller whose requests it reviews.
    pub(super) fn caller(self: &Arc<Self>) -> Caller {
        let (catalog, _) = fake::catalog();
        catalog.set_guards(self.clone());
        Caller::new(catalog.snapshot().view(&Filter::none(), None), Origin::Model, fake::BUDGET)
    }

    fn act(&self, verdict: GuardDecision) -> GuardAct {
        let digest = "sha256:0".into();
        GuardAct { guard: "reviewing".into(), digest, hook: self.hook, verdict }
    }

    fn reviewed(
        &self,
        hook: GuardHook,
        placeholders: &Placeholders,
        mut texts: Vec<ReviewedText>,
    ) -> Result<Option<Vec<ReviewedText>>, ModelRefusal> {
        let shown = texts.iter().map(|text| format!("{}: {}", text.role, text.text));
        self.asked.lock().push(shown.collect());
        if texts.iter().any(|text| text.text.contains("forbidden")) {
            return Err(ModelRefusal::denied(self.act(GuardDecision::Deny), "c", "no"));
        }
        let before = texts.clone();
        for text in &mut texts {
            text.text = text.text.replace("top secret", "hidden");
            if hook == GuardHook::BeforeModel {
                text.text = with_placeholders(&text.text, placeholders);
            }
        }
        Ok((texts != before).then_some(texts))
    }
}

/// Returns a text with placeholders in the places of the address.
fn with_placeholders(text: &str, placeholders: &Placeholders) -> String {
    let spans = text.match_indices(ADDRESS).map(|(start, address)| {
        let end = start + address.len();
        PlaceholderSpan { start, end, kind: "email".to_owned() }
    });
    placeholders.replace(text, &spans.collect::<Vec<_>>()).expect("it can have a placeholder")
}

impl ModelGuards for Reviewing {
    fn looks(&self, hook: GuardHook, _: &Membership) -> bool {
        hook == self.hook || (self.hook == GuardHook::BeforeModel && self.window.is_some())
    }

    fn stream_window(&self, _: &Membership) -> Option<usize> {
        self.window
    }

    fn decide(
        &self,
        exchange: ReviewedExchange,
        texts: Vec<ReviewedText>,
    ) -> BoxFuture<'_, Result<Option<Vec<ReviewedText>>, ModelRefusal>> {
        assert!(self.looks(exchange.hook, &exchange.membership));
        self.models.lock().push(exchange.model);
        let decided = self.reviewed(exchange.hook, &exchange.placeholders, texts);
        match &decided {
            Ok(None) => {}
            Ok(Some(_)) => exchange.acts.record(self.act(GuardDecision::Rewrite)),
            Err(refusal) => exchange.acts.record(refusal.act().clone()),
        }
        Box::pin(async { decided })
    }
}

impl CallGuards for Reviewing {
    fn before<'g>(
        &'g self,
        _: &'g ProposedCall<'g>,
        _: std::time::Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>> {
        Box::pin(async { Ok(GuardedCall::default()) })
    }

    fn looks_before(&self, _: &ProposedCall<'_>) -> bool {
        false
    }

    fn looks_after(&self, _: &ProposedCall<'_>) -> bool {
        false
    }

    fn models(&self) -> Option<&dyn ModelGuards> {
        Some(self)
    }

    fn after(
        &self,
        _: FinishedCall,
        outcome: Result<ToolOutput, CallError>,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async { outcome })
    }
}

/// Returns a request of a user who says a text.
pub(super) fn saying(text: &str) -> Request {
    let mut request = request();
    request.prompt.body.set("messages", json!([{"role": "user", "content": text}]).to_string());
    request
}

pub(super) async fn answer(
    guards: &Arc<Reviewing>,
    turns: Value,
    request: Request,
) -> Result<Value, AgentError> {
    let models = Arc::new(fake::scripted(&turns));
    let ended = run(models, guards.caller(), request, SETTINGS).finish().await;
    ended.map(|completion| whole(completion).into()).map_err(|error| *error)
}

pub(super) fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().expect("a text")
}

#[tokio::test]
async fn a_model_gets_the_texts_that_the_guards_leave() {
    let guards = Reviewing::at(GuardHook::BeforeModel);
    let turns = json!([{"answer": {"content": "you said {{last_user_message}}"}}]);
    let answered = answer(&guards, turns, saying("a top secret b")).await.expect("an answer");
    assert_eq!(content(&answered), "you said a hidden b");
    assert_eq!(*guards.asked.lock(), [["user: a top secret b"]]);
    assert_eq!(*guards.models.lock(), ["demo/m"]);
}

#[tokio::test]
async fn a_request_is_decided_for_each_model_and_a_response_for_the_one_that_sent_it() {
    let broken = json!({"error": {"status": 503, "message": "no"}});
    let turns = [("demo", broken), ("other", json!({"content": "hi"}))];
    for (hook, expected) in [
        (GuardHook::BeforeModel, vec!["demo/m", "other/y"]),
        (GuardHook::AfterModel, vec!["other/y"]),
    ] {
        let guards = Reviewing::at(hook);
        let models = Arc::new(providers(&turns, &RecordingControl::default()));
        let mut request = saying("a top secret b");
        request.prompt.body.set("fallbacks", r#"["other/y"]"#);
        run(models, guards.caller(), request, SETTINGS).finish().await.expect("an answer");
        assert_eq!(*guards.models.lock(), expected);
        if hook == GuardHook::BeforeModel {
            let asked = guards.asked.lock();
            assert_eq!(*asked, [["user: a top secret b"], ["user: a hidden b"]]);
        }
    }
}

#[tokio::test]
async fn a_control_gets_the_decisions_of_guards_that_have_changed_something() {
    for (hook, message, expected) in [
        (GuardHook::BeforeModel, "go", None),
        (GuardHook::BeforeModel, "a top secret b", Some(GuardDecision::Rewrite)),
        (GuardHook::BeforeModel, "forbidden", Some(GuardDecision::Deny)),
        (GuardHook::AfterModel, "a top secret b", Some(GuardDecision::Rewrite)),
    ] {
        let guards = Reviewing::at(hook);
        let control = RecordingControl::default();
        let models = providers(&[("demo", json!({"content": "it is top secret"}))], &control);
        let ended =
            run(Arc::new(models), guards.caller(), saying(message), SETTINGS).finish().await;
        assert_eq!(ended.is_err(), expected == Some(GuardDecision::Deny), "{message}");
        let expected: Vec<_> = expected.map(|verdict| guards.act(verdict)).into_iter().collect();
        assert_eq!(control.guards(), expected, "{message}");
    }
}

#[tokio::test]
async fn guards_see_members_that_the_gateway_does_not_know() {
    let guards = Reviewing::at(GuardHook::BeforeModel);
    let turns = json!([{"answer": {"content": "hi"}}]);
    let mut request = saying("go");
    request.prompt.body.set("documents", r#"[{"id": "it is forbidden"}]"#);
    let refused = answer(&guards, turns, request).await.expect_err("it is refused").error;
    assert_eq!(refused.code(), "guard_denied");
    assert_eq!(*guards.asked.lock(), [["user: go", "user: it is forbidden"]]);
}

#[tokio::test]
async fn each_round_shows_guards_what_it_adds() {
    let guards = Reviewing::at(GuardHook::BeforeModel);
    let turns = json!([
        {"when": {"role": "user"}, "answer": {
            "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {"text": "top secret"}}]}},
        {"answer": {"content": "done: {{last_tool_result}}"}},
    ]);
    let answered = answer(&guards, turns, saying("go")).await.expect("an answer");
    assert!(content(&answered).contains("hidden"), "{answered}");
    let asked = guards.asked.lock();
    assert_eq!(asked[0], ["user: go"]);
    assert!(asked[1].iter().any(|text| text.starts_with("call: ")), "{asked:?}");
    assert!(asked[1].iter().any(|text| text.starts_with("tool: ")), "{asked:?}");
    assert!(!asked[1].iter().any(|text| text.starts_with("user: ")), "{asked:?}");
}

#[tokio::test]
async fn a_denied_request_is_not_sent_and_a_withheld_response_is_not_shown() {
    let turns = json!([{"answer": {"content": "it is forbidden"}}]);
    for (hook, message) in [(GuardHook::BeforeModel, "forbidden"), (GuardHook::AfterModel, "go")] {
        let guards = Reviewing::at(hook);
        let refused = answer(&guards, turns.clone(), saying(message)).await;
        let refused = refused.expect_err("it is refused").error;
        assert_eq!((refused.status().as_u16(), refused.code()), (403, "guard_denied"));
        assert_eq!(refused.to_object()["code"], HostCode::GuardDenied.as_str());
        let mut request = saying(message);
        request.is_streamed = true;
        let lines = seen_by(guards.caller(), turns.clone(), request, SETTINGS).await;
        assert_eq!(lines, [format!("failed: {refused}")]);
    }
}

#[tokio::test]
async fn a_text_that_is_streamed_in_pieces_is_replaced_as_a_whole() {
    let guards = Reviewing::at(GuardHook::AfterModel);
    let turns =
        json!([{"answer": {"reasoning": "a top secret", "content": "it is top secret now"}}]);
    let answered = answer(&guards, turns.clone(), request()).await.expect("an answer");
    assert_eq!(content(&answered), "it is hidden now");
    let lines = seen_by(guards.caller(), turns, streamed(), SETTINGS).await.join("\n");
    assert!(!lines.contains("secret"), "{lines}");
    assert!(lines.contains("it is hidden now") && lines.contains("a hidden"), "{lines}");
}

#[tokio::test]
async fn a_stream_in_which_nothing_is_replaced_has_the_same_pieces() {
    let guards = Reviewing::at(GuardHook::AfterModel);
    let turns = json!([
        {"when": {"role": "user"}, "answer": {
            "content": "let me see", "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {"text": "x"}}]}},
        {"answer": {"content": "it is {{last_tool_result}}"}},
    ]);
    let expected = seen(turns.clone(), streamed(), SETTINGS).await;
    let lines = seen_by(guards.caller(), turns, streamed(), SETTINGS).await;
    assert_eq!(contents(&lines), contents(&expected));
    assert!(contents(&lines).len() > 4, "{lines:#?}");
}

#[tokio::test]
async fn nothing_of_a_response_that_guards_have_not_seen_is_sent() {
    let texts = r#""role":"forbidden","content":"forbidden","content":"hi""#;
    let rest = r#""finish_reason":"stop"}],"obfuscation":"forbidden""#;
    for (is_streamed, name) in [(true, "delta"), (false, "message")] {
        let response = format!(r#"{{"choices":[{{"index":0,"{name}":{{{texts}}},{rest}}}"#);
        let answer = if is_streamed {
            service::events(&format!("data: {response}\n\ndata: [DONE]\n\n"))
        } else {
            service::json("200 OK", &response)
        };
        let service = FakeService::start(vec![answer]).await;
        let provider = airlock_model::Settings {
            name: "demo".into(),
            kind: openai(&service.base_url),
            fallbacks: Vec::new(),
        };
        let models = Models::new(&[provider]).expect("good settings");
        let guards = Reviewing::at(GuardHook::AfterModel);
        let asking = if is_streamed { streamed() } else { request() };
        let mut stream = ReceivedStream::new(&asking);
        let mut run = run(Arc::new(models), guards.caller(), asking, SETTINGS);
        let mut sent = Vec::new();
        while let Some(mut event) = run.next().await {
            sent.extend(stream.chunks(&mut event));
            if let Event::Done(completion) = event {
                sent.extend(completion.answer.map(|answer| answer.into_chat(None).into_object()));
            }
        }
        let sent = json!(sent).to_string();
        assert!(sent.contains(r#""content":"hi""#), "{sent}");
        assert!(!sent.contains("forbidden"), "{sent}");
    }
}

#[tokio::test]
async fn the_arguments_of_a_call_are_replaced_before_it_is_made() {
    let guards = Reviewing::at(GuardHook::AfterModel);
    let turns = json!([
        {"when": {"role": "user"}, "answer": {
            "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {"text": "top secret"}}]}},
        {"answer": {"content": "done: {{last_tool_result}}"}},
    ]);
    let answered = answer(&guards, turns, request()).await.expect("an answer");
    assert!(content(&answered).contains("hidden"), "{answered}");
}

/// Returns the texts of the chunks that a caller gets.
fn contents(lines: &[String]) -> Vec<String> {
    let texts = lines.iter().filter_map(|line| line.split_once("content="));
    // A chunk without text has `null`.
    let texts = texts.map(|(_, text)| {
        serde_json::Deserializer::from_str(text).into_iter::<Option<String>>().next()
    });
    let texts = texts.filter_map(|text| text.expect("a text").expect("a string or null"));
    texts.filter(|text| !text.is_empty()).collect()
}

#[tokio::test]
async fn a_stream_is_shown_in_parts_while_guards_look_at_the_window_behind_them() {
    let words = (0..60).map(|number| format!("word{number} ")).collect::<Vec<_>>().concat();
    let said = format!("{words}a top secret b {words}");
    let turns = json!([
        {"when": {"role": "user"}, "answer": {
            "content": said, "tool_calls": [{"id": "c1", "name": "desk-echo", "arguments": {"text": "top secret"}}]}},
        {"answer": {"content": "it is top secret"}},
    ]);
    let whole = Reviewing::at(GuardHook::AfterModel);
    let kept = seen_by(whole.caller(), turns.clone(), streamed(), SETTINGS).await;
    let guards = Reviewing::in_windows(GuardHook::AfterModel, Some(64));
    let lines = seen_by(guards.caller(), turns, streamed(), SETTINGS).await;
    assert_eq!(contents(&lines).concat(), contents(&kept).concat());
    assert!(contents(&lines).concat().contains("a hidden b"), "{lines:#?}");
    assert!(contents(&lines).len() > 4, "{lines:#?}");
    let asked = guards.asked.lock();
    let calls: Vec<_> = asked.iter().flatten().filter(|text| text.starts_with("call:")).collect();
    assert!(matches!(calls[..], [call] if call.contains("top secret") && call.ends_with('}')));
    assert!(asked.iter().flatten().all(|text| text.len() < 400), "{asked:#?}");
}

#[tokio::test]
async fn a_denied_window_ends_the_stream_and_nothing_of_it_is_shown() {
    let words = (0..60).map(|number| format!("word{number} ")).collect::<Vec<_>>().concat();
    let turns = json!([{"answer": {"content": format!("{words}it is forbidden {words}")}}]);
    let guards = Reviewing::in_windows(GuardHook::AfterModel, Some(64));
    let lines = seen_by(guards.caller(), turns, streamed(), SETTINGS).await;
    let shown = contents(&lines).concat();
    assert!(shown.starts_with("word0 word1 ") && words.starts_with(&shown), "{lines:#?}");
    assert!(lines.last().is_some_and(|line| line.starts_with("failed: ")), "{lines:#?}");
}

#[tokio::test]
async fn a_response_that_is_not_streamed_is_decided_whole() {
    let guards = Reviewing::in_windows(GuardHook::AfterModel, Some(64));
    let said = format!("it is top secret {}", "word ".repeat(100));
    let turns = json!([{"answer": {"content": said}}]);
    let answered = answer(&guards, turns, request()).await.expect("an answer");
    assert!(content(&answered).starts_with("it is hidden word "), "{answered}");
    assert_eq!(guards.asked.lock().len(), 1);
}
