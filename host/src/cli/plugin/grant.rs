//! `--grant`: parses a grant as it is typed and writes it to `wasm_config.grants`.

use std::{fmt, path::PathBuf, str::FromStr};

use serde_json::{Map, Value, json};

use crate::plugin::Request;

/// One thing that is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Grant {
    /// A network destination, by the name under which the plugin asks for it.
    Http(String),
    /// A host of the operator's choice, for a plugin that leaves the host open.
    Host(String),
    /// A store of keys and values.
    Store(String),
    /// A directory.
    Directory {
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
    Random,
    /// Every tool that the plugin asks to call.
    Tools,
}

/// The text is not a valid grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected http.NAME, http=URL, kv.NAME, files.NAME=PATH (and :rw where it may write), secret.NAME=env:VARIABLE, \
     secret.NAME=file:PATH, scratch, clocks, random or tools"
)]
pub(super) struct BadGrant;

impl FromStr for Grant {
    type Err = BadGrant;

    fn from_str(text: &str) -> Result<Self, BadGrant> {
        let (place, value) =
            text.split_once('=').map_or((text, None), |(place, value)| (place, Some(value)));
        let (kind, name) =
            place.split_once('.').map_or((place, None), |(kind, name)| (kind, Some(name)));
        match (kind, name.filter(|name| !name.is_empty()), value.filter(|value| !value.is_empty()))
        {
            ("http", Some(name), None) => Ok(Self::Http(name.to_owned())),
            ("http", None, Some(url)) if name.is_none() => Ok(Self::Host(url.to_owned())),
            ("kv", Some(name), None) => Ok(Self::Store(name.to_owned())),
            ("files", Some(name), Some(path)) => {
                let (path, may_write) = match path.strip_suffix(":rw") {
                    Some(path) => (path, true),
                    None => (path.strip_suffix(":ro").unwrap_or(path), false),
                };
                Ok(Self::Directory { name: name.to_owned(), path: absolute(path)?, may_write })
            }
            ("secret", Some(name), Some(from)) => {
                let from = match from.strip_prefix("file:") {
                    Some(path) => format!("file:{}", absolute(path)?.display()),
                    None => from.to_owned(),
                };
                Ok(Self::Secret { name: name.to_owned(), from })
            }
            ("scratch", None, None) if text == kind => Ok(Self::Scratch),
            ("clocks", None, None) if text == kind => Ok(Self::Clocks),
            ("random", None, None) if text == kind => Ok(Self::Random),
            ("tools", None, None) if text == kind => Ok(Self::Tools),
            _ => Err(BadGrant),
        }
    }
}

impl fmt::Display for Grant {
    /// Writes the grant as it could have been typed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(name) => write!(f, "http.{name}"),
            Self::Host(url) => write!(f, "http={url}"),
            Self::Store(name) => write!(f, "kv.{name}"),
            Self::Directory { name, path, may_write } => {
                write!(f, "files.{name}={}{}", path.display(), if *may_write { ":rw" } else { "" })
            }
            Self::Secret { name, from } => write!(f, "secret.{name}={from}"),
            Self::Scratch => f.write_str("scratch"),
            Self::Clocks => f.write_str("clocks"),
            Self::Random => f.write_str("random"),
            Self::Tools => f.write_str("tools"),
        }
    }
}

/// Makes a path absolute. Paths on the command line are relative to the working directory, those in
/// the configuration to the configuration file.
fn absolute(path: &str) -> Result<PathBuf, BadGrant> {
    std::path::absolute(path).map_err(|_| BadGrant)
}

impl Grant {
    /// Returns a grant for each request of a plugin that needs no value from the operator.
    pub(super) fn all(request: &Request) -> Vec<Self> {
        let named = request.http.iter().filter(|(_, http)| http.url != "*");
        let mut grants: Vec<_> = named.map(|(name, _)| Self::Http(name.clone())).collect();
        grants.extend(request.kv.keys().cloned().map(Self::Store));
        grants.extend(request.scratch.iter().map(|_| Self::Scratch));
        grants.extend(request.clocks.iter().map(|_| Self::Clocks));
        grants.extend(request.random.iter().map(|_| Self::Random));
        grants.extend(request.tools.iter().map(|_| Self::Tools));
        grants
    }

