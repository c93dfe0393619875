//! Lists of MCP servers of desktop agents: `mcpServers` of Claude, Cursor, Windsurf and others,
//! `servers` of VS Code, `context_servers` of Zed. Claude Code also has a list for each project.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{
    client_name::{free_name, renamed},
    draft::Draft,
    report::SettingOutcome,
};
use airlock_config_file::{
    env_text::{has_reference, has_reference_of_editors},
    key_path::KeyPath,
};

/// Keys of the lists, and the programs that have them.
const LISTS: [(&str, &str); 3] = [
    ("mcpServers", "a desktop agent (`mcpServers`)"),
    ("servers", "VS Code (`servers`)"),
    ("context_servers", "Zed (`context_servers`)"),
];

/// Key of the projects of Claude Code, and of the lists that each has.
const PROJECTS: &str = "projects";
const LIST_OF_PROJECT: &str = "mcpServers";
const DISABLED: &str = "disabledMcpServers";
const ALLOWED: &str = "allowedTools";

/// Members of a server that are settings of the agent's user interface.
const OF_THE_AGENT: [&str; 7] =
    ["gallery", "version", "icon", "iconPath", "description", "dev", "source"];

/// Lists of tools of a server, and those of a client that have the same meaning. Of two lists with one meaning, all names
/// are taken.
const TOOL_LISTS: [(&str, &str); 6] = [
    ("includeTools", "tools_to_execute"),
    ("enabledTools", "tools_to_execute"),
    ("excludeTools", "tools_to_exclude"),
    ("disabledTools", "tools_to_exclude"),
    ("autoApprove", "tools_to_auto_execute"),
    ("alwaysAllow", "tools_to_auto_execute"),
];

/// Returns the program whose list of servers a file has: at its root, below `mcp` in the settings of
/// VS Code, or in a project of Claude Code. `None` if it has none.
pub(super) fn agent(source: &Value) -> Option<&'static str> {
    let mut lists = LISTS.iter().filter(|(list, _)| source.get(list).is_some_and(Value::is_object));
    let of_settings = source["mcp"]["servers"].is_object();
    lists
        .next()
        .map(|(_, program)| *program)
        .or_else(|| of_settings.then_some("VS Code (`mcp.servers`)"))
        .or_else(|| {
            let has_list = lists_of_projects(&source[PROJECTS]).next().is_some();
            has_list.then_some("Claude Code (`projects`)")
        })
}

/// Iterates over the projects that have servers: the name of each, and its list.
fn lists_of_projects(projects: &Value) -> impl Iterator<Item = (&String, &Map<String, Value>)> {
    let projects = projects.as_object().into_iter().flatten();
    projects.filter_map(|(name, project)| {
        let servers = project.get(LIST_OF_PROJECT)?.as_object()?;
        (!servers.is_empty()).then_some((name, servers))
    })
}

/// A list of servers.
struct ServerList<'v> {
    key: KeyPath,
    servers: &'v Map<String, Value>,
    /// The directory of the project that has the list.
    project: Option<&'v Path>,
    /// Names of the servers that the project disables.
    disabled: &'v [Value],
}

/// A server and what its list adds to it.
#[derive(PartialEq)]
struct ListedServer<'v> {
    value: &'v Value,
    /// The directory of the process.
    directory: Option<PathBuf>,
    is_disabled: bool,
}

pub(super) fn translate(source: &Value) -> Draft {
    let mut draft = Draft::new(json!({"mcp": {"client_configs": []}}));
    // The servers so far, by their names.
    let mut seen = BTreeMap::<&str, Vec<ListedServer<'_>>>::new();
    for (name, value) in source.as_object().into_iter().flatten() {
        let lists = lists(name, value);
        if lists.is_empty() {
            let key = KeyPath::default().member(name);
            draft.note(key, SettingOutcome::NoMeaning, "is a setting of the agent, not a server");
        }
        for ServerList { key, servers, project, disabled } in lists {
            for (server, value) in servers {
                let key = key.member(server);
                let found = ListedServer {
                    value,
                    directory: directory(value, project),
                    is_disabled: disabled.iter().any(|name| name == server),
                };
                let same_name = seen.entry(server).or_default();
                if same_name.contains(&found) {
                    draft.note(
                        key,
                        SettingOutcome::NoMeaning,
                        "the same server is in another list",
                    );
                    continue;
                }
                translate_server(&mut draft, &key, server, &found);
                same_name.push(found);
            }
        }
        if name == PROJECTS {
            note_projects(&mut draft, value);
        }
    }
    draft
}

