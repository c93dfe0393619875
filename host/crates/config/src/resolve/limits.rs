//! Limits of virtual keys, teams, customers, models, clients and tools.
//!
//! A limit is counted under its owner's identifier, which is its name unless it has one; so an owner that is
//! renamed by way of its identifier, and a credential that is rotated, keep what is used.

mod prices;
mod written;

use std::collections::{BTreeMap, BTreeSet};

use airlock_core::tool::{ClientName, ToolName};
use airlock_limits::{
    limit::{Limit, Owner, Scope},
    price::PriceTable,
};

use self::written::{LimitedSubject, WrittenLimits, of_calls, of_owner};
use super::{
    absent::AbsentNames,
    resolved::{Problems, Resolved},
    team::Groups,
};
use airlock_config_file::{
    file,
    key_path::KeyPath,
    refused::{InvalidValue, NamedPart},
};

/// Parts of the file that have limits and prices, and what they name.
pub(super) struct LimitedParts<'f> {
    pub(super) clients: &'f [file::Client],
    pub(super) governance: &'f file::Governance,
    pub(super) providers: &'f file::Entries<file::Provider>,
    pub(super) groups: &'f Groups<'f>,
    pub(super) absent: &'f AbsentNames,
}

/// The limits and the prices.
pub(super) struct ResolvedLimits {
    pub(super) identities: KeyIdentities,
    pub(super) limits: Vec<Limit>,
    pub(super) prices: PriceTable,
}

impl LimitedParts<'_> {
    /// Returns whether a limit on a model may name a key that does not exist: a key is never kept from being
    /// revoked by one.
    fn may_lack_key(&self, config: &str, key: &str) -> bool {
        self.absent.store_model_configs.contains(config) || self.absent.key_ids.contains(key)
    }

    /// Refuses a provider that does not exist.
    fn check_provider(&self, provider: &str) -> Result<(), InvalidValue> {
        let names = self.providers.0.iter().map(|(name, _)| name.as_str());
        if names.clone().any(|name| name == provider) {
            return Ok(());
        }
        Err(InvalidValue::unknown(NamedPart::Providers, "provider", provider, names))
    }
}

/// Identifiers under which the calls of keys are counted.
#[derive(Default)]
pub(super) struct KeyIdentities {
    by_name: BTreeMap<String, String>,
    /// Names of the keys, by identifier.
    names: BTreeMap<String, String>,
}

impl KeyIdentities {
    /// Returns the identifier of a key.
    pub(super) fn id(&self, name: &str) -> Option<&str> {
        self.by_name.get(name).map(String::as_str)
    }

    /// Finds a key by its identifier or its name. Returns both.
    fn find(&self, text: &str) -> Option<(&str, &str)> {
        let found = self.names.get_key_value(text);
        let found = found.or_else(|| self.names.get_key_value(self.id(text)?));
        found.map(|(id, name)| (id.as_str(), name.as_str()))
    }
}

/// Finds the identifiers of keys. Two keys with one identifier would share their limits, so that is refused.
fn key_identities(keys: &[file::VirtualKey]) -> Resolved<KeyIdentities> {
    let mut identities = KeyIdentities::default();
    let names = keys.iter().filter(|key| id_of(key).is_none()).map(|key| key.name.as_str());
    let names: BTreeSet<&str> = names.collect();
    let checked = Resolved::elements(keys, |problems, key| {
        if let Some(id) = id_of(key) {
            if identities.names.contains_key(id) {
                problems.refuse("id", "another key has this identifier already");
            } else if names.contains(id) {
                problems.refuse("id", "another key, without an identifier, has it as its name");
            }
        }
        let identity = id_of(key).unwrap_or(&key.name).to_owned();
        identities.names.entry(identity.clone()).or_insert_with(|| key.name.clone());
        // Of two keys with one name, which is refused elsewhere, the first one counts.
        identities.by_name.entry(key.name.clone()).or_insert(identity);
        Some(())
    });
    checked.map(|_| identities)
}

fn id_of(key: &file::VirtualKey) -> Option<&str> {
    key.id.as_deref().filter(|id| !id.is_empty())
}

