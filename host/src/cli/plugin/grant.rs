//! `--grant`: parses a grant as it is typed and writes it to `wasm_config.grants`.

use std::{
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

use serde_json::{Map, Value, json};

use crate::plugin::{FilesAccess, Request, Requests};

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
     secret.NAME=file:PATH, slot.NAME=CLIENT-TOOL, scratch, clocks or tools"
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
            ("files", Some(name), Some(path)) => {
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
    /// request.
    pub(super) fn apply(&self, grants: &mut Map<String, Value>, requests: Option<&Requests>) {
        match self {
            Self::Http(name) => add(grants, "http", json!(name)),
            Self::Host(url) => add(grants, "http", json!({"url": url})),
            Self::Kv(name) => {
                object(grants, "kv").entry(name).or_insert_with(|| json!({}));
            }
            Self::Files { name, path, may_write } => {
                let access = if *may_write { "read_write" } else { "read_only" };
                object(grants, "files")
                    .insert(name.clone(), json!({"path": absolute(path), "access": access}));
            }
            Self::Secret { name, from } => {
                let secret = object(grants, "secret").entry(name).or_insert_with(|| json!({}));
                let from = match from.strip_prefix("file:") {
                    Some(path) => format!("file:{}", absolute(path.as_ref()).display()),
                    None => from.clone(),
                };
                secret["from"] = json!(from);
            }
            Self::Scratch => {
                grants.entry("scratch").or_insert_with(|| json!({}));
            }
            Self::Clocks => {
                grants.insert("clocks".to_owned(), json!(true));
            }
            Self::Slot { name, tool } => {
                object(grants, "slot").insert(name.clone(), json!(tool));
            }
            Self::Tools => {
                let tools = requests.and_then(|requests| requests.tools.as_ref());
                tools
                    .iter()
                    .flat_map(|tools| &tools.call)
                    .for_each(|tool| add(grants, "tools", json!(tool)));
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

fn add(grants: &mut Map<String, Value>, key: &str, value: Value) {
    let list = list(grants, key);
    if !list.contains(&value) {
        list.push(value);
    }
}

/// Returns the value to type after `--grant` for a request. Parts that only the operator knows are
/// in capitals.
pub(super) fn suggestion(client: &str, request: Request<'_>) -> String {
    match request {
        Request::Http(_, http) if http.is_any_host() => "http=https://HOST".to_owned(),
        Request::Files(name, files) => {
            let name = if name == "*" { "NAME" } else { name };
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
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_read_as_it_is_typed() {
        let parse = |text: &str| text.parse::<GrantOption>();
        assert_eq!(parse("http.api"), Ok(GrantOption::Http("api".into())));
        assert_eq!(
            parse("http=https://a.example"),
            Ok(GrantOption::Host("https://a.example".into()))
        );
        let data = |path: &str, may_write| {
            Ok(GrantOption::Files { name: "data".into(), path: path.into(), may_write })
        };
        assert_eq!(parse("files.data=/d"), data("/d", false));
        assert_eq!(parse("files.data=/d:ro"), data("/d", false));
        assert_eq!(parse("files.data=/d=e:rw"), data("/d=e", true));
        assert_eq!(
            parse("secret.t=env:T"),
            Ok(GrantOption::Secret { name: "t".into(), from: "env:T".into() })
        );
        assert_eq!(
            (parse("clocks"), parse("tools")),
            (Ok(GrantOption::Clocks), Ok(GrantOption::Tools))
        );
        for text in [
            "http.api",
            "http=https://a.example",
            "kv.n",
            "files.d=/d:rw",
            "secret.t=file:/s",
            "scratch",
            "slot.forecast=weather-today",
        ] {
            assert_eq!(parse(text).map(|grant| grant.to_string()).as_deref(), Ok(text));
        }
        for bad in [
            "",
            "http",
            "http.",
            "http.api=x",
            "http.=x",
            "kv",
            "files.data",
            "secret.t",
            "clocks.x",
            "random",
            "slot.forecast",
            "slot=weather-today",
            "all",
        ] {
            assert_eq!(parse(bad), Err(BadGrantOption), "{bad}");
        }
    }

    #[test]
    fn a_grant_replaces_an_older_one_and_keeps_the_rest() {
        let mut grants = json!({
            "http": ["api", {"url": "https://b.example"}],
            "files": {"data": {"path": "old", "access": "read_write", "max_files": 1}, "other": {"path": "o"}},
            "secret": {"t": {"from": "env:OLD", "reveal": true}},
        });
        let object = grants.as_object_mut().expect("an object");
        for grant in [
            "http.api",
            "kv.notes",
            "files.data=/d",
            "secret.t=env:NEW",
            "clocks",
            "slot.forecast=weather-today",
        ] {
            grant.parse::<GrantOption>().expect("a grant").apply(object, None);
        }
        insta::assert_snapshot!(grants, @r#"{"http":["api",{"url":"https://b.example"}],"files":{"data":{"path":"/d","access":"read_only"},"other":{"path":"o"}},"secret":{"t":{"from":"env:NEW","reveal":true}},"kv":{"notes":{}},"clocks":true,"slot":{"forecast":"weather-today"}}"#);
    }

    /// Returns requests of every kind, and a second one of some kinds.
    fn requests() -> Requests {
        let requests = json!({
            "http": {"api": {"url": "*", "reason": "r"}},
            "secret": {"t": {"reveal": true, "reason": "r"}, "x": {"reveal": true, "reason": "r"}},
            "kv": {
                "notes": {"max_bytes": "1KiB", "reason": "r"},
                "x": {"max_bytes": "1KiB", "reason": "r"},
            },
            "files": {
                "*": {"access": "read_only", "reason": "r"},
                "data": {"access": "read_only", "reason": "r"},
                "x": {"access": "read_write", "reason": "r"},
            },
            "scratch": {"max_bytes": "1KiB", "max_files": 1, "reason": "r"},
            "slot": {"forecast": {"reason": "r"}, "x": {"reason": "r"}},
            "tools": {"call": ["text-count"], "reason": "r"},
            "clocks": {"reason": "r"},
        });
        serde_json::from_value(requests).expect("requests")
    }

    #[test]
    fn a_suggestion_is_the_text_to_type_with_the_parts_to_replace_in_capitals() {
        let requests = requests();
        let suggestions: Vec<_> =
            requests.all().map(|request| suggestion("my-mail", request)).collect();
        insta::assert_snapshot!(suggestions.join("\n"), @r"
        http=https://HOST
        secret.t=env:MY_MAIL_T
        secret.x=env:MY_MAIL_X
        kv.notes
        kv.x
        files.NAME=DIRECTORY
        files.data=DIRECTORY
        files.x=DIRECTORY:rw
        scratch
        slot.forecast=CLIENT-TOOL
        slot.x=CLIENT-TOOL
        tools
        clocks
        ");
        for suggestion in suggestions {
            let grant = suggestion.parse::<GrantOption>().expect("a grant");
            assert_eq!(grant.to_string(), suggestion);
        }
    }
}
