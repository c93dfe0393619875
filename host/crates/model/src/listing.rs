//! Lists of models, cached as text.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use serde_json::Value;
use tokio::sync::Semaphore;

use airlock_conversation::Object;

/// Time for which a list is cached, also the empty list of a provider that does not respond.
const LIST_AGE: Duration = Duration::from_mins(1);
/// Maximum number of models of one provider, ten times as many as `OpenRouter` lists. The rest is
/// left out, because the list of all providers is one response.
const MAX_MODELS: usize = 4_096;
/// Text of a provider without models.
const NOTHING: &str = "";

/// The cached list of one provider.
#[derive(Debug)]
pub(super) struct ModelList {
    /// Permits one request at a time. The other callers wait for its list.
    turn: Semaphore,
    listed: ArcSwapOption<CachedList>,
}

#[derive(Debug)]
struct CachedList {
    at: Instant,
    text: Arc<str>,
}

impl ModelList {
    /// Creates a list that has not been requested.
    pub(super) fn new() -> Self {
        Self { turn: Semaphore::new(1), listed: ArcSwapOption::empty() }
    }

    /// Returns the cached list. If there is none, or it is old, requests it from the provider of
    /// this name.
    pub(super) async fn get(
        &self,
        provider: &str,
        request: impl Future<Output = Vec<Object>>,
    ) -> Arc<str> {
        if let Some(text) = self.cached() {
            return text;
        }
        let _turn = self.turn.acquire().await;
        if let Some(text) = self.cached() {
            return text;
        }
        let text: Arc<str> = to_text(provider, request.await).into();
        self.listed.store(Some(Arc::new(CachedList { at: Instant::now(), text: text.clone() })));
        text
    }

    fn cached(&self) -> Option<Arc<str>> {
        let listed = self.listed.load();
        listed.as_ref().filter(|listed| listed.at.elapsed() < LIST_AGE).map(|l| l.text.clone())
    }
}

/// Returns the models as JSON texts separated by commas, with ids that start with the name of their
/// provider.
pub(super) fn to_text(provider: &str, models: Vec<Object>) -> String {
    let mut text = NOTHING.to_owned();
    for mut model in models.into_iter().take(MAX_MODELS) {
        if let Some(Value::String(id)) = model.get_mut("id") {
            id.insert_str(0, &format!("{provider}/"));
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&Value::from(model).to_string());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;
    use serde_json::json;

    use super::*;
    use airlock_json::object;

    #[tokio::test]
    async fn many_callers_wait_for_one_request() {
        let listing = ModelList::new();
        let requests = AtomicUsize::new(0);
        let callers = (0..20).map(|_| {
            listing.get("p", async {
                requests.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                vec![object(json!({"id": "a"})), object(json!({"id": "b", "x": 1}))]
            })
        });
        for text in join_all(callers).await {
            assert_eq!(&*text, r#"{"id":"p/a"},{"id":"p/b","x":1}"#);
        }
        assert_eq!(requests.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_caller_that_leaves_does_not_keep_the_others_waiting() {
        let listing = ModelList::new();
        let mut left = Box::pin(listing.get("p", std::future::pending()));
        assert!(futures_util::poll!(&mut left).is_pending());
        let mut waiting = Box::pin(listing.get("p", async { Vec::new() }));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        drop(left);
        assert_eq!(&*waiting.await, NOTHING);
    }

    #[test]
    fn models_beyond_the_limit_are_left_out() {
        let text = to_text("p", vec![object(json!({"id": "a"})); MAX_MODELS + 1]);
        assert_eq!(text.matches("p/a").count(), MAX_MODELS);
    }
}