/// Resolves all limits and prices. The problems have their keys in the whole file.
pub(super) fn resolve(parts: &LimitedParts<'_>) -> Resolved<ResolvedLimits> {
    Resolved::new(|problems| {
        let keys = key_identities(&parts.governance.virtual_keys);
        let identities = problems.take(NamedPart::VirtualKeys.key(), keys);
        let mut limits = problems.take(NamedPart::Customers.key(), of_customers(parts));
        limits.extend(problems.take(NamedPart::Teams.key(), of_teams(parts)));
        limits.extend(problems.take(NamedPart::VirtualKeys.key(), of_keys(parts, &identities)));
        limits.extend(problems.take(NamedPart::ModelConfigs.key(), of_models(parts, &identities)));
        limits.extend(problems.take(NamedPart::Clients.key(), of_clients(parts.clients)));
        let prices = problems.merge(prices::resolve(parts));
        ResolvedLimits { identities, limits, prices }
    })
}

fn of_customers(parts: &LimitedParts<'_>) -> Resolved<Vec<Limit>> {
    let limits = Resolved::elements(&parts.governance.customers, |problems, customer| {
        let owner = Owner::Customer(parts.groups.customers.identity(&customer.name)?.to_owned());
        let written = WrittenLimits {
            budgets: &customer.budgets,
            budget: customer.budget.as_ref(),
            rate_limit: customer.rate_limit.as_ref(),
            calendar_aligned: customer.calendar_aligned,
        };
        Some(problems.merge(of_owner(&written, &LimitedSubject::new(owner, &customer.name))))
    });
    limits.map(|limits| limits.concat())
}

fn of_teams(parts: &LimitedParts<'_>) -> Resolved<Vec<Limit>> {
    let limits = Resolved::elements(&parts.governance.teams, |problems, team| {
        let owner = Owner::Team(parts.groups.teams.identity(&team.name)?.to_owned());
        let written = WrittenLimits {
            budgets: &team.budgets,
            budget: team.budget.as_ref(),
            rate_limit: team.rate_limit.as_ref(),
            calendar_aligned: team.calendar_aligned,
        };
        Some(problems.merge(of_owner(&written, &LimitedSubject::new(owner, &team.name))))
    });
    limits.map(|limits| limits.concat())
}

fn of_keys(parts: &LimitedParts<'_>, identities: &KeyIdentities) -> Resolved<Vec<Limit>> {
    let limits = Resolved::elements(&parts.governance.virtual_keys, |problems, key| {
        let owner = Owner::Key(identities.id(&key.name)?.to_owned());
        let written = WrittenLimits {
            budgets: &key.budgets,
            budget: key.budget.as_ref(),
            rate_limit: key.rate_limit.as_ref(),
            calendar_aligned: key.calendar_aligned,
        };
        let subject = LimitedSubject::new(owner, &key.name);
        let mut limits = problems.merge(of_owner(&written, &subject));
        let rows = Resolved::elements(&key.mcp_configs, |problems, row| {
            let rate = row.rate_limit.as_ref()?;
            let client = airlock_core::tool::with_internal_client(&row.mcp_client_name);
            let subject = subject.within(Scope::Client(client.into_owned()));
            Some(problems.take("rate_limit", of_calls(rate, key.calendar_aligned, &subject)))
        });
        limits.extend(problems.take("mcp_configs", rows).concat());
        Some(limits)
    });
    limits.map(|limits| limits.concat())
}

fn of_models(parts: &LimitedParts<'_>, identities: &KeyIdentities) -> Resolved<Vec<Limit>> {
    let mut ids = BTreeSet::new();
    let mut subjects = BTreeSet::new();
    let limits = Resolved::elements(&parts.governance.model_configs, |problems, config| {
        check_id(problems, &config.id, &mut ids);
        let scope = problems.merge(model_scope(config, parts));
        let owner = problems.merge(model_owner(config, parts, identities));
        let rates = config.rate_limit.as_ref();
        for member in rates.into_iter().flat_map(limits_of_calls) {
            let key = KeyPath::default().member("rate_limit").member(member);
            problems.refuse(key, "belongs to keys, teams, customers and clients: a model makes requests, and no calls are counted here");
        }
        let written = WrittenLimits {
            budgets: &config.budgets,
            budget: None,
            rate_limit: rates,
            calendar_aligned: config.calendar_aligned,
        };
        // The key of an entry is gone, or a problem is noted: what is written is checked all the same.
        let Some(owner) = owner else {
            problems.merge(of_owner(&written, &LimitedSubject::everyone(scope)));
            return None;
        };
        let subject = owner.within(scope);
        if !subjects.insert((subject.owner.clone(), subject.scope.clone())) {
            let message = "another element has this model, provider and scope; write all limits into one of both";
            problems.refuse("model_name", message);
        }
        Some(problems.merge(of_owner(&written, &subject)))
    });
    limits.map(|limits| limits.concat())
}

