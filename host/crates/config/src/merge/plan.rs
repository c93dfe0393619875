//! The decision which elements of the file and which entries have effect.

use std::collections::BTreeMap;

use airlock_store::entries::{Entries, Entry, EntryKind};
use serde::de::DeserializeOwned;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    Element, LeftOut, LeftOutReason, Merged,
    layout::{Attributed, Layout, attribute},
    part,
};
use crate::{
    config::Config,
    environment::Env,
    error::Problem,
    file::{self, File},
    json,
    key_path::KeyPath,
    load::Place,
    read::{self, Reading},
    resolve::{self, AbsentNames},
};
use airlock_core::tool::ClientName;

/// Kind and name of an element.
type ElementKey = (EntryKind, String);

/// The elements of the file, and the entries in their places or beside them.
pub(super) struct Plan<'j> {
    json: &'j Value,
    slots: BTreeMap<ElementKey, Slot<'j>>,
    left_out: Vec<LeftOut>,
    absent: AbsentNames,
}

/// The element of the file and the entry with one name.
struct Slot<'j> {
    in_file: Option<InFile<'j>>,
    change: Option<Change>,
}

struct InFile<'j> {
    index: usize,
    digest: [u8; 32],
    value: &'j Value,
}

/// Effect of an entry.
enum Change {
    /// The element of the file has no effect.
    Removed,
    /// This element has effect.
    Document(Value),
}

/// Outcome of one attempt to resolve the configuration.
pub(super) struct Attempt {
    pub(super) config: Config,
    pub(super) problems_of_file: Vec<Problem>,
    pub(super) problems_of_entries: BTreeMap<ElementKey, Vec<Problem>>,
}

impl Attempt {
    pub(super) fn is_valid(&self) -> bool {
        self.problems_of_file.is_empty() && self.problems_of_entries.is_empty()
    }

    /// Returns all problems, with their keys in the configuration.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let of_entries =
            self.problems_of_entries.into_iter().flat_map(|((kind, name), problems)| {
                let entry = part(kind).key().named(&name);
                problems
                    .into_iter()
                    .map(move |problem| Problem { key: entry.join(&problem.key), ..problem })
            });
        self.problems_of_file.into_iter().chain(of_entries).collect()
    }
}

impl<'j> Plan<'j> {
    /// Decides which entries have effect. The file is valid by itself, so its elements have names, which
    /// are unique.
    pub(super) fn new(json: &'j Value, entries: &Entries) -> Self {
        let mut plan = Self {
            json,
            slots: BTreeMap::new(),
            left_out: Vec::new(),
            absent: AbsentNames { had_keys: entries.keys_changed, ..AbsentNames::default() },
        };
        for kind in [EntryKind::Client, EntryKind::VirtualKey] {
            plan.add_file(kind);
        }
        for entry in &entries.entries {
            plan.add_entry(entry);
        }
        plan
    }

    fn add_file(&mut self, kind: EntryKind) {
        let elements = self.json.pointer(part(kind).pointer()).and_then(Value::as_array);
        for (index, value) in elements.into_iter().flatten().enumerate() {
            let Some(name) = value["name"].as_str() else { continue };
            if kind == EntryKind::VirtualKey {
                self.absent.file_keys.insert(name.to_owned());
            }
            let in_file = Some(InFile { index, digest: digest(value), value });
            self.slots.insert((kind, name.to_owned()), Slot { in_file, change: None });
        }
    }

    fn add_entry(&mut self, entry: &Entry) {
        if entry.kind == EntryKind::Client {
            self.absent.clients.extend(ClientName::parse(&entry.name).ok());
        }
        let key = (entry.kind, entry.name.clone());
        if let Some(in_file) = self.slots.get(&key).and_then(|slot| slot.in_file.as_ref()) {
            if entry.replaces != Some(in_file.digest) {
                return self.report(key, LeftOutReason::FileChanged);
            }
            if entry.kind == EntryKind::VirtualKey && in_file.value["is_active"] != false {
                self.absent.keys.insert(entry.name.clone());
            }
        } else if entry.document.is_none() {
            // The element that it removes is gone.
            return;
        }
        match entry.document.as_deref().map(|text| document(entry, text)) {
            None => self.change(key, Change::Removed),
            Some(Ok(document)) => self.change(key, Change::Document(document)),
            Some(Err(problems)) => self.withhold(key, problems),
        }
    }

    fn change(&mut self, key: ElementKey, change: Change) {
        let slot = self.slots.entry(key).or_insert(Slot { in_file: None, change: None });
        slot.change = Some(change);
    }

    fn report(&mut self, (kind, name): ElementKey, reason: LeftOutReason) {
        self.left_out.push(LeftOut { kind, name, reason });
    }

    /// Leaves an entry out that is not valid, and the element of the file in its place.
    fn withhold(&mut self, key: ElementKey, problems: Vec<Problem>) {
        self.change(key.clone(), Change::Removed);
        self.report(key, LeftOutReason::Invalid(problems));
    }

