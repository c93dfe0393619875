use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::{
    door::{Environment as Bounds, GroupSlug, ToolGroup},
    tool::{Allowlist, client},
};
use HidingRule::{
    Environment, EnvironmentExclude, ExcludeTools, Group, IncludeClients, IncludeTools, KeyExclude,
    KeyRow, KeyWithoutRow, Owner, SwitchedOff, ToolsToExclude, ToolsToExecute,
};

fn list(names: &[&str]) -> Allowlist {
    Allowlist::parse(names).expect("a good list")
}

fn tool(original: &str) -> Tool {
    let definition = serde_json::json!({"name": original, "inputSchema": {}});
    let definition = serde_json::from_value(definition).expect("a definition");
    Tool::adopt(&client("fs"), definition).expect("a good tool")
}

fn policy(execute: &[&str], allow_on_all_keys: bool) -> Policy {
    Policy { execute: list(execute), allow_on_all_keys, ..Policy::default() }
}

fn key(rows: &[(&str, &[&str])]) -> VirtualKey {
    let rows = rows.iter().map(|(name, tools)| (client(name), list(tools)));
    VirtualKey::new("ann", "sk-bf-ann", rows.collect::<BTreeMap<_, _>>())
}

/// Returns the rules that hide `read` of `fs`, and those that hide the whole of `fs`.
fn hiding(
    policy: &Policy,
    filter: &Filter,
    key: Option<&VirtualKey>,
) -> (Vec<HidingRule>, Vec<HidingRule>) {
    let fs = client("fs");
    let rules = ToolRules::new(&fs, policy, filter, key);
    (rules.hiding(&tool("read")).collect(), rules.hiding_all().collect())
}

#[test]
fn each_rule_hides_a_tool_on_its_own() {
    let open = policy(&["*"], false);
    let none = Filter::none();
    assert_eq!(hiding(&open, &none, None), (vec![], vec![]));
    for (clients, tools, expected) in [
        (Some("web"), None, vec![IncludeClients]),
        (Some("web,fs"), None, vec![]),
        (Some("*"), None, vec![]),
        (None, Some("fs-write"), vec![IncludeTools]),
        (None, Some("fs-read"), vec![]),
        (None, Some("fs-*"), vec![]),
        (None, Some(""), vec![IncludeTools]),
    ] {
        let filter = Filter::parse(clients, tools);
        assert_eq!(hiding(&open, &filter, None).0, expected, "{filter:?}");
    }
    let other = policy(&["write"], false);
    assert_eq!(hiding(&other, &none, None), (vec![ToolsToExecute], vec![]));
    let empty = policy(&[], false);
    assert_eq!(hiding(&empty, &none, None), (vec![ToolsToExecute], vec![ToolsToExecute]));
    for (rows, allows_all, tool, whole) in [
        (&[][..], false, vec![KeyWithoutRow], vec![KeyWithoutRow]),
        (&[], true, vec![], vec![]),
        (&[("web", &["*"][..])], false, vec![KeyWithoutRow], vec![KeyWithoutRow]),
        (&[("fs", &["READ"])], false, vec![], vec![]),
        (&[("fs", &["write"])], true, vec![KeyRow], vec![]),
        (&[("fs", &[])], true, vec![KeyRow], vec![KeyRow]),
    ] {
        let key = key(rows);
        let open = policy(&["*"], allows_all);
        assert_eq!(hiding(&open, &none, Some(&key)), (tool, whole), "{key:?} {allows_all}");
    }
}

#[test]
fn all_rules_that_apply_are_returned_in_the_order_of_the_door() {
    let filter = Filter::parse(Some("web"), Some("web-*"));
    let empty = policy(&[], false);
    let without = [IncludeClients, ToolsToExecute, KeyWithoutRow, IncludeTools];
    assert_eq!(hiding(&empty, &filter, Some(&key(&[]))).0, without);
    let other = key(&[("fs", &["write"])]);
    let with = [IncludeClients, ToolsToExecute, KeyRow, IncludeTools];
    assert_eq!(hiding(&empty, &filter, Some(&other)).0, with);
    let codes = HidingRule::ALL.map(HidingRule::code);
    assert_eq!(
        codes,
        [
            "switched_off",
            "owner",
            "include_clients",
            "tools_to_execute",
            "tools_to_exclude",
            "environment",
            "environment_exclude",
            "key_without_row",
            "key_row",
            "key_exclude",
            "virtual_mcp",
            "include_tools",
            "exclude_tools",
        ]
    );
}

