//! The modules of the crates, as they are written. Tests and modules at other paths are left out.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use airlock_tests::root;
use syn::{Attribute, Ident, Item, Meta, UseTree, Visibility};

use super::{macros::expanded, text::compact};

/// Start of the names of the crates below `host/crates`.
const OURS: &str = "airlock_";
/// Most imports that a path is followed through. Imports can form a circle.
const MAX_IMPORTS: u8 = 16;

/// A module with those in it.
pub(super) struct Module {
    pub(super) items: Vec<Item>,
    modules: BTreeMap<String, Module>,
}

/// The crates that can be reached by public re-exports.
pub(super) struct Sources {
    crates: BTreeMap<String, Module>,
}

/// Position of a module.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) modules: Vec<String>,
}

/// The module or item that a path names.
pub(super) enum Named {
    Module(Place),
    Item(Place, String),
}

/// A name that an import brings into its module.
pub(super) struct Import {
    /// The path of what is imported; for `*`, that of the module.
    pub(super) path: Vec<String>,
    /// The name in the module; `*` for all names.
    pub(super) name: String,
}

impl Place {
    pub(super) fn root(name: &str) -> Self {
        Self { name: name.to_owned(), modules: Vec::new() }
    }

    pub(super) fn child(&self, module: &str) -> Self {
        let mut child = self.clone();
        child.modules.push(module.to_owned());
        child
    }

    fn parent(&self) -> Option<Self> {
        let (_, above) = self.modules.split_last()?;
        Some(Self { name: self.name.clone(), modules: above.to_vec() })
    }
}

impl Module {
    /// Reads a file. `below` is the directory with the files of its modules.
    fn read(file: &Path, below: &Path) -> Self {
        let text = fs::read_to_string(file)
            .unwrap_or_else(|error| panic!("cannot read {}: {error}", file.display()));
        let parsed = syn::parse_file(&text)
            .unwrap_or_else(|error| panic!("cannot parse {}: {error}", file.display()));
        Self::new(parsed.items, below)
    }

    fn new(parsed: Vec<Item>, below: &Path) -> Self {
        let mut items = Vec::new();
        let mut modules = BTreeMap::new();
        for mut item in parsed.into_iter().flat_map(expanded) {
            if is_left_out(attributes(&item)) {
                continue;
            }
            if let Item::Mod(module) = &mut item {
                let name = module.ident.to_string();
                let below = below.join(&name);
                let child = match module.content.take() {
                    Some((_, items)) => Self::new(items, &below),
                    None => Self::read(&below.with_extension("rs"), &below),
                };
                modules.insert(name, child);
            }
            items.push(item);
        }
        Self { items, modules }
    }

    /// Adds the crates that the module and those in it re-export from.
    fn add_crates(&self, crates: &mut Vec<String>) {
        for item in &self.items {
            if let Item::Use(import) = item
                && is_public(&import.vis)
            {
                let paths = imports(&import.tree).into_iter();
                crates.extend(paths.filter_map(|import| import.path.into_iter().next()));
            }
        }
        self.modules.values().for_each(|module| module.add_crates(crates));
    }
}

impl Sources {
    /// Reads a crate, and those that it re-exports from.
    pub(super) fn read(name: &str) -> Self {
        let mut crates = BTreeMap::new();
        let mut wanted = vec![name.to_owned()];
        while let Some(name) = wanted.pop() {
            let Some(directory) = directory(&name) else { continue };
            if crates.contains_key(&name) {
                continue;
            }
            let module = Module::read(&directory.join("lib.rs"), &directory);
            module.add_crates(&mut wanted);
            crates.insert(name, module);
        }
        Self { crates }
    }

    pub(super) fn module(&self, place: &Place) -> Option<&Module> {
        let root = self.crates.get(&place.name)?;
        place.modules.iter().try_fold(root, |module, name| module.modules.get(name))
    }

    /// Returns all modules with their places.
    pub(super) fn modules(&self) -> Vec<(Place, &Module)> {
        let roots = self.crates.iter().map(|(name, module)| (Place::root(name), module));
        let mut open: Vec<_> = roots.collect();
        let mut modules = Vec::new();
        while let Some((place, module)) = open.pop() {
            open.extend(module.modules.iter().map(|(name, child)| (place.child(name), child)));
            modules.push((place, module));
        }
        modules
    }

    /// Follows a path that is written in a module; `None` if it leaves the crates.
    pub(super) fn resolve(&self, from: &Place, path: &[String]) -> Option<Named> {
        self.follow(from, path, MAX_IMPORTS)
    }

