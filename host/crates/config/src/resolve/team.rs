//! `governance.teams` and `governance.customers`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    refused::{InvalidValue, NamedPart},
    resolved::{Problems, Resolved},
};
use crate::file;

/// The teams and customers, which others name.
pub(super) struct Groups<'a> {
    pub(super) teams: Group<'a>,
    pub(super) customers: Group<'a>,
}

/// The elements of one of the two parts.
pub(super) struct Group<'a> {
    part: NamedPart,
    kind: &'static str,
    names: BTreeSet<String>,
    /// Names, by identifier.
    ids: BTreeMap<String, String>,
    /// Names and identifiers of others that may be named too.
    absent: &'a BTreeSet<String>,
}

impl<'a> Group<'a> {
    fn new(part: NamedPart, kind: &'static str, absent: &'a BTreeSet<String>) -> Self {
        Self { part, kind, names: BTreeSet::new(), ids: BTreeMap::new(), absent }
    }

    /// Finds the name of an element by its identifier or its name.
    pub(super) fn find(&self, text: &str) -> Option<&str> {
        let found = self.ids.get(text).or_else(|| self.names.get(text));
        found.map(String::as_str)
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
        if self.find(name).is_some() {
            let kind = self.kind;
            problems.refuse("name", format_args!("another {kind} is named {name:?} already"));
        }
        self.names.insert(name.to_owned());
        let Some(id) = id.filter(|id| *id != name) else { return };
        if id.trim().is_empty() {
            problems.refuse("id", "is empty; leave it out");
        } else if self.find(id).is_some() {
            let kind = self.kind;
            problems
                .refuse("id", format_args!("another {kind} has {id:?} as its identifier or name"));
        }
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
            teams: Group::new(NamedPart::Teams, "team", &absent.teams),
            customers: Group::new(NamedPart::Customers, "customer", &absent.customers),
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
            Some(())
        });
        problems.take("teams", all);
        groups
    })
}
