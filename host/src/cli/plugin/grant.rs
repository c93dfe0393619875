//! `--grant`: parses a grant as it is typed and writes it to `wasm_config.grants`.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde_json::{Map, Value, json};

use crate::{
    config::KeyPath,
    plugin::{FilesAccess, Request, Requests},
    text::visible_line,
};

/// Name of a request for any directory.
const ANY: &str = "*";

/// A right that the operator grants on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum GrantOption {
    /// A network destination, by the name under which the plugin asks for it.
    Http(String),
    /// A host of the operator's choice, for a plugin that leaves the host open.
    Host(String),
    /// A store of keys and values.
    Kv(String),
    /// A directory.
    Files {
        name: String,
        path: PathBuf,
        may_write: bool,
    },
    /// A secret, and the source of its value.
    Secret {
        name: String,
        from: String,
    },
    Scratch,
    Clocks,
    /// A tool for one of the plugin's slots.
    Slot {
        name: String,
        tool: String,
    },
    /// Every tool that the plugin asks to call by full name.
    Tools,
}

/// The text is not a valid grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected http.NAME, http=URL, kv.NAME, files.NAME=PATH (and :rw where it may write), secret.NAME=env:VARIABLE, \
     secret.NAME=file:PATH, slot.NAME=CLIENT-TOOL, scratch, clocks or tools; wider effects of a tool are granted with \
     `--regrant effects.TOOL`, and `files.*` is granted with `files.NAME=PATH` for each directory"
)]
pub(super) struct BadGrantOption;

impl FromStr for GrantOption {
    type Err = BadGrantOption;

    fn from_str(text: &str) -> Result<Self, BadGrantOption> {
        let (place, value) =
            text.split_once('=').map_or((text, None), |(place, value)| (place, Some(value)));
        let (kind, name) =
            place.split_once('.').map_or((place, None), |(kind, name)| (kind, Some(name)));
        match (kind, name.filter(|name| !name.is_empty()), value.filter(|value| !value.is_empty()))
        {
            ("http", Some(name), None) => Ok(Self::Http(name.to_owned())),
            ("http", None, Some(url)) if name.is_none() => Ok(Self::Host(url.to_owned())),
            ("kv", Some(name), None) => Ok(Self::Kv(name.to_owned())),
            ("files", Some(name), Some(path)) if name != ANY => {
                let (path, may_write) = match path.strip_suffix(":rw") {
                    Some(path) => (path, true),
                    None => (path.strip_suffix(":ro").unwrap_or(path), false),
                };
                Ok(Self::Files { name: name.to_owned(), path: path.into(), may_write })
            }
            ("secret", Some(name), Some(from)) => {
                Ok(Self::Secret { name: name.to_owned(), from: from.to_owned() })
            }
            ("slot", Some(name), Some(tool)) => {
                Ok(Self::Slot { name: name.to_owned(), tool: tool.to_owned() })
            }
            ("scratch", None, None) if text == kind => Ok(Self::Scratch),
            ("clocks", None, None) if text == kind => Ok(Self::Clocks),
            ("tools", None, None) if text == kind => Ok(Self::Tools),
            _ => Err(BadGrantOption),
        }
    }
}

impl fmt::Display for GrantOption {
    /// Writes the grant as it could have been typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(name) => write!(f, "http.{name}"),
            Self::Host(url) => write!(f, "http={url}"),
            Self::Kv(name) => write!(f, "kv.{name}"),
            Self::Files { name, path, may_write } => {
                write!(f, "files.{name}={}{}", path.display(), if *may_write { ":rw" } else { "" })
            }
            Self::Secret { name, from } => write!(f, "secret.{name}={from}"),
            Self::Scratch => f.write_str("scratch"),
            Self::Clocks => f.write_str("clocks"),
            Self::Slot { name, tool } => write!(f, "slot.{name}={tool}"),
            Self::Tools => f.write_str("tools"),
        }
    }
}

