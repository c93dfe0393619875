mod documents;

use super::*;

fn parse(line: &str) -> Result<(Cli, bool), clap::Error> {
    super::parse(line.split(' ').map(OsString::from))
}

#[test]
fn a_command_asks_for_json_with_its_own_option() {
    for (line, as_json) in [
        ("airlock tools --json", true),
        ("airlock tools", false),
        ("airlock serve --log-format json", false),
        ("airlock call fs-read -- --json", false),
        ("airlock plugin diff --json", true),
        ("airlock doctor --json", true),
        ("airlock plugin install weather.wasm", false),
        ("airlock runs approve run_1 --json", true),
    ] {
        let parsed = parse(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(parsed.1, as_json, "{line}");
    }
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_parses_as_its_example_says() {
    for line in [
        "airlock serve --config airlock.json",
        "airlock serve -c airlock.json --log-format json",
        "airlock demo --json",
        "airlock demo-mcp-server",
        "airlock tools --config airlock.json --json",
        "airlock call --config airlock.json fs-read {}",
        "airlock call --config airlock.json fs-read - --json",
        "airlock call --config airlock.json fs-read",
        "airlock run --config airlock.json - --approve --json",
        "airlock plan --config airlock.json report.star --answers answers.json --json",
        "airlock check --config airlock.json --json",
        "airlock doctor",
        "airlock doctor -c airlock.json --offline --json",
        "airlock health",
        "airlock health --url http://127.0.0.1:8080 --timeout 500ms --json",
        "airlock precompile",
        "airlock precompile text.wasm files.wasm",
        "airlock top --once --json",
        "airlock top --url http://127.0.0.1:8080",
        "airlock schema",
        "airlock plugin new my-plugin --lang rust",
        "airlock plugin new my-plugin --lang javascript",
        "airlock plugin new my-plugin --lang python",
        "airlock plugin new --guard my-guard",
        "airlock plugin new my-guard --guard --lang python",
        "airlock plugin build",
        "airlock plugin build my-plugin --output other.wasm --json",
        "airlock serve",
        "airlock call fs-read",
        "airlock plugin inspect weather.wasm --json",
        "airlock plugin check weather.wasm",
        "airlock plugin install weather.wasm --grant http.api --grant secret.token=env:WEATHER_TOKEN",
        "airlock plugin index plugins",
        "airlock plugin search rain --index plugins --json",
        "airlock plugin diff weather -c airlock.json --json",
        "airlock plugin accept weather text",
        "airlock plugin accept --all",
        "airlock plugin accept --all --yes",
        "airlock plugin accept weather --yes",
        "airlock plugin store",
        "airlock plugin store --json -c airlock.json",
        "airlock plugin store notes notes --to key:ann",
        "airlock plugin store notes notes --from scope:1a2b --delete",
        "airlock plugin accept weather --regrant http.api --change-id",
        "airlock approvals list --json",
        "airlock audit verify audit --key key --checkpoint one --checkpoint two --json",
        "airlock audit prove audit --call call_1 --checkpoint one",
        "airlock audit prove audit --from 1 --to 2",
        "airlock audit export audit --format dsse --run run_1 --signing-key env:AUDIT_KEY",
        "airlock audit checkpoint audit --all --json",
        "airlock audit key audit/log.jsonl --json",
        "airlock approvals approve call_1 -c airlock.json",
        "airlock approvals deny call_1 --json",
        "airlock upstream diff",
        "airlock upstream diff github -c airlock.json --json",
        "airlock upstream accept github",
        "airlock upstream accept github search get_file --yes",
        "airlock upstream accept github --all --yes --expect sha256:00 --json",
        "airlock upstream accept --all",
        "airlock plugin install weather.wasm --replace --regrant http.api --change-id",
        "airlock upstream list",
        "airlock upstream list -c airlock.json --json",
        "airlock upstream show github --url http://127.0.0.1:8080",
        "airlock upstream logs github --json",
        "airlock upstream restart github",
    ] {
        assert!(parse(line).is_ok(), "{line}");
    }
}

#[test]
fn a_group_takes_the_configuration_before_its_subcommand() {
    for (line, path) in [
        ("airlock runs --config other.json list", "other.json"),
        ("airlock approvals -c other.json list", "other.json"),
        ("airlock upstream --config other.json diff", "other.json"),
        ("airlock plugin --config other.json diff", "other.json"),
        ("airlock runs -c one.json list -c two.json", "two.json"),
    ] {
        let parsed = Cli::command().try_get_matches_from(line.split(' '));
        let parsed = parsed.unwrap_or_else(|error| panic!("{line}: {error}"));
        let (_, group) = parsed.subcommand().expect("a group");
        let (_, command) = group.subcommand().expect("a command of it");
        let taken = command.get_one::<std::path::PathBuf>("path").expect("a path");
        assert_eq!(taken, std::path::Path::new(path), "{line}");
    }
}

#[test]
fn invalid_arguments_exit_with_2_and_help_with_0() {
    for line in [
        "airlock",
        "airlock serve --config",
        "airlock fly",
        "airlock call --config a.json",
        "airlock plugin",
        "airlock plugin accept",
        "airlock plugin store notes",
        "airlock plugin store notes notes",
        "airlock plugin store --to shared",
        "airlock plugin store --delete",
        "airlock plugin store notes notes --to shared --delete",
        "airlock plugin new my-plugin",
        "airlock plugin accept weather --all",
        "airlock plugin accept --all --regrant http.api",
        "airlock plugin accept --all --change-id",
        "airlock plugin install weather.wasm --grant everything",
        "airlock approvals",
        "airlock approvals approve",
        "airlock audit",
        "airlock audit verify",
        "airlock audit prove audit",
        "airlock audit prove audit --line 1 --call call_1",
        "airlock audit prove audit --line 1 --to 2",
        "airlock audit export audit --format xml",
        "airlock upstream",
        "airlock upstream accept",
        "airlock upstream accept github search --all",
        "airlock upstream accept github --json",
        "airlock upstream show",
        "airlock upstream show no-name",
        "airlock upstream list --url nowhere",
        "airlock upstream list --url http://127.0.0.1:8080 --config airlock.json",
    ] {
        let code = parse(line).err().map(|error| error.exit_code());
        assert_eq!(code, Some(2), "{line}");
    }
    for line in ["airlock --help", "airlock --version", "airlock run --help"] {
        let code = parse(line).err().map(|error| error.exit_code());
        assert_eq!(code, Some(0), "{line}");
    }
}

#[test]
fn a_file_without_its_option_and_a_list_of_another_command_have_a_tip() {
    for (line, tip) in [
        ("airlock check gateway.json", "--config gateway.json"),
        ("airlock plugin diff weather gateway.json", "--config gateway.json"),
        ("airlock client list", "`airlock upstream list`"),
        ("airlock client --config gateway.json list", "`airlock upstream list`"),
        ("airlock plugin list", "`airlock plugin diff`"),
    ] {
        let error = parse(line).err().expect("it is refused");
        let text = error.to_string();
        assert!(text.contains("tip: ") && text.contains(tip), "{line}: {text}");
        assert_eq!(error.exit_code(), 2, "{line}");
    }
    for line in [
        "airlock check gateway.toml",
        "airlock check --gateway.json",
        "airlock schema a.json",
        "airlock list",
    ] {
        let text = parse(line).err().expect("it is refused").to_string();
        assert!(!text.contains("of an option") && !text.contains("`airlock"), "{line}: {text}");
    }
}

#[test]
fn every_public_command_has_help_and_an_example() {
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        assert!(
            command.get_about().is_some() && command.get_long_about().is_some(),
            "{}",
            command.get_name()
        );
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(
            after.contains(&format!("airlock {}", command.get_name())),
            "{}",
            command.get_name()
        );
    }
}

#[test]
fn groups_that_change_settings_say_when_they_use_the_store_instead_of_a_gateway() {
    let cli = Cli::command();
    for name in ["approvals", "client", "key", "operator"] {
        let group = cli.find_subcommand(name).expect("a command");
        let help = group.get_long_about().map(ToString::to_string).unwrap_or_default();
        let says = "If no gateway listens on the socket, they use its store";
        assert!(help.contains(says), "{name}: {help}");
    }
}
