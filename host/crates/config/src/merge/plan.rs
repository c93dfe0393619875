//! The decision which elements of the file and which entries have effect.

use std::collections::BTreeMap;

use airlock_store::entries::{Entries, Entry, EntryKind, UnreadableEntry};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    Element, LeftOut, LeftOutReason, Merged,
    kinds::{self, SETTINGS, SWITCH, part},
    layout::{Attributed, Layout, attribute},
};
use crate::{
    config::Config,
    place::Place,
    resolve::{self, AbsentNames},
};
use airlock_config_file::{
    environment::Env,
    error::Problem,
    file::{self, File},
    json,
    key_path::{KeyPath, segments},
    read::{self, Reading},
    refused::NamedPart,
};
use airlock_core::tool::ClientName;

/// Kind and name of an element.
type ElementKey = (EntryKind, String);

/// The elements of the file, and the entries in their places or beside them.
pub(super) struct Plan<'j> {
    json: &'j Value,
    slots: BTreeMap<ElementKey, NamedElement<'j>>,
    /// Credentials of virtual keys, by their names.
    values: BTreeMap<String, file::KeyValue>,
    left_out: Vec<LeftOut>,
    absent: AbsentNames,
}

/// The element of the file and the entry with one name.
struct NamedElement<'j> {
    in_file: Option<InFile<'j>>,
    change: Option<EntryEffect>,
}

struct InFile<'j> {
    index: usize,
    digest: [u8; 32],
    value: &'j Value,
}

/// Effect of an entry.
enum EntryEffect {
    /// The element of the file has no effect.
    Removed,
    /// This element has effect.
    Document(Value),
}

/// Outcome of one attempt to resolve the configuration.
pub(super) struct Attempt {
    pub(super) config: Config,
    problems_of_file: Vec<Problem>,
    /// Problems of elements of the file that are kept.
    problems_of_kept: BTreeMap<ElementKey, Vec<Problem>>,
    problems_of_entries: BTreeMap<ElementKey, Vec<Problem>>,
}

impl Attempt {
    pub(super) fn is_valid(&self) -> bool {
        self.problems_of_file.is_empty() && !self.has_invalid_elements()
    }

    /// Returns whether elements have problems: the rest may be valid without them.
    pub(super) fn has_invalid_elements(&self) -> bool {
        !self.problems_of_kept.is_empty() || !self.problems_of_entries.is_empty()
    }

    /// Returns all problems, with their keys in the configuration.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let of_elements = self.problems_of_kept.into_iter().chain(self.problems_of_entries);
        let of_elements = of_elements.flat_map(|((kind, name), problems)| {
            let part = part(kind).map(NamedPart::key).unwrap_or_default();
            let element = part.named(&name);
            problems
                .into_iter()
                .map(move |problem| Problem { key: element.join(&problem.key), ..problem })
        });
        self.problems_of_file.into_iter().chain(of_elements).collect()
    }
}

impl<'j> Plan<'j> {
    /// Decides which entries have effect. The file is valid by itself, so its elements have names, which
    /// are unique.
    pub(super) fn new(json: &'j Value, entries: &Entries) -> Self {
        let mut plan = Self {
            json,
            slots: BTreeMap::new(),
            values: BTreeMap::new(),
            left_out: Vec::new(),
            absent: AbsentNames { had_keys: entries.keys_changed, ..AbsentNames::default() },
        };
        for (kind, part) in kinds::parts() {
            plan.add_file(kind, part);
        }
        plan.add_file_settings();
        for entry in &entries.entries {
            plan.add_entry(entry);
        }
        for entry in &entries.unreadable {
            plan.add_unreadable(entry);
        }
        plan
    }

    fn add_file(&mut self, kind: EntryKind, part: NamedPart) {
        let elements = self.json.pointer(&part.pointer()).and_then(Value::as_array);
        for (index, value) in elements.into_iter().flatten().enumerate() {
            let Some(name) = value[part.name_member()].as_str() else { continue };
            if kind == EntryKind::VirtualKey {
                self.absent.file_keys.insert(name.to_owned());
            }
            let in_file = Some(InFile { index, digest: digest(value), value });
            self.slots.insert((kind, name.to_owned()), NamedElement { in_file, change: None });
        }
    }

    fn add_file_settings(&mut self) {
        for key in SETTINGS {
            let pointer = format!("/{}", key.replace('.', "/"));
            let Some(value) = self.json.pointer(&pointer) else { continue };
            let in_file = Some(InFile { index: 0, digest: digest(value), value });
            let key = (EntryKind::Setting, key.to_owned());
            self.slots.insert(key, NamedElement { in_file, change: None });
        }
    }

