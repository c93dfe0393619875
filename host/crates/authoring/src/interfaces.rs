//! Interfaces of the contract, and the part of `plugin.toml` that each one belongs to: the table
//! from which `airlock plugin build` generates a plugin's world, and with which a component's
//! imports are compared.

use airlock_plugin::Manifest;

/// Package of the interfaces that the host provides.
pub(crate) const HOST: &str = "airlock:host";
/// Package of the interfaces that a plugin exports.
pub(crate) const PLUGIN: &str = "airlock:plugin";
/// Package of the interface that a guard exports.
pub(crate) const GUARD: &str = "airlock:guard";
/// Packages of the contract. A repository may carry others, which no plugin uses.
pub(crate) const PACKAGES: [&str; 4] = ["airlock:types", HOST, PLUGIN, GUARD];
/// The interface of `PLUGIN` that every plugin exports.
pub(crate) const TOOLS: &str = "tools";
/// The interface of `GUARD` that every guard exports.
pub(crate) const HOOKS: &str = "hooks";

/// Condition under which a plugin imports an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ImportCondition {
    /// Every plugin may use it.
    Always,
    /// The plugin takes a configuration.
    Config,
    /// The plugin requests a right of one of these kinds: the first part of the request's key.
    Request(&'static [&'static str]),
    /// The plugin requests to read the value of a secret.
    Reveal,
}

/// One interface that the host provides.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    package: &'static str,
    pub(crate) name: &'static str,
    condition: ImportCondition,
    /// Lines for plugin.toml that request it.
    pub(crate) request: &'static str,
}

const fn host(name: &'static str, condition: ImportCondition, request: &'static str) -> Interface {
    Interface { package: HOST, name, condition, request }
}

const REQUEST_HTTP: &str = "[request.http.NAME] with `url` and `reason`";

/// Interfaces whose import depends on plugin.toml. Other interfaces of WASI are imported by the
/// runtimes of languages whether a plugin uses them or not, so nothing follows from them.
const INTERFACES: [Interface; 10] = [
    host("log", ImportCondition::Always, ""),
    host("context", ImportCondition::Always, ""),
    host("config", ImportCondition::Config, "[config] with `from_code = true`"),
    host("http", ImportCondition::Request(&["http"]), REQUEST_HTTP),
    host(
        "kv",
        ImportCondition::Request(&["kv"]),
        "[request.kv.NAME] with `max_bytes` and `reason`",
    ),
    host(
        "secrets",
        ImportCondition::Request(&["secret"]),
        "[request.secret.NAME] with `inject`, `audience` and `reason`",
    ),
    host("secrets-reveal", ImportCondition::Reveal, "`reveal = true` in a [request.secret.NAME]"),
    host(
        "tools",
        ImportCondition::Request(&["slot", "tools"]),
        "[request.slot.SLOT] with `reason`",
    ),
    Interface {
        package: "wasi:http",
        name: "outgoing-handler",
        condition: ImportCondition::Request(&["http"]),
        request: REQUEST_HTTP,
    },
    Interface {
        package: "wasi:http",
        name: "types",
        condition: ImportCondition::Request(&["http"]),
        request: REQUEST_HTTP,
    },
];

impl Interface {
    /// Returns the interface that an import names; `None` if no condition is known for it.
    pub(crate) fn of_import(import: &str) -> Option<&'static Self> {
        let (package, rest) = import.split_once('/')?;
        let name = rest.split_once('@').map_or(rest, |(name, _)| name);
        INTERFACES.iter().find(|known| known.package == package && known.name == name)
    }

    /// Returns the interfaces of the contract that a plugin with this manifest imports.
    pub(crate) fn of_contract(manifest: &Manifest) -> impl Iterator<Item = &'static Self> {
        INTERFACES
            .iter()
            .filter(|interface| interface.package == HOST && interface.is_requested(manifest))
    }

    /// Describes the calls of a plugin that does not request the interface.
    pub(crate) fn without_request(&self) -> &'static str {
        match self.condition {
            ImportCondition::Config => "the configuration is always empty",
            _ => "every call is denied",
        }
    }

    /// Returns whether the manifest permits the import.
    pub(crate) fn is_requested(&self, manifest: &Manifest) -> bool {
        match self.condition {
            ImportCondition::Always => true,
            ImportCondition::Config => manifest.config_schema().is_some(),
            ImportCondition::Request(kinds) => {
                manifest.request.all().any(|request| kinds.contains(&kind(&request.to_string())))
            }
            ImportCondition::Reveal => manifest.request.secret.values().any(|secret| secret.reveal),
        }
    }

    /// Returns whether a request, such as `http.api`, is of a kind that the interface needs.
    fn is_of(&self, request: &str) -> bool {
        match self.condition {
            ImportCondition::Request(kinds) => kinds.contains(&kind(request)),
            _ => false,
        }
    }
}

