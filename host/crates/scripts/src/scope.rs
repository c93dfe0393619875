//! Names and the index of the tools of one view, made once for all requests with this view.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use super::{
    cache::StubCache,
    names::{self, Namespace},
    search::ToolIndex,
};
use airlock_core::door::{View, ViewId};
use airlock_sandbox::Bindings;
use airlock_store::runs::ScriptTools;

/// Bounds of the kept scopes of views that requests share: of virtual keys, and of no key.
const SHARED: ScopeBounds = ScopeBounds { scopes: 32, tools: 100_000 };
/// Bounds of the kept scopes of views whose tools the headers of a request select. A caller makes as
/// many as it likes, which drops those of other such requests alone.
const SELECTED: ScopeBounds = ScopeBounds { scopes: 8, tools: 25_000 };

/// Bounds of kept scopes.
#[derive(Debug, Clone, Copy)]
struct ScopeBounds {
    scopes: usize,
    /// Tools of all kept scopes together. Each takes about 400 bytes.
    tools: usize,
}

/// The tools that the scripts of one view may call.
pub(super) struct ScriptScope {
    /// Their names, sorted by client.
    pub(super) namespaces: Vec<Namespace>,
    index: OnceCell<ToolIndex>,
    bindings: OnceLock<Arc<Bindings>>,
    stored: OnceLock<ScriptTools>,
}

/// Scopes of the views that were used last.
pub(super) struct ScriptScopes {
    shared: ScopeCache,
    selected: ScopeCache,
}

/// Scopes that are kept within bounds, the last one used first.
struct ScopeCache {
    bounds: ScopeBounds,
    scopes: Mutex<VecDeque<(ViewId, Arc<ScriptScope>)>>,
}

impl ScriptScope {
    fn new(view: &View) -> Self {
        Self {
            namespaces: names::namespaces(view.scripted()),
            index: OnceCell::new(),
            bindings: OnceLock::new(),
            stored: OnceLock::new(),
        }
    }

    /// Returns the bindings of its tools, made for the first script.
    pub(super) fn bindings(&self) -> Arc<Bindings> {
        self.bindings.get_or_init(|| Arc::new(names::bindings(&self.namespaces))).clone()
    }

    /// Returns its bindings as runs store them. Their text is made when the first run is stored, on a
    /// thread of the store.
    pub(super) fn stored(&self) -> ScriptTools {
        let stored = self.stored.get_or_init(|| {
            let bindings = self.bindings();
            ScriptTools::new(move || {
                let text = names::stored(&bindings);
                let digest = Sha256::digest(text.as_bytes()).into();
                (text, digest)
            })
        });
        stored.clone()
    }

    /// Returns the number of tools.
    pub(super) fn len(&self) -> usize {
        self.namespaces.iter().map(|namespace| namespace.functions.len()).sum()
    }

    /// Returns the index of its tools.
    pub(super) async fn index(&self, stubs: &StubCache) -> &ToolIndex {
        let index = self.index.get_or_init(|| async {
            let mut all = Vec::new();
            for namespace in &self.namespaces {
                all.push(stubs.stubs(&namespace.tools()).await);
            }
            ToolIndex::new(all)
        });
        index.await
    }
}

impl Default for ScriptScopes {
    fn default() -> Self {
        Self { shared: ScopeCache::new(SHARED), selected: ScopeCache::new(SELECTED) }
    }
}

impl ScriptScopes {
    /// Returns the scope of a view.
    pub(super) fn get(&self, view: &View) -> Arc<ScriptScope> {
        let kept = if view.is_selected() { &self.selected } else { &self.shared };
        kept.get(view)
    }

    /// Drops the scopes of views that no longer exist, and with them their tools.
    pub(super) fn prune(&self) {
        for kept in [&self.shared, &self.selected] {
            kept.scopes.lock().retain(|(id, _)| id.exists());
        }
    }

    /// Returns the number of scopes that are kept.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        [&self.shared, &self.selected].map(|kept| kept.scopes.lock().len()).iter().sum()
    }
}

impl ScopeCache {
    fn new(bounds: ScopeBounds) -> Self {
        Self { bounds, scopes: Mutex::default() }
    }

    fn get(&self, view: &View) -> Arc<ScriptScope> {
        let id = view.id();
        if let Some(scope) = self.find(&id) {
            return scope;
        }
        let scope = Arc::new(ScriptScope::new(view));
        self.keep(id, scope.clone());
        scope
    }

    /// Finds a scope, and makes it the last that is dropped.
    fn find(&self, id: &ViewId) -> Option<Arc<ScriptScope>> {
        let mut kept = self.scopes.lock();
        let at = kept.iter().position(|(kept, _)| kept == id)?;
        let found = kept.remove(at)?;
        let scope = found.1.clone();
        kept.push_front(found);
        Some(scope)
    }

