//! Views of one snapshot that were used last.
//!
//! A view has an entry for each tool of each client, and most requests of a gateway see the same
//! tools: those of one virtual key, or of no key. A view depends on what the key grants, on the
//! language of scripts, which selects the texts of the meta-tools, and on whether the request is the
//! operator's own. So the number of different ones is
//! bounded by the configuration; their memory is bounded here.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;

use airlock_core::door::{Filter, Grants, ScriptLanguage, View, VirtualKey};

/// Maximum views that are kept: one for each virtual key that was used last. Each request is compared
/// with the grants of all until one is its own. A view without tools counts here only.
const MAX_VIEWS: usize = 64;
/// Maximum tools of all kept views together. Each takes about 250 bytes, so they take 50 MB.
const MAX_TOOLS: usize = 200_000;

/// The views of one snapshot.
#[derive(Default)]
pub(super) struct Views(Mutex<VecDeque<KeptView>>);

struct KeptView {
    request: RequestKind,
    view: View,
}

/// All that the tools of a request without a selection depend on.
#[derive(PartialEq, Eq)]
struct RequestKind {
    /// Grants of the virtual key; `None` without a key.
    grants: Option<Arc<Grants>>,
    /// Language of scripts; `None` for that of the configuration.
    language: Option<ScriptLanguage>,
    is_of_operator: bool,
}

impl RequestKind {
    fn new(filter: &Filter, key: Option<&VirtualKey>) -> Self {
        Self {
            grants: key.map(|key| key.grants.clone()),
            language: filter.language(),
            is_of_operator: filter.is_of_operator(),
        }
    }
}

impl Views {
    /// Returns the view of one request: a kept one, or that which `make` makes. A request whose
    /// headers select tools gets a view of its own: there are as many selections as a caller likes.
    pub(super) fn view(
        &self,
        filter: &Filter,
        key: Option<&VirtualKey>,
        make: impl FnOnce() -> View,
    ) -> View {
        if !filter.is_none() {
            return make();
        }
        let request = RequestKind::new(filter, key);
        if let Some(view) = self.find(&request) {
            return view.sent_by(filter, key);
        }
        let view = make();
        self.keep(request, view.clone());
        view
    }

    /// Finds a view, and makes it the last that is dropped.
    fn find(&self, request: &RequestKind) -> Option<View> {
        let mut kept = self.0.lock();
        let at = kept.iter().position(|kept| kept.request == *request)?;
        if at > 0 {
            let found = kept.remove(at)?;
            kept.push_front(found);
        }
        kept.front().map(|kept| kept.view.clone())
    }

    fn keep(&self, request: RequestKind, view: View) {
        let mut kept = self.0.lock();
        kept.push_front(KeptView { request, view });
        let mut left = MAX_TOOLS;
        let fit = kept.iter().take(MAX_VIEWS).take_while(|kept| {
            let rest = left.checked_sub(kept.view.len());
            left = rest.unwrap_or(0);
            rest.is_some()
        });
        let fit = fit.count();
        kept.truncate(fit);
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::Cell,
        collections::{BTreeMap, BTreeSet},
    };

    use super::*;
    use crate::tests::{Unused, client};
    use airlock_core::{
        door::{CallerHeaders, Environment, Origin, Provider, Source},
        tenant::Tenant,
        tool::{Allowlist, Exclusions, Policy, Tool},
    };

    /// Returns a view with this many tools.
    fn large(tools: usize, filter: &Filter, key: Option<&VirtualKey>) -> View {
        let name = client("c");
        let tools = (0..tools).map(|n| {
            let tool = serde_json::json!({"name": format!("t{n}"), "inputSchema": {}});
            let tool = serde_json::from_value(tool).expect("a definition");
            Arc::new(Tool::adopt(&name, tool).expect("a good tool"))
        });
        let tools: Vec<_> = tools.collect();
        let policy = Policy { execute: Allowlist::All, ..Policy::default() };
        let provider = Arc::new(Unused) as Arc<dyn Provider>;
        let unaccepted = BTreeSet::new();
        let source = Source {
            client: &name,
            policy: &policy,
            tools: &tools,
            unaccepted: &unaccepted,
            provider: &provider,
            is_server: true,
            is_switched_off: false,
        };
        View::new([source], None, filter, key)
    }

    fn kept_in(views: &Views) -> usize {
        views.0.lock().len()
    }

    fn key(name: &str, clients: &[&str]) -> VirtualKey {
        let rows = clients.iter().map(|name| (client(name), Allowlist::All)).collect();
        VirtualKey::new(name, name, rows)
    }