/// Returns the members that limit calls of tools.
fn limits_of_calls(rates: &file::RateLimit) -> impl Iterator<Item = &'static str> {
    let members = [
        ("tool_call_max_limit", rates.tool_call_max_limit.is_some()),
        ("argument_byte_max_limit", rates.argument_byte_max_limit.is_some()),
    ];
    members.into_iter().filter_map(|(member, is_set)| is_set.then_some(member))
}

fn model_scope(config: &file::ModelConfig, parts: &LimitedParts<'_>) -> Resolved<Scope> {
    Resolved::new(|problems| {
        if config.model_name.trim().is_empty() {
            problems.refuse("model_name", "is empty; name a model, or write \"*\" for all");
        }
        let provider = config.provider.as_deref().filter(|provider| *provider != "*");
        if let Some(provider) = provider {
            problems.accept("provider", parts.check_provider(provider));
        }
        Scope::Model { provider: provider.map(str::to_owned), model: config.model_name.clone() }
    })
}

/// Returns all that the owner of limits on a model does; `None` if it is a key that does not exist.
fn model_owner(
    config: &file::ModelConfig,
    parts: &LimitedParts<'_>,
    identities: &KeyIdentities,
) -> Resolved<Option<LimitedSubject>> {
    let named = config.scope_id.as_deref().filter(|id| !id.is_empty());
    Resolved::new(|problems| match (config.scope, named) {
        (file::LimitScope::Global, None) => Some(LimitedSubject::everyone(Scope::All)),
        (file::LimitScope::Global, Some(_)) => {
            problems.refuse("scope_id", "belongs to the `scope` \"virtual_key\"");
            None
        }
        (file::LimitScope::VirtualKey, named) => {
            let named = problems.required("scope_id", named)?;
            let found = identities.find(named);
            if found.is_none() && !parts.may_lack_key(&config.id, named) {
                let known = identities.by_name.keys().map(String::as_str);
                let part = NamedPart::VirtualKeys;
                problems.refuse("scope_id", InvalidValue::unknown(part, "key", named, known));
            }
            let (id, name) = found?;
            Some(LimitedSubject::new(Owner::Key(id.to_owned()), name))
        }
    })
}

/// Refuses an identifier that is empty, or that an earlier element has.
fn check_id(problems: &mut Problems, id: &str, taken: &mut BTreeSet<String>) {
    if id.trim().is_empty() {
        problems.refuse("id", "is empty");
    } else if !taken.insert(id.to_owned()) {
        problems.refuse("id", format_args!("another element has the identifier {id:?} already"));
    }
}

fn of_clients(clients: &[file::Client]) -> Resolved<Vec<Limit>> {
    let limits = Resolved::elements(clients, |problems, client| {
        // The names of clients are checked elsewhere.
        let name = ClientName::parse(&client.name).ok()?;
        let mut limits = Vec::new();
        if let Some(rate) = &client.rate_limit {
            let subject = LimitedSubject::everyone(Scope::Client(client.name.clone()));
            limits.extend(problems.take("rate_limit", of_calls(rate, false, &subject)));
        }
        let key = KeyPath::default().member("tool_limits");
        for (tool, rate) in &client.tool_limits {
            let key = key.member(tool);
            let tool_name = ToolName::new(&name, tool).as_str().to_owned();
            let subject = LimitedSubject::everyone(Scope::Tool(tool_name));
            problems.merge(check_tool_name(&key, tool));
            limits.extend(problems.take(key, of_calls(rate, false, &subject)));
        }
        Some(limits)
    });
    limits.map(|limits| limits.concat())
}

/// Refuses a name of all tools where single ones are named.
fn check_tool_name(key: &KeyPath, tool: &str) -> Resolved<()> {
    Resolved::new(|problems| {
        if tool == "*" || tool.is_empty() {
            problems.refuse(
                key.clone(),
                "is not the name of a tool: expected the source's own name of one",
            );
        }
    })
}
