//! Decisions about requests to models and their responses.

use std::{error::Error, time::Instant};

use futures_util::future::BoxFuture;
use tracing::warn;

use super::{ConfiguredGuard, Guards, HookTime, MAX_TIME};
use airlock_core::{
    door::{Membership, ModelGuards, ReviewedExchange, ReviewedText, WrittenText},
    threads::{self, INLINE_BYTES, poll_to_end},
    tool::{Cause, GuardDecision, GuardHook, ModelRefusal},
};
use airlock_json::{self as json, Caps};
use airlock_sandbox::GuardVerdict;
use airlock_strings::{MAX_NAME_BYTES, with_causes};

/// Limit on the memory of the texts that a guard writes, in bytes.
const TEXT_CAPS: Caps = Caps::memory(256 << 20);

impl ModelGuards for Guards {
    fn looks(&self, hook: GuardHook, membership: &Membership) -> bool {
        self.iter().any(|guard| guard.reviews(hook, membership))
    }

    fn stream_window(&self, membership: &Membership) -> Option<usize> {
        let reviewing =
            self.iter().filter(|guard| guard.reviews(GuardHook::AfterModel, membership));
        // The longest, if each guard has one.
        let windows = reviewing.map(|guard| guard.settings.stream_window);
        windows.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    fn decide(
        &self,
        exchange: ReviewedExchange,
        texts: Vec<ReviewedText>,
    ) -> BoxFuture<'_, Result<Option<Vec<ReviewedText>>, ModelRefusal>> {
        let guards = self.0.clone();
        let tenant = exchange.tenant.clone();
        let bytes = read_bytes(&exchange, &texts);
        Box::pin(async move {
            if bytes <= INLINE_BYTES {
                let deciding = async move {
                    let _turn = threads::turn(&tenant).await;
                    decide_texts(&guards, &exchange, texts).await
                };
                return threads::decide(deciding).await;
            }
            threads::run(&tenant, move || poll_to_end(decide_texts(&guards, &exchange, texts)))
                .await
        })
    }
}

/// Returns the bytes that are read for a decision about texts: theirs, and those of the originals that are looked for in
/// them.
fn read_bytes(exchange: &ReviewedExchange, texts: &[ReviewedText]) -> usize {
    let is_searched = exchange.hook == GuardHook::BeforeModel;
    let originals = if is_searched { exchange.placeholders.bytes() } else { 0 };
    texts.iter().map(written_bytes).fold(originals, usize::saturating_add)
}

/// Returns the bytes that a text takes as JSON, without escapes.
fn written_bytes(text: &ReviewedText) -> usize {
    const MEMBERS: usize = r#"{"role":"","text":""},"#.len();
    MEMBERS + text.role.len() + text.text.len()
}

/// Asks the guards about texts, one after the other, and records their decisions. Returns the texts that they leave;
/// `None` if these are the same.
async fn decide_texts(
    guards: &[ConfiguredGuard],
    exchange: &ReviewedExchange,
    mut texts: Vec<ReviewedText>,
) -> Result<Option<Vec<ReviewedText>>, ModelRefusal> {
    let mut is_changed = hide_known(exchange, &mut texts);
    let time = HookTime::begin(Instant::now() + MAX_TIME);
    for guard in guards {
        if !guard.reviews(exchange.hook, &exchange.membership) {
            continue;
        }
        let decided = guard.model(exchange, &texts, time).await;
        match decided.map_err(|cause| guard.failed_at(exchange, &*cause))? {
            ModelVerdict::Allowed => {}
            ModelVerdict::Rewritten(changed) => {
                exchange.acts.record(guard.act(exchange.hook, GuardDecision::Rewrite));
                texts = changed;
                is_changed = true;
            }
            ModelVerdict::Denied { code, reason } => {
                let act = guard.act(exchange.hook, GuardDecision::Deny);
                exchange.acts.record(act.clone());
                return Err(ModelRefusal::denied(act, &code, &reason));
            }
        }
    }
    Ok(is_changed.then_some(texts))
}

/// Puts placeholders in the places of the parts of a request that have one already: the response of the model, and the
/// results of its calls, have their originals. Returns whether a text has changed.
fn hide_known(exchange: &ReviewedExchange, texts: &mut [ReviewedText]) -> bool {
    if exchange.hook != GuardHook::BeforeModel {
        return false;
    }
    exchange.placeholders.hide(texts.iter_mut().map(|text| &mut text.text))
}

/// Valid decision of one guard.
enum ModelVerdict {
    Allowed,
    Rewritten(Vec<ReviewedText>),
    Denied { code: String, reason: String },
}

impl ConfiguredGuard {
    /// Returns whether the guard is asked about the requests or the responses of a party.
    fn reviews(&self, hook: GuardHook, membership: &Membership) -> bool {
        self.runs(hook) && self.settings.scope.has_model(membership)
    }

