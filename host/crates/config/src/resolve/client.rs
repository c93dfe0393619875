//! `mcp.client_configs`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    file_env::FileEnv,
    key::KeyNames,
    plugin,
    resolved::{Problems, Resolved},
    same_variants::{SameVariants, same_variants},
    team::KeyGroup,
    tool_cache, tool_fallbacks, upstream,
};
use crate::config::{AbsentOwner, Client, Disabled, Source};
use airlock_config_file::{file, key_path::KeyPath};
use airlock_core::{
    door::ToolGroup,
    tool::{Allowlist, ClientName, Exclusions, INTERNAL_CLIENT, Policy, Prefix, Trust, UriList},
};

/// Returns the names of all clients, the absent ones included. Disabled clients are too, so that a key may keep its
/// row for one.
pub(super) fn names(
    clients: &[file::Client],
    absent: &BTreeSet<ClientName>,
) -> Resolved<BTreeSet<ClientName>> {
    Resolved::new(|problems| {
        let mut names = BTreeSet::new();
        for (index, client) in clients.iter().enumerate() {
            let key = KeyPath::default().element(index).member("name");
            let name = problems.accept(key.clone(), ClientName::parse(&client.name));
            let Some(name) = name else { continue };
            if name.as_str() == INTERNAL_CLIENT {
                problems.refuse(key.clone(), format_args!(
                    "{INTERNAL_CLIENT:?} is reserved for the tools of an embedding program; choose another name"
                ));
            }
            if !names.insert(name) {
                problems
                    .refuse(key, format_args!("another client is named {:?} already", client.name));
            }
        }
        names.extend(absent.iter().cloned());
        names
    })
}

/// Returns the indices of the clients that are entries of the store.
pub(super) fn indices_of_store(
    clients: &[file::Client],
    of_store: &BTreeSet<ClientName>,
) -> BTreeMap<ClientName, usize> {
    let names = clients.iter().map(|client| ClientName::parse(&client.name).ok());
    let indices = names.enumerate().filter_map(|(index, name)| Some((name?, index)));
    indices.filter(|(name, _)| of_store.contains(name)).collect()
}

/// Returns the MCP servers that are disabled.
pub(super) fn disabled(clients: &[file::Client]) -> Vec<Disabled> {
    let disabled = clients.iter().filter_map(|client| {
        let connection_type = client.connection_type.of_server().filter(|_| client.disabled)?;
        // `names` has already noted an invalid name.
        Some(Disabled { name: ClientName::parse(&client.name).ok()?, connection_type })
    });
    disabled.collect()
}

/// Clients that belong to virtual keys.
#[derive(Default)]
pub(super) struct OwnedClients {
    by_key: BTreeMap<String, BTreeSet<ClientName>>,
    by_team: BTreeMap<String, BTreeSet<ClientName>>,
    /// Owners that do not exist.
    pub(super) absent: Vec<AbsentOwner>,
}

impl OwnedClients {
    /// Returns the clients of a key that belongs to a team.
    pub(super) fn for_key(&self, key: &str, team: Option<&str>) -> BTreeSet<ClientName> {
        let of_key = self.by_key.get(key).into_iter().flatten();
        let of_team = team.and_then(|team| self.by_team.get(team)).into_iter().flatten();
        of_key.chain(of_team).cloned().collect()
    }
}

/// Finds the clients that belong to virtual keys and teams. A client of the store may name owners that do
/// not exist: a key is never kept from being revoked by a client that belongs to it, and the client does
/// not exist for others then either.
pub(super) fn owned(
    clients: &[file::Client],
    keys: KeyNames<'_>,
    teams: &KeyGroup<'_>,
    of_store: &BTreeSet<ClientName>,
) -> Resolved<OwnedClients> {
    Resolved::new(|problems| {
        let mut owned = OwnedClients::default();
        for (index, client) in clients.iter().enumerate() {
            let key = KeyPath::default().element(index);
            // `names` has already noted an invalid name.
            let Ok(name) = ClientName::parse(&client.name) else { continue };
            let is_of_store = of_store.contains(&name);
            if let Some(owners) = &client.virtual_keys {
                let checked = keys.check_owners(owners, is_of_store);
                problems.take(key.member("virtual_keys"), checked);
            }
            for owner in client.virtual_keys.iter().flatten() {
                owned.by_key.entry(owner.clone()).or_default().insert(name.clone());
                if !keys.present.contains(owner) {
                    owned.absent.push(AbsentOwner::key(&name, owner));
                }
            }
            if let Some(owners) = &client.teams {
                problems.take(key.member("teams"), check_teams(owners, teams, is_of_store));
            }
            for owner in client.teams.iter().flatten() {
                match teams.find(owner) {
                    Some(team) => {
                        owned.by_team.entry(team.to_owned()).or_default().insert(name.clone());
                    }
                    None => owned.absent.push(AbsentOwner::team(&name, owner)),
                }
            }
        }
        owned
    })
}

