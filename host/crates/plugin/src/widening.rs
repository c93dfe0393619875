//! Wider requests under an old grant: a grant names a request, and the author of the plugin decides
//! what that name stands for. A name that stands for more than was accepted is granted only after
//! the operator has named it again.

mod any_host;

use std::fmt;

use serde::Serialize;

use super::{Grant, HttpGrant, Manifest, Request, ToolEffects, manifest::ANY};
use airlock_lock::Pin;
use airlock_sandbox::DeclaredEffect;
use airlock_strings::visible_line;

/// A request that is granted and wider than the accepted one. Its texts have invisible characters
/// made visible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Widening {
    /// The request, such as `http.api`; `--regrant` uses the same name.
    pub request: String,
    /// Accepted rights; empty if the request was not accepted before.
    pub was: Vec<String>,
    /// Requested rights beyond the accepted ones.
    pub is: Vec<String>,
    /// Granted secrets that are sent there, such as `secret.token`.
    pub secrets: Vec<String>,
}

impl Widening {
    /// Returns the granted requests of a manifest that are wider than those in `accepted`, which are
    /// lines of the lock file. Limits are not among them: the profile bounds those.
    pub(super) fn all(
        accepted: &[String],
        manifest: Option<&Manifest>,
        grant: &Grant,
    ) -> Vec<Self> {
        let Some(manifest) = manifest else { return Vec::new() };
        let granted = manifest.request.all().filter(|request| {
            request.is_granted(grant) || !secrets_for(*request, manifest, grant).is_empty()
        });
        granted
            .chain(covered_by_any(manifest, grant))
            .filter_map(|request| Self::of(request, accepted, manifest, grant))
            .chain(any_host::widened(accepted, manifest, grant))
            .collect()
    }

    /// Returns the tools of the accepted plugin that declare effects beyond the accepted ones, as far
    /// as a granted request makes the effect possible. The operator has decided by the name of such a
    /// tool, for example that it runs without an approval.
    pub(super) fn effects(pin: &Pin, manifest: Option<&Manifest>, grant: &Grant) -> Vec<Self> {
        let Some(manifest) = manifest else { return Vec::new() };
        let moved = moved_to_any(pin, manifest, grant);
        let known = manifest.tools.iter().filter(|tool| is_known(tool, pin));
        let widened = known.filter_map(|tool| {
            let was = tool.accepted(&pin.requests);
            let is_wider = |effect: &DeclaredEffect| {
                !was.iter().any(|was| was.includes(effect) || covered(was, effect, pin))
            };
            let wider = tool.effects.iter().filter(|effect| is_wider(effect));
            let wider = wider.filter(|effect| is_granted(effect, manifest, grant));
            let reached = tool.effects.iter().flat_map(|effect| of_directories(effect, &moved));
            let reached = reached.filter(|effect| is_wider(effect));
            let reached = reached.map(|effect| format!("{effect} through files.{ANY}"));
            let wider = wider.map(ToString::to_string).chain(reached);
            let is: Vec<_> = wider.map(|effect| visible_line(&effect)).collect();
            (!is.is_empty()).then(|| Self {
                request: visible_line(&format!("effects.{}", tool.name)),
                was: was.iter().map(|effect| visible_line(&effect.to_string())).collect(),
                is,
                secrets: Vec::new(),
            })
        });
        widened.collect()
    }

    fn of(
        request: Request<'_>,
        accepted: &[String],
        manifest: &Manifest,
        grant: &Grant,
    ) -> Option<Self> {
        let was = request.accepted(accepted);
        // A secret is sent nowhere while its audience leaves the host to the operator.
        let is_audience = !secrets_for(request, manifest, grant).is_empty();
        let rights = request.rights();
        let is_switch = rights.is_empty();
        let new = rights.iter().filter(|right| {
            // Tools are granted one by one, under one request.
            let is_granted = !matches!(request, Request::Tools(_)) || grant.tools.contains(right);
            let is_accepted = was.iter().any(|was| {
                request.includes(was, right) && !(is_audience && *was == ANY && *right != ANY)
            });
            is_granted && !is_accepted
        });
        let is: Vec<_> = new.collect();
        let is_wider = if is_switch { was.is_empty() } else { !is.is_empty() };
        is_wider.then(|| Self {
            request: visible_line(&request.to_string()),
            was: was.iter().map(|right| visible_line(right)).collect(),
            is: is.into_iter().map(|right| visible_line(right)).collect(),
            secrets: secrets_for(request, manifest, grant),
        })
    }
}