    /// Asks the guard about texts. Fails if it makes no valid decision.
    async fn model(
        &self,
        exchange: &ReviewedExchange,
        texts: &[ReviewedText],
        time: HookTime,
    ) -> Result<ModelVerdict, Cause> {
        let begun = Instant::now();
        let ended = self.decide_model(exchange, texts, time).await;
        let decision = match &ended {
            Ok(ModelVerdict::Allowed) => None,
            Ok(ModelVerdict::Rewritten(_)) => Some(GuardDecision::Rewrite),
            Ok(ModelVerdict::Denied { .. }) => Some(GuardDecision::Deny),
            Err(_) => Some(GuardDecision::Fail),
        };
        self.metrics.count(exchange.hook, decision, begun.elapsed());
        ended
    }

    /// Does the same.
    async fn decide_model(
        &self,
        exchange: &ReviewedExchange,
        texts: &[ReviewedText],
        time: HookTime,
    ) -> Result<ModelVerdict, Cause> {
        let loaded = self.loaded.get().ok_or("it is not loaded")?;
        let written = serde_json::to_string(texts)?;
        let left = time.left(Instant::now()).ok_or("no time is left for its hook")?;
        match loaded.guard.model(exchange, written, left).await? {
            GuardVerdict::Allow => Ok(ModelVerdict::Allowed),
            GuardVerdict::Rewrite(text) => {
                let changed = rewritten(exchange, texts, &text)?;
                Ok(if changed == texts {
                    ModelVerdict::Allowed
                } else {
                    ModelVerdict::Rewritten(changed)
                })
            }
            GuardVerdict::Deny { code, reason } => Ok(ModelVerdict::Denied { code, reason }),
            GuardVerdict::Ask(_) => Err("it asks about a request to a model".into()),
        }
    }