/// Refuses a list of teams without a name, and, unless the client is one of the store, a team that does
/// not exist.
fn check_teams(names: &[String], teams: &KeyGroup<'_>, is_of_store: bool) -> Resolved<()> {
    Resolved::new(|problems| {
        if names.is_empty() {
            problems.refuse_whole("names no team; leave it out, or name one");
        }
        for (index, name) in names.iter().enumerate().filter(|_| !is_of_store) {
            problems.accept(index, teams.referent(name));
        }
    })
}

/// Refuses a client whose name is the slug of a group of the file: both would be at one path. It is noted
/// at the client, which an operator may have added. A group of the store is refused at its own place, see
/// [`virtual_mcp::resolve`](super::virtual_mcp::resolve).
pub(super) fn check_slugs(
    clients: &[file::Client],
    groups: &[ToolGroup],
    of_store: &BTreeSet<String>,
) -> Resolved<()> {
    Resolved::new(|problems| {
        let groups = groups.iter().filter(|group| !of_store.contains(&group.name));
        // Of two with one slug, the first has it.
        let slugs: BTreeMap<_, _> =
            groups.rev().map(|group| (group.slug.as_str(), group)).collect();
        for (index, client) in clients.iter().enumerate() {
            if let Some(ToolGroup { name, slug, .. }) = slugs.get(client.name.as_str()) {
                let key = KeyPath::default().element(index).member("name");
                problems.refuse(key, format_args!(
                    "is the path of the virtual MCP {name:?}, `/mcp/{slug}`; choose another name, or set another `endpoint_slug` there"
                ));
            }
        }
    })
}

/// Resolves every client that is not disabled. `names` are those of the clients that may be referred
/// to.
pub(super) fn resolve(
    clients: Vec<file::Client>,
    names: &BTreeSet<ClientName>,
    env: FileEnv<'_>,
) -> Resolved<Vec<Client>> {
    Resolved::new(|problems| {
        problems.merge(check_prefixes(&clients));
        problems.merge(tool_fallbacks::check(&clients));
        let clients = Resolved::elements(clients, |problems, client| {
            problems.merge(resolve_one(client, names, env))
        });
        problems.merge(clients)
    })
}

fn resolve_one(
    client: file::Client,
    names: &BTreeSet<ClientName>,
    env: FileEnv<'_>,
) -> Resolved<Option<Client>> {
    Resolved::new(|problems| {
        let policy = problems.merge(policy(&client));
        if client.disabled {
            return None;
        }
        for (key, owner) in client.keys_of_other_types() {
            problems.refuse(
                key,
                format_args!("belongs to a client whose `connection_type` is {owner}"),
            );
        }
        if client.code_mode_binding_level.is_some() && !client.code_mode {
            problems.refuse(
                "code_mode_binding_level",
                "belongs to a client with `is_code_mode_client`",
            );
        }
        // `names` has already noted an invalid name.
        let name = ClientName::parse(&client.name).ok()?;
        let binding_level = client.code_mode_binding_level.map(SameVariants::same);
        let source = if client.connection_type.is_plugin() {
            let wasm = problems.required("wasm_config", client.wasm_config)?;
            let clients = plugin::KnownClients { names, own: &name };
            let plugin = plugin::resolve(wasm, &clients, env);
            Source::Plugin(Box::new(problems.take("wasm_config", plugin)?))
        } else {
            Source::Upstream(problems.merge(upstream::resolve(&name, client, env))?)
        };
        Some(Client { name, policy, binding_level, source })
    })
}

fn allowlist(problems: &mut Problems, key: &str, names: &[String]) -> Allowlist {
    problems.accept(key, Allowlist::parse(names)).unwrap_or_default()
}

