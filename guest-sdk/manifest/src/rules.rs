//! Rules about several keys of a manifest. A value of a wrong kind counts as absent here, because
//! its own fault was already found.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::fault::{Fault, Faults};
use crate::form::{ANY, is_name, is_slot_name, shown};
use crate::key_path::KeyPath;

/// Name of the scratch directory in the guest, which no granted directory may have.
const SCRATCH: &str = "tmp";

pub(crate) fn check(document: &Value, faults: &mut Faults) {
    let request = &document["request"];
    for (name, http) in members(&request["http"]) {
        faults.extend(self::http(&key_of_request("http", name), http));
    }
    for (name, secret) in members(&request["secret"]) {
        faults.extend(self::secret(&key_of_request("secret", name), secret, &request["http"]));
    }
    for (name, _) in members(&request["slot"]).filter(|(name, _)| !is_slot_name(name)) {
        let problem = "the name of a slot is a letter a-z and then at most 31 of a-z, 0-9 and `_`";
        faults.push(Fault::of_name(key_of_request("slot", name), problem));
    }
    if request["files"].get(SCRATCH).is_some() {
        let problem = "is the scratch directory in the guest; choose another name";
        faults.push(Fault::of_name(key_of_request("files", SCRATCH), problem));
    }
    tools(&document["tool"], request, faults);
    faults.extend(config(&document["config"]));
}

fn key_of_request(kind: &str, name: &str) -> KeyPath {
    KeyPath::from_iter(["request", kind, name])
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn texts(value: &Value) -> impl Iterator<Item = (usize, &str)> {
    let texts = value.as_array().into_iter().flatten().map(Value::as_str);
    texts.enumerate().filter_map(|(index, text)| Some((index, text?)))
}

fn http(key: &KeyPath, http: &Value) -> Vec<Fault> {
    let is_any_host = http["url"] == ANY;
    let problem = "is valid only with a host; for `url = \"*\"` the operator grants it";
    let narrowed = ["methods", "paths"]
        .into_iter()
        .filter(|name| is_any_host && http[*name].as_array().is_some_and(|list| !list.is_empty()));
    narrowed.map(|name| Fault::new(key.member(name), problem)).collect()
}

fn secret(key: &KeyPath, secret: &Value, http: &Value) -> Vec<Fault> {
    let mut faults = Vec::new();
    let audience = key.member("audience");
    let has_inject = secret.get("inject").is_some();
    if !has_inject && secret.get("reveal").is_none_or(|reveal| *reveal == false) {
        let problem = "needs `inject`, which attaches it to requests, or `reveal = true`, which \
                       shows it to the plugin";
        faults.push(Fault::new(key.clone(), problem));
    }
    for (index, name) in texts(&secret["audience"]) {
        if http.get(name).is_none() {
            let names: Vec<_> = members(http).map(|(name, _)| shown(name)).collect();
            let names =
                if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
            let problem =
                format!("found {}, expected a name of [request.http]: {names}", shown(name));
            faults.push(Fault::new(audience.element(index), problem));
        }
    }
    let is_empty = match &secret["audience"] {
        Value::Null => true,
        Value::Array(names) => names.is_empty(),
        _ => false,
    };
    if has_inject && is_empty {
        let problem = "is empty, so that the secret could be sent nowhere; list names of \
                       [request.http]";
        faults.push(Fault::new(audience, problem));
    }
    faults
}

/// Stops when no more faults are taken: a hostile manifest could have one for every few bytes.
fn tools(tools: &Value, request: &Value, faults: &mut Faults) {
    let mut names = HashSet::new();
    for (index, tool) in tools.as_array().into_iter().flatten().enumerate() {
        let key = KeyPath::from_iter(["tool"]).element(index);
        let name = tool["name"].as_str();
        if let Some(name) = name.filter(|name| !is_name(name, 64)) {
            let problem =
                format!("found {}, expected 1 to 64 letters, digits, `_` or `-`", shown(name));
            faults.push(Fault::new(key.member("name"), problem));
        }
        if let Some(name) = name
            && !names.insert(name)
        {
            let problem = format!("another [[tool]] is named {} already", shown(name));
            faults.push(Fault::new(key.member("name"), problem));
        }
        for (index, effect) in texts(&tool["effects"]) {
            if let Some(problem) = lacks(request, effect) {
                let problem = format!("found {}, {problem}", shown(effect));
                faults.push(Fault::new(key.member("effects").element(index), problem));
            }
            if faults.is_full() {
                return;
            }
        }
    }
}

/// Returns what an effect needs and `request` does not have; `None` if it has it.
fn lacks(request: &Value, effect: &str) -> Option<String> {
    let (kind, name) =
        effect.split_once('.').map_or((effect, None), |(kind, name)| (kind, Some(name)));
    let table = match kind {
        "read_files" | "write_files" => "files",
        "http" | "secret" => kind,
        "read_kv" | "write_kv" => "kv",
        "call_tools" => "slot",
        // Unknown, which is a fault of its own.
        _ => return None,
    };
    let requests = &request[table];
    let access = if kind == "write_files" { " with `access = \"read_write\"`" } else { "" };
    match name.map(|name| (name, requests.get(name))) {
        Some((_, None)) => {
            let names: Vec<_> = members(requests).map(|(name, _)| shown(name)).collect();
            let names =
                if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
            Some(format!("expected a name of [request.{table}] after the dot: {names}"))
        }
        Some((name, Some(named))) => {
            let key = KeyPath::from_iter(["request", table, name]);
            (!fits(kind, named)).then(|| format!("which needs [{key}]{access}"))
        }
        None if members(requests).any(|(_, request)| fits(kind, request)) => None,
        None if kind != "call_tools" => {
            Some(format!("which needs a [request.{table}.NAME]{access}"))
        }
        None => request["tools"]
            .as_object()
            .is_none_or(Map::is_empty)
            .then(|| "which needs a [request.slot.NAME] or [request.tools]".to_owned()),
    }
}

fn fits(kind: &str, files: &Value) -> bool {
    kind != "write_files" || files["access"] == "read_write"
}

fn config(config: &Value) -> Option<Fault> {
    let key = KeyPath::from_iter(["config"]);
    let members = config.as_object()?;
    if let Some(file) = members.get("schema_file") {
        if !file.is_string() {
            return None;
        }
        let problem = "stands for the content of a file, which the build puts in its place; build \
                       the plugin with `airlock plugin build`";
        return Some(Fault::new(key.member("schema_file"), problem));
    }
    if let Some(from_code) = members.get("from_code") {
        let problem = match from_code {
            Value::Bool(true) => {
                "stands for the schema in the plugin's code, which the build puts in its place; \
                 build the plugin with `airlock plugin build`"
            }
            Value::Bool(false) => "is true or absent",
            _ => return None,
        };
        return Some(Fault::new(key.member("from_code"), problem));
    }
    let problem = "needs `from_code = true`, `schema_file`, the name of a JSON Schema beside \
                   plugin.toml, or `schema`";
    (!members.contains_key("schema")).then(|| Fault::new(key, problem))
}
