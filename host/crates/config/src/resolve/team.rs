//! `governance.teams` and `governance.customers`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    name::check_length,
    resolved::{Problems, Resolved},
};
use airlock_config_file::{
    file,
    refused::{InvalidValue, NamedPart},
};

/// The teams and customers, which others name.
pub(super) struct Groups<'a> {
    pub(super) teams: KeyGroup<'a>,
    pub(super) customers: KeyGroup<'a>,
    /// Customers as the teams name them, by the names of the teams.
    customers_of_teams: BTreeMap<String, String>,
}

impl Groups<'_> {
    /// Returns the identifiers of the team and the customer of a key.
    pub(super) fn identities(&self, key: &file::VirtualKey) -> [Option<String>; 2] {
        let team = key.team_id.as_deref().and_then(|text| self.teams.find(text));
        let customer = self.customer_of(key).and_then(|text| self.customers.find(text));
        let team = team.and_then(|name| self.teams.identity(name));
        let customer = customer.and_then(|name| self.customers.identity(name));
        [team, customer].map(|identity| identity.map(str::to_owned))
    }

    /// Returns whether an entry of the store takes away the team or the customer of a key, and with it limits
    /// that the key has.
    pub(super) fn lack_one_of(&self, key: &file::VirtualKey) -> bool {
        key.team_id.as_deref().is_some_and(|text| self.teams.lacks(text))
            || self.customer_of(key).is_some_and(|text| self.customers.lacks(text))
    }

    /// Returns the customer of a key or of its team, as that is named there.
    fn customer_of<'k>(&'k self, key: &'k file::VirtualKey) -> Option<&'k str> {
        let team = key.team_id.as_deref().and_then(|text| self.teams.find(text));
        let of_team = team.and_then(|name| self.customers_of_teams.get(name));
        key.customer_id.as_deref().or(of_team.map(String::as_str))
    }
}

/// The elements of one of the two parts.
pub(super) struct KeyGroup<'a> {
    part: NamedPart,
    kind: &'static str,
    names: BTreeSet<String>,
    /// Names, by identifier.
    ids: BTreeMap<String, String>,
    /// Identifiers of those that have one, by name.
    own_ids: BTreeMap<String, String>,
    /// Names and identifiers of others that may be named too.
    absent: &'a BTreeSet<String>,
}

impl<'a> KeyGroup<'a> {
    fn new(part: NamedPart, kind: &'static str, absent: &'a BTreeSet<String>) -> Self {
        Self {
            part,
            kind,
            names: BTreeSet::new(),
            ids: BTreeMap::new(),
            own_ids: BTreeMap::new(),
            absent,
        }
    }

    /// Finds the name of an element by its identifier or its name.
    pub(super) fn find(&self, text: &str) -> Option<&str> {
        let found = self.ids.get(text).or_else(|| self.names.get(text));
        found.map(String::as_str)
    }

    /// Returns the identifier under which an element is counted: its own one, or its name.
    pub(super) fn identity(&self, name: &str) -> Option<&str> {
        let name = self.names.get(name)?;
        Some(self.own_ids.get(name).unwrap_or(name))
    }

    /// Returns whether a value names an element that an entry of the store takes away.
    fn lacks(&self, text: &str) -> bool {
        self.find(text).is_none()
    }

    /// Finds the element that a value names, as [`Self::find`] does. `None` for one that an entry of the
    /// store takes away.
    pub(super) fn referent(&self, text: &str) -> Result<Option<&str>, InvalidValue> {
        let found = self.find(text);
        if found.is_none() && !self.absent.contains(text) {
            let known = self.names.iter().map(String::as_str);
            return Err(InvalidValue::unknown(self.part, self.kind, text, known));
        }
        Ok(found)
    }

    fn add(&mut self, problems: &mut Problems, name: &str, id: Option<&str>) {
        if name.trim().is_empty() {
            problems.refuse("name", "is empty");
        }
        check_length(problems, "name", name);
        if self.find(name).is_some() {
            let kind = self.kind;
            problems.refuse("name", format_args!("another {kind} is named {name:?} already"));
        }
        self.names.insert(name.to_owned());
        let Some(id) = id.filter(|id| *id != name) else { return };
        check_length(problems, "id", id);
        if id.trim().is_empty() {
            problems.refuse("id", "is empty; leave it out");
        } else if self.find(id).is_some() {
            let kind = self.kind;
            problems
                .refuse("id", format_args!("another {kind} has {id:?} as its identifier or name"));
        }
        self.own_ids.insert(name.to_owned(), id.to_owned());
        self.ids.insert(id.to_owned(), name.to_owned());
    }
}

/// Names and identifiers of teams and customers that may be named although no element has them.
#[derive(Debug, Default)]
pub(crate) struct AbsentGroups {
    pub(crate) teams: BTreeSet<String>,
    pub(crate) customers: BTreeSet<String>,
}

/// Resolves both parts. Their problems have keys relative to `governance`.
pub(super) fn resolve<'a>(
    teams: &[file::Team],
    customers: &[file::Customer],
    absent: &'a AbsentGroups,
) -> Resolved<Groups<'a>> {
    Resolved::new(|problems| {
        let mut groups = Groups {
            teams: KeyGroup::new(NamedPart::Teams, "team", &absent.teams),
            customers: KeyGroup::new(NamedPart::Customers, "customer", &absent.customers),
            customers_of_teams: BTreeMap::new(),
        };
        let all = Resolved::elements(customers, |problems, customer| {
            groups.customers.add(problems, &customer.name, customer.id.as_deref());
            Some(())
        });
        problems.take("customers", all);
        let all = Resolved::elements(teams, |problems, team| {
            groups.teams.add(problems, &team.name, team.id.as_deref());
            let customer = team.customer_id.as_deref().map(|text| groups.customers.referent(text));
            customer.and_then(|found| problems.accept("customer_id", found));
            if let Some(customer) = &team.customer_id {
                groups.customers_of_teams.insert(team.name.clone(), customer.clone());
            }
            Some(())
        });
        problems.take("teams", all);
        groups
    })
}
