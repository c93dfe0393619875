use std::path::PathBuf;

use serde_json::json;

use super::*;
use airlock_plugin::{Grant, Metadata};

fn args(config: &str, describe: &[&str]) -> InstallArgs {
    InstallArgs {
        name: Some("station".to_owned()),
        describe: describe.iter().map(|option| (*option).to_owned()).collect(),
        ..InstallArgs::new("my tools.wasm".into(), ConfigFile { path: config.into() })
    }
}

/// Returns a component with these tools: names, and the descriptions of their author.
fn component(tools: &[(&str, &str)]) -> Component {
    let definitions = tools.iter().map(|(name, description)| {
        let json = json!({"name": name, "description": description, "inputSchema": {}});
        serde_json::from_value(json).expect("a definition")
    });
    let metadata = Metadata::new(b"", definitions.collect(), None, Vec::new());
    Component { path: PathBuf::new(), bytes: Vec::new().into(), metadata }
}

fn station() -> ClientName {
    ClientName::parse("station").expect("a good name")
}

#[test]
fn a_component_whose_tools_nobody_described_is_refused_with_the_option_that_describes_one() {
    let refused = undescribed(
        &args("airlock.json", &[]),
        &station(),
        &["api_count".to_owned(), "greet".to_owned()],
    );
    insta::assert_snapshot!(refused, @r"
    station is not installed, and nothing was changed: none of its tools has a description, and a model chooses by it

    say what they do (api_count, greet):
      airlock plugin install 'my tools.wasm' --name station --describe 'api_count=<WHAT IT DOES>'
    ");
    // The options of the command as it was typed stay.
    let refused = undescribed(
        &args("other.json", &["typo=Counts."]),
        &station(),
        &["it's \"odd\"".to_owned()],
    );
    assert!(
        refused.ends_with(
            r#"--config other.json --name station --describe typo=Counts. --describe 'it'\''s "odd"=<WHAT IT DOES>'"#
        ),
        "{refused}"
    );
}

#[test]
fn a_component_without_tools_is_refused_without_a_suggestion() {
    let refused = undescribed(&args("airlock.json", &[]), &station(), &[]);
    assert_eq!(refused, "station is not installed, and nothing was changed: it has no tools");
}

#[test]
fn a_tool_is_described_by_its_author_or_by_the_operator() {
    let component =
        component(&[("blank", " \n"), ("described", "Counts."), ("empty", ""), ("\u{202e}x", "")]);
    let hidden = "⟨U+202E⟩x";
    assert_eq!(nameless_with(&component, &[]), ["blank", "empty", hidden]);
    assert_eq!(
        nameless_with(&component, &[("blank", "Waits."), ("other", "?")]),
        ["empty", hidden]
    );
    assert_eq!(
        nameless_with(&component, &[("described", ""), ("\u{202e}x", "X.")]),
        ["blank", "described", "empty"]
    );
}

fn nameless_with(component: &Component, descriptions: &[(&str, &str)]) -> Vec<String> {
    let descriptions = descriptions.iter().map(|(tool, text)| ((*tool).into(), (*text).into()));
    let grant = Grant { descriptions: descriptions.collect(), ..Grant::default() };
    nameless(component, &Settings { component: PathBuf::new(), grant })
}

#[test]
fn a_printed_command_does_not_contain_what_may_be_the_value_of_a_secret() {
    let grants = ["secret.t=hush-hush", "secret.u=env:U", "secret.v=file:/v:reveal"];
    let grants = grants.map(|grant| grant.parse().expect("a grant")).to_vec();
    let command = InstallArgs { grants, ..args("airlock.json", &[]) }.command();
    let expected =
        "--grant 'secret.t=env:<VARIABLE>' --grant secret.u=env:U --grant secret.v=file:/v:reveal";
    assert!(command.ends_with(expected), "{command}");
}
