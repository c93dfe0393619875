//! Decisions about requests to models and their responses.

use std::{error::Error, time::Instant};

use futures_util::future::BoxFuture;
use tracing::warn;

use super::{ConfiguredGuard, Guards, HookTime, MAX_TIME};
use airlock_core::{
    door::{Membership, ModelGuards, ReviewedExchange, ReviewedText},
    threads,
    tool::{Cause, GuardDecision, GuardHook, ModelRefusal},
};
use airlock_json::{self as json, Caps};
use airlock_sandbox::GuardVerdict;
use airlock_strings::with_causes;

/// Limit on the memory of the texts that a guard writes, in bytes.
const TEXT_CAPS: Caps = Caps::memory(256 << 20);

impl ModelGuards for Guards {
    fn looks(&self, hook: GuardHook, membership: &Membership) -> bool {
        asked(&self.0, hook, membership).next().is_some()
    }

    fn decide(
        &self,
        exchange: ReviewedExchange,
        texts: Vec<ReviewedText>,
    ) -> BoxFuture<'_, Result<Option<Vec<ReviewedText>>, ModelRefusal>> {
        let guards = self.0.clone();
        let tenant = exchange.tenant.clone();
        // The hop to a thread is short beside the time of a model, and there a slow guard delays its own tenant alone.
        Box::pin(async move {
            threads::run(&tenant, move || decide_texts(&guards, &exchange, texts)).await
        })
    }
}

/// Iterates over the guards that are asked about the requests or the responses of a party, in their order.
fn asked<'g>(
    guards: &'g [ConfiguredGuard],
    hook: GuardHook,
    membership: &'g Membership,
) -> impl Iterator<Item = &'g ConfiguredGuard> {
    guards
        .iter()
        .filter(move |guard| guard.runs(hook) && guard.settings.scope.has_model(membership))
}

/// Asks the guards about texts, one after the other, and records their decisions. Returns the texts that they leave;
/// `None` if these are the same.
fn decide_texts(
    guards: &[ConfiguredGuard],
    exchange: &ReviewedExchange,
    mut texts: Vec<ReviewedText>,
) -> Result<Option<Vec<ReviewedText>>, ModelRefusal> {
    let mut is_changed = false;
    let time = HookTime::begin(Instant::now() + MAX_TIME);
    for guard in asked(guards, exchange.hook, &exchange.membership) {
        let decided = guard.model(exchange, &texts, time);
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

/// Valid decision of one guard.
enum ModelVerdict {
    Allowed,
    Rewritten(Vec<ReviewedText>),
    Denied { code: String, reason: String },
}

impl ConfiguredGuard {
    /// Asks the guard about texts. Fails if it makes no valid decision.
    fn model(
        &self,
        exchange: &ReviewedExchange,
        texts: &[ReviewedText],
        time: HookTime,
    ) -> Result<ModelVerdict, Cause> {
        let begun = Instant::now();
        let ended = self.decide_model(exchange, texts, time);
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
    fn decide_model(
        &self,
        exchange: &ReviewedExchange,
        texts: &[ReviewedText],
        time: HookTime,
    ) -> Result<ModelVerdict, Cause> {
        let loaded = self.loaded.get().ok_or("it is not loaded")?;
        let written = serde_json::to_string(texts)?;
        let left = time.left(Instant::now()).ok_or("no time is left for its hook")?;
        match loaded.guard.model(exchange, written, left)? {
            GuardVerdict::Allow => Ok(ModelVerdict::Allowed),
            GuardVerdict::Rewrite(text) => {
                let changed = rewritten(texts, &text)?;
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
        let model = &*exchange.model;
        let cause = with_causes(cause);
        warn!(guard, model, cause, "a guard failed; the request or its response is refused");
        let act = self.act(exchange.hook, GuardDecision::Fail);
        exchange.acts.record(act.clone());
        ModelRefusal::failed(act)
    }
}

/// Reads the texts that a guard has written in the place of others. Fails if their roles are not the same.
fn rewritten(before: &[ReviewedText], text: &str) -> Result<Vec<ReviewedText>, Cause> {
    let (after, _): (Vec<ReviewedText>, _) = json::parse(text.as_bytes(), &TEXT_CAPS)?;
    let is_same = before.len() == after.len()
        && before.iter().zip(&after).all(|(before, after)| before.role == after.role);
    if is_same {
        Ok(after)
    } else {
        Err("the roles of its texts are not those that it was given".into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt as _;

    use super::*;
    use crate::{Hooks, Scope, Settings};
    use airlock_core::{door::VirtualKey, tool::HostCode};
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
        }
    }

    fn texts() -> Vec<ReviewedText> {
        let texts = [("system", "a"), ("user", "b")];
        texts.map(|(role, text)| ReviewedText { role: role.into(), text: text.into() }).into()
    }

    #[test]
    fn a_rewrite_has_the_same_roles_in_the_same_order() {
        let changed = r#"[{"role":"system","text":"a"},{"role":"user","text":"c"}]"#;
        let changed = rewritten(&texts(), changed).expect("it is valid");
        assert_eq!(changed[1].text, "c");
        for text in [
            r#"[{"role":"user","text":"a"},{"role":"user","text":"c"}]"#,
            r#"[{"role":"system","text":"a"}]"#,
            r#"[{"role":"system","text":"a"},{"role":"user","text":"c","n":1}]"#,
            r#"[{"role":"system","text":"a"},{"role":"user","text":1}]"#,
            "{}",
            "[",
        ] {
            assert!(rewritten(&texts(), text).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn a_short_text_is_not_decided_on_the_thread_that_asks() {
        let guards = Guards::new(&[absent(Scope::default(), Hooks::default())]);
        let guards = guards.expect("there is one");
        let exchange = ReviewedExchange {
            hook: GuardHook::AfterModel,
            model: "fake/m".to_owned(),
            tenant: airlock_core::tenant::Tenant::ANONYMOUS,
            membership: Membership::default().into(),
            acts: Arc::default(),
        };
        let held = threads::occupy(&exchange.tenant).await;
        let mut deciding = guards.decide(exchange, texts());
        assert!(deciding.as_mut().now_or_never().is_none());
        drop(held);
        assert!(deciding.await.is_err());
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
                hook,
                model: "fake/m".to_owned(),
                tenant: key.tenant().clone(),
                membership: ann.clone(),
                acts: Arc::default(),
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
