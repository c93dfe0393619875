//! Objects of a script, one for each place that makes them.
//!
//! An object is what all objects are that its place ever makes, whenever they are looked at: what is written to one
//! of them was always in all of them.

use std::collections::BTreeMap;

use super::scopes::Place;
use super::values::{FlowValue, MAX_SITES, OriginSet, SiteSet};

/// A place that makes an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SiteKey<'a> {
    /// A part of the source.
    At(Place),
    /// A name that the script does not bind.
    Name(&'a str),
    /// A tool as a value.
    Tool(usize),
    /// Functions and modules of the interpreter that change nothing.
    Builtins,
    /// Functions and methods of the interpreter that change what they reach.
    Changing,
    /// The exceptions that are raised.
    Exceptions,
    /// The modules that are imported.
    Modules,
}

/// Something that can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Callee {
    /// A function of the script.
    Function(usize),
    /// A tool.
    Tool(usize),
    /// A function whose effect is not known.
    Unknown,
}

#[derive(Default)]
struct HeapObject {
    /// Where its content comes from, without that of the objects that it holds.
    origins: OriginSet,
    holds: SiteSet,
    callee: Option<Callee>,
}

#[derive(Default)]
pub(super) struct FlowHeap<'a> {
    ids: BTreeMap<SiteKey<'a>, usize>,
    objects: Vec<HeapObject>,
    /// Objects that can be called.
    callable: SiteSet,
    /// Objects of which reading one may change what is read next.
    iterators: SiteSet,
    /// Objects whose methods the script may have chosen.
    with_fields: SiteSet,
    /// Objects that are the same in all scripts, and never change.
    fixed: SiteSet,
    pub(super) has_grown: bool,
    /// Set once there are more than [`MAX_SITES`] places.
    pub(super) is_full: bool,
    /// Objects that were looked at.
    pub(super) steps: usize,
}

impl<'a> FlowHeap<'a> {
    /// Returns the object that a place makes.
    pub(super) fn site(&mut self, key: SiteKey<'a>) -> SiteSet {
        if let Some(site) = self.ids.get(&key) {
            return SiteSet::of_site(*site);
        }
        let site = self.objects.len();
        if site == MAX_SITES {
            self.is_full = true;
            return SiteSet::default();
        }
        self.objects.push(HeapObject::default());
        self.ids.insert(key, site);
        self.has_grown = true;
        SiteSet::of_site(site)
    }

    /// Returns the object that a function or a tool is.
    pub(super) fn callee(&mut self, key: SiteKey<'a>, callee: Callee) -> FlowValue {
        let sites = self.site(key);
        for site in sites.sites() {
            self.objects[site].callee = Some(callee);
        }
        self.callable.add(&sites);
        FlowValue { origins: OriginSet::default(), sites }
    }

    /// Returns an object that never changes, and has functions as its fields.
    pub(super) fn fixed(&mut self, key: SiteKey<'a>) -> SiteSet {
        let sites = self.site(key);
        self.fixed.add(&sites);
        self.mark_fields(sites);
        sites
    }

    /// Marks objects whose fields the script may have given values.
    pub(super) fn mark_fields(&mut self, sites: SiteSet) {
        self.has_grown |= self.with_fields.grow(&sites);
    }

    /// Returns whether one of some objects has fields that are no methods of its type.
    pub(super) fn has_fields(&self, sites: SiteSet) -> bool {
        !sites.within(self.with_fields).is_empty()
    }

    /// Marks objects that change when they are read.
    pub(super) fn mark_iterator(&mut self, sites: SiteSet) {
        self.iterators.add(&sites);
    }

    /// Writes a value to all of some objects.
    pub(super) fn write(&mut self, sites: SiteSet, value: FlowValue) {
        for site in sites.without(self.fixed).sites() {
            self.steps += 1;
            let object = &mut self.objects[site];
            self.has_grown |= object.origins.grow(value.origins);
            self.has_grown |= object.holds.grow(&value.sites);
        }
    }

    /// Returns some objects, and all that can be reached from them.
    pub(super) fn reachable(&mut self, sites: SiteSet) -> SiteSet {
        if sites.is_empty() {
            return sites;
        }
        let mut found = sites;
        let mut next = sites;
        while !next.is_empty() {
            let mut held = SiteSet::default();
            for site in next.sites() {
                held.add(&self.objects[site].holds);
                self.steps += 1;
            }
            next = held.without(found);
            found.add(&held);
        }
        found
    }

    /// Returns where a value comes from, with all that can be reached from it.
    pub(super) fn origins(&mut self, value: FlowValue) -> OriginSet {
        let reachable = self.reachable(value.sites);
        self.origins_within(FlowValue { sites: reachable, ..value })
    }

    /// Returns where a value comes from, whose sites are all that can be reached from it.
    pub(super) fn origins_within(&self, value: FlowValue) -> OriginSet {
        let origins = value.sites.sites().map(|site| self.objects[site].origins);
        origins.fold(value.origins, OriginSet::with)
    }

    /// Returns what can be called among some objects.
    pub(super) fn callees(&self, sites: SiteSet) -> Vec<Callee> {
        let callable = sites.within(self.callable);
        callable.sites().filter_map(|site| self.objects[site].callee).collect()
    }

    /// Returns whether anything can be called among all that can be reached from a value.
    pub(super) fn holds_callees(&mut self, value: FlowValue) -> bool {
        !self.callable.is_empty() && !self.reachable(value.sites).within(self.callable).is_empty()
    }

    /// Returns what changes when a value is read, among all that can be reached from it.
    pub(super) fn iterators_in(&mut self, value: FlowValue) -> SiteSet {
        if self.iterators.is_empty() {
            return SiteSet::default();
        }
        self.reachable(value.sites).within(self.iterators)
    }
}
