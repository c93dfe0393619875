//! Bifrost's `config.json`. Most of it is the gateway's own form; what differs is moved here.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    client_name::{free_name, renamed as renamed_client},
    clouds,
    draft::Draft,
    limits,
    report::SettingOutcome,
};
use airlock_config_file::key_path::KeyPath;

/// Settings in `client`: where each is here, and its unit.
const MOVED: [(&str, &[&str], NumberUnit); 9] = [
    ("mcp_agent_depth", &["mcp", "tool_manager_config", "max_agent_depth"], NumberUnit::None),
    (
        "mcp_tool_execution_timeout",
        &["mcp", "tool_manager_config", "tool_execution_timeout"],
        NumberUnit::Text("s"),
    ),
    (
        "mcp_code_mode_binding_level",
        &["mcp", "tool_manager_config", "code_mode_binding_level"],
        NumberUnit::None,
    ),
    (
        "mcp_disable_auto_tool_inject",
        &["mcp", "tool_manager_config", "disable_auto_tool_inject"],
        NumberUnit::None,
    ),
    ("enforce_auth_on_inference", &["server", "require_virtual_key"], NumberUnit::None),
    ("enforce_governance_header", &["server", "require_virtual_key"], NumberUnit::None),
    ("is_vk_mandatory", &["server", "require_virtual_key"], NumberUnit::None),
    ("allowed_origins", &["server", "allowed_origins"], NumberUnit::None),
    ("max_request_body_size_mb", &["server", "max_body"], NumberUnit::Text("MiB")),
];

/// Key of the interval at which the tools of a client are listed again, also of all clients.
const SYNC: &str = "tool_sync_interval";
/// Key of the interval of all clients in `client`.
const SYNC_IN_CLIENT: &str = "mcp_tool_sync_interval";

/// Kinds of providers that both programs have, by the same names.
const KINDS: [&str; 6] = ["openai", "anthropic", "gemini", "azure", "bedrock", "vertex"];

