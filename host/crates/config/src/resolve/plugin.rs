//! `wasm_config`: a plugin, its grants, and the limits of its calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    super::file::{self, NameOr},
    Field,
};
use airlock_core::{
    limit::LimitSet,
    secret::Source,
    tool::{ClientName, INTERNAL_CLIENT, with_internal_client},
    units::Size,
};
use airlock_egress::{Injection, Rule};
use airlock_plugin::{
    FilesGrant, Grant, HttpGrant, KvGrant, PartialQuota, Profile, SecretGrant, Settings,
};
use airlock_sandbox::Access;
use airlock_strings::cut;

/// Maximum length of the list of clients in a message, in bytes.
const MAX_LISTED: usize = 200;

/// The configured clients, as one plugin refers to them.
pub(super) struct Clients<'a> {
    pub(super) names: &'a BTreeSet<ClientName>,
    /// The plugin's own name.
    pub(super) own: &'a ClientName,
}

pub(super) fn resolve(field: &Field<'_>, wasm: file::Wasm, clients: &Clients<'_>) -> Settings {
    let grants = field.member("grants");
    let file = wasm.grants;
    let grant = Grant {
        profile: wasm.profile,
        config: Arc::new(wasm.config),
        descriptions: descriptions(&field.member("descriptions"), wasm.descriptions),
        http: rules(&grants.member("http"), file.http),
        secret: secrets(&grants.member("secret"), file.secret),
        kv: stores(&grants.member("kv"), file.kv),
        files: directories(&grants.member("files"), file.files),
        scratch: file.scratch.map(|scratch| quota(scratch.max_bytes, scratch.max_files)),
        slots: slots(&grants.member("slot"), file.slot, clients),
        tools: tools(&grants.member("tools"), &file.tools, clients),
        clocks: file.clocks,
        limits: limits(&field.member("limits"), wasm.limits, wasm.profile),
    };
    Settings { component: field.member("component").path(&wasm.component), grant }
}

fn descriptions(
    field: &Field<'_>,
    descriptions: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    for (tool, description) in &descriptions {
        if description.trim().is_empty() {
            field.member(tool).refuse("is empty: a model chooses a tool by its description");
        }
    }
    descriptions
}

fn slots(
    field: &Field<'_>,
    slots: BTreeMap<String, String>,
    clients: &Clients<'_>,
) -> BTreeMap<String, String> {
    for (slot, tool) in &slots {
        check_full_name(&field.member(slot), tool, clients);
    }
    slots
}

fn tools(field: &Field<'_>, tools: &[String], clients: &Clients<'_>) -> Vec<String> {
    let tools: Vec<_> = tools.iter().map(|tool| with_internal_client(tool).into_owned()).collect();
    for (index, tool) in tools.iter().enumerate() {
        check_full_name(&field.element(index), tool, clients);
    }
    tools
}

/// Checks that `tool` can be the full name of a tool of a configured client.
fn check_full_name(field: &Field<'_>, tool: &str, clients: &Clients<'_>) {
    match tool.split_once('-') {
        None | Some((_, "" | "*")) => {
            field
                .refuse(format_args!("found {tool:?}, expected one tool's full name: CLIENT-TOOL"));
        }
        // Tools of an embedding program are registered at run time, so they are not known here.
        Some((client, _))
            if client != INTERNAL_CLIENT
                && !clients.names.iter().any(|name| name.as_str() == client) =>
        {
            let others = clients.names.iter().filter(|name| *name != clients.own);
            let others: Vec<_> = others.map(ClientName::as_str).collect();
            let others = match others.as_slice() {
                [] => "no other client is configured".to_owned(),
                others => format!("configured: {}", cut(others.join(", "), MAX_LISTED)),
            };
            field.refuse(format_args!("{tool:?}: no client is named {client:?}; {others}"));
        }
        Some(_) => {}
    }
}