    fn keep(&self, id: ViewId, scope: Arc<ScriptScope>) {
        let mut kept = self.scopes.lock();
        kept.push_front((id, scope));
        // The tools of a view that no longer exists may be dropped too.
        kept.retain(|(id, _)| id.exists());
        let mut left = self.bounds.tools;
        let fit = kept.iter().take(self.bounds.scopes).take_while(|(_, scope)| {
            let rest = left.checked_sub(scope.len());
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        let fit = fit.count();
        kept.truncate(fit);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures_util::future::BoxFuture;
    use serde_json::json;

    use super::*;
    use airlock_core::{
        door::{Admitted, Filter, Provider, Source},
        tool::{Allowlist, CallError, ClientName, Policy, Tool, ToolOutput},
    };

    struct Unused;
    impl Provider for Unused {
        fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
            Box::pin(async { Err(CallError::cancelled()) })
        }
    }

    fn view(tools: usize) -> View {
        filtered(tools, &Filter::none())
    }

    fn filtered(tools: usize, filter: &Filter) -> View {
        let client = ClientName::parse("c").expect("a good name");
        let tools = (0..tools).map(|n| {
            let tool = serde_json::from_value(json!({"name": format!("t{n}"), "inputSchema": {}}));
            Arc::new(Tool::adopt(&client, tool.expect("a definition")).expect("a good tool"))
        });
        let tools: Vec<_> = tools.collect();
        let policy = Policy { execute: Allowlist::All, code_mode: true, ..Policy::default() };
        let source = Source {
            client: &client,
            policy: &policy,
            tools: &tools,
            unaccepted: &BTreeSet::new(),
            provider: &(Arc::new(Unused) as Arc<dyn Provider>),
            is_server: true,
            is_switched_off: false,
        };
        View::new([source], None, filter, None)
    }

    #[test]
    fn a_scope_is_made_once_for_a_view_and_dropped_with_it() {
        let scopes = ScriptScopes::default();
        let view = view(3);
        let scope = scopes.get(&view);
        assert_eq!(scope.len(), 3);
        assert!(Arc::ptr_eq(&scope.bindings(), &scope.bindings()), "no run makes them again");
        assert_eq!(scope.stored(), scope.stored(), "they are made together");
        assert!(Arc::ptr_eq(&scope, &scopes.get(&view.clone().sent_by(&Filter::none(), None))));
        assert!(!Arc::ptr_eq(&scope, &scopes.get(&self::view(3))));
        assert_eq!(scopes.count(), 1 + 1, "the other view has ended, but nothing was pruned yet");
        scopes.prune();
        assert_eq!(scopes.count(), 1);
        drop(view);
        scopes.prune();
        assert_eq!(scopes.count(), 0);
    }

    #[test]
    fn the_kept_scopes_are_bounded_in_number() {
        let kept = ScopeCache::new(ScopeBounds { scopes: 2, tools: 100 });
        let views: Vec<_> = (0..3).map(|_| view(1)).collect();
        let made: Vec<_> = views.iter().map(|view| kept.get(view)).collect();
        assert_eq!(kept.scopes.lock().len(), 2);
        assert!(Arc::ptr_eq(&made[2], &kept.get(&views[2])));
        assert!(Arc::ptr_eq(&made[1], &kept.get(&views[1])));
        assert!(!Arc::ptr_eq(&made[0], &kept.get(&views[0])), "the oldest one was dropped");
        assert!(
            !Arc::ptr_eq(&made[2], &kept.get(&views[2])),
            "and then the one not used for longest"
        );
    }

    #[test]
    fn the_kept_scopes_are_bounded_in_tools() {
        let kept = ScopeCache::new(ScopeBounds { scopes: 10, tools: 5 });
        let views = [view(3), view(2), view(1), view(6)];
        for (view, expected) in views.iter().zip([1, 2, 2, 0]) {
            kept.get(view);
            assert_eq!(kept.scopes.lock().len(), expected);
        }
    }

    #[test]
    fn views_that_headers_select_do_not_drop_those_of_others() {
        let scopes = ScriptScopes::default();
        let shared = view(1);
        let made = scopes.get(&shared);
        let selected = Filter::parse(Some("c"), None);
        let views: Vec<_> = (0..=SHARED.scopes).map(|_| filtered(1, &selected)).collect();
        let last = views.iter().map(|view| scopes.get(view)).last().expect("some");
        assert_eq!(scopes.count(), 1 + SELECTED.scopes);
        assert!(Arc::ptr_eq(&made, &scopes.get(&shared)));
        assert!(Arc::ptr_eq(&last, &scopes.get(&views[SHARED.scopes])), "it is made once, too");
    }
}
