use serde_json::{Map, Value, json};

use super::*;

fn args(config: &str, describe: &[&str]) -> InstallArgs {
    InstallArgs {
        name: Some("station".to_owned()),
        describe: describe.iter().map(|option| (*option).to_owned()).collect(),
        ..InstallArgs::new("my tools.wasm".into(), ConfigFile { path: config.into() })
    }
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
fn the_call_to_try_is_of_a_described_tool_that_only_reads_if_there_is_one() {
    let tools: Vec<ToolDefinition> = serde_json::from_value(json!([
        {"name": "write", "inputSchema": {}, "annotations": {"readOnlyHint": false}},
        {"name": "other", "inputSchema": {}},
        {"name": "read", "inputSchema": {}, "annotations": {"readOnlyHint": true}},
    ]))
    .expect("definitions");
    for (undescribed, expected) in [
        (&["read"][..], Some("write")),
        (&["read", "write"], Some("other")),
        (&["read", "write", "other"], None),
        (&[], Some("read")),
    ] {
        let undescribed: Vec<_> = undescribed.iter().map(|name| (*name).to_owned()).collect();
        let tool = tool_to_try(&tools, &undescribed);
        assert_eq!(tool.map(|tool| tool.name.as_str()), expected, "{undescribed:?}");
    }
}

#[test]
fn a_component_without_tools_is_refused_without_a_suggestion() {
    let refused = undescribed(&args("airlock.json", &[]), &station(), &[]);
    assert_eq!(refused, "station is not installed, and nothing was changed: it has no tools");
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

#[test]
fn a_setting_is_json_or_else_text() {
    let set = ["days=3", "city=Oslo", "units=[\"c\"]"];
    let settings: Map<_, _> =
        set.iter().map(|text| parse_setting(text).expect("a setting")).collect();
    let expected = json!({"days": 3, "city": "Oslo", "units": ["c"]});
    assert_eq!(Value::from(settings), expected);
    assert!(parse_setting("days").is_err());
}

#[test]
fn options_that_cannot_be_parsed_are_faults_and_the_others_are_kept() {
    let set = ["days=3".to_owned(), "hours".to_owned()].into();
    let describe = ["a=Adds.", "b", "c=<WHAT IT DOES>"];
    let options = InstallArgs { set, ..args("airlock.json", &describe) }.options();
    assert_eq!(Value::from(options.settings), json!({"days": 3}));
    assert_eq!(options.descriptions, [("a".to_owned(), "Adds.".to_owned())].into());
    assert_eq!(
        options.faults,
        [
            "--set hours: expected KEY=VALUE",
            "--describe b: expected TOOL=TEXT",
            "--describe c: write the description in place of <WHAT IT DOES>"
        ]
    );
}
