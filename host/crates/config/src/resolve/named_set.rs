//! `governance.roles` and `governance.environments`.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::Arc,
};

use super::{
    name::{check_length, is_plain},
    resolved::{Problems, Resolved},
    row,
};
use airlock_config_file::{
    file,
    refused::{InvalidValue, NamedPart},
};
use airlock_core::{
    door::{Environment, Grants, MAX_ROLES},
    tool::{ClientName, Exclusions},
};

/// Longest name of a role, in bytes. The name of a sender, which records repeat, has those of all its roles: 789 bytes at
/// most.
const MAX_ROLE_NAME: usize = 48;

/// The sets, by their names.
pub(super) struct NamedSets<'a> {
    pub(super) roles: Roles<'a>,
    environments: BTreeMap<String, Arc<Environment>>,
    absent_environments: &'a BTreeSet<String>,
}

/// The roles, by their names.
pub(super) struct Roles<'a> {
    pub(super) present: BTreeMap<String, Grants>,
    /// Names of other roles that may be named too. A sender with one of them is refused: it may have
    /// excluded tools.
    absent: &'a BTreeSet<String>,
}

/// Names of roles and environments that may be named although no element has them.
#[derive(Debug, Default)]
pub(crate) struct AbsentSets {
    pub(crate) roles: BTreeSet<String>,
    pub(crate) environments: BTreeSet<String>,
}

impl NamedSets<'_> {
    /// Finds the environment that a key names; `None` for one that an entry of the store takes away.
    pub(super) fn environment(&self, name: &str) -> Result<Option<Arc<Environment>>, InvalidValue> {
        let found = self.environments.get(name);
        if found.is_none() && !self.absent_environments.contains(name) {
            let known = self.environments.keys().map(String::as_str);
            let part = NamedPart::Environments;
            return Err(InvalidValue::unknown(part, "environment", name, known));
        }
        Ok(found.cloned())
    }

    /// Returns whether an entry of the store takes away a role or the environment of a key.
    pub(super) fn lack_one_of(&self, key: &file::VirtualKey) -> bool {
        let mut roles = key.roles.iter();
        key.environment.as_ref().is_some_and(|name| !self.environments.contains_key(name))
            || roles.any(|name| !self.roles.present.contains_key(name))
    }
}

/// Resolves the sets of the section, and takes them out of it. Their problems have keys relative to it.
pub(super) fn resolve<'a>(
    governance: &mut file::Governance,
    clients: &BTreeSet<ClientName>,
    absent: &'a AbsentSets,
) -> Resolved<NamedSets<'a>> {
    let roles = mem::take(&mut governance.roles);
    let environments = mem::take(&mut governance.environments);
    Resolved::new(|problems| {
        let present = problems.take("roles", resolve_roles(roles, clients));
        let environments = resolve_environments(environments, clients);
        NamedSets {
            roles: Roles { present, absent: &absent.roles },
            environments: problems.take("environments", environments),
            absent_environments: &absent.environments,
        }
    })
}

fn resolve_roles(
    roles: Vec<file::Role>,
    clients: &BTreeSet<ClientName>,
) -> Resolved<BTreeMap<String, Grants>> {
    let mut taken = BTreeSet::new();
    let roles = Resolved::elements(roles, |problems, role| {
        problems.take("mcp_configs", check_rows(&role.mcp_configs));
        let grants = problems.take("mcp_configs", row::resolve(&role.mcp_configs, clients));
        if !is_plain(&role.name, MAX_ROLE_NAME, "._-") {
            problems.refuse(
                "name",
                format_args!(
                    "expected 1 to {MAX_ROLE_NAME} letters, digits, `.`, `_` or `-`; found {:?}",
                    role.name
                ),
            );
            return None;
        }
        check_unique(problems, "role", &role.name, &mut taken);
        Some((role.name, grants))
    });
    roles.map(BTreeMap::from_iter)
}

/// Refuses limits in the rows of a role.
fn check_rows(rows: &[file::KeyRow]) -> Resolved<()> {
    let rows = Resolved::elements(rows, |problems, row| {
        if row.rate_limit.is_some() {
            problems.refuse("rate_limit", "belongs to a row of a virtual key");
        }
        Some(())
    });
    rows.map(drop)
}

fn resolve_environments(
    environments: Vec<file::Environment>,
    clients: &BTreeSet<ClientName>,
) -> Resolved<BTreeMap<String, Arc<Environment>>> {
    let mut taken = BTreeSet::new();
    let environments = Resolved::elements(environments, |problems, environment| {
        let file::Environment { name, clients: own, tools_to_exclude, .. } = environment;
        if name.trim().is_empty() {
            problems.refuse("name", "is empty");
            return None;
        }
        check_length(problems, "name", &name);
        check_unique(problems, "environment", &name, &mut taken);
        let own = Resolved::elements(own, |problems, client| {
            problems.accept_whole(row::client(&client, clients))
        });
        let own = problems.take("clients", own);
        let excluded = problems.take("tools_to_exclude", excluded(&tools_to_exclude, &own));
        let clients = own.into_iter().map(|client| {
            let excluded = excluded.get(&client).cloned().unwrap_or_default();
            (client, excluded)
        });
        let clients = clients.collect();
        Some((name.clone(), Arc::new(Environment { name, clients })))
    });
    environments.map(BTreeMap::from_iter)
}

/// Returns the tools that the items `client-tool` and `client-*` name, by client.
fn excluded(
    items: &[String],
    clients: &[ClientName],
) -> Resolved<BTreeMap<ClientName, Exclusions>> {
    let items = Resolved::elements(items, |problems, item| {
        // No client has a `-` in its name.
        let found = item.split_once('-').filter(|(_, tool)| !tool.is_empty());
        let found = found.and_then(|(client, tool)| {
            let client = airlock_core::tool::with_internal_client(client);
            Some((clients.iter().find(|own| own.as_str() == client)?, tool))
        });
        let found = found.ok_or_else(|| {
            format!(
                "expected `client-tool` or `client-*`, with a client of `clients`; found {item:?}"
            )
        });
        let (client, tool) = problems.accept_whole(found)?;
        Some((client.clone(), problems.accept_whole(Exclusions::parse(&[tool]))?))
    });
    items.map(|items| {
        let mut excluded = BTreeMap::<ClientName, Exclusions>::new();
        for (client, item) in items {
            let all = excluded.entry(client).or_default();
            *all = all.union(&item);
        }
        excluded
    })
}

fn check_unique(problems: &mut Problems, kind: &str, name: &str, taken: &mut BTreeSet<String>) {
    if !taken.insert(name.to_owned()) {
        problems.refuse("name", format_args!("another {kind} is named {name:?} already"));
    }
}

/// Returns the roles that a list names, without those that entries of the store take away. Refuses other
/// names that no role has, and too many.
pub(super) fn check_roles<'r>(names: &[String], roles: &'r Roles<'_>) -> Resolved<Vec<&'r Grants>> {
    Resolved::new(|problems| {
        if names.len() > MAX_ROLES {
            problems.refuse_whole(format_args!(
                "has {} roles, expected at most {MAX_ROLES}",
                names.len()
            ));
        }
        problems.merge(Resolved::elements(names, |problems, name| {
            let found = roles.present.get(name);
            if found.is_none() && !roles.absent.contains(name) {
                let known = roles.present.keys().map(String::as_str);
                problems.refuse_whole(InvalidValue::unknown(NamedPart::Roles, "role", name, known));
            }
            found
        }))
    })
}