    /// Returns the refusal of a request about which the guard has made no valid decision.
    fn failed_at(
        &self,
        exchange: &ReviewedExchange,
        cause: &(dyn Error + 'static),
    ) -> ModelRefusal {
        let guard = &*self.settings.name;
        // Callers choose the name, so the log has a part of a long one.
        let model = &exchange.model[..exchange.model.floor_char_boundary(MAX_NAME_BYTES)];
        let cause = with_causes(cause);
        warn!(guard, model, cause, "a guard failed; the request or its response is refused");
        let act = self.act(exchange.hook, GuardDecision::Fail);
        exchange.acts.record(act.clone());
        ModelRefusal::failed(act)
    }
}

/// Reads the texts that a guard has written in the place of others, and puts placeholders in the places of the parts that
/// it hides. Fails if their roles are not the same, or if a part cannot have a placeholder.
fn rewritten(
    exchange: &ReviewedExchange,
    before: &[ReviewedText],
    text: &str,
) -> Result<Vec<ReviewedText>, Cause> {
    let parsed = json::parse(text.as_bytes(), &TEXT_CAPS);
    let (after, _): (Vec<WrittenText>, _) = parsed.map_err(without_texts)?;
    let is_same = before.len() == after.len()
        && before.iter().zip(&after).all(|(before, after)| before.role == after.role);
    if !is_same {
        return Err("the roles of its texts are not those that it was given".into());
    }
    after.into_iter().map(|text| with_placeholders(exchange, text)).collect()
}

/// Returns an error about the texts that a guard has written, without parts of them: the operator's log has no texts of
/// conversations.
fn without_texts(error: json::Error) -> Cause {
    match error {
        json::Error::Parse(error) => {
            let line = error.line();
            let column = error.column();
            format!("it has not written a list of texts: invalid at line {line} column {column}")
                .into()
        }
        error => error.into(),
    }
}

fn with_placeholders(
    exchange: &ReviewedExchange,
    written: WrittenText,
) -> Result<ReviewedText, Cause> {
    let WrittenText { role, text, hide } = written;
    if hide.is_empty() {
        return Ok(ReviewedText { role, text });
    }
    if exchange.hook != GuardHook::BeforeModel {
        return Err("it hides a part of a response".into());
    }
    let text = exchange.placeholders.replace(&text, &hide)?;
    Ok(ReviewedText { role, text })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::{Hooks, Scope, Settings};
    use airlock_core::{
        door::{PlaceholderSpan, VirtualKey},
        tool::HostCode,
    };
    use airlock_sandbox::Limits;

    /// Returns a guard whose component does not exist.
    fn absent(scope: Scope, hooks: Hooks) -> Settings {
        Settings {
            name: "absent".into(),
            component: "/absent/guard.wasm".into(),
            scope,
            hooks,
            settings: "{}".into(),
            limits: Limits::PLUGIN,
            stream_window: None,
        }
    }

    fn texts() -> Vec<ReviewedText> {
        let texts = [("system", "a"), ("user", "b")];
        texts.map(|(role, text)| ReviewedText { role: role.into(), text: text.into() }).into()
    }

    fn text(text: &str) -> ReviewedText {
        ReviewedText { role: "user".to_owned(), text: text.to_owned() }
    }

    fn exchange(hook: GuardHook) -> ReviewedExchange {
        ReviewedExchange {
            hook,
            model: "fake/m".to_owned(),
            tenant: airlock_core::tenant::Tenant::ANONYMOUS,
            membership: Membership::default().into(),
            acts: Arc::default(),
            placeholders: Arc::default(),
        }
    }

    #[test]
    fn a_rewrite_has_the_same_roles_in_the_same_order() {
        let exchange = exchange(GuardHook::BeforeModel);
        let changed = r#"[{"role":"system","text":"a"},{"role":"user","text":"c"}]"#;
        let changed = rewritten(&exchange, &texts(), changed).expect("it is valid");
        assert_eq!(changed[1].text, "c");
        for text in [
            r#"[{"role":"user","text":"a"},{"role":"user","text":"c"}]"#,
            r#"[{"role":"system","text":"a"}]"#,
            r#"[{"role":"system","text":"a"},{"role":"user","text":"c","n":1}]"#,
            r#"[{"role":"system","text":"a"},{"role":"user","text":1}]"#,
            "{}",
            "[",
        ] {
            assert!(rewritten(&exchange, &texts(), text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_part_that_a_guard_hides_has_a_placeholder_in_requests_alone() {
        let request = exchange(GuardHook::BeforeModel);
        let hiding = r#"[{"role":"system","text":"to ann@a.example","hide":[{"start":3,"end":16,"kind":"email"}]},{"role":"user","text":"b"}]"#;
        let hidden = rewritten(&request, &texts(), hiding).expect("it is valid");
        assert_eq!(hidden[0].text, "to [EMAIL_1]");
        let refused = rewritten(&exchange(GuardHook::AfterModel), &texts(), hiding);
        assert!(refused.is_err());
        for hide in [
            r#"[{"start":3,"end":99,"kind":"email"}]"#,
            r#"[{"start":3,"end":16,"kind":"E"}]"#,
            r#"[{"start":3,"end":16}]"#,
            "1",
        ] {
            let text = format!(
                r#"[{{"role":"system","text":"to ann@a.example","hide":{hide}}},{{"role":"user","text":"b"}}]"#
            );
            assert!(rewritten(&request, &texts(), &text).is_err(), "{hide}");
        }
    }

    #[test]
    fn a_part_that_has_a_placeholder_is_hidden_in_later_texts_of_requests() {
        let request = exchange(GuardHook::BeforeModel);
        let hiding = r#"[{"role":"system","text":"030 1234567","hide":[{"start":0,"end":11,"kind":"phone"}]},{"role":"user","text":"b"}]"#;
        rewritten(&request, &texts(), hiding).expect("it is valid");
        let text = r#"{"number":"030 1234567"}"#;
        let mut later = [ReviewedText { role: "call".to_owned(), text: text.to_owned() }];
        let response = ReviewedExchange { hook: GuardHook::AfterModel, ..request.clone() };
        assert!(!hide_known(&response, &mut later) && later[0].text == text);
        assert!(hide_known(&request, &mut later));
        assert_eq!(later[0].text, r#"{"number":"[PHONE_1]"}"#);
        assert!(!hide_known(&request, &mut later), "nothing is left to hide");
    }

    #[test]
    fn the_cause_of_an_invalid_rewrite_shows_no_text_of_the_conversation() {
        for text in [
            r#"["ann@a.example"]"#,
            r#"[{"role":"user","text":"a","ann@a.example":1}]"#,
            r#"[{"role":"user","text":"a","hide":"ann@a.example"}]"#,
            r#"[{"role":"user","text":"a","hide":[{"start":"ann@a.example"}]}]"#,
        ] {
            let cause = rewritten(&exchange(GuardHook::BeforeModel), &texts(), text);
            let cause = with_causes(&*cause.expect_err("it is invalid"));
            assert!(!cause.contains("ann"), "{cause}");
            assert!(cause.contains("line 1"), "{cause}");
        }
    }

    #[test]
    fn the_longest_window_counts_if_each_guard_of_responses_has_one() {
        let hook = GuardHook::AfterModel;
        let of_calls = Hooks::from_iter([GuardHook::Before]);
        for (guards, expected) in [
            (vec![(Hooks::default(), Some(256))], Some(256)),
            (vec![(Hooks::from_iter([hook]), Some(256)), (Hooks::default(), Some(512))], Some(512)),
            (vec![(Hooks::default(), Some(256)), (Hooks::default(), None)], None),
            (vec![(Hooks::default(), Some(256)), (of_calls, None)], Some(256)),
        ] {
            let guards = guards.into_iter().map(|(hooks, stream_window)| Settings {
                stream_window,
                ..absent(Scope::default(), hooks)
            });
            let guards = Guards::new(&guards.collect::<Vec<_>>()).expect("there are some");
            assert_eq!(guards.stream_window(&Membership::default()), expected);
        }
    }

    #[tokio::test]
    async fn short_texts_wait_for_a_turn_of_their_tenant_and_long_ones_for_a_thread() {
        let guards = Guards::new(&[absent(Scope::default(), Hooks::default())]);
        let guards = guards.expect("there is one");
        // Other tests have turns of other tenants.
        let key = VirtualKey::new("short", "short", std::collections::BTreeMap::new());
        let tenant = key.tenant().clone();
        let exchange = ReviewedExchange { tenant, ..exchange(GuardHook::AfterModel) };
        let many = vec![text(""); INLINE_BYTES / written_bytes(&text(""))];
        let held = threads::occupy_turns(&exchange.tenant).await;
        let mut short = guards.decide(exchange.clone(), texts());
        assert!(short.as_mut().now_or_never().is_none());
        drop(held);
        assert!(short.await.is_err());
        let held = threads::occupy(&exchange.tenant).await;
        // They would wait for ever for a thread.
        for short in [texts(), many.clone()] {
            assert!(guards.decide(exchange.clone(), short).await.is_err());
        }
        let more = [many, vec![text("")]].concat();
        for long in [more, vec![text(&"x".repeat(INLINE_BYTES))]] {
            let mut waiting = guards.decide(exchange.clone(), long);
            assert!(waiting.as_mut().now_or_never().is_none());
        }
        drop(held);
        let long = vec![text(&"x".repeat(INLINE_BYTES))];
        assert!(guards.decide(exchange, long).await.is_err());
    }

    #[tokio::test]
    async fn short_texts_in_which_many_originals_are_looked_for_wait_for_a_thread() {
        let guards = Guards::new(&[absent(Scope::default(), Hooks::default())]);
        let guards = guards.expect("there is one");
        let key = VirtualKey::new("searched", "searched", std::collections::BTreeMap::new());
        let tenant = key.tenant().clone();
        let request = ReviewedExchange { tenant, ..exchange(GuardHook::BeforeModel) };
        let response = ReviewedExchange { hook: GuardHook::AfterModel, ..request.clone() };
        let held = threads::occupy(&request.tenant).await;
        assert!(guards.decide(request.clone(), texts()).await.is_err());
        for number in 0..INLINE_BYTES / 256 {
            let original = format!("{number:0256}");
            let kind = "number".to_owned();
            let span = PlaceholderSpan { start: 0, end: original.len(), kind };
            request.placeholders.replace(&original, &[span]).expect("it can have a placeholder");
        }
        let mut waiting = guards.decide(request, texts());
        assert!(waiting.as_mut().now_or_never().is_none());
        // A response is not searched. It would wait for ever for a thread.
        assert!(guards.decide(response, texts()).await.is_err());
        drop(held);
        assert!(waiting.await.is_err());
    }

    #[tokio::test]
    async fn a_guard_that_is_not_loaded_refuses_the_requests_in_its_scope() {
        let of_key = Scope { keys: Some(["ann".to_owned()].into()), ..Scope::default() };
        let of_tools = Scope { tools: Some(Vec::new()), ..Scope::default() };
        let key = VirtualKey::new("ann", "ann", std::collections::BTreeMap::new());
        let ann = key.membership().clone();
        let hook = GuardHook::BeforeModel;
        for (scope, hooks, anonymous, of_ann) in [
            (Scope::default(), Hooks::default(), true, true),
            (of_key, Hooks::from_iter([hook]), false, true),
            (of_tools, Hooks::default(), false, false),
            (Scope::default(), Hooks::from_iter([GuardHook::AfterModel]), false, false),
        ] {
            let guards = Guards::new(&[absent(scope, hooks)]);
            let guards = guards.expect("there is one");
            assert_eq!(guards.looks(hook, &Membership::default()), anonymous);
            assert_eq!(guards.looks(hook, &ann), of_ann);
            let exchange = ReviewedExchange {
                tenant: key.tenant().clone(),
                membership: ann.clone(),
                ..exchange(hook)
            };
            let acts = exchange.acts.clone();
            let decided = guards.decide(exchange, texts()).await;
            assert_eq!(
                decided.err().map(|refusal| refusal.code()),
                of_ann.then_some(HostCode::GuardFailed)
            );
            let acts = acts.recorded();
            let failed = acts.iter().map(|act| (&*act.guard, act.hook, act.verdict));
            let expected = of_ann.then_some(("absent", hook, GuardDecision::Fail));
            assert!(failed.eq(expected), "{acts:?}");
        }
    }
}