/// Returns the keys of plugin.toml whose interfaces are all missing from a component's imports.
pub(crate) fn unused(manifest: &Manifest, imports: &[String]) -> Vec<String> {
    let imported: Vec<_> =
        imports.iter().filter_map(|import| Interface::of_import(import)).collect();
    let mut keys = Vec::new();
    for request in manifest.request.all().map(|request| request.to_string()) {
        // A secret is sent by naming it in a request, which imports nothing of its own.
        let is_sent = kind(&request) == "secret";
        let has_interface = INTERFACES.iter().any(|interface| interface.is_of(&request));
        let is_imported = imported.iter().any(|interface| interface.is_of(&request));
        if !is_sent && has_interface && !is_imported {
            keys.push(format!("request.{request}"));
        }
    }
    for (name, secret) in &manifest.request.secret {
        let is_imported =
            imported.iter().any(|interface| interface.condition == ImportCondition::Reveal);
        if secret.reveal && !is_imported {
            keys.push(format!("request.secret.{name}.reveal"));
        }
    }
    if manifest.config_schema().is_some()
        && !imported.iter().any(|interface| interface.condition == ImportCondition::Config)
    {
        keys.push("config".to_owned());
    }
    keys
}

/// Returns the kind of a request: `http` for `http.api`.
fn kind(request: &str) -> &str {
    request.split('.').next().unwrap_or(request)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::manifest_with;

    fn manifest(request: &Value) -> Manifest {
        manifest_with(&json!({"request": request}))
    }

    fn names(request: &Value) -> Vec<&'static str> {
        Interface::of_contract(&manifest(request)).map(|interface| interface.name).collect()
    }

    #[test]
    fn a_plugin_imports_an_interface_only_if_it_requests_what_the_interface_needs() {
        assert_eq!(names(&json!({})), ["log", "context"]);
        assert_eq!(names(&json!({"clocks": {"reason": "r"}})), ["log", "context"]);
        let kv = json!({"kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}}});
        assert_eq!(names(&kv), ["log", "context", "kv"]);
        let sent = json!({"inject": {"header": "x-key"}, "audience": ["api"]});
        assert_eq!(names(&with_secret(&sent)), ["log", "context", "http", "secrets"]);
        let shown = with_secret(&json!({"reveal": true}));
        assert_eq!(names(&shown), ["log", "context", "http", "secrets", "secrets-reveal"]);
    }

    fn with_secret(more: &Value) -> Value {
        let mut secret = json!({"reason": "r"});
        secret
            .as_object_mut()
            .expect("an object")
            .append(more.as_object().cloned().as_mut().expect("an object"));
        json!({
            "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
            "secret": {"token": secret},
        })
    }

    #[test]
    fn an_import_has_a_condition_in_every_version_and_none_outside_the_table() {
        assert_eq!(name("airlock:host/kv@0.1.7"), Some("kv"));
        assert_eq!(name("wasi:http/types@0.2.6"), Some("types"));
        for other in ["airlock:types/types@0.1.0", "wasi:io/poll@0.2.6", "kv", "run"] {
            assert_eq!(name(other), None, "{other}");
        }
    }

    fn name(import: &str) -> Option<&'static str> {
        Interface::of_import(import).map(|interface| interface.name)
    }

    #[test]
    fn a_request_whose_interface_is_not_imported_is_unused() {
        let manifest = manifest(&json!({
            "http": {"api": {"url": "https://api.example.com", "reason": "r"}},
            "kv": {"notes": {"max_bytes": "1MiB", "reason": "r"}},
            "secret": {"token": {"reveal": true, "inject": {"header": "x-key"}, "audience": ["api"], "reason": "r"}},
            "clocks": {"reason": "r"},
        }));
        let imports = ["airlock:host/http@0.1.0", "airlock:host/log@0.1.0"].map(str::to_owned);
        assert_eq!(
            unused(&manifest, &imports),
            ["request.kv.notes", "request.secret.token.reveal"]
        );
        let imports = ["wasi:http/types@0.2.6", "airlock:host/kv@0.1.0"].map(str::to_owned);
        assert_eq!(unused(&manifest, &imports), ["request.secret.token.reveal"]);
    }
}