    /// Writes the grant into `wasm_config.grants`, where it replaces an older grant for the same
    /// request.
    pub(super) fn apply(&self, grants: &mut Map<String, Value>, request: Option<&Request>) {
        match self {
            Self::Http(name) => add(grants, "http", json!(name)),
            Self::Host(url) => add(grants, "http", json!({"url": url})),
            Self::Store(name) if !is_granted(grants, &format!("kv.{name}"), request) => {
                add(grants, "kv", json!(name));
            }
            Self::Store(_) => {}
            Self::Directory { name, path, may_write } => {
                let access = if *may_write { "read_write" } else { "read_only" };
                let directories = list(grants, "directories");
                directories.retain(|directory| directory["name"] != name.as_str());
                directories.push(json!({"name": name, "path": path, "access": access}));
            }
            Self::Secret { name, from } => {
                let secrets = grants.entry("secrets").or_insert_with(|| json!({}));
                if !secrets.is_object() {
                    *secrets = json!({});
                }
                secrets[name.as_str()]["from"] = json!(from);
            }
            Self::Scratch => {
                grants.entry("scratch").or_insert_with(|| json!({}));
            }
            Self::Clocks => {
                grants.insert("clocks".to_owned(), json!(true));
            }
            Self::Random => {
                grants.insert("random".to_owned(), json!(true));
            }
            Self::Tools => {
                let tools = request.and_then(|request| request.tools.as_ref());
                tools
                    .iter()
                    .flat_map(|tools| &tools.call)
                    .for_each(|tool| add(grants, "tools", json!(tool)));
            }
        }
    }
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

/// Returns whether `grants` satisfy the request at `place`, such as `http.api`.
pub(super) fn is_granted(
    grants: &Map<String, Value>,
    place: &str,
    request: Option<&Request>,
) -> bool {
    let (kind, name) = place.split_once('.').unwrap_or((place, ""));
    let any = |key: &str, is_it: &dyn Fn(&Value) -> bool| {
        grants.get(key).and_then(Value::as_array).is_some_and(|list| list.iter().any(is_it))
    };
    match kind {
        // The host of a rule is not compared here: any rule with a URL counts as the grant.
        "http" => any("http", &|grant| *grant == name || grant.is_object()),
        "kv" => any("kv", &|grant| *grant == name || grant["name"] == name),
        "files" => any("directories", &|grant| name == "*" || grant["name"] == name),
        "secret" => grants.get("secrets").is_some_and(|secrets| secrets.get(name).is_some()),
        "scratch" => grants.contains_key("scratch"),
        "tools" => {
            let tools = request.and_then(|request| request.tools.as_ref());
            tools.is_some_and(|tools| {
                tools.call.iter().all(|tool| any("tools", &|grant| grant == tool))
            })
        }
        switch => grants.get(switch) == Some(&json!(true)),
    }
}

/// Returns the value to type after `--grant` for the request at `place`. Parts that only the
/// operator knows are in capitals.
pub(super) fn suggestion(client: &str, place: &str, request: &Request) -> String {
    let (kind, name) = place.split_once('.').unwrap_or((place, ""));
    match kind {
        "http" if request.http.get(name).is_some_and(|http| http.url == "*") => {
            "http=https://HOST".to_owned()
        }
        "files" => {
            let may_write = request
                .files
                .get(name)
                .is_some_and(|files| files.access == crate::plugin::FilesAccess::ReadWrite);
            let name = if name == "*" { "NAME" } else { name };
            format!("files.{name}=DIRECTORY{}", if may_write { ":rw" } else { "" })
        }
        "secret" => {
            let variable = format!("{client}_{name}").to_uppercase().replace('-', "_");
            format!("secret.{name}=env:{variable}")
        }
        _ => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_read_as_it_is_typed() {
        let parse = |text: &str| text.parse::<Grant>();
        assert_eq!(parse("http.api"), Ok(Grant::Http("api".into())));
        assert_eq!(parse("http=https://a.example"), Ok(Grant::Host("https://a.example".into())));
        let data = |path: &str, may_write| {
            Ok(Grant::Directory { name: "data".into(), path: path.into(), may_write })
        };
        assert_eq!(parse("files.data=/d"), data("/d", false));
        assert_eq!(parse("files.data=/d:ro"), data("/d", false));
        assert_eq!(parse("files.data=/d=e:rw"), data("/d=e", true));
        assert_eq!(
            parse("secret.t=env:T"),
            Ok(Grant::Secret { name: "t".into(), from: "env:T".into() })
        );
        assert_eq!((parse("clocks"), parse("tools")), (Ok(Grant::Clocks), Ok(Grant::Tools)));
        for text in [
            "http.api",
            "http=https://a.example",
            "kv.n",
            "files.d=/d:rw",
            "secret.t=file:/s",
            "scratch",
            "random",
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
            "random=1",
            "all",
        ] {
            assert_eq!(parse(bad), Err(BadGrant), "{bad}");
        }
    }

    #[test]
    fn a_grant_replaces_an_older_one_and_keeps_the_rest() {
        let mut grants = json!({
            "http": ["api", {"url": "https://b.example"}],
            "directories": [{"name": "data", "path": "old", "access": "read_write"}, {"name": "other", "path": "o"}],
            "secrets": {"t": {"from": "env:OLD", "reveal": true}},
        });
        let object = grants.as_object_mut().expect("an object");
        for grant in ["http.api", "kv.notes", "files.data=/d", "secret.t=env:NEW", "clocks"] {
            grant.parse::<Grant>().expect("a grant").apply(object, None);
        }
        assert!(
            ["http.api", "kv.notes", "files.data", "secret.t", "clocks"]
                .iter()
                .all(|place| is_granted(object, place, None))
        );
        assert!(
            ["kv.x", "files.x", "secret.x", "random", "scratch"]
                .iter()
                .all(|place| !is_granted(object, place, None))
        );
        insta::assert_snapshot!(grants, @r#"{"http":["api",{"url":"https://b.example"}],"directories":[{"name":"other","path":"o"},{"name":"data","path":"/d","access":"read_only"}],"secrets":{"t":{"from":"env:NEW","reveal":true}},"kv":["notes"],"clocks":true}"#);
    }
}
