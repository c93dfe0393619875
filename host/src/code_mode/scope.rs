//! Names and the index of the tools of one view, made once for all requests with this view.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;

use super::{
    cache::StubCache,
    names::{self, Namespace},
    search::Index,
};
use crate::{
    door::{View, ViewId},
    sandbox::Bindings,
};

/// Scopes that are kept.
const MAX_SCOPES: usize = 32;
/// Tools of all kept scopes together. Each takes about 400 bytes.
const MAX_TOOLS: usize = 100_000;

/// The tools that the scripts of one view may call.
pub(super) struct Scope {
    /// Their names, sorted by client.
    pub(super) namespaces: Vec<Namespace>,
    index: OnceCell<Index>,
    bindings: OnceLock<Arc<Bindings>>,
    stored: OnceLock<StoredBindings>,
}

/// The bindings of a view as runs store them.
#[derive(Clone)]
pub(super) struct StoredBindings {
    pub(super) text: Arc<str>,
    pub(super) digest: [u8; 32],
}

/// Scopes of the views that were used last.
#[derive(Default)]
pub(super) struct Scopes(Mutex<VecDeque<(ViewId, Arc<Scope>)>>);

impl Scope {
    fn of(view: &View) -> Self {
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

    /// Returns its bindings as runs store them, made for the first run that is stored.
    pub(super) fn stored(&self) -> StoredBindings {
        let make = || {
            let text: Arc<str> = names::stored(&self.bindings()).into();
            StoredBindings { digest: Sha256::digest(text.as_bytes()).into(), text }
        };
        self.stored.get_or_init(make).clone()
    }

    /// Returns the number of tools.
    pub(super) fn len(&self) -> usize {
        self.namespaces.iter().map(|namespace| namespace.functions.len()).sum()
    }

    /// Returns the index of its tools.
    pub(super) async fn index(&self, stubs: &StubCache) -> &Index {
        let make = || async {
            let mut all = Vec::new();
            for namespace in &self.namespaces {
                all.push(stubs.stubs(&namespace.tools()).await);
            }
            Index::new(all)
        };
        self.index.get_or_init(make).await
    }
}

impl Scopes {
    /// Returns the scope of a view.
    pub(super) fn of(&self, view: &View) -> Arc<Scope> {
        let id = view.id();
        if let Some(scope) = self.find(&id) {
            return scope;
        }
        let scope = Arc::new(Scope::of(view));
        self.keep(id, scope.clone());
        scope
    }

    /// Finds a scope, and makes it the last that is dropped.
    fn find(&self, id: &ViewId) -> Option<Arc<Scope>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(kept, _)| kept == id)?;
        let found = kept.remove(at)?;
        let scope = found.1.clone();
        kept.push_front(found);
        Some(scope)
    }

    fn keep(&self, id: ViewId, scope: Arc<Scope>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push_front((id, scope));
        // The tools of a view that no longer exists may be dropped too.
        kept.retain(|(id, _)| id.exists());
        let mut left = MAX_TOOLS;
        let fit = kept.iter().take(MAX_SCOPES).take_while(|(_, scope)| {
            let rest = left.checked_sub(scope.len());
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        let fit = fit.count();
        kept.truncate(fit);
    }

    /// Drops the scopes of views that no longer exist, and with them their tools.
    pub(super) fn prune(&self) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(id, _)| id.exists());
    }

    /// Returns the number of scopes that are kept.
    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use futures_util::future::BoxFuture;
    use serde_json::json;

    use super::*;
    use crate::{
        door::{Admitted, Filter, Provider, Source},
        tool::{CallError, ClientName, Policy, Tool, ToolOutput, Whitelist},
    };

    struct Unused;
    impl Provider for Unused {
        fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
            Box::pin(async { Err(CallError::Cancelled) })
        }
    }

    fn view(tools: usize) -> View {
        let client = ClientName::parse("c").expect("a good name");
        let tool = |n| {
            let tool = serde_json::from_value(json!({"name": format!("t{n}"), "inputSchema": {}}));
            Arc::new(Tool::adopt(&client, tool.expect("a definition")).expect("a good tool"))
        };
        let tools: Vec<_> = (0..tools).map(tool).collect();
        let policy = Policy { execute: Whitelist::All, code_mode: true, ..Policy::default() };
        let source = Source {
            client: &client,
            policy: &policy,
            tools: &tools,
            unaccepted: &BTreeSet::new(),
            provider: &(Arc::new(Unused) as Arc<dyn Provider>),
            is_server: true,
        };
        View::new([source], None, &Filter::none(), None)
    }

    #[test]
    fn a_scope_is_made_once_for_a_view_and_dropped_with_it() {
        let (scopes, view) = (Scopes::default(), view(3));
        let scope = scopes.of(&view);
        assert_eq!(scope.len(), 3);
        assert!(Arc::ptr_eq(&scope.bindings(), &scope.bindings()), "no run makes them again");
        assert!(Arc::ptr_eq(&scope.stored().text, &scope.stored().text));
        assert!(Arc::ptr_eq(&scope, &scopes.of(&view.sent_by(&Filter::none(), None))));
        assert!(!Arc::ptr_eq(&scope, &scopes.of(&self::view(3))));
        assert_eq!(scopes.count(), 1 + 1, "the other view has ended, but nothing was pruned yet");
        scopes.prune();
        assert_eq!(scopes.count(), 1);
        drop(view);
        scopes.prune();
        assert_eq!(scopes.count(), 0);
    }

    #[test]
    fn the_kept_scopes_are_bounded_in_number_and_in_tools() {
        let scopes = Scopes::default();
        let views: Vec<_> = (0..=MAX_SCOPES).map(|_| view(1)).collect();
        let made: Vec<_> = views.iter().map(|view| scopes.of(view)).collect();
        assert_eq!(scopes.count(), MAX_SCOPES);
        assert!(!Arc::ptr_eq(&made[0], &scopes.of(&views[0])), "the oldest one was dropped");
        assert!(Arc::ptr_eq(&made[MAX_SCOPES], &scopes.of(&views[MAX_SCOPES])));
        let (scopes, half) = (Scopes::default(), view(2));
        let large = Arc::new(Scope::of(&half));
        for (view, expected) in views.iter().zip(1..) {
            scopes.keep(view.id(), large.clone());
            assert_eq!(scopes.count(), expected.min(MAX_SCOPES));
        }
    }
}