/// Unit of a number.
#[derive(Clone, Copy)]
enum NumberUnit {
    None,
    /// The number becomes text with this unit.
    Text(&'static str),
}

/// Returns whether a file has a part that a configuration of Bifrost has.
pub(super) fn is_of_bifrost(source: &Value) -> bool {
    const PARTS: [&str; 4] = ["providers", "governance", "client", "config_store"];
    const OF_MCP: [&str; 3] = ["client_configs", "tool_manager_config", "tool_sync_interval"];
    has_any(source, &PARTS) || has_any(&source["mcp"], &OF_MCP)
}

fn has_any(source: &Value, names: &[&str]) -> bool {
    names.iter().any(|name| source.get(name).is_some())
}

pub(super) fn translate(source: &Value) -> Draft {
    let mut draft = Draft::new(source.clone());
    let root = KeyPath::default();
    draft.drop_without_meaning(&root, "File");
    drop_plugins(&mut draft);
    let in_client = move_client_settings(&mut draft);
    let mcp = root.member("mcp");
    draft.drop_without_meaning(&mcp, "Mcp");
    let in_client = in_client.map(|value| (root.member("client").member(SYNC_IN_CLIENT), value));
    let in_mcp = draft.take(&mcp, SYNC).map(|value| (mcp.member(SYNC), value));
    let written: Vec<_> = in_mcp.into_iter().chain(in_client).collect();
    let mut intervals = written.iter().filter(|(_, value)| !is_default(value));
    let used = intervals.find_map(|(key, value)| Some((key, span(value)?)));
    let sync = used.as_ref().map(|(_, sync)| sync.as_str());
    let renamed = translate_clients(&mut draft, &mcp.member("client_configs"), sync);
    for (key, value) in &written {
        let (outcome, message) = note_of_sync(key, value, used.as_ref());
        draft.note(key.clone(), outcome, message);
    }
    limits::translate(&mut draft);
    translate_keys(&mut draft, &renamed);
    translate_groups(&mut draft, &renamed);
    translate_providers(&mut draft);
    draft
}

/// Removes the list of Bifrost's own plugins. The gateway's key of this name is an object.
fn drop_plugins(draft: &mut Draft) {
    let root = KeyPath::default();
    match draft.take(&root, "plugins") {
        None => {}
        Some(Value::Array(plugins)) if plugins.is_empty() => {}
        Some(_) => {
            let message = "a plugin is a client with `connection_type` \"wasm\"";
            draft.note(root.member("plugins"), SettingOutcome::Refused, message);
        }
    }
}

/// Moves the settings in `client` to their places. Returns the interval of all clients, which has no
/// place of its own.
fn move_client_settings(draft: &mut Draft) -> Option<Value> {
    let root = KeyPath::default();
    let key = root.member("client");
    let Some(Value::Object(mut settings)) = draft.take(&root, "client") else { return None };
    let sync = settings.shift_remove(SYNC_IN_CLIENT).filter(|value| !value.is_null());
    for (name, mut value) in settings {
        if name == "allowed_origins" && remove_any_origin(&mut value) {
            let message = "with `*`, any web page could use the gateway: name the origins in `server.allowed_origins`";
            draft.note(key.member(&name), SettingOutcome::Refused, message);
            if value == json!([]) {
                continue;
            }
        }
        let moved = MOVED.iter().find(|(known, _, _)| *known == name);
        let key = key.member(&name);
        match moved {
            Some((_, path, unit)) => {
                let value = match unit {
                    NumberUnit::Text(unit) if value.is_u64() => format!("{value}{unit}").into(),
                    _ => value,
                };
                let path_text = path.join(".");
                let (outcome, message) = if draft.set(path, value) {
                    (SettingOutcome::Changed, format!("is `{path_text}`"))
                } else {
                    (SettingOutcome::Refused, format!("`{path_text}` is set too, and is used"))
                };
                draft.note(key, outcome, message);
            }
            None if is_about_rights(&name) => {
                draft.note(
                    key,
                    SettingOutcome::Refused,
                    "the gateway has no such setting, and callers may get other rights without it",
                );
            }
            None => draft.note(key, SettingOutcome::NoMeaning, "the gateway has no such setting"),
        }
    }
    sync
}

/// Removes `*` from a list of origins. Returns whether it was there.
fn remove_any_origin(origins: &mut Value) -> bool {
    let Some(origins) = origins.as_array_mut() else { return false };
    let before = origins.len();
    origins.retain(|origin| origin != "*");
    origins.len() < before
}

/// Returns whether a setting decides who may do what.
fn is_about_rights(name: &str) -> bool {
    ["auth", "allow", "header", "oauth", "restrict", "key", "token"]
        .iter()
        .any(|part| name.contains(part))
}

/// Translates the clients. Returns the names that had to be changed.
fn translate_clients(
    draft: &mut Draft,
    clients: &KeyPath,
    sync: Option<&str>,
) -> BTreeMap<String, String> {
    let mut renamed = BTreeMap::new();
    let mut names: Vec<String> = Vec::new();
    let mut of_an_embedder = Vec::new();
    for key in draft.elements(clients) {
        draft.drop_without_meaning(&key, "Client");
        let Some(client) = draft.object(&key) else { continue };
        if client.get("connection_type") == Some(&json!("inprocess"))
            && !client.contains_key("wasm_config")
        {
            of_an_embedder.push(key);
            continue;
        }
        if client.get("auth_type") == Some(&json!("")) {
            client.shift_remove("auth_type");
        }
        if client.get(SYNC).is_some_and(is_default) {
            client.shift_remove(SYNC);
        }
        let own = client.get(SYNC).cloned();
        if let Some(interval) = own.as_ref().map_or_else(|| sync.map(str::to_owned), span) {
            client.insert(SYNC.into(), interval.into());
        }
        rename(client, "allow_by_default", "allow_on_all_virtual_keys");
        if client.get("tool_mode") == Some(&json!("code")) {
            client.shift_remove("tool_mode");
            client.insert("is_code_mode_client".into(), true.into());
        }
        let name = client.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let valid = free_name(&name, names.iter().map(String::as_str));
        names.push(valid.clone());
        if valid != name && !name.is_empty() {
            client.insert("name".into(), valid.as_str().into());
            draft.note(key.member("name"), SettingOutcome::Changed, renamed_client(&name, &valid));
            renamed.insert(name, valid);
        }
        if let Some(minutes) = own.as_ref().and_then(minutes) {
            let message = format!("{}{}", draft.label(&key), in_minutes(minutes));
            draft.note(key.member(SYNC), SettingOutcome::Changed, message);
        }
    }
    for key in of_an_embedder.iter().rev() {
        let name = draft.label(key);
        draft.remove(key);
        draft.note(key.clone(), SettingOutcome::Refused, format!("{name}its tools are part of a program that embeds the gateway; see `Gateway::builder`, or write a plugin"));
    }
    renamed
}

fn rename(object: &mut serde_json::Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = object.shift_remove(from) {
        object.entry(to).or_insert(value);
    }
}

/// Returns the line about an interval of all clients. `used` is the key of the one that is used, and
/// its time.
fn note_of_sync(
    key: &KeyPath,
    written: &Value,
    used: Option<&(&KeyPath, String)>,
) -> (SettingOutcome, String) {
    if is_default(written) {
        return (SettingOutcome::NoMeaning, "it stands for the default".to_owned());
    }
    let Some(own) = span(written) else {
        return (SettingOutcome::Refused, "expected a time".to_owned());
    };
    match used {
        Some((other, sync)) if *other != key => {
            let outcome =
                if own == *sync { SettingOutcome::NoMeaning } else { SettingOutcome::Refused };
            (outcome, format!("`{other}` is set too, and is used"))
        }
        _ => {
            let read = minutes(written).map(|minutes| format!("{}, and ", in_minutes(minutes)));
            let read = read.unwrap_or_default();
            (SettingOutcome::Changed, format!("{read}{own} is `{SYNC}` of each client"))
        }
    }
}

/// Returns whether an interval stands for the default: that of all clients, or of the program.
fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.trim_end_matches(|c: char| c.is_ascii_alphabetic()) == "0",
        _ => false,
    }
}

