//! Explanations of random catalogs agree with the views of the same requests.

use proptest::{prelude::*, sample::subsequence};

use super::*;
use airlock_core::door::{Grants, OwnTools, credential_digest};

const CLIENTS: [&str; 3] = ["alpha", "beta", "gamma"];
const TOOLS: [&str; 4] = ["read", "write", "Write", "a/b"];

fn client_name() -> impl Strategy<Value = ClientName> {
    prop::sample::select(&CLIENTS[..]).prop_map(client)
}

fn allowlist() -> impl Strategy<Value = Allowlist> {
    prop_oneof![
        Just(Allowlist::All),
        subsequence(TOOLS.to_vec(), 0..=TOOLS.len()).prop_map(|names| list(&names)),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    let prefix =
        prop::sample::select(vec![Prefix::Client, Prefix::Off, Prefix::Other(client("p"))]);
    (allowlist(), exclusions(), allowlist(), any::<[bool; 3]>(), prefix).prop_map(
        |(execute, exclude, auto_execute, [code_mode, allow_on_all_keys, is_owned], prefix)| {
            Policy {
                execute,
                exclude,
                auto_execute,
                code_mode,
                allow_on_all_keys,
                is_owned,
                prefix,
                ..Policy::default()
            }
        },
    )
}

fn exclusions() -> impl Strategy<Value = Exclusions> {
    prop_oneof![
        3 => Just(Exclusions::default()),
        1 => Just(Exclusions::parse(&["*"]).expect("a good list")),
        2 => subsequence(TOOLS.to_vec(), 0..=2)
            .prop_map(|names| Exclusions::parse(&names).expect("a good list")),
    ]
}

fn header(items: Vec<String>) -> impl Strategy<Value = Option<String>> {
    let count = items.len();
    prop::option::of(subsequence(items, 0..=count).prop_map(|items| items.join(",")))
}

fn filter() -> impl Strategy<Value = Filter> {
    let clients = CLIENTS.iter().map(|name| (*name).to_owned()).chain(["*".to_owned()]);
    let tools = CLIENTS.iter().flat_map(|client| {
        let tools = TOOLS.iter().map(move |tool| format!("{client}-{tool}"));
        tools.chain([format!("{client}-*")])
    });
    let tools = tools.chain(["read".to_owned(), "p-write".to_owned()]);
    let tools: Vec<_> = tools.collect();
    (header(clients.collect()), header(tools.clone()), header(tools), group()).prop_map(
        |(clients, tools, excluded, group)| {
            let mut filter =
                Filter::parse(clients.as_deref(), tools.as_deref()).excluding(excluded.as_deref());
            if let Some(group) = group {
                filter.narrow_to_group(group.as_ref());
            }
            filter
        },
    )
}

/// Group that a request selects: none, one that does not exist any more, or one with tools.
fn group() -> impl Strategy<Value = Option<Option<Arc<ToolGroup>>>> {
    let tools = prop::collection::btree_map(client_name(), allowlist(), 0..=CLIENTS.len());
    let group = tools.prop_map(|tools| {
        let slug = GroupSlug::parse("group").expect("a slug");
        Arc::new(ToolGroup { name: "Group".to_owned(), slug, tools, keys: None })
    });
    prop::option::weighted(0.3, prop::option::weighted(0.8, group))
}

fn virtual_key() -> impl Strategy<Value = Option<VirtualKey>> {
    let rows = prop::collection::btree_map(client_name(), allowlist(), 0..=CLIENTS.len());
    let approval = prop::option::of(prop::sample::select(&ApprovalChoice::ALL[..]));
    let key = (rows, bounds(), approval).prop_map(|(rows, bounds, approval)| {
        let grants = Grants { rows, ..bounds };
        VirtualKey::from_digest("key", credential_digest("sk-bf-test"), grants)
            .with_approval(approval)
    });
    prop::option::of(key)
}

/// Grants without rows.
fn bounds() -> impl Strategy<Value = Grants> {
    let excluded = prop::collection::btree_map(client_name(), exclusions(), 0..=CLIENTS.len());
    let owned = prop::collection::btree_set(client_name(), 0..=CLIENTS.len());
    let clients = prop::collection::btree_map(client_name(), exclusions(), 0..=CLIENTS.len());
    let environment = prop::option::weighted(0.4, clients).prop_map(|clients| {
        clients.map(|clients| Arc::new(Environment { name: "eu".to_owned(), clients }))
    });
    (excluded, owned, environment).prop_map(|(excluded, owned, environment)| Grants {
        excluded,
        owned,
        environment,
        ..Grants::default()
    })
}

/// Returns a catalog with these tools in each client, and with a meta-tool.
fn catalog(policies: Vec<Policy>, tools: &[Vec<&'static str>]) -> Arc<Catalog> {
    let catalog = Catalog::new();
    for ((name, policy), tools) in CLIENTS.iter().zip(policies).zip(tools) {
        add_held(&catalog, name, policy, tools, &["a/b", "new"]);
    }
    let run = Tool::own("executeToolCode", "", json!({"type": "object"}));
    let provider = Arc::new(Quarantine(&[]));
    catalog.set_meta_tools(OwnTools { tools: vec![Arc::new(run)], provider });
    catalog
}

proptest! {
    /// The guarantee of an explanation: it says that a tool is visible exactly if the view of the same
    /// request finds it, and names a reason exactly if the tool is hidden. It has every client but those
    /// that belong to others, of which the view has nothing.
    #[test]
    fn an_explanation_agrees_with_the_view(
        policies in prop::collection::vec(policy(), 3),
        tools in prop::collection::vec(subsequence(TOOLS.to_vec(), 0..=TOOLS.len()), 3),
        filter in filter(),
        key in virtual_key(),
        configured in prop::sample::select(&ApprovalChoice::ALL[..]),
        is_switched_off in prop::bool::weighted(0.2),
    ) {
        let catalog = catalog(policies, &tools);
        catalog.switch_off(is_switched_off);
        let snapshot = catalog.snapshot();
        let approval = key.as_ref().and_then(|key| key.approval).unwrap_or(configured);
        let view = snapshot.view(&filter, key.as_ref());
        let view = if approval == ApprovalChoice::Omit { view.without_asking() } else { view };
        let explanation = snapshot.explain(&filter, key.as_ref()).with_approval(configured);
        let mut explained = 0;
        let mut visible = 0;
        for client in explanation.clients() {
            for tool in client.tools() {
                let name = tool.name();
                let found = [Origin::Model, Origin::Script].map(|origin| {
                    let entry = view.find(&origin, &name);
                    entry.is_some_and(|entry| {
                        entry.tool.client.as_ref() == Some(client.name())
                            && matches!(tool.subject, ExplainSubject::Listed(listed) if listed.original == entry.tool.original)
                    })
                });
                let expected = match found {
                    [true, false] => Visibility::Models,
                    [false, true] => Visibility::Scripts,
                    [false, false] => Visibility::Hidden,
                    [true, true] => panic!("a tool has one placement"),
                };
                prop_assert_eq!(tool.visibility(), expected, "{}", name);
                let reasons = tool.reasons();
                prop_assert_eq!(reasons.is_empty(), expected != Visibility::Hidden, "{}: {:?}", name, reasons);
                explained += usize::from(matches!(tool.subject, ExplainSubject::Listed(_)));
                visible += usize::from(expected != Visibility::Hidden);
                if let Some(entry) = view.find(&Origin::Caller, &name).filter(|_| expected != Visibility::Hidden) {
                    prop_assert_eq!(tool.approval().map(ToolApproval::is_needed), Some(!entry.auto));
                }
            }
            if !client.reasons().is_empty() {
                let is_hidden = client.tools().all(|tool| tool.visibility() == Visibility::Hidden);
                prop_assert!(is_hidden, "{}: {:?}", client.name(), client.reasons());
            }
        }
        let concealed = snapshot.clients().filter(|client| {
            client.policy.is_owned
                && key.as_ref().is_none_or(|key| !key.grants.owned.contains(&client.name))
        });
        let concealed: Vec<_> = concealed.collect();
        prop_assert_eq!(explanation.concealed().is_some(), !concealed.is_empty());
        let hidden = concealed.iter().map(|client| client.tools.len()).sum::<usize>();
        let all = snapshot.clients().map(|client| client.tools.len()).sum::<usize>();
        prop_assert_eq!(explained + hidden, all);
        for client in concealed {
            prop_assert!(!snapshot.shows(&client.name, &filter, key.as_ref()));
        }
        let of_clients = view.list(&Origin::Caller).filter(|entry| entry.tool.client.is_some());
        prop_assert_eq!(visible, of_clients.count(), "no tool of the view is left out");
    }
}
