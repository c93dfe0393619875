//! Stubs of published tools. Each is rendered once, off the threads that serve requests, and kept
//! while its tool is published.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;
use tokio::{sync::Semaphore, task::spawn_blocking};
use tracing::error;

use super::stub::Stub;
use airlock_core::tool::Tool;

/// Rendered stubs, by the address of their tool.
pub(super) struct StubCache {
    kept: Mutex<HashMap<usize, CachedStub>>,
    /// Permit for rendering. One source's tools are rendered at a time, so hostile schemas occupy
    /// at most one core.
    turn: Semaphore,
}

/// A cached stub. The weak reference prevents the reuse of the address for another tool.
struct CachedStub {
    tool: Weak<Tool>,
    stub: Arc<Stub>,
}

impl StubCache {
    pub(super) fn new() -> Self {
        Self { kept: Mutex::default(), turn: Semaphore::new(1) }
    }

    /// Returns the stubs of one source's tools, in the same order. Missing stubs are rendered on a
    /// blocking thread, which takes up to about 0.5 s. If the future is dropped, rendering that has
    /// not begun does not begin.
    pub(super) async fn stubs(&self, tools: &[Arc<Tool>]) -> Vec<Arc<Stub>> {
        if !self.missing(tools).is_empty() {
            // Never fails: the semaphore is never closed.
            let _turn = self.turn.acquire().await;
            self.render(self.missing(tools)).await;
        }
        let kept = self.kept.lock();
        tools
            .iter()
            .map(|tool| match kept.get(&address(tool)) {
                Some(kept) => kept.stub.clone(),
                None => Arc::new(Stub::left_out(tool)),
            })
            .collect()
    }

    /// Removes the stubs of tools that no longer exist.
    pub(super) fn prune(&self) {
        self.kept.lock().retain(|_, kept| kept.tool.strong_count() > 0);
    }

    /// Returns the number of cached stubs.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.kept.lock().len()
    }

    fn missing(&self, tools: &[Arc<Tool>]) -> Vec<Arc<Tool>> {
        let kept = self.kept.lock();
        tools.iter().filter(|tool| !kept.contains_key(&address(tool))).cloned().collect()
    }

    async fn render(&self, tools: Vec<Arc<Tool>>) {
        let rendered = spawn_blocking(move || {
            let stubs = Stub::render_all(tools.iter().map(|tool| &**tool));
            (tools, stubs)
        });
        let Ok((tools, stubs)) = rendered.await else {
            error!(
                "rendering the stubs of tools panicked; they are shown without their parameters"
            );
            return;
        };
        let mut kept = self.kept.lock();
        kept.retain(|_, kept| kept.tool.strong_count() > 0);
        for (tool, stub) in tools.iter().zip(stubs) {
            kept.insert(
                address(tool),
                CachedStub { tool: Arc::downgrade(tool), stub: Arc::new(stub) },
            );
        }
    }
}

fn address(tool: &Arc<Tool>) -> usize {
    Arc::as_ptr(tool).addr()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn tool(name: &'static str) -> Arc<Tool> {
        Arc::new(Tool::own(
            name,
            "",
            json!({"type": "object", "properties": {name: {"type": "integer"}}}),
        ))
    }

    #[tokio::test]
    async fn a_stub_is_rendered_once_and_dropped_with_its_tool() {
        let cache = StubCache::new();
        let tools = [tool("a"), tool("b")];
        let first = cache.stubs(&tools).await;
        assert_eq!(first[1].parameters, "b: int = None");
        let again = cache.stubs(&tools[..1]).await;
        assert!(Arc::ptr_eq(&first[0], &again[0]), "it was rendered again");
        drop(tools);
        cache.prune();
        assert!(cache.kept.lock().is_empty());
    }

    #[tokio::test]
    async fn requests_for_the_same_tools_at_the_same_time_share_one_rendering() {
        let cache = StubCache::new();
        let tools = [tool("a")];
        let both = futures_util::future::join(cache.stubs(&tools), cache.stubs(&tools)).await;
        assert!(Arc::ptr_eq(&both.0[0], &both.1[0]));
    }

    #[tokio::test]
    async fn a_tool_published_again_under_its_name_is_rendered_again() {
        let cache = StubCache::new();
        let old = tool("a");
        let new = tool("a");
        let first = cache.stubs(&[old]).await;
        let second = cache.stubs(&[new]).await;
        assert!(!Arc::ptr_eq(&first[0], &second[0]));
    }

    #[tokio::test]
    async fn rendering_a_stub_removes_those_of_tools_that_no_longer_exist() {
        let cache = StubCache::new();
        drop(cache.stubs(&[tool("a"), tool("b")]).await);
        let kept = [tool("c")];
        cache.stubs(&kept).await;
        assert_eq!(cache.kept.lock().keys().collect::<Vec<_>>(), [&address(&kept[0])]);
    }

    #[tokio::test]
    async fn a_source_is_rendered_after_the_one_before_it() {
        let cache = StubCache::new();
        let turn = cache.turn.acquire().await.expect("the semaphore is never closed");
        let tools = [tool("a")];
        let mut waiting = Box::pin(cache.stubs(&tools));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(Arc::strong_count(&tools[0]), 1, "no thread has the tool");
        drop(turn);
        assert_eq!(waiting.await[0].parameters, "a: int = None");
    }
}