fn is_granted(effect: &DeclaredEffect, manifest: &Manifest, grant: &Grant) -> bool {
    let mut possible = manifest.request.all().filter(|request| request.allows(effect));
    possible.any(|request| request.is_granted(grant))
}

fn is_known(tool: &ToolEffects, pin: &Pin) -> bool {
    pin.tools.iter().any(|pinned| pinned.name == tool.name)
}

/// Returns the granted directories that no request names, each with the request for any directory.
fn covered_by_any<'a>(
    manifest: &'a Manifest,
    grant: &'a Grant,
) -> impl Iterator<Item = Request<'a>> {
    let files = &manifest.request.files;
    let any = files.get(ANY);
    let unnamed = grant.files.keys().filter(|name| !files.contains_key(*name));
    unnamed.filter_map(move |name| any.map(|request| Request::Files(name, request)))
}

/// Returns the granted directories that had an accepted request of their own and that now only the
/// request for any directory covers.
fn moved_to_any<'g>(pin: &Pin, manifest: &Manifest, grant: &'g Grant) -> Vec<&'g str> {
    let names = grant.files.keys().map(String::as_str);
    let moved =
        names.filter(|name| !manifest.request.files.contains_key(*name) && had_own(pin, name));
    moved.collect()
}

/// Returns whether the accepted build had a request of its own for a directory.
fn had_own(pin: &Pin, name: &str) -> bool {
    let key = format!("files.{name} ");
    pin.requests.iter().any(|line| line.starts_with(&key))
}

/// Returns whether an accepted effect on any directory included this effect on a directory, which had
/// no request of its own.
fn covered(was: &DeclaredEffect, effect: &DeclaredEffect, pin: &Pin) -> bool {
    let Some(name) = &effect.request else { return false };
    let named = DeclaredEffect { effect: was.effect, request: effect.request.clone() };
    was.request.as_deref() == Some(ANY) && named.includes(effect) && !had_own(pin, name)
}

/// Returns an effect on any directory as effects on these directories.
fn of_directories(effect: &DeclaredEffect, names: &[&str]) -> Vec<DeclaredEffect> {
    if effect.request.as_deref() != Some(ANY) {
        return Vec::new();
    }
    let names = names.iter().map(|name| (*name).to_owned());
    names.map(|name| DeclaredEffect { effect: effect.effect, request: Some(name) }).collect()
}

/// Returns the granted secrets that are attached to requests to a network destination.
fn secrets_for(request: Request<'_>, manifest: &Manifest, grant: &Grant) -> Vec<String> {
    let Request::Http(destination, _) = request else { return Vec::new() };
    let goes_there = manifest.request.secret.iter().filter(|(name, secret)| {
        grant.secret.contains_key(*name) && secret.audience.iter().any(|name| name == destination)
    });
    goes_there.map(|(name, _)| visible_line(&format!("secret.{name}"))).collect()
}

impl Request<'_> {
    /// Returns whether a grant gives the plugin any part of this request.
    fn is_granted(self, grant: &Grant) -> bool {
        match self {
            Self::Http(name, http) => grant.http.iter().any(|granted| match granted {
                HttpGrant::Requested(granted) => granted == name,
                HttpGrant::Rule(granted) => {
                    http.rule().ok().flatten().is_none_or(|rule| granted.shares_host(&rule))
                }
            }),
            Self::Secret(name, _) => grant.secret.contains_key(name),
            Self::Kv(name, _) => grant.kv.contains_key(name),
            Self::Files(name, _) => {
                let is_any = name == ANY && !grant.files.is_empty();
                is_any || grant.files.contains_key(name)
            }
            Self::Scratch(_) => grant.scratch.is_some(),
            Self::Tools(tools) => tools.call.iter().any(|tool| grant.tools.contains(tool)),
            Self::Clocks(_) => grant.clocks,
            Self::Slot(name, _) => grant.slots.contains_key(name),
        }
    }
}