    #[test]
    fn a_view_is_made_once_for_equal_rows_and_each_sender_keeps_its_own_identity() {
        let views = Views::default();
        let made = Cell::new(0);
        let open = |filter: &Filter, key: Option<&VirtualKey>| {
            views.view(filter, key, || {
                made.set(made.get() + 1);
                large(1, filter, key)
            })
        };
        let headers = CallerHeaders::collect([("x-a", b"1".as_slice())]);
        let filter = Filter::none().with_headers(headers.clone());
        assert_eq!(open(&filter, None).headers(), &headers);
        let again = open(&Filter::none(), None);
        assert_eq!((made.get(), again.headers()), (1, &CallerHeaders::default()));
        assert_eq!(again.tenant(), &Tenant::ANONYMOUS);
        let ann = key("ann", &["c"]);
        let bob = key("bob", &["c"]);
        let eve = key("eve", &[]);
        for key in [&ann, &bob, &eve] {
            let view = open(&filter, Some(key));
            assert_eq!((view.tenant(), view.headers()), (key.tenant(), &headers));
            let tools = view.list(&Origin::Model).count();
            assert_eq!(tools, key.grants.rows.len(), "{}", key.name);
        }
        assert_eq!(made.get(), 3, "ann and bob have equal rows");
        let narrow = Filter::parse(Some("none"), None);
        assert_eq!(open(&narrow, None).list(&Origin::Model).count(), 0);
        open(&narrow, None);
        assert_eq!(made.get(), 5, "a selection is never kept");
        let excluding = Filter::none().excluding(Some("c-t0"));
        assert_eq!(open(&excluding, None).list(&Origin::Model).count(), 0);
        assert_eq!(made.get(), 6);
        assert_eq!(open(&filter, None).list(&Origin::Model).count(), 1);
    }

    #[test]
    fn keys_with_equal_rows_and_other_bounds_have_views_of_their_own() {
        let views = Views::default();
        let made = Cell::new(0);
        let open = |filter: &Filter, key: Option<&VirtualKey>| {
            let view = views.view(filter, key, || {
                made.set(made.get() + 1);
                large(2, filter, key)
            });
            view.list(&Origin::Model).count()
        };
        let plain = key("plain", &["c"]);
        let mut narrow = key("narrow", &["c"]);
        let excluded = Exclusions::parse(&["t0"]).expect("a good list");
        Arc::make_mut(&mut narrow.grants).excluded.insert(client("c"), excluded);
        let mut bound = key("bound", &["c"]);
        let environment = Environment { name: "none".to_owned(), clients: BTreeMap::new() };
        Arc::make_mut(&mut bound.grants).environment = Some(Arc::new(environment));
        for _ in 0..2 {
            let tools = [&plain, &narrow, &bound].map(|key| open(&Filter::none(), Some(key)));
            assert_eq!(tools, [2, 1, 0]);
            assert_eq!(open(&Filter::of_operator(), None), 2);
        }
        assert_eq!(made.get(), 4);
    }

    #[test]
    fn a_view_is_made_once_for_each_language() {
        let views = Views::default();
        let made = Cell::new(0);
        let languages = [None, Some(ScriptLanguage::Python), Some(ScriptLanguage::Starlark)];
        for _ in 0..2 {
            for language in languages {
                let filter = Filter::none().with_language(language);
                let view = views.view(&filter, None, || {
                    made.set(made.get() + 1);
                    large(1, &filter, None)
                });
                assert_eq!((view.language(), view.is_selected()), (language, false));
            }
        }
        assert_eq!(made.get(), languages.len());
    }

    #[test]
    fn the_kept_views_are_bounded_in_number_and_in_tools() {
        let names: Vec<_> = (0..=MAX_VIEWS).map(|n| format!("c{n}")).collect();
        let views = Views::default();
        for name in &names {
            let key = key("k", &[name]);
            views.view(&Filter::none(), Some(&key), || large(0, &Filter::none(), Some(&key)));
        }
        assert_eq!(kept_in(&views), MAX_VIEWS);
        let filter = Filter::none();
        let [first, second] =
            [0, 1].map(|n| RequestKind::new(&filter, Some(&key("k", &[&names[n]]))));
        assert!(views.find(&first).is_none(), "the oldest one is dropped");
        assert!(views.find(&second).is_some());
        let views = Views::default();
        let half = large(MAX_TOOLS / 2, &Filter::none(), None);
        let filter = Filter::none();
        for (n, expected) in [(0, 1), (1, 2), (2, 2)] {
            let key = key("k", &[&names[n]]);
            views.view(&filter, Some(&key), || half.clone());
            assert_eq!(kept_in(&views), expected);
        }
    }
}