    fn add_entry(&mut self, entry: &Entry) {
        if entry.kind == EntryKind::KeyValue {
            return self.add_value(entry);
        }
        let key = (entry.kind, entry.name.clone());
        if !self.is_current(&key, entry.replaces) {
            return self.report(key, LeftOutReason::FileChanged);
        }
        if entry.document.is_none() && !self.slots.contains_key(&key) {
            // The element that it removes is gone.
            return;
        }
        match entry.kind {
            EntryKind::VirtualMcp => drop(self.absent.store_mcps.insert(entry.name.clone())),
            EntryKind::ModelConfig => {
                self.absent.store_model_configs.insert(entry.name.clone());
            }
            _ => {}
        }
        match entry.document.as_deref().map(|text| document(entry, text)) {
            None => self.change(key, EntryEffect::Removed),
            Some(Ok(document)) => self.change(key, EntryEffect::Document(document)),
            Some(Err(problems)) => self.withhold(key, LeftOutReason::Invalid(problems)),
        }
    }

    fn add_value(&mut self, entry: &Entry) {
        let Some(text) = entry.document.as_deref() else { return };
        match document(entry, text).and_then(|document| read::read_entry(&document)) {
            Ok(value) => drop(self.values.insert(entry.name.clone(), value)),
            Err(problems) => {
                let key = (entry.kind, entry.name.clone());
                self.report(key, LeftOutReason::Invalid(problems));
            }
        }
    }

    fn add_unreadable(&mut self, entry: &UnreadableEntry) {
        let key = (entry.kind, entry.name.clone());
        if self.is_current(&key, entry.replaces) {
            self.withhold(key, LeftOutReason::Unreadable(entry.reason));
        } else {
            self.report(key, LeftOutReason::FileChanged);
        }
    }

    /// Notes the names that an entry takes from the file, to which other elements of the file may refer.
    /// Returns false if the element of the file was changed after the entry was made.
    fn is_current(&mut self, key: &ElementKey, replaces: Option<[u8; 32]>) -> bool {
        let (kind, name) = key;
        if *kind == EntryKind::Client {
            self.absent.clients.extend(ClientName::parse(name).ok());
        }
        let Some(in_file) = self.slots.get(key).and_then(|slot| slot.in_file.as_ref()) else {
            return true;
        };
        if replaces != Some(in_file.digest) {
            return false;
        }
        self.absent.add(*kind, name, in_file.value);
        true
    }

    fn change(&mut self, key: ElementKey, change: EntryEffect) {
        let slot = self.slots.entry(key).or_insert(NamedElement { in_file: None, change: None });
        slot.change = Some(change);
    }

    fn report(&mut self, (kind, name): ElementKey, reason: LeftOutReason) {
        self.left_out.push(LeftOut { kind, name, reason });
    }

    /// Leaves an entry out that cannot be used, and the element of the file in its place. Of a setting, the
    /// value of the file has effect.
    fn withhold(&mut self, key: ElementKey, reason: LeftOutReason) {
        if key.0 != EntryKind::Setting || key.1 == SWITCH {
            self.change(key.clone(), EntryEffect::Removed);
        }
        self.report(key, reason);
    }

    /// Leaves entries out that are not valid. If all are, leaves elements of the file out that do not fit to
    /// them: the file is valid by itself.
    pub(super) fn leave_out(&mut self, attempt: Attempt) {
        let is_of_entries = !attempt.problems_of_entries.is_empty();
        let invalid =
            if is_of_entries { attempt.problems_of_entries } else { attempt.problems_of_kept };
        for (key, problems) in invalid {
            if !is_of_entries {
                self.note_absent(&key);
            }
            self.withhold(key, LeftOutReason::Invalid(problems));
        }
    }

    /// Notes the names of an element of the file that is left out, to which others may refer.
    fn note_absent(&mut self, key: &ElementKey) {
        let (kind, name) = key;
        if *kind == EntryKind::Client {
            self.absent.clients.extend(ClientName::parse(name).ok());
        }
        if let Some(in_file) = self.slots.get(key).and_then(|slot| slot.in_file.as_ref()) {
            self.absent.add(*kind, name, in_file.value);
        }
    }

    /// Returns whether any entry has effect.
    pub(super) fn changes_anything(&self) -> bool {
        self.absent.had_keys
            || !self.values.is_empty()
            || self.slots.values().any(|slot| slot.change.is_some())
    }

    fn changes(&self, kind: EntryKind) -> bool {
        self.slots.iter().any(|((of, _), slot)| *of == kind && slot.change.is_some())
    }