/// Notes what projects set about servers of other lists, and about tools.
fn note_projects(draft: &mut Draft, projects: &Value) {
    for (name, project) in projects.as_object().into_iter().flatten() {
        let key = KeyPath::default().member(PROJECTS).member(name);
        for (index, server) in elements(project, DISABLED).iter().enumerate() {
            let Some(server) = server.as_str() else { continue };
            if project[LIST_OF_PROJECT].get(server).is_none() {
                let message = format!(
                    "the project has no server {server:?} of its own, and one of another list stays as it is"
                );
                draft.note(key.member(DISABLED).element(index), SettingOutcome::Refused, message);
            }
        }
        if !elements(project, ALLOWED).is_empty() {
            draft.note(
                key.member(ALLOWED),
                SettingOutcome::Refused,
                "each call needs an approval: list the tools of a server that need none in `tools_to_auto_execute` of its client",
            );
        }
    }
}

/// Returns the elements of a list of a project.
fn elements<'v>(project: &'v Value, list: &str) -> &'v [Value] {
    project.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the lists of servers in a member of the file.
fn lists<'v>(name: &str, value: &'v Value) -> Vec<ServerList<'v>> {
    let key = KeyPath::default().member(name);
    match name {
        PROJECTS => lists_of_projects(value)
            .map(|(project, servers)| ServerList {
                key: key.member(project).member(LIST_OF_PROJECT),
                servers,
                project: Some(Path::new(project)).filter(|project| project.is_absolute()),
                disabled: elements(&value[project.as_str()], DISABLED),
            })
            .collect(),
        "mcp" => list(key.member("servers"), value.get("servers")),
        _ if LISTS.iter().any(|(own, _)| *own == name) => list(key, Some(value)),
        _ => Vec::new(),
    }
}

fn list(key: KeyPath, value: Option<&Value>) -> Vec<ServerList<'_>> {
    match value.and_then(Value::as_object) {
        Some(servers) => vec![ServerList { key, servers, project: None, disabled: &[] }],
        None => Vec::new(),
    }
}

/// Returns the directory in which a process starts: its own `cwd`, else that of the project. `None`
/// if it is not known, and for a server that is not a process.
fn directory(server: &Value, project: Option<&Path>) -> Option<PathBuf> {
    let members = server.as_object()?;
    if url(members).is_some() {
        return None;
    }
    let directory = match own_directory(process_members(members)) {
        None => project?.to_owned(),
        Some(own) => {
            let own = own.as_str().filter(|own| !has_reference(own))?;
            project.map_or_else(|| PathBuf::from(own), |project| project.join(own))
        }
    };
    directory.is_absolute().then_some(directory)
}

fn own_directory(process_members: &Map<String, Value>) -> Option<&Value> {
    process_members.get("cwd").filter(|directory| !directory.is_null())
}

/// Returns the members that describe the process. An older form of Zed has all of them in `command`.
fn process_members(members: &Map<String, Value>) -> &Map<String, Value> {
    members.get("command").and_then(Value::as_object).unwrap_or(members)
}

/// Returns the member with the URL of a server, and its name.
fn url(members: &Map<String, Value>) -> Option<(&'static str, &Value)> {
    let names = ["url", "serverUrl", "httpUrl"];
    names.into_iter().find_map(|name| Some((name, members.get(name)?)))
}