fn policy(client: &file::Client) -> Resolved<Policy> {
    Resolved::new(|problems| {
        let execute = allowlist(problems, "tools_to_execute", &client.tools_to_execute);
        let auto_execute =
            allowlist(problems, "tools_to_auto_execute", &client.tools_to_auto_execute);
        let approve_twice = Exclusions::parse(&client.tools_to_approve_twice);
        let approve_twice =
            problems.accept("tools_to_approve_twice", approve_twice).unwrap_or_default();
        if let Some(name) = auto_execute.beyond(&execute) {
            problems.refuse("tools_to_auto_execute", format_args!(
                "{name:?} is not in `tools_to_execute`, so it cannot run without an approval either"
            ));
        }
        let mut named = client.tools_to_auto_execute.iter().filter(|name| *name != "*");
        if let Some(name) = named.find(|name| approve_twice.covers_name(name)) {
            problems.refuse(
                "tools_to_approve_twice",
                format_args!(
                    "{name:?} is in `tools_to_auto_execute` too, so it would need no approval"
                ),
            );
        }
        let exclude = Exclusions::parse(&client.tools_to_exclude);
        let exclude = problems.accept("tools_to_exclude", exclude).unwrap_or_default();
        let prefix = problems.take("prefix", prefix(client));
        let resources = UriList::parse(&client.resources_to_read);
        let prompts = Allowlist::parse(&client.prompts_to_get);
        let cache = problems.take("tool_cache", tool_cache::resolve(client, &auto_execute));
        Policy {
            execute,
            exclude,
            auto_execute,
            approve_twice,
            code_mode: client.code_mode,
            allow_on_all_keys: client.allow_on_all_virtual_keys,
            is_owned: client.virtual_keys.is_some() || client.teams.is_some(),
            // The operator installed a plugin and granted its rights.
            trust: if client.connection_type.is_plugin() {
                Trust::Trusted
            } else {
                client.trust.unwrap_or_default().same()
            },
            prefix,
            resources: problems.accept("resources_to_read", resources).unwrap_or_default(),
            prompts: problems.accept("prompts_to_get", prompts).unwrap_or_default(),
            relays_instructions: client.relay_instructions,
            cache,
            fallbacks: client.tool_fallbacks.clone(),
        }
    })
}

same_variants!(file::Trust => Trust { Untrusted, Trusted });

/// Returns the prefix of the client's tools. Refuses one that is not valid.
fn prefix(client: &file::Client) -> Resolved<Prefix> {
    Resolved::new(|problems| {
        let prefix = match &client.prefix {
            Some(prefix) if prefix.is_empty() => return Prefix::Off,
            Some(prefix) if *prefix != client.name => prefix,
            _ => return Prefix::Client,
        };
        let Ok(prefix) = ClientName::parse(prefix) else {
            problems.refuse_whole(format_args!("{prefix:?} is not a valid prefix: use a letter or `_`, then letters, digits or `_`, at most 32 characters; or \"\" for none"));
            return Prefix::Client;
        };
        if prefix.as_str() == INTERNAL_CLIENT {
            problems
                .refuse_whole(format_args!("{INTERNAL_CLIENT:?} is the name of another client"));
        }
        Prefix::Other(prefix)
    })
}

/// Refuses every prefix that is the prefix or the name of an earlier client, and every name that is
/// the prefix of one: the tools of both could then have the same names.
fn check_prefixes(clients: &[file::Client]) -> Resolved<()> {
    Resolved::new(|problems| {
        let mut names = BTreeSet::new();
        let mut prefixes = BTreeSet::new();
        for (index, client) in clients.iter().enumerate() {
            let key = KeyPath::default().element(index);
            let name = client.name.as_str();
            let prefix = client.prefix.as_deref();
            let prefix = prefix.filter(|prefix| !prefix.is_empty() && *prefix != name);
            if prefixes.contains(name) {
                problems.refuse(
                    key.member("name"),
                    format_args!("{name:?} is the prefix of another client"),
                );
            }
            if let Some(prefix) = prefix.filter(|prefix| names.contains(prefix)) {
                problems.refuse(
                    key.member("prefix"),
                    format_args!("{prefix:?} is the name of another client"),
                );
            }
            if prefix.is_some_and(|prefix| !prefixes.insert(prefix)) {
                problems.refuse(key.member("prefix"), "another client has this prefix already");
            }
            names.insert(name);
        }
    })
}