    fn follow(&self, from: &Place, path: &[String], imports_left: u8) -> Option<Named> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.descend(Place::root(&from.name), rest, imports_left),
            "self" => self.descend(from.clone(), rest, imports_left),
            "super" if rest.first().is_some_and(|next| next == "super") => {
                self.follow(&from.parent()?, rest, imports_left)
            }
            "super" => self.descend(from.parent()?, rest, imports_left),
            name if self.crates.contains_key(name) => {
                self.descend(Place::root(name), rest, imports_left)
            }
            _ => self.descend(from.clone(), path, imports_left),
        }
    }

    /// Follows a path from a module down.
    fn descend(&self, place: Place, path: &[String], imports_left: u8) -> Option<Named> {
        let Some((first, rest)) = path.split_first() else { return Some(Named::Module(place)) };
        let module = self.module(&place)?;
        if module.modules.contains_key(first) {
            return self.descend(place.child(first), rest, imports_left);
        }
        if module.items.iter().any(|item| item_name(item).as_ref() == Some(first)) {
            // What follows is a variant or an associated item.
            return rest.is_empty().then(|| Named::Item(place, first.clone()));
        }
        let imports_left = imports_left.checked_sub(1)?;
        module.items.iter().find_map(|item| {
            let Item::Use(import) = item else { return None };
            imports(&import.tree).into_iter().find_map(|import| {
                let mut path = import.path;
                match import.name.as_str() {
                    "*" => path.push(first.clone()),
                    name if name == first => {}
                    _ => return None,
                }
                path.extend_from_slice(rest);
                self.follow(&place, &path, imports_left)
            })
        })
    }
}

/// Returns the directory of the sources of a crate; `None` for one that is not of this repository.
fn directory(name: &str) -> Option<PathBuf> {
    let host = root().join("host");
    let directory = match name.strip_prefix(OURS) {
        Some(ours) => host.join("crates").join(ours.replace('_', "-")).join("src"),
        None if name == "airlock" => host.join("src"),
        None => return None,
    };
    directory.join("lib.rs").exists().then_some(directory)
}

/// Returns the names that an import brings into its module.
pub(super) fn imports(tree: &UseTree) -> Vec<Import> {
    let mut found = Vec::new();
    add_imports(tree, &[], &mut found);
    found
}

fn add_imports(tree: &UseTree, above: &[String], found: &mut Vec<Import>) {
    match tree {
        UseTree::Path(path) => add_imports(&path.tree, &path_to(above, &path.ident), found),
        UseTree::Name(name) if name.ident == "self" => {
            let name = above.last().cloned().unwrap_or_default();
            found.push(Import { path: above.to_vec(), name });
        }
        UseTree::Name(name) => {
            found.push(Import { path: path_to(above, &name.ident), name: name.ident.to_string() });
        }
        UseTree::Rename(renamed) => {
            let path = if renamed.ident == "self" {
                above.to_vec()
            } else {
                path_to(above, &renamed.ident)
            };
            found.push(Import { path, name: renamed.rename.to_string() });
        }
        UseTree::Glob(_) => found.push(Import { path: above.to_vec(), name: "*".to_owned() }),
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| add_imports(tree, above, found));
        }
    }
}

fn path_to(above: &[String], last: &Ident) -> Vec<String> {
    let mut path = above.to_vec();
    path.push(last.to_string());
    path
}

/// Returns the name of an item that can be re-exported; `None` for a module and an import.
pub(super) fn item_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

/// Returns whether an item can be named from outside of its module.
pub(super) fn is_public_item(item: &Item) -> bool {
    let visibility = match item {
        Item::Const(item) => &item.vis,
        Item::Enum(item) => &item.vis,
        Item::Fn(item) => &item.vis,
        Item::Static(item) => &item.vis,
        Item::Struct(item) => &item.vis,
        Item::Trait(item) => &item.vis,
        Item::Type(item) => &item.vis,
        _ => return false,
    };
    is_public(visibility)
}

pub(super) fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

pub(super) fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Returns whether an item is one of tests, is hidden from the documentation, or is a module at another path.
pub(super) fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        let Meta::List(list) = &attribute.meta else { return path.is_ident("path") };
        let arguments = compact(&list.tokens);
        let is_test = arguments == "test" || arguments.starts_with("all(test");
        (path.is_ident("cfg") && is_test) || (path.is_ident("doc") && arguments == "hidden")
    })
}