fn translate_server(draft: &mut Draft, key: &KeyPath, name: &str, server: &ListedServer<'_>) {
    let Some(members) = server.value.as_object() else {
        draft.note(key.clone(), SettingOutcome::Refused, "expected an object");
        return;
    };
    let clients = draft.file["mcp"]["client_configs"].as_array().into_iter().flatten();
    let client_name = free_name(name, clients.filter_map(|client| client["name"].as_str()));
    if client_name != name {
        draft.note(key.clone(), SettingOutcome::Changed, renamed(name, &client_name));
    }
    let mut client = Map::new();
    client.insert("name".into(), client_name.into());
    let program = members.get("command").map(|command| command.get("path").unwrap_or(command));
    let kind = members.get("type").or_else(|| members.get("transport")).and_then(Value::as_str);
    match (url(members), program) {
        (Some((member, url)), _) => {
            let kind = if kind == Some("sse") { "sse" } else { "http" };
            client.insert("connection_type".into(), kind.into());
            client.insert("connection_string".into(), variable(draft, &key.member(member), url));
            if let Some(headers) = members.get("headers").and_then(Value::as_object) {
                let key = key.member("headers");
                let headers = headers
                    .iter()
                    .map(|(name, value)| (name.clone(), variable(draft, &key.member(name), value)));
                client.insert("headers".into(), headers.collect::<Map<String, Value>>().into());
            }
        }
        (None, Some(command)) => {
            client.insert("connection_type".into(), "stdio".into());
            let directory = server.directory.as_deref();
            let process = process(draft, key, command, process_members(members), directory);
            if passes_reference(&process) {
                draft.note(
                    key.clone(),
                    SettingOutcome::Changed,
                    "a reference such as `${NAME}` reaches the process as it is written: the gateway expands none in `command`, \
                     `args` and `cwd`, and none in a part of a variable",
                );
            }
            client.insert("stdio_config".into(), process);
        }
        (None, None) => {
            draft.note(key.clone(), SettingOutcome::Refused, "has neither `command` nor `url`");
            return;
        }
    }
    set_tools(draft, key, members, &mut client);
    if server.is_disabled {
        draft.note(key.clone(), SettingOutcome::Changed, "is `disabled`: the project disables it");
    } else if is_other_than(members, "enabled", true) {
        draft.note(key.member("enabled"), SettingOutcome::Changed, "is `disabled` of the client");
    }
    if server.is_disabled || is_turned_off(members) {
        client.insert("disabled".into(), true.into());
    }
    if let Some(seconds) = members.get("timeout").and_then(Value::as_u64) {
        // Some agents count in milliseconds.
        let timeout = if seconds < 1_000 { format!("{seconds}s") } else { format!("{seconds}ms") };
        client.insert("request_timeout".into(), timeout.into());
    }
    note_rest(draft, key, members);
    draft.file["mcp"]["client_configs"]
        .as_array_mut()
        .expect("the draft began with the list")
        .push(client.into());
}

/// Returns whether a server is turned off. A value that is no truth value turns it off too: a server that was off must not
/// start because of it.
fn is_turned_off(members: &Map<String, Value>) -> bool {
    is_other_than(members, "disabled", false) || is_other_than(members, "enabled", true)
}

/// Returns whether a member is set, and to another value.
fn is_other_than(members: &Map<String, Value>, name: &str, value: bool) -> bool {
    members.get(name).is_some_and(|found| !found.is_null() && *found != value)
}

/// Sets the lists of tools of a client. An agent offers every tool of its servers unless it names some, and asks its user
/// before each call.
fn set_tools(
    draft: &mut Draft,
    key: &KeyPath,
    members: &Map<String, Value>,
    client: &mut Map<String, Value>,
) {
    let mut lists = Map::new();
    for (name, list) in TOOL_LISTS {
        let Some(value) = members.get(name).filter(|value| !value.is_null()) else { continue };
        let Some(tools) = value.as_array() else {
            draft.note(key.member(name), SettingOutcome::Refused, "expected a list of tools");
            continue;
        };
        if list != "tools_to_auto_execute" {
            draft.note(key.member(name), SettingOutcome::Changed, format!("is `{list}`"));
        }
        let taken = lists.entry(list).or_insert_with(|| json!([]));
        let taken = taken.as_array_mut().expect("each is made a list");
        for tool in tools {
            if !taken.contains(tool) {
                taken.push(tool.clone());
            }
        }
    }
    lists.entry("tools_to_execute").or_insert_with(|| json!(["*"]));
    lists.entry("tools_to_auto_execute").or_insert_with(|| json!([]));
    client.extend(lists);
}