fn exclusions(names: &[&str]) -> Exclusions {
    Exclusions::parse(names).expect("a good list")
}

fn with_grants(change: impl FnOnce(&mut Grants)) -> VirtualKey {
    let mut key = key(&[("fs", &["*"])]);
    change(Arc::make_mut(&mut key.grants));
    key
}

#[test]
fn a_list_of_exclusions_takes_away_what_any_list_permits() {
    let open = policy(&["*"], false);
    let none = Filter::none();
    for (names, tool, whole) in [
        (&["READ"][..], vec![ToolsToExclude], vec![]),
        (&["write"], vec![], vec![]),
        (&["*"], vec![ToolsToExclude], vec![ToolsToExclude]),
    ] {
        let policy = Policy { exclude: exclusions(names), ..open.clone() };
        assert_eq!(hiding(&policy, &none, None), (tool.clone(), whole.clone()), "{names:?}");
        let key = with_grants(|grants| {
            grants.excluded.insert(client("fs"), exclusions(names));
        });
        let of_key = [tool, whole].map(|rules| vec![KeyExclude; rules.len()]);
        assert_eq!(hiding(&open, &none, Some(&key)), of_key.into(), "{names:?}");
    }
    for (header, tool, whole) in [
        (None, vec![], vec![]),
        (Some(""), vec![], vec![]),
        (Some(" , "), vec![], vec![]),
        (Some("fs-Read"), vec![ExcludeTools], vec![]),
        (Some("FS-*"), vec![ExcludeTools], vec![ExcludeTools]),
        (Some("web-*,fs-write"), vec![], vec![]),
        (Some("web-*, fs-read"), vec![ExcludeTools], vec![]),
        (Some("fs-*"), vec![ExcludeTools], vec![ExcludeTools]),
        (Some("*"), vec![ExcludeTools], vec![ExcludeTools]),
    ] {
        // A tool that is named in both headers is excluded.
        let filter = Filter::parse(None, Some("fs-*")).excluding(header);
        assert_eq!(hiding(&open, &filter, None), (tool, whole), "{header:?}");
        let names_none = Filter::none().excluding(header);
        let takes_none = header.is_none_or(|header| header.trim_matches([' ', ',']).is_empty());
        assert_eq!((names_none.is_none(), names_none.names_tools()), (takes_none, false));
    }
}

#[test]
fn an_environment_leaves_its_clients_without_its_exclusions() {
    let none = Filter::none();
    for (clients, tool, whole) in [
        (&[("fs", &[][..])][..], vec![], vec![]),
        (&[("fs", &["Read"])], vec![EnvironmentExclude], vec![]),
        (&[("fs", &["*"])], vec![EnvironmentExclude], vec![EnvironmentExclude]),
        (&[("web", &[])], vec![Environment], vec![Environment]),
        (&[], vec![Environment], vec![Environment]),
    ] {
        let clients = clients.iter().map(|(name, names)| (client(name), exclusions(names)));
        let environment = Bounds { name: "eu".to_owned(), clients: clients.collect() };
        let environment = Some(Arc::new(environment));
        // With a row, and without one.
        for (has_row, allows_all) in [(true, false), (false, true)] {
            let key = with_grants(|grants| {
                grants.environment.clone_from(&environment);
                grants.rows.retain(|_, _| has_row);
            });
            let open = policy(&["*"], allows_all);
            assert_eq!(hiding(&open, &none, Some(&key)), (tool.clone(), whole.clone()));
            assert_eq!(key.knows(&client("fs"), &open), !whole.contains(&Environment));
        }
    }
}

