//! `wasm_config`: a plugin, its grants, and the limits of its calls.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
};

use super::{
    file_env::FileEnv,
    name::is_plain,
    resolved::{Problems, Resolved},
    same_variants::{SameVariants as _, same_variants},
};
use airlock_config_file::{
    file::{self, NameOr},
    key_path::KeyPath,
    refused::{InvalidValue, NamedPart, Referent},
};
use airlock_core::{
    limit::GuestLimitSet,
    profile::Profile,
    secret::SecretSource,
    tool::{ClientName, INTERNAL_CLIENT, with_internal_client},
    units::Size,
};
use airlock_egress::{Injection, Rule};
use airlock_plugin::{
    self as plugin, ComponentSource, FilesGrant, Grant, HttpGrant, KvGrant, PartialQuota,
    SecretGrant,
};
use airlock_sandbox::Access;
use airlock_store::components::ComponentDigest;
use airlock_strings::{MAX_EXCERPT_BYTES, cut};

/// The configured clients, as one plugin refers to them.
pub(super) struct KnownClients<'a> {
    pub(super) names: &'a BTreeSet<ClientName>,
    /// The plugin's own name.
    pub(super) own: &'a ClientName,
}

/// Resolves a plugin; `None` if it has a component in the store that is not accepted yet.
pub(super) fn resolve(
    wasm: file::Wasm,
    clients: &KnownClients<'_>,
    env: FileEnv<'_>,
) -> Resolved<Option<plugin::Settings>> {
    Resolved::new(|problems| {
        check_descriptions(problems, &wasm.descriptions);
        let granted = problems.take("grants", grants(wasm.grants, clients, env));
        let grant = Grant {
            profile: wasm.profile,
            config: Arc::new(wasm.config),
            descriptions: wasm.descriptions,
            limits: problems.take("limits", limits(wasm.limits, wasm.profile)),
            ..granted
        };
        let component = problems.merge(component(wasm.component, wasm.stored, env))?;
        Some(plugin::Settings { component, grant })
    })
}

/// Resolves the source of the component; `None` if none was accepted.
fn component(
    file: Option<PathBuf>,
    stored: Option<file::Stored>,
    env: FileEnv<'_>,
) -> Resolved<Option<ComponentSource>> {
    Resolved::new(|problems| match (file, stored) {
        (Some(_), Some(_)) => {
            problems.refuse("component", "cannot be set beside `stored`");
            None
        }
        (Some(file), None) => {
            Some(ComponentSource::File(problems.take("component", env.path(&file))))
        }
        (None, None) => {
            problems.required::<()>("component", None);
            None
        }
        (None, Some(file::Stored { accepted, offered })) => {
            if accepted.is_none() && offered.is_none() {
                problems.refuse("stored", "names no component");
            }
            digest(problems, "offered", offered);
            digest(problems, "accepted", accepted).map(ComponentSource::Stored)
        }
    })
}

fn digest(problems: &mut Problems, name: &str, text: Option<String>) -> Option<ComponentDigest> {
    let key = KeyPath::parse("stored").member(name);
    problems.accept(key, text?.parse::<ComponentDigest>())
}

fn check_descriptions(problems: &mut Problems, descriptions: &BTreeMap<String, String>) {
    for (tool, _) in descriptions.iter().filter(|(_, text)| text.trim().is_empty()) {
        let key = KeyPath::parse("descriptions").member(tool);
        problems.refuse(key, "is empty: a model chooses a tool by its description");
    }
}

/// Resolves `grants`: the grant, without what is beside them.
fn grants(
    file: file::PluginGrants,
    clients: &KnownClients<'_>,
    env: FileEnv<'_>,
) -> Resolved<Grant> {
    Resolved::new(|problems| Grant {
        http: problems.take("http", rules(file.http)),
        secret: problems.take("secret", secrets(file.secret, env)),
        kv: problems.take("kv", stores(file.kv)),
        files: problems.take("files", directories(file.files, env)),
        scratch: file.scratch.map(|scratch| quota(scratch.max_bytes, scratch.max_files)),
        slots: problems.take("slot", slots(file.slot, clients)),
        tools: problems.take("tools", tools(&file.tools, clients)),
        clocks: file.clocks,
        ..Grant::default()
    })
}

fn slots(
    slots: BTreeMap<String, String>,
    clients: &KnownClients<'_>,
) -> Resolved<BTreeMap<String, String>> {
    Resolved::members(slots, |problems, _, tool| {
        problems.accept_whole(check_full_name(&tool, clients));
        Some(tool)
    })
}

fn tools(tools: &[String], clients: &KnownClients<'_>) -> Resolved<Vec<String>> {
    Resolved::elements(tools, |problems, tool| {
        let tool = with_internal_client(tool).into_owned();
        problems.accept_whole(check_full_name(&tool, clients));
        Some(tool)
    })
}