fn process(
    draft: &mut Draft,
    key: &KeyPath,
    command: &Value,
    members: &Map<String, Value>,
    directory: Option<&Path>,
) -> Value {
    let mut process = Map::new();
    let command_there = directory.and_then(|directory| command_in(directory, command));
    if let Some(there) = &command_there {
        let message = format!("is {there:?}: a relative command begins in the server's directory");
        draft.note(key.member("command"), SettingOutcome::Changed, message);
    }
    process.insert("command".into(), command_there.map_or_else(|| command.clone(), Value::from));
    process.insert("args".into(), members.get("args").cloned().unwrap_or_else(|| json!([])));
    let own = own_directory(members);
    if let Some(directory) = directory.map(Path::to_string_lossy) {
        let message = match own.and_then(Value::as_str) {
            None => {
                Some(format!("`stdio_config.cwd` is {directory:?}, the directory of the project"))
            }
            Some(own) if own != directory => Some(format!(
                "`stdio_config.cwd` is {directory:?}: {own:?} is relative to the directory of the project"
            )),
            Some(_) => None,
        };
        if let Some(message) = message {
            draft.note(key.clone(), SettingOutcome::Changed, message);
        }
        process.insert("cwd".into(), directory.into_owned().into());
    } else if let Some(own) = own {
        process.insert("cwd".into(), own.clone());
    }
    let mut envs = Vec::new();
    let mut written = Vec::new();
    for (name, value) in members.get("env").and_then(Value::as_object).into_iter().flatten() {
        let Some(text) = value.as_str().map(str::to_owned).or_else(|| plain(value)) else {
            draft.note(key.member("env").member(name), SettingOutcome::Refused, "expected text");
            continue;
        };
        if let Some(variable) = reference(&text) {
            let message = format!("is `{name}={variable}` in `stdio_config.envs`");
            draft.note(key.member("env").member(name), SettingOutcome::Changed, message);
            envs.push(format!("{name}={variable}"));
        } else {
            written.push(format!("`{name}`"));
            envs.push(format!("{name}={text}"));
        }
    }
    if !written.is_empty() {
        let message = format!(
            "is `stdio_config.envs`, with the values of {} as they were: put credentials into the gateway's environment and write `NAME=env.NAME`",
            written.join(", ")
        );
        draft.note(key.member("env"), SettingOutcome::Changed, message);
    }
    process.insert("envs".into(), json!(envs));
    process.into()
}

/// Returns the path of a command that is relative to the directory of its process. The gateway's own
/// file has paths relative to that file.
fn command_in(directory: &Path, command: &Value) -> Option<String> {
    let path = command.as_str().filter(|path| path.contains('/') && !has_reference(path))?;
    let path = Path::new(path);
    // Leaves out the components `.`.
    path.is_relative().then(|| {
        let path: PathBuf = directory.join(path).components().collect();
        path.to_string_lossy().into_owned()
    })
}

/// Returns a number or a truth value as text.
fn plain(value: &Value) -> Option<String> {
    (value.is_number() || value.is_boolean()).then(|| value.to_string())
}

/// Returns a value. A reference to an environment variable gets the gateway's form, and a line.
fn variable(draft: &mut Draft, key: &KeyPath, value: &Value) -> Value {
    let Some(variable) = value.as_str().and_then(reference) else { return value.clone() };
    draft.note(key.clone(), SettingOutcome::Changed, format!("is `{variable}`"));
    variable.into()
}

/// Returns the gateway's form of a text that is one reference to an environment variable.
fn reference(text: &str) -> Option<String> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    let name = name.strip_prefix("env:").unwrap_or(name);
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (is_name && !name.is_empty()).then(|| format!("env.{name}"))
}

/// Returns whether a process receives a reference that it may expand itself. The others are refused
/// when the result is read.
fn passes_reference(value: &Value) -> bool {
    match value {
        Value::String(text) => has_reference(text) && !has_reference_of_editors(text),
        Value::Array(elements) => elements.iter().any(passes_reference),
        Value::Object(members) => members.values().any(passes_reference),
        _ => false,
    }
}

/// Returns whether the translation uses a member of a server.
fn is_used(name: &str) -> bool {
    const MEMBERS: [&str; 14] = [
        "command",
        "args",
        "env",
        "cwd",
        "url",
        "serverUrl",
        "httpUrl",
        "type",
        "transport",
        "headers",
        "disabled",
        "enabled",
        "timeout",
        "name",
    ];
    MEMBERS.contains(&name) || TOOL_LISTS.iter().any(|(list, _)| *list == name)
}

/// Notes the members that the translation does not use.
fn note_rest(draft: &mut Draft, key: &KeyPath, members: &Map<String, Value>) {
    for name in members.keys().filter(|name| !is_used(name)) {
        let (outcome, reason) = if OF_THE_AGENT.contains(&name.as_str()) {
            (SettingOutcome::NoMeaning, "is a setting of the agent")
        } else {
            (
                SettingOutcome::Refused,
                "is not known; if the server needs it, look for the setting in docs/configuration.md",
            )
        };
        draft.note(key.member(name), outcome, reason);
    }
}
