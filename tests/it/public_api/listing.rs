//! The items that can be named from outside. Each is listed whole under the first name that it has, and by that name under
//! the others.

use std::collections::BTreeMap;

use syn::{Item, ItemImpl, Type};

use super::{
    lines::{self, with},
    sources::{
        Import, Module, Named, Place, Sources, imports, is_public, is_public_item, item_name,
    },
};

/// The position of an item: its module, and its name there.
type ItemPlace = (Place, String);

/// The lines of the items that were found so far.
pub(super) struct Listing<'s> {
    sources: &'s Sources,
    /// Implementations, by their type.
    implementations: BTreeMap<ItemPlace, Vec<&'s ItemImpl>>,
    /// Public paths of the items and modules that are listed.
    items: BTreeMap<ItemPlace, String>,
    modules: BTreeMap<Place, String>,
    lines: Vec<String>,
}

impl<'s> Listing<'s> {
    /// Returns the lines of a crate, sorted.
    pub(super) fn lines(sources: &'s Sources, name: &str) -> Vec<String> {
        let mut listing = Self {
            sources,
            implementations: implementations(sources),
            items: BTreeMap::new(),
            modules: BTreeMap::new(),
            lines: Vec::new(),
        };
        listing.add_module(&Place::root(name), name, "");
        listing.lines.sort();
        listing.lines.dedup();
        listing.lines
    }

    fn add_module(&mut self, place: &Place, path: &str, cfg: &str) {
        let sources = self.sources;
        let Some(module) = sources.module(place) else { return };
        if let Some(first) = self.modules.get(place) {
            self.lines.push(format!("{path} = {first}"));
            return;
        }
        self.modules.insert(place.clone(), path.to_owned());
        for item in &module.items {
            match item {
                Item::Mod(child) if is_public(&child.vis) => {
                    let name = child.ident.to_string();
                    let cfg = with(cfg, &child.attrs);
                    self.add_module(&place.child(&name), &format!("{path}::{name}"), &cfg);
                }
                Item::Use(import) if is_public(&import.vis) => {
                    let cfg = with(cfg, &import.attrs);
                    for import in imports(&import.tree) {
                        self.add_import(place, &import, path, &cfg);
                    }
                }
                item if is_public_item(item) => {
                    if let Some(name) = item_name(item) {
                        self.add_item(place, &name, &format!("{path}::{name}"), cfg);
                    }
                }
                _ => {}
            }
        }
    }

    fn add_import(&mut self, place: &Place, import: &Import, path: &str, cfg: &str) {
        let shown = format!("{path}::{}", import.name);
        match self.sources.resolve(place, &import.path) {
            Some(Named::Module(module)) => self.add_module(&module, &shown, cfg),
            Some(Named::Item(module, name)) => self.add_item(&module, &name, &shown, cfg),
            // Of another package, or made by a macro.
            None => self.lines.push(format!("{shown} = {cfg}{}", import.path.join("::"))),
        }
    }

    fn add_item(&mut self, place: &Place, name: &str, path: &str, cfg: &str) {
        let key = (place.clone(), name.to_owned());
        if let Some(first) = self.items.get(&key) {
            if first != path {
                self.lines.push(format!("{path} = {first}"));
            }
            return;
        }
        let module: Option<&'s Module> = self.sources.module(place);
        let items = module.into_iter().flat_map(|module| &module.items);
        for item in items.filter(|item| item_name(item).as_deref() == Some(name)) {
            self.lines.extend(lines::item(item, path, cfg));
        }
        for implementation in self.implementations.get(&key).into_iter().flatten() {
            self.lines.extend(lines::implementation(implementation, path, cfg));
        }
        self.items.insert(key, path.to_owned());
    }
}

/// Returns the implementations of all modules, by the items that they are for.
fn implementations(sources: &Sources) -> BTreeMap<ItemPlace, Vec<&ItemImpl>> {
    let mut found: BTreeMap<ItemPlace, Vec<&ItemImpl>> = BTreeMap::new();
    for (place, module) in sources.modules() {
        for item in &module.items {
            if let Item::Impl(implementation) = item
                && is_visible(sources, &place, implementation)
                && let Some(Named::Item(module, name)) =
                    self_path(implementation).and_then(|path| sources.resolve(&place, &path))
            {
                found.entry((module, name)).or_default().push(implementation);
            }
        }
    }
    found
}

/// Returns the path of the type that an implementation is for.
fn self_path(implementation: &ItemImpl) -> Option<Vec<String>> {
    let Type::Path(own) = &*implementation.self_ty else { return None };
    Some(segments(&own.path))
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}

/// Returns whether an implementation is of methods, of a public trait, or of one of another package.
fn is_visible(sources: &Sources, place: &Place, implementation: &ItemImpl) -> bool {
    let Some((implemented, _)) = &implementation.trait_ else { return true };
    let Some(Named::Item(module, name)) = sources.resolve(place, &segments(implemented)) else {
        return true;
    };
    let module = sources.module(&module).into_iter().flat_map(|module| &module.items);
    let mut traits = module.filter(|item| item_name(item).as_deref() == Some(name.as_str()));
    traits.any(is_public_item)
}