impl fmt::Display for Widening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request, was, is, secrets } = self;
        write!(f, "granted: {request} ")?;
        match (is.as_slice(), request.split('.').next()) {
            ([], _) => f.write_str("is now requested")?,
            (is, Some("http")) => write!(f, "now reaches {}", is.join(", "))?,
            (is, Some("effects")) => write!(f, "now also has {}", is.join(", "))?,
            (is, _) => write!(f, "is now {}", is.join(", "))?,
        }
        if !secrets.is_empty() {
            write!(f, ", with {}", secrets.join(" and "))?;
        }
        if was.is_empty() {
            f.write_str(" (it was not requested before)")
        } else {
            write!(f, " (accepted: {})", was.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{FilesGrant, KvGrant, MANIFEST_SCHEMA, Metadata, PartialQuota, SecretGrant};
    use airlock_core::{secret::Source, tool::ClientName};
    use airlock_sandbox::Access;

    fn manifest(request: &Value) -> Manifest {
        let manifest = json!({"schema": MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1", "request": request});
        Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest")
    }

    /// Returns the widened requests as text.
    pub(super) fn widened(was: &Value, is: &Value, grant: &Grant) -> String {
        let accepted: Vec<_> = manifest(was).request.all().flat_map(Request::lock_lines).collect();
        let widened = Widening::all(&accepted, Some(&manifest(is)), grant);
        widened.iter().map(Widening::to_string).collect::<Vec<_>>().join("\n")
    }

    /// Returns a grant of everything that [`requests`] requests.
    fn everything() -> Grant {
        let secret = SecretGrant {
            source: Source::Env("TOKEN".to_owned()),
            audience: None,
            inject: None,
            reveal: false,
        };
        let data = FilesGrant {
            path: "/data".into(),
            access: Access::ReadWrite,
            quota: PartialQuota::default(),
        };
        Grant {
            http: vec![HttpGrant::Requested("api".to_owned())],
            secret: [("token".to_owned(), secret)].into(),
            kv: [("notes".to_owned(), KvGrant::default())].into(),
            files: [("data".to_owned(), data)].into(),
            scratch: Some(PartialQuota::default()),
            tools: vec!["text-count".to_owned()],
            clocks: true,
            ..Grant::default()
        }
    }

    fn requests(host: &str, header: &str, bytes: &str, access: &str, tools: &[&str]) -> Value {
        json!({
            "http": {"api": {"url": format!("https://{host}"), "reason": "r"}},
            "secret": {"token": {"inject": {"header": header}, "audience": ["api"], "reason": "r"}},
            "kv": {"notes": {"max_bytes": bytes, "reason": "r"}},
            "files": {"data": {"access": access, "reason": "r"}},
            "scratch": {"max_bytes": bytes, "max_files": 1, "reason": "r"},
            "tools": {"call": tools, "reason": "r"},
        })
    }

    #[test]
    fn every_kind_of_granted_request_that_became_wider_is_named_and_an_ungranted_one_is_not() {
        let was = requests("api.example.com", "x-key", "1KiB", "read_only", &["text-trim"]);
        let mut is = requests(
            "example.org:8443",
            "x-token",
            "2KiB",
            "read_write",
            &["text-trim", "text-count", "files-read"],
        );
        is["clocks"] = json!({"reason": "r"});
        insta::assert_snapshot!(widened(&was, &is, &everything()), @"
        granted: http.api now reaches https://example.org:8443 GET,HEAD /**, with secret.token (accepted: https://api.example.com GET,HEAD /**)
        granted: secret.token is now in header x-token to api (accepted: in header x-key to api)
        granted: kv.notes is now 2KiB (accepted: 1KiB)
        granted: files.data is now read_write (accepted: read_only)
        granted: scratch is now 2KiB 1 files (accepted: 1KiB 1 files)
        granted: tools is now text-count (accepted: text-trim)
        granted: clocks is now requested (it was not requested before)
        ");
        assert_eq!(widened(&was, &is, &Grant::default()), "");
        assert_eq!(widened(&is, &is, &everything()), "");
        let lines = widened(&json!({}), &is, &everything());
        assert_eq!(lines.matches("(it was not requested before)").count(), 7, "{lines}");
    }

    #[test]
    fn narrower_requests_and_a_component_without_a_manifest_widen_nothing() {
        let was =
            requests("api.example.com", "x-key", "2KiB", "read_write", &["text-count", "text-x"]);
        let is = requests("api.example.com/v1", "x-key", "1KiB", "read_only", &["text-count"]);
        assert_eq!(widened(&was, &is, &everything()), "");
        assert_eq!(widened(&was, &json!({}), &everything()), "");
        assert_eq!(Widening::all(&[], None, &everything()), []);
    }

    #[test]
    fn a_request_below_a_rule_of_the_operator_is_granted_too() {
        let rule = "https://*.example.com GET /**".parse().expect("a rule");
        let grant = Grant { http: vec![HttpGrant::Rule(rule)], ..Grant::default() };
        let moved = widened(&api("a.example.com"), &api("b.example.com"), &grant);
        assert!(
            moved.starts_with("granted: http.api now reaches https://b.example.com"),
            "{moved}"
        );
        assert_eq!(widened(&api("a.example.com"), &api("example.org"), &grant), "");
        let any = json!({"http": {"api": {"url": "*", "reason": "r"}}});
        let any = widened(&api("a.example.com"), &any, &grant);
        assert!(any.starts_with("granted: http.api now reaches *"), "{any}");
    }

    fn api(host: &str) -> Value {
        json!({"http": {"api": {"url": format!("https://{host}"), "reason": "r"}}})
    }

    pub(super) fn secret_grant(http: &[&str]) -> Grant {
        let http = http.iter().map(|grant| match grant.parse() {
            Ok(rule) => HttpGrant::Rule(rule),
            Err(_) => HttpGrant::Requested((*grant).to_owned()),
        });
        Grant { http: http.collect(), secret: everything().secret, ..Grant::default() }
    }

    #[test]
    fn a_destination_of_a_granted_secret_that_moves_is_wider_even_if_its_name_is_not_granted() {
        let was = sending_to("https://api.example.com");
        let grant = secret_grant(&["a", "https://*.example.com GET /**"]);
        insta::assert_snapshot!(
            widened(&was, &sending_to("https://telemetry.example.org"), &grant),
            @"granted: http.b now reaches https://telemetry.example.org GET,HEAD /**, with secret.token (accepted: https://api.example.com GET,HEAD /**)"
        );
        assert_eq!(widened(&was, &was, &grant), "");
        // Before, the operator had to name a host; now the plugin does.
        let moved = widened(&sending_to("*"), &sending_to("https://telemetry.example.org"), &grant);
        assert!(moved.starts_with("granted: http.b now reaches"), "{moved}");
    }

    fn sending_to(url: &str) -> Value {
        json!({
            "http": {
                "a": {"url": "https://telemetry.example.org", "reason": "r"},
                "b": {"url": url, "reason": "r"},
            },
            "secret": {"token": {"inject": {"header": "x-key"}, "audience": ["b"], "reason": "r"}},
        })
    }

    #[test]
    fn a_named_directory_is_compared_with_its_own_accepted_access() {
        let was = files(Some("read_only"));
        for is in [files(Some("read_write")), files(None)] {
            assert_eq!(
                widened(&was, &is, &everything()),
                "granted: files.data is now read_write (accepted: read_only)"
            );
        }
        assert_eq!(widened(&files(None), &files(Some("read_only")), &everything()), "");
    }

    fn files(named: Option<&str>) -> Value {
        let mut files = json!({"*": {"access": "read_write", "reason": "r"}});
        if let Some(access) = named {
            files["data"] = json!({"access": access, "reason": "r"});
        }
        json!({"files": files})
    }

    #[test]
    fn another_effect_of_an_accepted_tool_is_wider_if_a_granted_request_makes_it_possible() {
        let pin = with_two_tools(&["http"]).pin(&ClientName::parse("p").expect("a name"));
        let widened = |effects: &[&str], grant: &Grant| {
            let build = with_two_tools(effects);
            let widened = Widening::effects(&pin, build.manifest.as_ref(), grant);
            widened.iter().map(Widening::to_string).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(
            widened(&["http", "write_kv"], &everything()),
            @"granted: effects.sum now also has write_kv (accepted: http)"
        );
        assert_eq!(widened(&["http", "write_kv"], &Grant::default()), "");
        assert_eq!(widened(&[], &everything()), "");
    }

    fn with_two_tools(effects: &[&str]) -> Metadata {
        let manifest = json!({
            "schema": MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1",
            "tool": [{"name": "sum", "effects": effects}, {"name": "new", "effects": effects}],
            "request": {
                "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
                "kv": {"notes": {"max_bytes": "1KiB", "reason": "r"}},
            },
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest");
        let tool = json!([{"name": "sum", "inputSchema": {}}]);
        let tool = serde_json::from_value(tool).expect("tools");
        Metadata::new(b"", tool, Some(manifest), Vec::new())
    }

    /// Returns a build whose tools `sum` and `all` have these effects on directories, one of which may
    /// have a request of its own.
    fn with_directories(effects: &[&str], is_named: bool) -> Metadata {
        let request = json!({"access": "read_write", "reason": "r"});
        let mut files = json!({"*": request});
        if is_named {
            files["data"] = request;
        }
        let manifest = json!({
            "schema": MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1",
            "tool": [{"name": "sum", "effects": effects}, {"name": "all", "effects": ["read_files"]}],
            "request": {"files": files},
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest");
        let tools = json!([{"name": "sum", "inputSchema": {}}, {"name": "all", "inputSchema": {}}]);
        let tools = serde_json::from_value(tools).expect("tools");
        Metadata::new(b"", tools, Some(manifest), Vec::new())
    }

    fn widened_effects(was: &Metadata, is: &Metadata) -> String {
        let pin = was.pin(&ClientName::parse("p").expect("a name"));
        let widened = Widening::effects(&pin, is.manifest.as_ref(), &everything());
        widened.iter().map(Widening::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn an_effect_on_any_directory_is_wider_if_one_loses_its_own_request() {
        insta::assert_snapshot!(
            widened_effects(&reading_any(true), &reading_any(false)),
            @"granted: effects.sum now also has read_files.data through files.* (accepted: read_files.*)"
        );
        for (was, is) in [(true, true), (false, false), (false, true)] {
            assert_eq!(widened_effects(&reading_any(was), &reading_any(is)), "");
        }
    }

    fn reading_any(is_named: bool) -> Metadata {
        with_directories(&["read_files.*"], is_named)
    }

    #[test]
    fn an_effect_on_a_directory_that_the_effect_on_any_covered_is_not_wider() {
        for (was, had_own, is, is_wider) in [
            ("read_files.*", false, "read_files.data", false),
            ("write_files.*", false, "read_files.data", false),
            ("read_files.*", false, "write_files.data", true),
            ("read_files.*", true, "read_files.data", true),
        ] {
            let found =
                widened_effects(&with_directories(&[was], had_own), &with_directories(&[is], true));
            assert_eq!(!found.is_empty(), is_wider, "{was} {is}: {found}");
        }
    }

    #[test]
    fn an_effect_on_more_requests_is_wider_and_one_on_fewer_is_not() {
        let mut grant = everything();
        grant.http.push(HttpGrant::Requested("b".to_owned()));
        let widened = |was: &[&str], is: &[&str]| {
            let pin = with_one_tool(was).pin(&ClientName::parse("p").expect("a name"));
            let widened = Widening::effects(&pin, with_one_tool(is).manifest.as_ref(), &grant);
            widened.iter().map(Widening::to_string).collect::<Vec<_>>().join("\n")
        };
        insta::assert_snapshot!(
            widened(&["http.api"], &["http"]),
            @"granted: effects.sum now also has http (accepted: http.api)"
        );
        insta::assert_snapshot!(
            widened(&["http.api", "read_kv.notes"], &["http.api", "http.b", "write_kv.notes"]),
            @"granted: effects.sum now also has http.b, write_kv.notes (accepted: http.api, read_kv.notes)"
        );
        for (was, is) in [
            (&["http"][..], &["http.api"][..]),
            (&["http.api", "http.b"], &["http.b"]),
            (&["write_kv.notes"], &["read_kv.notes"]),
            (&["write_kv"], &["read_kv.notes", "read_kv"]),
            // The request is not granted.
            (&["http.api"], &["http.api", "http.c"]),
        ] {
            assert_eq!(widened(was, is), "", "{was:?} {is:?}");
        }
    }

    fn with_one_tool(effects: &[&str]) -> Metadata {
        let manifest = json!({
            "schema": MANIFEST_SCHEMA, "id": "p", "version": "1.0.0", "contract": "0.1",
            "tool": [{"name": "sum", "effects": effects}],
            "request": {
                "http": {
                    "api": {"url": "https://a.example.com", "reason": "r"},
                    "b": {"url": "https://b.example.com", "reason": "r"},
                    "c": {"url": "https://c.example.com", "reason": "r"},
                },
                "kv": {"notes": {"max_bytes": "1KiB", "reason": "r"}},
            },
        });
        let manifest = Manifest::parse(manifest.to_string().as_bytes()).expect("a manifest");
        let tool = json!([{"name": "sum", "inputSchema": {}}]);
        let tool = serde_json::from_value(tool).expect("tools");
        Metadata::new(b"", tool, Some(manifest), Vec::new())
    }
}