    /// Leaves entries out that are not valid.
    pub(super) fn leave_out(&mut self, invalid: BTreeMap<ElementKey, Vec<Problem>>) {
        for (key, problems) in invalid {
            self.withhold(key, problems);
        }
    }

    /// Returns whether any entry has effect.
    pub(super) fn changes_anything(&self) -> bool {
        let kinds = [EntryKind::Client, EntryKind::VirtualKey];
        self.absent.had_keys || kinds.into_iter().any(|kind| self.changes(kind))
    }

    fn changes(&self, kind: EntryKind) -> bool {
        self.slots.iter().any(|((of, _), slot)| *of == kind && slot.change.is_some())
    }

    /// Resolves the file with the entries that have effect. Fails only if the file is not valid by
    /// itself.
    pub(super) fn attempt(&self, place: Place<'_>, env: Env<'_>) -> Result<Attempt, Vec<Problem>> {
        let layouts = self.layouts();
        let Reading { value, problems, .. } = read::read::<File>(self.json);
        let mut file = value.ok_or(problems)?;
        let [clients, keys] = &layouts;
        place_elements(clients, &mut file.mcp.client_configs);
        place_elements(keys, &mut file.governance.virtual_keys);
        let (config, refused) = resolve::resolve(file, place, env, &self.absent);
        let mut attempt =
            Attempt { config, problems_of_file: Vec::new(), problems_of_entries: BTreeMap::new() };
        for refused in refused {
            match attribute(&layouts, refused) {
                Attributed::File(problem) => attempt.problems_of_file.push(problem),
                Attributed::Entry(kind, name, problem) => {
                    attempt.problems_of_entries.entry((kind, name)).or_default().push(problem);
                }
            }
        }
        Ok(attempt)
    }

    /// Returns the JSON of the file with the entries that have effect.
    pub(super) fn merged_json(&self) -> Value {
        let mut merged = self.json.clone();
        for layout in self.layouts() {
            if !self.changes(layout.kind) {
                continue;
            }
            let elements = Value::Array(layout.documents());
            json::set(&mut merged, part(layout.kind).key().segments(), elements);
        }
        merged
    }

    /// Returns what the merging has led to.
    pub(super) fn finish(self, config: Config) -> Merged {
        let elements = self.slots.into_iter().filter_map(|((kind, name), slot)| {
            let in_file = slot.in_file.as_ref();
            let value = match &slot.change {
                None => Some(in_file?.value.clone()),
                Some(Change::Removed) => None,
                Some(Change::Document(document)) => Some(document.clone()),
            };
            let in_file = in_file.map(|in_file| in_file.digest);
            let in_store = slot.change.is_some();
            // An entry that is not valid and stands in no place is no element.
            (in_file.is_some() || value.is_some()).then_some(Element {
                kind,
                name,
                in_file,
                in_store,
                value,
            })
        });
        let elements = elements.collect();
        let mut left_out = self.left_out;
        left_out.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
        Merged { config, elements, left_out }
    }

    fn layouts(&self) -> [Layout<'_>; 2] {
        [EntryKind::Client, EntryKind::VirtualKey].map(|kind| self.layout(kind))
    }

    fn layout(&self, kind: EntryKind) -> Layout<'_> {
        let mut layout = Layout { kind, kept: Vec::new(), added: Vec::new() };
        for ((_, name), slot) in self.slots.iter().filter(|((of, _), _)| *of == kind) {
            match (&slot.change, &slot.in_file) {
                (Some(Change::Document(document)), _) => layout.added.push((name, document)),
                (None, Some(in_file)) => layout.kept.push((in_file.index, in_file.value)),
                _ => {}
            }
        }
        layout.kept.sort_unstable_by_key(|(index, _)| *index);
        layout
    }
}

/// Replaces the elements of the file by those of the layout.
fn place_elements<T: DeserializeOwned>(layout: &Layout<'_>, elements: &mut Vec<T>) {
    layout.retain(elements);
    // Each was read before without a problem.
    let added = layout.added.iter().filter_map(|(_, document)| read::read_entry(document).ok());
    elements.extend(added);
}

/// Parses the document of an entry, and checks that it is one of its kind and name.
fn document(entry: &Entry, text: &str) -> Result<Value, Vec<Problem>> {
    let document = json::parse(text).map_err(|problem| vec![problem])?;
    match entry.kind {
        EntryKind::Client => read::read_entry::<file::Client>(&document).map(drop)?,
        EntryKind::VirtualKey => read::read_entry::<file::VirtualKey>(&document).map(drop)?,
    }
    if document["name"] != *entry.name {
        let message = format!("must be {:?}, the name of the entry", entry.name);
        return Err(vec![Problem { key: KeyPath::default().member("name"), message }]);
    }
    Ok(document)
}

/// Returns the digest of an element: SHA-256 of its JSON with sorted keys.
fn digest(element: &Value) -> [u8; 32] {
    let mut canonical = element.clone();
    canonical.sort_all_objects();
    Sha256::digest(canonical.to_string()).into()
}
