//! The guarantees of the door, for policies, filters, keys and origins at random.

use proptest::{prelude::*, sample::subsequence};

use super::*;
use crate::tool::ToolName;

/// Decides a call: as the caller's own call, or, for scripts and plugins, as a nested call.
fn decide(caller: &Caller, origin: &Origin, name: &str) -> Result<(), CallError> {
    if let Origin::Script | Origin::Plugin(_) = origin {
        let own = caller.view().list(&Origin::Caller).next().map(|entry| entry.tool.name.clone());
        let Some(own) = own else { return Err(CallError::not_found(name)) };
        let root = Caller::new(caller.view().clone(), Origin::Caller, BUDGET)
            .admit(own.as_str(), "")
            .expect("it is listed");
        return root.chain().admit(origin, name, "").map(drop);
    }
    caller.admit(name, "").map(drop)
}

fn allowlist() -> impl Strategy<Value = Allowlist> {
    prop_oneof![
        Just(Allowlist::All),
        subsequence(TOOLS.to_vec(), 0..=TOOLS.len())
            .prop_map(|names| Allowlist::parse(&names).expect("no duplicates")),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    (allowlist(), exclusions(), allowlist(), any::<[bool; 3]>()).prop_map(
        |(execute, exclude, auto_execute, [code_mode, allow_on_all_keys, is_owned])| Policy {
            execute,
            exclude,
            auto_execute,
            code_mode,
            allow_on_all_keys,
            is_owned,
            ..Policy::default()
        },
    )
}

/// Lists that take nothing away, half of them.
fn exclusions() -> impl Strategy<Value = Exclusions> {
    let names = subsequence(TOOLS.to_vec(), 0..=TOOLS.len());
    let list = names.prop_map(|names| Exclusions::parse(&names).expect("no duplicates"));
    prop_oneof![Just(Exclusions::default()), list]
}

fn header(items: Vec<String>) -> impl Strategy<Value = Option<String>> {
    let count = items.len();
    prop_oneof![
        Just(None),
        Just(Some(String::new())),
        Just(Some(" , ".to_owned())),
        subsequence(items, 0..=count).prop_map(|items| Some(items.join(" ,"))),
    ]
}

fn filter() -> impl Strategy<Value = Filter> {
    let clients = CLIENTS
        .iter()
        .map(|name| (*name).to_owned())
        .chain(["*".into(), "nobody".into()])
        .collect();
    let tools = CLIENTS
        .iter()
        .flat_map(|c| TOOLS.iter().map(move |t| format!("{c}-{t}")).chain([format!("{c}-*")]));
    let tools: Vec<_> = tools.chain(["*".into()]).collect();
    let excluded: Vec<_> = tools.iter().filter(|item| *item != "*").cloned().collect();
    (header(clients), header(tools), header(excluded), group()).prop_map(
        |(clients, tools, excluded, group)| {
            let mut filter =
                Filter::parse(clients.as_deref(), tools.as_deref()).excluding(excluded.as_deref());
            if let Some(group) = group {
                filter.narrow_to_group(Some(&Arc::new(group)));
            }
            filter
        },
    )
}

fn group() -> impl Strategy<Value = Option<ToolGroup>> {
    let names = prop::sample::select(&CLIENTS[..]).prop_map(client);
    let tools = prop::collection::btree_map(names, allowlist(), 0..=CLIENTS.len());
    let group = tools.prop_map(|tools| ToolGroup {
        name: "Group".to_owned(),
        slug: GroupSlug::parse("group").expect("a slug"),
        tools,
        keys: None,
    });
    prop::option::weighted(0.3, group)
}

fn client_name() -> impl Strategy<Value = ClientName> {
    prop::sample::select(&CLIENTS[..]).prop_map(client)
}

fn key() -> impl Strategy<Value = Option<VirtualKey>> {
    let rows = prop::collection::btree_map(client_name(), allowlist(), 0..=CLIENTS.len());
    let excluded = prop::collection::btree_map(client_name(), exclusions(), 0..=1);
    let owned = prop::collection::btree_set(client_name(), 0..=CLIENTS.len());
    let bounds = prop::collection::btree_map(client_name(), exclusions(), 0..=CLIENTS.len());
    let bounds = prop::option::weighted(0.3, bounds);
    let key = (rows, excluded, owned, bounds).prop_map(|(rows, excluded, owned, bounds)| {
        let environment =
            bounds.map(|clients| Arc::new(Environment { name: "bounds".to_owned(), clients }));
        let grants = Grants { rows, excluded, owned, environment, ..Grants::default() };
        VirtualKey::from_digest("key", credential_digest("sk-bf-test"), grants)
    });
    prop::option::of(key)
}

fn origin() -> impl Strategy<Value = Origin> {
    let names: Vec<ToolName> =
        CLIENTS.iter().flat_map(|c| TOOLS.iter().map(|t| ToolName::new(&client(c), t))).collect();
    let count = names.len();
    prop_oneof![
        Just(Origin::Model),
        Just(Origin::Script),
        Just(Origin::Caller),
        Just(Origin::McpClient(Approval::Given)),
        Just(Origin::McpClient(Approval::ByPerson)),
        Just(Origin::McpClient(Approval::Missing)),
        subsequence(names, 0..=count).prop_map(|names| Origin::Plugin(Arc::new(
            names.iter().map(|name| name.as_str().to_owned()).collect()
        ))),
    ]
}

proptest! {
    /// The guarantee of the door: the tools that are listed for an origin are exactly the tools
    /// that it can call.
    #[test]
    fn listed_tools_are_exactly_the_callable_ones(
        policies in prop::collection::vec(policy(), 3), filter in filter(), key in key(), origin in origin()
    ) {
        let sources = sources(&policies);
        let caller = caller(&sources, &filter, key.as_ref(), origin.clone());
        let listed: BTreeSet<String> = caller.list().map(|entry| entry.tool.name.as_str().to_owned()).collect();
        let every_name = CLIENTS.iter().flat_map(|c| TOOLS.iter().map(move |t| format!("{c}-{t}")));
        for name in every_name.chain(["executeToolCode".into(), "alpha-nothing".into(), String::new()]) {
            let decided = decide(&caller, &origin, &name);
            let callable = !decided.is_err_and(|error| error.code() == HostCode::NotFound);
            prop_assert_eq!(callable, listed.contains(&name), "{}", name);
        }
    }

    #[test]
    fn a_call_needs_an_approval_if_the_door_refuses_it_without_one(
        policies in prop::collection::vec(policy(), 3),
        filter in filter(),
        key in key(),
        origin in origin()
    ) {
        let sources = sources(&policies);
        let caller = caller(&sources, &filter, key.as_ref(), origin);
        let every_name = CLIENTS.iter().flat_map(|c| TOOLS.iter().map(move |t| format!("{c}-{t}")));
        for name in every_name.chain(["executeToolCode".into(), "alpha-nothing".into()]) {
            let expected = match caller.admit(&name, "{}") {
                Ok(_) => Ok(false),
                Err(error) if error.is_unapproved() => Ok(true),
                Err(error) => Err(error.to_string()),
            };
            let found = caller.needs_approval(&name).map_err(|error| error.to_string());
            prop_assert_eq!(found, expected, "{}", name);
        }
        prop_assert!(caller.ledger().records().is_empty());
    }

    /// A request never sees more tools than the configuration and the key allow.
    #[test]
    fn a_filter_or_a_key_never_adds_tools(policies in prop::collection::vec(policy(), 3), filter in filter(), key in key(), origin in origin()) {
        let sources = sources(&policies);
        let narrowed = visible_names(&sources, &origin, &filter, key.as_ref());
        prop_assert!(narrowed.is_subset(&visible_names(&sources, &origin, &Filter::none(), key.as_ref())));
        // The operator's own view: a key may own clients that a request without one does not see.
        let whole = visible_names(&sources, &origin, &Filter::of_operator(), None);
        prop_assert!(narrowed.is_subset(&whole));
        for name in narrowed.iter().filter(|name| name.as_str() != "executeToolCode") {
            let (client_name, tool) = name.as_str().split_once('-').expect("a prefix");
            let index = CLIENTS.iter().position(|c| *c == client_name).expect("a known client");
            prop_assert!(policies[index].execute.allows(tool));
            prop_assert!(!policies[index].exclude.covers_name(tool));
        }
    }
}

fn visible_names(
    sources: &Sources,
    origin: &Origin,
    filter: &Filter,
    key: Option<&VirtualKey>,
) -> BTreeSet<ToolName> {
    caller(sources, filter, key, origin.clone())
        .list()
        .map(|entry| entry.tool.name.clone())
        .collect()
}