/// Checks that `tool` can be the full name of a tool of a configured client.
fn check_full_name(tool: &str, clients: &KnownClients<'_>) -> Result<(), InvalidValue> {
    let client = match tool.split_once('-') {
        None | Some((_, "" | "*")) => {
            return Err(
                format!("found {tool:?}, expected one tool's full name: CLIENT-TOOL").into()
            );
        }
        Some((client, _)) => client,
    };
    // Tools of an embedding program are registered at run time, so they are not known here.
    if client == INTERNAL_CLIENT || clients.names.contains(client) {
        return Ok(());
    }
    let others = clients.names.iter().filter(|name| *name != clients.own);
    // Each has at least one byte of the list.
    let others: Vec<_> = others.map(ClientName::as_str).take(MAX_EXCERPT_BYTES).collect();
    let others = match others.as_slice() {
        [] => "no other client is configured".to_owned(),
        others => format!("configured: {}", cut(others.join(", "), MAX_EXCERPT_BYTES)),
    };
    Err(InvalidValue::absent(
        Referent::ElementOf(NamedPart::Clients),
        format_args!("{tool:?}: no client is named {client:?}; {others}"),
    ))
}

fn rules(rules: Vec<NameOr<file::HttpRule>>) -> Resolved<Vec<HttpGrant>> {
    Resolved::elements(rules, |problems, rule| match rule {
        NameOr::Name(name) => Some(HttpGrant::Requested(name)),
        NameOr::Whole(rule) => {
            let rule = Rule::new(&rule.url, &rule.methods, &rule.paths, rule.private);
            problems.accept_whole(rule.and_then(Rule::reachable)).map(HttpGrant::Rule)
        }
    })
}

fn secrets(
    secrets: BTreeMap<String, file::SecretGrant>,
    env: FileEnv<'_>,
) -> Resolved<BTreeMap<String, SecretGrant>> {
    Resolved::members(secrets, |problems, _, secret| {
        let source = SecretSource::parse(&secret.from, env.directory);
        let source = problems.accept("from", source)?;
        let audience = secret.audience.map(|audience| problems.take("audience", rules(audience)));
        let inject = secret.inject.map(|inject| problems.take("inject", injection(&inject)));
        Some(SecretGrant { source, audience, inject: inject.flatten(), reveal: secret.reveal })
    })
}

fn injection(inject: &file::Inject) -> Resolved<Option<Injection>> {
    if !inject.prefix.is_empty() && inject.header.is_none() {
        return Resolved::new(|problems| {
            problems.refuse("prefix", "can be set only with `header`");
            None
        });
    }
    match (&inject.header, &inject.basic, &inject.query) {
        (Some(header), None, None) => Injection::header(header, &inject.prefix).into(),
        (None, Some(user), None) => Injection::basic(user).into(),
        (None, None, Some(query)) => Injection::query(query).into(),
        _ => Err("expected one of `header`, `basic` and `query`").into(),
    }
}

fn stores(stores: BTreeMap<String, file::KvGrant>) -> Resolved<BTreeMap<String, KvGrant>> {
    Resolved::members(stores, |problems, name, store| {
        problems.accept_whole(check_name(name));
        Some(KvGrant { max_bytes: store.max_bytes.map(|size| size.0), shared: store.shared })
    })
}

fn directories(
    directories: BTreeMap<String, file::FilesGrant>,
    env: FileEnv<'_>,
) -> Resolved<BTreeMap<String, FilesGrant>> {
    Resolved::members(directories, |problems, name, directory| {
        problems.accept_whole(check_name(name));
        let access = directory.access.same();
        let has_quota = directory.max_bytes.is_some() || directory.max_files.is_some();
        if access == Access::ReadOnly && has_quota {
            problems.refuse_whole("`max_bytes` and `max_files` can be set only with `read_write`");
        }
        let path = problems.take("path", env.path(&directory.path));
        let quota = quota(directory.max_bytes, directory.max_files);
        Some(FilesGrant { path, access, quota })
    })
}

same_variants!(file::Access => Access { ReadOnly, ReadWrite });

fn quota(bytes: Option<Size>, files: Option<u64>) -> PartialQuota {
    PartialQuota { bytes: bytes.map(|size| size.0), files }
}

/// Checks the name of a store or a directory. A request may have the name `*`; a grant may not,
/// because it names one directory.
fn check_name(name: &str) -> Result<(), String> {
    if is_plain(name, 64, "_-") {
        return Ok(());
    }
    Err(format!("found the name {name:?}, expected 1 to 64 letters, digits, `_` or `-`"))
}

/// Checks the limits. Their maximum is that of the profile, so that a typing error such as an hour
/// of CPU time cannot take the gateway down. One beyond it is left out of the result: the component
/// is checked against the rest, and reports it no second time.
fn limits(limits: GuestLimitSet, profile: Profile) -> Resolved<GuestLimitSet> {
    Resolved::new(|problems| {
        let mut valid = GuestLimitSet::default();
        for (limit, found) in limits.amounts() {
            let minimum = limit.minimum();
            let maximum = profile.maximum(limit);
            if (minimum..=maximum).contains(&found) {
                valid = valid.with(limit, found);
                continue;
            }
            let [minimum, maximum, found] =
                [minimum, maximum, found].map(|amount| limit.show(amount));
            let profile = profile.name();
            problems.refuse(limit.key(), format_args!(
                "must be from {minimum} to {maximum} with the profile {profile:?}, found {found}"
            ));
        }
        valid
    })
}