fn rules(field: &Field<'_>, rules: Vec<NameOr<file::HttpRule>>) -> Vec<HttpGrant> {
    let granted = rules.into_iter().enumerate().filter_map(|(index, rule)| match rule {
        NameOr::Name(name) => Some(HttpGrant::Requested(name)),
        NameOr::Whole(rule) => {
            let made = Rule::new(&rule.url, &rule.methods, &rule.paths, rule.private);
            field.element(index).accept(made.and_then(Rule::reachable)).map(HttpGrant::Rule)
        }
    });
    granted.collect()
}

fn secrets(
    field: &Field<'_>,
    secrets: BTreeMap<String, file::SecretGrant>,
) -> BTreeMap<String, SecretGrant> {
    let granted = secrets.into_iter().filter_map(|(name, secret)| {
        let field = field.member(&name);
        let grant = SecretGrant {
            source: field.member("from").accept(Source::parse(&secret.from, field.base))?,
            audience: secret.audience.map(|audience| rules(&field.member("audience"), audience)),
            inject: secret.inject.and_then(|inject| injection(&field.member("inject"), &inject)),
            reveal: secret.reveal,
        };
        Some((name, grant))
    });
    granted.collect()
}

fn injection(field: &Field<'_>, inject: &file::Inject) -> Option<Injection> {
    if !inject.prefix.is_empty() && inject.header.is_none() {
        field.member("prefix").refuse("can be set only with `header`");
        return None;
    }
    match (&inject.header, &inject.basic, &inject.query) {
        (Some(header), None, None) => field.accept(Injection::header(header, &inject.prefix)),
        (None, Some(user), None) => field.accept(Injection::basic(user)),
        (None, None, Some(query)) => field.accept(Injection::query(query)),
        _ => {
            field.refuse("expected one of `header`, `basic` and `query`");
            None
        }
    }
}

fn stores(field: &Field<'_>, stores: BTreeMap<String, file::KvGrant>) -> BTreeMap<String, KvGrant> {
    let granted = stores.into_iter().map(|(name, store)| {
        check_name(&field.member(&name), &name);
        let max_bytes = store.max_bytes.map(|size| size.0);
        (name, KvGrant { max_bytes, shared: store.shared })
    });
    granted.collect()
}

fn directories(
    field: &Field<'_>,
    directories: BTreeMap<String, file::FilesGrant>,
) -> BTreeMap<String, FilesGrant> {
    let granted = directories.into_iter().map(|(name, directory)| {
        let field = field.member(&name);
        check_name(&field, &name);
        let access = match directory.access {
            file::Access::ReadOnly => Access::ReadOnly,
            file::Access::ReadWrite => Access::ReadWrite,
        };
        if access == Access::ReadOnly
            && (directory.max_bytes.is_some() || directory.max_files.is_some())
        {
            field.refuse("`max_bytes` and `max_files` can be set only with `read_write`");
        }
        let path = field.member("path").path(&directory.path);
        let quota = quota(directory.max_bytes, directory.max_files);
        (name, FilesGrant { path, access, quota })
    });
    granted.collect()
}

fn quota(bytes: Option<Size>, files: Option<u64>) -> PartialQuota {
    PartialQuota { bytes: bytes.map(|size| size.0), files }
}

/// Checks the name of a store or a directory. A request may have the name `*`; a grant may not,
/// because it names one directory.
fn check_name(field: &Field<'_>, name: &str) {
    let is_fit = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if name.is_empty() || name.len() > 64 || !is_fit {
        field.refuse(format_args!(
            "found the name {name:?}, expected 1 to 64 letters, digits, `_` or `-`"
        ));
    }
}

/// Checks the limits. Their maximum is that of the profile, so that a typing error such as an hour
/// of CPU time cannot take the gateway down.
fn limits(field: &Field<'_>, limits: LimitSet, profile: Profile) -> LimitSet {
    for (limit, found) in limits.amounts() {
        let minimum = limit.minimum();
        let maximum = profile.maximum(limit);
        if !(minimum..=maximum).contains(&found) {
            let [minimum, maximum, found] =
                [minimum, maximum, found].map(|amount| limit.show(amount));
            let profile = profile.name();
            field.member(limit.key()).refuse(format_args!(
                "must be from {minimum} to {maximum} with the profile {profile:?}, found {found}"
            ));
        }
    }
    limits
}