/// Makes a path absolute. Paths on the command line are relative to the working directory, those in
/// the configuration to the configuration file.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl GrantOption {
    /// Returns a grant for each request of a plugin that needs no value from the operator.
    pub(super) fn all(requests: &Requests) -> Vec<Self> {
        let named = requests.http.iter().filter(|(_, http)| !http.is_any_host());
        let mut grants: Vec<_> = named.map(|(name, _)| Self::Http(name.clone())).collect();
        grants.extend(requests.kv.keys().cloned().map(Self::Kv));
        grants.extend(requests.scratch.iter().map(|_| Self::Scratch));
        grants.extend(requests.clocks.iter().map(|_| Self::Clocks));
        grants.extend(requests.tools.iter().map(|_| Self::Tools));
        grants
    }

    /// Returns the option as it was typed, without the source of a secret's value, which may be the
    /// value itself by mistake.
    pub(super) fn option(&self) -> String {
        match self {
            Self::Secret { name, .. } => format!("--grant secret.{name}"),
            _ => format!("--grant {self}"),
        }
    }

    /// Returns whether it has a value that only the operator knows, so that a suggestion of it cannot
    /// be used as it is.
    pub(super) fn is_choice(&self) -> bool {
        matches!(self, Self::Host(_) | Self::Files { .. } | Self::Slot { .. })
    }

    /// Returns whether a plugin with these requests has one that the grant is for.
    pub(super) fn is_requested(&self, requests: &Requests) -> bool {
        match self {
            Self::Http(name) => requests.http.contains_key(name),
            Self::Host(_) => !requests.http.is_empty(),
            Self::Kv(name) => requests.kv.contains_key(name),
            Self::Files { name, .. } => {
                requests.files.contains_key(name) || requests.files.contains_key(ANY)
            }
            Self::Secret { name, .. } => requests.secret.contains_key(name),
            Self::Scratch => requests.scratch.is_some(),
            Self::Clocks => requests.clocks.is_some(),
            Self::Slot { name, .. } => requests.slot.contains_key(name),
            Self::Tools => requests.tools.is_some(),
        }
    }

    /// Returns the request that it names; `None` if it names a host instead.
    pub(super) fn request(&self) -> Option<String> {
        match self {
            Self::Host(_) => None,
            Self::Files { name, .. } => Some(format!("files.{name}")),
            Self::Secret { name, .. } => Some(format!("secret.{name}")),
            Self::Slot { name, .. } => Some(format!("slot.{name}")),
            Self::Http(_) | Self::Kv(_) | Self::Scratch | Self::Clocks | Self::Tools => {
                Some(self.to_string())
            }
        }
    }

    /// Writes the grant into `wasm_config.grants`, where it replaces an older grant for the same
    /// request. Returns its key in `wasm_config`.
    pub(super) fn apply(
        &self,
        grants: &mut Map<String, Value>,
        requests: Option<&Requests>,
    ) -> KeyPath {
        let key = |kind: &str| KeyPath::default().member("grants").member(kind);
        match self {
            Self::Http(name) => key("http").element(add(grants, "http", json!(name))),
            Self::Host(url) => key("http").element(add(grants, "http", json!({"url": url}))),
            Self::Kv(name) => {
                object(grants, "kv").entry(name).or_insert_with(|| json!({}));
                key("kv").member(name)
            }
            Self::Files { name, path, may_write } => {
                let access = if *may_write { "read_write" } else { "read_only" };
                object(grants, "files")
                    .insert(name.clone(), json!({"path": absolute(path), "access": access}));
                key("files").member(name)
            }
            Self::Secret { name, from } => {
                let secret = object(grants, "secret").entry(name).or_insert_with(|| json!({}));
                let from = match from.strip_prefix("file:") {
                    Some(path) => format!("file:{}", absolute(path.as_ref()).display()),
                    None => from.clone(),
                };
                secret["from"] = json!(from);
                key("secret").member(name)
            }
            Self::Scratch => {
                grants.entry("scratch").or_insert_with(|| json!({}));
                key("scratch")
            }
            Self::Clocks => {
                grants.insert("clocks".to_owned(), json!(true));
                key("clocks")
            }
            Self::Slot { name, tool } => {
                object(grants, "slot").insert(name.clone(), json!(tool));
                key("slot").member(name)
            }
            Self::Tools => {
                let tools = requests.and_then(|requests| requests.tools.as_ref());
                for tool in tools.iter().flat_map(|tools| &tools.call) {
                    add(grants, "tools", json!(tool));
                }
                key("tools")
            }
        }
    }
}

fn object<'a>(grants: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    let object = grants.entry(key).or_insert_with(|| json!({}));
    if !object.is_object() {
        *object = json!({});
    }
    object.as_object_mut().expect("it was made one above")
}

fn list<'a>(grants: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let list = grants.entry(key).or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    list.as_array_mut().expect("it was made one above")
}

/// Adds a value to a list, unless it is there. Returns its index.
fn add(grants: &mut Map<String, Value>, key: &str, value: Value) -> usize {
    let list = list(grants, key);
    list.iter().position(|listed| *listed == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

/// Describes each grant that a plugin with these requests does not ask for.
pub(super) fn unrequested(grants: &[GrantOption], requests: &Requests) -> Vec<String> {
    let names: Vec<_> = requests.all().map(|request| request.to_string()).collect();
    let names = match names.as_slice() {
        [] => "it requests nothing".to_owned(),
        names => format!("its requests are {}", names.join(", ")),
    };
    let unrequested = grants.iter().filter(|grant| !grant.is_requested(requests));
    let line = |grant: &GrantOption| {
        format!("{}: the plugin does not request it; {names}", grant.option())
    };
    unrequested.map(|grant| visible_line(&line(grant))).collect()
}

/// Returns the value to type after `--grant` for a request. Parts that only the operator knows are
/// in capitals.
pub(super) fn suggestion(client: &str, request: Request<'_>) -> String {
    match request {
        Request::Http(_, http) if http.is_any_host() => "http=https://HOST".to_owned(),
        Request::Files(name, files) => {
            let name = if name == ANY { "NAME" } else { name };
            let may_write = files.access == FilesAccess::ReadWrite;
            format!("files.{name}=DIRECTORY{}", if may_write { ":rw" } else { "" })
        }
        Request::Secret(name, _) => {
            let variable = format!("{client}_{name}").to_uppercase().replace('-', "_");
            format!("secret.{name}=env:{variable}")
        }
        Request::Slot(name, _) => format!("slot.{name}=CLIENT-TOOL"),
        _ => request.to_string(),
    }
}

#[cfg(test)]
mod tests;