/// Returns a time with its unit. Numbers are nanoseconds, except [`minutes`], and a negative one turns
/// the interval off.
fn span(value: &Value) -> Option<String> {
    if let Some(minutes) = minutes(value) {
        return Some(format!("{minutes}m"));
    }
    match value {
        Value::Number(number) => {
            let nanoseconds = u64::try_from(number.as_i64()?).unwrap_or(0);
            Some(format!("{}ms", nanoseconds / 1_000_000))
        }
        Value::String(text) if text.starts_with('-') => Some("0s".to_owned()),
        Value::String(text) => Some(text.clone()),
        _ => None,
    }
}

/// Returns a number that is meant as minutes, as Bifrost's API counts: as nanoseconds it would be less
/// than a millisecond.
fn minutes(value: &Value) -> Option<u64> {
    value.as_u64().filter(|number| (1..1_000_000).contains(number))
}

fn in_minutes(minutes: u64) -> String {
    format!("{minutes} is read as minutes: as nanoseconds it would be less than a millisecond")
}

/// Translates the providers of a kind that the gateway has.
fn translate_providers(draft: &mut Draft) {
    const CUSTOM: &str = "custom_provider_config";
    let providers = KeyPath::default().member("providers");
    let names = draft.object(&providers).map(|providers| providers.keys().cloned().collect());
    let names: Vec<String> = names.unwrap_or_default();
    for name in &names {
        clouds::move_settings(draft, name);
        let provider = providers.member(name);
        let key = provider.member(CUSTOM);
        let kind = draft.object(&key).and_then(|custom| custom.get("base_provider_type")?.as_str());
        let Some(kind) = KINDS.into_iter().find(|own| kind == Some(*own)) else { continue };
        let custom = draft.take(&provider, CUSTOM);
        let members = custom.as_ref().and_then(Value::as_object).into_iter().flatten();
        for (name, _) in members.filter(|(_, value)| !value.is_null()) {
            let (outcome, message) = match name.as_str() {
                "base_provider_type" => (SettingOutcome::Changed, "is `kind`"),
                "is_key_less" => (
                    SettingOutcome::NoMeaning,
                    "a provider with a `base_url` of its own needs no key",
                ),
                _ => (SettingOutcome::Refused, "the gateway has no such setting"),
            };
            draft.note(key.member(name), outcome, message);
        }
        if let Some(provider) = draft.object(&provider) {
            provider.entry("kind").or_insert_with(|| kind.into());
        }
    }
}

/// Translates the groups of tools, which grant nothing here.
fn translate_groups(draft: &mut Draft, renamed: &BTreeMap<String, String>) {
    let groups = KeyPath::default().member("mcp").member("virtual_mcps");
    for group in draft.elements(&groups) {
        let Some(members) = draft.object(&group) else { continue };
        members.shift_remove("id");
        for tools in draft.elements(&group.member("tools")) {
            translate_client_name(draft, &tools, renamed);
        }
        let name = draft.label(&group);
        let message = "it grants nothing here: keys need a row or a role for its tools";
        draft.note(group, SettingOutcome::Changed, format!("{name}{message}"));
    }
}

/// Gives an object the present name of the client that it names.
fn translate_client_name(draft: &mut Draft, object: &KeyPath, renamed: &BTreeMap<String, String>) {
    let Some(members) = draft.object(object) else { return };
    let name = members.get("mcp_client_name").and_then(Value::as_str);
    if let Some(valid) = name.and_then(|name| renamed.get(name)) {
        members.insert("mcp_client_name".into(), valid.as_str().into());
    }
}

/// Translates the rows of virtual keys.
fn translate_keys(draft: &mut Draft, renamed: &BTreeMap<String, String>) {
    let keys = KeyPath::default().member("governance").member("virtual_keys");
    for key in draft.elements(&keys) {
        for row in draft.elements(&key.member("mcp_configs")) {
            let Some(members) = draft.object(&row) else { continue };
            members.shift_remove("id");
            members.shift_remove("virtual_key_id");
            translate_client_name(draft, &row, renamed);
        }
    }
}