#[test]
fn a_client_with_owners_is_seen_by_their_keys_alone() {
    let open = Policy { is_owned: true, ..policy(&["*"], true) };
    let owner = with_grants(|grants| {
        grants.rows.clear();
        grants.owned.insert(client("fs"));
    });
    let with_row = key(&[("fs", &["*"])]);
    let fs = client("fs");
    for (filter, key, is_seen) in [
        (Filter::none(), None, false),
        (Filter::of_operator(), None, true),
        (Filter::none(), Some(&owner), true),
        (Filter::none(), Some(&with_row), false),
        (Filter::of_operator(), Some(&with_row), false),
    ] {
        let rules = ToolRules::new(&fs, &open, &filter, key);
        assert_eq!(rules.reveal(), is_seen, "{filter:?} {key:?}");
        assert_eq!(rules.conceal(), !is_seen);
        let expected = if is_seen { vec![] } else { vec![Owner] };
        assert_eq!(hiding(&open, &filter, key), (expected.clone(), expected));
    }
    // A row of the owner replaces what the client permits, as everywhere.
    let narrowed = with_grants(|grants| {
        grants.rows.insert(client("fs"), list(&["write"]));
        grants.owned.insert(client("fs"));
    });
    assert_eq!(hiding(&open, &Filter::none(), Some(&narrowed)).0, [KeyRow]);
}

#[test]
fn a_group_leaves_its_tools_and_grants_none() {
    let slug = GroupSlug::parse("g").expect("a slug");
    let tools = [(client("fs"), list(&["read"])), (client("empty"), list(&[]))];
    let group = ToolGroup { name: "g".to_owned(), slug, tools: tools.into(), keys: None };
    let group = Arc::new(group);
    let mut filter = Filter::none();
    filter.narrow_to_group(Some(&group));
    assert_eq!(hiding(&policy(&["*"], false), &filter, None), (vec![], vec![]));
    assert_eq!(hiding(&policy(&["write"], false), &filter, None).0, [ToolsToExecute]);
    let stranger = key(&[]);
    assert_eq!(hiding(&policy(&["*"], false), &filter, Some(&stranger)).0, [KeyWithoutRow]);
    let mut other = ToolGroup::clone(&group);
    other.tools.insert(client("fs"), list(&["write"]));
    filter.narrow_to_group(Some(&Arc::new(other)));
    assert_eq!(hiding(&policy(&["*"], false), &filter, None), (vec![Group], vec![]));
    filter.narrow_to_group(None);
    assert_eq!(hiding(&policy(&["*"], false), &filter, None), (vec![Group], vec![Group]));
}

#[test]
fn everything_is_hidden_while_the_tools_are_switched_off() {
    let fs = client("fs");
    let open = policy(&["*"], false);
    let filter = Filter::of_operator();
    let rules = ToolRules::new(&fs, &open, &filter, None).switched_off(true);
    assert_eq!(rules.hiding(&tool("read")).collect::<Vec<_>>(), [SwitchedOff]);
    assert_eq!(rules.hiding_all().collect::<Vec<_>>(), [SwitchedOff]);
    assert!(rules.reveal() && !rules.may_relay());
}

#[test]
fn an_approval_is_needed_unless_the_tool_is_listed_and_accepted() {
    let read = tool("read");
    let unaccepted = BTreeSet::from(["read".to_owned()]);
    for (auto, unaccepted, is_needed) in [
        (&["read"][..], &BTreeSet::new(), false),
        (&["write"], &BTreeSet::new(), true),
        (&["*"], &unaccepted, true),
        (&[], &unaccepted, true),
    ] {
        let policy = Policy { auto_execute: list(auto), ..Policy::default() };
        let approval = ToolApproval::new(&policy, unaccepted, &read);
        assert_eq!(approval.is_needed(), is_needed, "{approval:?}");
    }
    let approval = ToolApproval::new(&twice(&["read"]), &BTreeSet::new(), &read);
    assert!(approval.needs_two && approval.is_needed(), "{approval:?}");
}

/// Returns a policy by which calls need no approval, but for those of tools that two operators approve.
fn twice(names: &[&str]) -> Policy {
    Policy { auto_execute: list(&["*"]), approve_twice: exclusions(names), ..Policy::default() }
}

#[test]
fn a_second_tool_of_a_name_takes_no_approval_of_two_operators_away() {
    let mut pay = tool("Pay");
    let policy = twice(&["pay"]);
    for has_twin in [false, true] {
        pay.has_twin = has_twin;
        let approval = ToolApproval::new(&policy, &BTreeSet::new(), &pay);
        assert!(approval.needs_two && approval.is_needed(), "{has_twin} {approval:?}");
    }
    let read = ToolApproval::new(&policy, &BTreeSet::new(), &tool("read"));
    assert!(!read.needs_two && !read.is_needed(), "{read:?}");
}
