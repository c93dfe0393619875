//! `airlock diff`.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::running::{ApiRequest, RunningGateway};
use airlock_config::read_file;
use airlock_strings::visible_line;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Path of the comparison in the management API.
const PATH: &str = "/api/config/diff";

/// Show what a configuration file would change in the running gateway
///
/// Nothing is changed. The gateway reads the file as it would read its own, with its environment and beside the settings that
/// operators keep in its store: paths in the file are relative to the directory of the gateway's file. Keys that are taken
/// only when the gateway is restarted are marked.
///
/// Ends with 0 if the file would change nothing, and with 1 if it would, or is not valid. Needs an administrator.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock diff new.json\n  airlock diff new.json --url https://airlock.example.com --json"
)]
pub(super) struct DiffArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// The file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print a JSON document: `{same, errors: [{key, message}], clients: {added, changed: [{name, keys}], removed},
    /// virtual_keys: {added, changed: [{name, keys}], removed}, settings: [key], restart: [key]}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &DiffArgs) -> anyhow::Result<CommandOutcome> {
    let file = read_file(&args.file)?;
    let request = ApiRequest { body: Some(file), ..ApiRequest::post(PATH) };
    let preview = args.gateway.send(&request).await?;
    if args.json {
        output::document(&preview)?;
    } else {
        for line in lines(&preview) {
            output::line(&line)?;
        }
    }
    Ok((preview["same"] == json!(true)).into())
}

/// Returns the differences, one on each line.
fn lines(preview: &Value) -> Vec<String> {
    let mut lines: Vec<String> = elements(&preview["errors"])
        .map(|problem| format!("error: {}: {}", text(&problem["key"]), text(&problem["message"])))
        .collect();
    for (member, what) in [("clients", "client"), ("virtual_keys", "virtual key")] {
        let differences = &preview[member];
        lines
            .extend(elements(&differences["added"]).map(|name| format!("+ {what} {}", text(name))));
        lines.extend(elements(&differences["changed"]).map(|changed| {
            let keys: Vec<_> = elements(&changed["keys"]).map(text).collect();
            let keys =
                if keys.is_empty() { String::new() } else { format!(": {}", keys.join(", ")) };
            format!("~ {what} {}{keys}", text(&changed["name"]))
        }));
        lines.extend(
            elements(&differences["removed"]).map(|name| format!("- {what} {}", text(name))),
        );
    }
    lines.extend(elements(&preview["settings"]).map(|key| format!("~ {}", text(key))));
    lines.extend(
        elements(&preview["restart"]).map(|key| format!("~ {} (after a restart)", text(key))),
    );
    if lines.is_empty() {
        lines.push("no difference".to_owned());
    }
    lines
}

fn elements(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns a text of the preview on one line, without invisible characters: another operator may have chosen a name.
fn text(value: &Value) -> String {
    visible_line(value.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_on_a_line_of_its_own() {
        let preview = json!({
            "same": false,
            "errors": [{"key": "server.lisen", "message": "unknown key"}],
            "clients": {
                "added": ["web"],
                "changed": [{"name": "fs", "keys": ["stdio_config.args", "tools_to_execute"]}],
                "removed": ["old"],
            },
            "virtual_keys": {"added": [], "changed": [{"name": "ann", "keys": []}], "removed": []},
            "settings": ["providers"],
            "restart": ["server.listen"],
        });
        assert_eq!(
            lines(&preview),
            [
                "error: server.lisen: unknown key",
                "+ client web",
                "~ client fs: stdio_config.args, tools_to_execute",
                "- client old",
                "~ virtual key ann",
                "~ providers",
                "~ server.listen (after a restart)",
            ]
        );
        assert_eq!(lines(&json!({"same": true})), ["no difference"]);
        let named = json!({"virtual_keys": {"added": ["a\u{9b}2J\n- client fs"]}});
        assert_eq!(lines(&named), ["+ virtual key a⟨U+009B⟩2J⟨U+000A⟩- client fs"]);
    }
}
