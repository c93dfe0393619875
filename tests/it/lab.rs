//! The cases of the attack lab, as data: `make lab` runs them.

use std::{collections::BTreeSet, fs};

use airlock_tests::{
    Setup,
    lab::{self, Case, Class, Goal},
    root,
};

/// Licences under which a scenario may be written anew here.
const LICENCES: [&str; 2] = ["Apache-2.0", "MIT"];
/// Beginning of the source of a case of this project.
const OWN: &str = "own";
/// Columns of the table of the page: the configurations, the weakest first.
const COLUMNS: [&str; 5] = ["open", "door", "pins", "guards", "provenance"];

fn page() -> String {
    fs::read_to_string(root().join("docs/attack-lab.md")).expect("UTF-8")
}

#[test]
fn every_class_has_cases_and_there_are_at_least_ninety() {
    let cases = Case::read_all();
    assert!(cases.len() >= 90, "{} cases", cases.len());
    for class in Class::ALL {
        let count = cases.iter().filter(|case| case.class == class).count();
        assert!(count >= 6, "{}: {count} cases", class.title());
    }
}

#[test]
fn the_table_on_the_page_counts_the_cases_as_their_files_do() {
    let page = page();
    let all = Case::read_all();
    let mut rows = vec![row("all", &all.iter().collect::<Vec<_>>())];
    for class in Class::ALL {
        let cases: Vec<_> = all.iter().filter(|case| case.class == class).collect();
        rows.push(row(class.title(), &cases));
    }
    for row in rows {
        assert!(page.contains(&row), "no row {row:?} on the page");
    }
}

/// Returns the row of a table: the number of cases, and of those that each column stops.
fn row(title: &str, cases: &[&Case]) -> String {
    let stopped = (1..=COLUMNS.len()).map(|columns| {
        let stopping = &COLUMNS[..columns];
        let stopped = cases.iter().filter(|case| stopping.contains(&case.stopped_by.as_str()));
        stopped.count().to_string()
    });
    let cells = [title.to_owned(), cases.len().to_string()].into_iter().chain(stopped);
    format!("| {} |", cells.collect::<Vec<_>>().join(" | "))
}

#[test]
fn every_case_is_stopped_by_a_column_of_the_table_or_by_none() {
    for case in Case::read_all() {
        let stopped_by = case.stopped_by.as_str();
        assert!(
            stopped_by == "none" || COLUMNS.contains(&stopped_by),
            "{}: {stopped_by}",
            case.name
        );
    }
}

#[test]
fn the_page_lists_exactly_the_cases_that_nothing_stops() {
    let page = page();
    for case in Case::read_all() {
        let row = format!("| `{}` | {} |", case.name, case.about.trim_end_matches('.'));
        assert_eq!(page.contains(&row), case.stopped_by == "none", "{row}");
    }
}

#[test]
fn every_rule_of_the_guards_is_on_the_page() {
    let page = page();
    let guards = lab::guards();
    let rules = guards.iter().filter_map(|guard| guard["settings"]["rules"].as_array());
    let rules: Vec<_> = rules.flatten().collect();
    assert!(!rules.is_empty());
    for rule in rules {
        let row = format!("| `{}` |", rule["name"].as_str().expect("a name"));
        assert!(page.contains(&row), "no row {row:?} on the page");
    }
}

#[tokio::test]
async fn the_guards_accept_their_settings() {
    let setup = Setup::new().set("/guards", lab::guards());
    let checked = setup.airlock("check").arg("--json").run().await;
    assert_eq!(checked.code, Some(0), "{checked}");
}

#[test]
fn every_source_is_on_the_page_with_its_licence_and_no_other_licence_is_used() {
    let page = page();
    for case in Case::read_all() {
        let name = &case.name;
        assert!(LICENCES.contains(&case.licence.as_str()), "{name}: {}", case.licence);
        let suite = case.source.split(',').next().unwrap_or_default();
        let row = format!("| {suite} | {} |", case.licence);
        assert!(suite == OWN || page.contains(&row), "{name}: no row {row:?} on the page");
    }
}

#[test]
fn every_name_in_a_case_is_that_of_a_server_a_key_or_a_tool() {
    for case in Case::read_all() {
        let mut tools = BTreeSet::new();
        let mut servers = BTreeSet::new();
        for server in &case.servers {
            servers.insert(server.name.as_str());
            let all = server.tools.iter().chain(server.later.iter().flatten());
            tools.extend(all.map(|tool| format!("{}-{}", server.name, tool.name())));
        }
        let keys: BTreeSet<_> = case.keys.iter().map(|key| key.name.as_str()).collect();
        for turn in &case.turns {
            for call in &turn.calls {
                assert!(tools.contains(&call.tool), "{}: {}", case.name, call.tool);
            }
            let key = turn.key.as_deref();
            assert_eq!(
                key.is_some(),
                !keys.is_empty(),
                "{}: all turns have a key, or none",
                case.name
            );
            assert!(key.is_none_or(|key| keys.contains(key)), "{}: {key:?}", case.name);
        }
        let is_known = match &case.goal {
            Goal::Called { tool, .. } => tools.contains(tool),
            Goal::Seen { server, .. } => servers.contains(server.as_str()),
            Goal::Read { key, .. } => key.is_empty() || keys.contains(key.as_str()),
        };
        assert!(is_known, "{}: {:?}", case.name, case.goal);
        for obeyed in &case.obeys {
            assert_eq!(obeyed.orders().len(), obeyed.orders.len(), "{}: {obeyed:?}", case.name);
        }
    }
}

#[test]
fn no_request_of_a_case_is_a_part_of_another_one() {
    for case in Case::read_all() {
        for (at, turn) in case.turns.iter().enumerate() {
            let others = case.turns.iter().enumerate().filter(|(other, _)| *other != at);
            let hides = others.filter(|(_, other)| other.user.contains(&turn.user)).count();
            assert_eq!(hides, 0, "{}: the model could not tell {:?} apart", case.name, turn.user);
        }
    }
}