    /// Resolves the file with the entries that have effect. Fails only if the file is not valid by
    /// itself.
    pub(super) fn attempt(&self, place: Place<'_>, env: Env<'_>) -> Result<Attempt, Vec<Problem>> {
        let layouts = self.layouts();
        let mut json = self.json.clone();
        self.set_settings(&mut json);
        let Reading { value, problems, .. } = read::read::<File>(&json);
        let mut file = value.ok_or(problems)?;
        for layout in &layouts {
            kinds::place(layout, &mut file);
        }
        for key in &mut file.governance.virtual_keys {
            self.set_value(key);
        }
        let (config, refused) = resolve::resolve(file, place, env, &self.absent);
        let mut attempt = Attempt {
            config,
            problems_of_file: Vec::new(),
            problems_of_kept: BTreeMap::new(),
            problems_of_entries: BTreeMap::new(),
        };
        for refused in refused {
            match attribute(&layouts, refused) {
                Attributed::File(problem) => attempt.problems_of_file.push(problem),
                Attributed::Kept(kind, name, problem) => {
                    attempt.problems_of_kept.entry((kind, name)).or_default().push(problem);
                }
                Attributed::Entry(kind, name, problem) => {
                    attempt.problems_of_entries.entry((kind, name)).or_default().push(problem);
                }
            }
        }
        Ok(attempt)
    }

    /// Gives a key without a credential the one that was made for it.
    fn set_value(&self, key: &mut file::VirtualKey) {
        if key.value.is_some() || key.value_sha256.is_some() {
            return;
        }
        let Some(value) = self.values.get(&key.name).cloned() else { return };
        key.value_sha256 = Some(value.value_sha256);
        key.previous_value_sha256 = value.previous_value_sha256;
        key.previous_valid_until = value.previous_valid_until;
        key.id.get_or_insert(value.id);
    }

    /// Replaces the values of the file by those of entries. A switch that is not valid switches the tools off.
    fn set_settings(&self, json: &mut Value) {
        for key in SETTINGS {
            let slot = self.slots.get(&(EntryKind::Setting, key.to_owned()));
            let value = match slot.and_then(|slot| slot.change.as_ref()) {
                Some(EntryEffect::Document(value)) => value.clone(),
                Some(EntryEffect::Removed) if key == SWITCH => Value::Bool(true),
                Some(EntryEffect::Removed) | None => continue,
            };
            json::set(json, segments(&KeyPath::parse(key)), value);
        }
    }

    /// Returns the JSON of the file with the entries that have effect.
    pub(super) fn merged_json(&self) -> Value {
        let mut merged = self.json.clone();
        for layout in self.layouts() {
            if !self.changes(layout.kind) {
                continue;
            }
            let elements = Value::Array(layout.documents());
            json::set(&mut merged, segments(&layout.part.key()), elements);
        }
        self.set_settings(&mut merged);
        merged
    }

    /// Returns what the merging has led to.
    pub(super) fn finish(self, config: Config) -> Merged {
        let elements = self.slots.into_iter().filter_map(|((kind, name), slot)| {
            let in_file = slot.in_file.as_ref();
            let value = match &slot.change {
                None => Some(in_file?.value.clone()),
                Some(EntryEffect::Removed) => None,
                Some(EntryEffect::Document(document)) => Some(document.clone()),
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

    fn layouts(&self) -> Vec<Layout<'_>> {
        kinds::parts().map(|(kind, part)| self.layout(kind, part)).collect()
    }

    fn layout(&self, kind: EntryKind, part: NamedPart) -> Layout<'_> {
        let mut layout = Layout { kind, part, kept: Vec::new(), added: Vec::new() };
        for ((_, name), slot) in self.slots.iter().filter(|((of, _), _)| *of == kind) {
            match (&slot.change, &slot.in_file) {
                (Some(EntryEffect::Document(document)), _) => layout.added.push((name, document)),
                (None, Some(in_file)) => layout.kept.push((in_file.index, in_file.value)),
                _ => {}
            }
        }
        layout.kept.sort_unstable_by_key(|(index, _)| *index);
        layout
    }
}

impl AbsentNames {
    /// Notes that an entry takes the place of an element of the file.
    fn add(&mut self, kind: EntryKind, name: &str, in_file: &Value) {
        let name = name.to_owned();
        let id = in_file["id"].as_str().map(str::to_owned);
        if kind == EntryKind::VirtualKey {
            self.key_ids.extend([Some(name.clone()), id.clone()].into_iter().flatten());
        }
        match kind {
            EntryKind::VirtualKey if in_file["is_active"] != false => {
                self.keys.insert(name);
            }
            EntryKind::Role => drop(self.sets.roles.insert(name)),
            EntryKind::Environment => drop(self.sets.environments.insert(name)),
            EntryKind::Team => self.groups.teams.extend([Some(name), id].into_iter().flatten()),
            EntryKind::Customer => {
                self.groups.customers.extend([Some(name), id].into_iter().flatten());
            }
            _ => {}
        }
    }
}

/// Parses the document of an entry, and checks that it is one of its kind and name.
fn document(entry: &Entry, text: &str) -> Result<Value, Vec<Problem>> {
    let document = json::parse(text).map_err(|problem| vec![problem])?;
    kinds::check(entry.kind, &entry.name, &document)?;
    Ok(document)
}

/// Returns the digest of an element: SHA-256 of its JSON with sorted keys.
fn digest(element: &Value) -> [u8; 32] {
    let mut canonical = element.clone();
    canonical.sort_all_objects();
    Sha256::digest(canonical.to_string()).into()
}
