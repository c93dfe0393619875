//! A right that the operator grants when a plugin is installed, written to `wasm_config.grants`.

mod option;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

pub use self::option::{BadGrantOption, GrantOption};

use self::option::{ANY, placeholder};
use super::document::{list, object};
use airlock_config::KeyPath;
use airlock_core::secret::SecretSource;
use airlock_plugin::{FilesAccess, HttpRequest, Request, Requests};
use airlock_strings::visible_line;

/// Makes a path absolute. Paths on the command line are relative to the working directory, those in
/// the configuration to the configuration file.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl GrantOption {
    /// Returns a grant for each request of a plugin that needs no value from the operator.
    pub fn all(requests: &Requests) -> Vec<Self> {
        let named = requests.http.iter().filter(|(_, http)| !http.is_any_host());
        let mut grants: Vec<_> = named.map(|(name, _)| Self::Http(name.clone())).collect();
        grants.extend(requests.kv.keys().cloned().map(Self::Kv));
        grants.extend(requests.scratch.iter().map(|_| Self::Scratch));
        grants.extend(requests.clocks.iter().map(|_| Self::Clocks));
        grants.extend(requests.tools.iter().map(|_| Self::Tools));
        grants
    }

    /// Returns the grant that gives a request. Parts that only the operator knows are placeholders, with
    /// which its text is refused as a grant.
    pub fn suggestion(client: &str, request: Request<'_>) -> Self {
        let own = str::to_owned;
        match request {
            Request::Http(_, http) if http.is_any_host() => {
                let url = format!("https://{}", placeholder::HOST);
                let methods = Vec::new();
                Self::Host { url, methods, private: false }
            }
            Request::Http(name, _) => Self::Http(own(name)),
            Request::Files(name, files) => Self::Files {
                name: own(if name == ANY { placeholder::NAME } else { name }),
                path: placeholder::DIRECTORY.into(),
                may_write: files.access == FilesAccess::ReadWrite,
            },
            Request::Secret(name, secret) => {
                let variable = format!("{client}_{name}").to_uppercase().replace('-', "_");
                let from = format!("env:{variable}");
                Self::Secret { name: own(name), from, reveal: secret.reveal }
            }
            Request::Slot(name, _) => Self::Slot { name: own(name), tool: own(placeholder::TOOL) },
            Request::Kv(name, _) => Self::Kv(own(name)),
            Request::Scratch(_) => Self::Scratch,
            Request::Tools(_) => Self::Tools,
            Request::Clocks(_) => Self::Clocks,
        }
    }

    /// Describes each grant that a plugin with these requests does not ask for.
    pub fn unrequested(grants: &[Self], requests: &Requests) -> Vec<String> {
        let names: Vec<_> = requests.all().map(|request| request.to_string()).collect();
        let names = match names.as_slice() {
            [] => "it requests nothing".to_owned(),
            names => format!("its requests are {}", names.join(", ")),
        };
        let lines = grants.iter().filter_map(|grant| {
            let reason = reason(grant, requests, &names)?;
            Some(visible_line(&format!("{}: {reason}", grant.option())))
        });
        lines.collect()
    }

    /// Returns the option as it was typed, without the source of a secret's value, which may be the
    /// value itself by mistake.
    pub fn option(&self) -> String {
        match self {
            Self::Secret { name, .. } => format!("--grant secret.{name}"),
            _ => format!("--grant {self}"),
        }
    }

    /// Returns the grant as it may be printed in a command: with a placeholder for a secret's source
    /// that is not valid, which may be the value itself by mistake.
    pub fn printable(&self) -> Self {
        match self {
            Self::Secret { name, from, reveal }
                if SecretSource::parse(from, Path::new("")).is_err() =>
            {
                let from = format!("env:{}", placeholder::VARIABLE);
                Self::Secret { name: name.clone(), from, reveal: *reveal }
            }
            _ => self.clone(),
        }
    }

    /// Returns whether it has a value that only the operator knows, so that a suggestion of it cannot
    /// be used as it is.
    pub fn is_choice(&self) -> bool {
        matches!(self, Self::Host { .. } | Self::Files { .. } | Self::Slot { .. })
    }

    /// Returns whether a plugin with these requests has one that the grant is for.
    pub fn is_requested(&self, requests: &Requests) -> bool {
        match self {
            Self::Host { .. } => requests.http.values().any(HttpRequest::is_any_host),
            Self::Files { .. } if requests.files.contains_key(ANY) => true,
            _ => self.request().is_some_and(|request| requests.named(&request).is_some()),
        }
    }

    /// Returns whether it lets the plugin read a secret whose value the plugin does not request.
    fn reveals_unasked(&self, requests: &Requests) -> bool {
        let Self::Secret { name, reveal: true, .. } = self else { return false };
        requests.secret.get(name).is_some_and(|secret| !secret.reveal)
    }

    /// Returns the request that it names; `None` if it names a host instead.
    pub fn request(&self) -> Option<String> {
        match self {
            Self::Host { .. } => None,
            Self::Files { name, .. } => Some(format!("files.{name}")),
            Self::Secret { name, .. } => Some(format!("secret.{name}")),
            Self::Slot { name, .. } => Some(format!("slot.{name}")),
            Self::Http(_) | Self::Kv(_) | Self::Scratch | Self::Clocks | Self::Tools => {
                Some(self.to_string())
            }
        }
    }

    /// Returns whether it is for a request of a plugin with these `requests`. A request for any host or
    /// any directory names none, and has the grants that no other request has.
    pub fn is_for(&self, request: Request<'_>, requests: &Requests) -> bool {
        match (request, self) {
            (Request::Http(_, http), _) if http.is_any_host() => matches!(self, Self::Host { .. }),
            (Request::Files(ANY, _), Self::Files { name, .. }) => {
                !requests.files.contains_key(name)
            }
            _ => self.request().is_some_and(|named| named == request.to_string()),
        }
    }

    /// Writes the grant into `wasm_config.grants`, where it replaces an older grant for the same
    /// request. Returns its key in `wasm_config`.
    pub fn apply(&self, grants: &mut Map<String, Value>, requests: Option<&Requests>) -> KeyPath {
        match self {
            Self::Http(name) => key("http").element(add(grants, "http", json!(name))),
            Self::Host { url, methods, private } => {
                let rule = host_rule(url, methods, *private);
                key("http").element(add_host(list(grants, "http"), rule))
            }
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
            Self::Secret { name, from, reveal } => {
                let secret = object(grants, "secret").entry(name).or_insert_with(|| json!({}));
                let from = match from.strip_prefix("file:") {
                    Some(path) => format!("file:{}", absolute(path.as_ref()).display()),
                    None => from.clone(),
                };
                secret["from"] = json!(from);
                if *reveal {
                    secret["reveal"] = json!(true);
                }
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

fn key(kind: &str) -> KeyPath {
    KeyPath::default().member("grants").member(kind)
}

/// Adds a value to a list, unless it is there. Returns its index.
fn add(grants: &mut Map<String, Value>, key: &str, value: Value) -> usize {
    let list = list(grants, key);
    list.iter().position(|listed| *listed == value).unwrap_or_else(|| {
        list.push(value);
        list.len() - 1
    })
}

/// Returns a rule for a host as it is written in the configuration.
fn host_rule(url: &str, methods: &[String], private: bool) -> Value {
    let mut rule = json!({"url": url});
    if !methods.is_empty() {
        rule["methods"] = json!(methods);
    }
    if private {
        rule["private"] = json!(true);
    }
    rule
}

/// Writes a rule for a host in place of an earlier one that `--grant` wrote for the same URL. A rule
/// with paths was written by hand and stays. Returns its index.
fn add_host(rules: &mut Vec<Value>, rule: Value) -> usize {
    let found = rules
        .iter()
        .position(|earlier| earlier["url"] == rule["url"] && earlier.get("paths").is_none());
    let index = found.unwrap_or_else(|| {
        rules.push(Value::Null);
        rules.len() - 1
    });
    rules[index] = rule;
    index
}

fn reason(grant: &GrantOption, requests: &Requests, names: &str) -> Option<String> {
    if grant.is_requested(requests) {
        return grant.reveals_unasked(requests).then(|| {
            "the plugin does not request to read its value; leave out `:reveal`".to_owned()
        });
    }
    match grant {
        GrantOption::Host { .. } if !requests.http.is_empty() => Some(format!(
            "the plugin has no request that leaves the host to you (`url = \"*\"`); {names}"
        )),
        _ => Some(format!("the plugin does not request it; {names}")),
    }
}

#[cfg(test)]
mod tests;
