//! One item as lines: its head, its public fields, its variants, its methods.

use syn::{
    Attribute, Field, Fields, ImplItem, Item, ItemEnum, ItemImpl, ItemStruct, ItemTrait, TraitItem,
};

use super::{
    sources::{is_left_out, is_public},
    text::compact,
};

/// Returns the lines of an item with this public path. `cfg` is the condition of its modules.
pub(super) fn item(item: &Item, path: &str, cfg: &str) -> Vec<String> {
    match item {
        Item::Const(item) => {
            vec![format!("{path}: {}const {}", with(cfg, &item.attrs), compact(&item.ty))]
        }
        Item::Static(item) => {
            vec![format!("{path}: {}static {}", with(cfg, &item.attrs), compact(&item.ty))]
        }
        Item::Fn(item) => vec![format!("{path}: {}{}", with(cfg, &item.attrs), compact(&item.sig))],
        Item::Type(item) => {
            let cfg = with(cfg, &item.attrs);
            let generics = compact(&item.generics);
            vec![format!("{path}: {cfg}type{generics} = {}", compact(&item.ty))]
        }
        Item::Struct(item) => structure(item, path, cfg),
        Item::Enum(item) => enumeration(item, path, cfg),
        Item::Trait(item) => definition(item, path, cfg),
        _ => Vec::new(),
    }
}

fn structure(item: &ItemStruct, path: &str, cfg: &str) -> Vec<String> {
    let cfg = with(cfg, &item.attrs);
    let is_closed = item.fields.iter().any(|field| !is_public(&field.vis));
    let rest = if is_closed { " { private fields }" } else { "" };
    let head = compact(&item.generics) + &where_clause(&item.generics);
    let mut lines = vec![format!("{path}: {cfg}struct {}{head}{rest}", item.ident)];
    lines.extend(derives(&item.attrs).map(|derive| format!("{path}: {cfg}{derive}")));
    for (at, field) in item.fields.iter().enumerate().filter(|(_, field)| is_public(&field.vis)) {
        let name = field.ident.as_ref().map_or_else(|| at.to_string(), ToString::to_string);
        let cfg = with(&cfg, &field.attrs);
        lines.push(format!("{path}.{name}: {cfg}{}", compact(&field.ty)));
    }
    lines
}

fn enumeration(item: &ItemEnum, path: &str, cfg: &str) -> Vec<String> {
    let cfg = with(cfg, &item.attrs);
    let head = compact(&item.generics) + &where_clause(&item.generics);
    let mut lines = vec![format!("{path}: {cfg}enum {}{head}", item.ident)];
    lines.extend(derives(&item.attrs).map(|derive| format!("{path}: {cfg}{derive}")));
    for variant in &item.variants {
        let cfg = with(&cfg, &variant.attrs);
        let fields = fields(&variant.fields);
        lines.push(format!("{path}::{}: {cfg}{fields}", variant.ident));
    }
    lines
}

fn definition(item: &ItemTrait, path: &str, cfg: &str) -> Vec<String> {
    let cfg = with(cfg, &item.attrs);
    let above = compact(&item.supertraits);
    let colon = if above.is_empty() { "" } else { ": " };
    let head = compact(&item.generics) + colon + &above + &where_clause(&item.generics);
    let mut lines = vec![format!("{path}: {cfg}trait {}{head}", item.ident)];
    for part in &item.items {
        match part {
            TraitItem::Fn(function) if !is_left_out(&function.attrs) => {
                let body = if function.default.is_some() { " { provided }" } else { "" };
                let cfg = with(&cfg, &function.attrs);
                let name = &function.sig.ident;
                lines.push(format!("{path}::{name}: {cfg}{}{body}", compact(&function.sig)));
            }
            TraitItem::Type(kind) => {
                lines.push(format!("{path}::{}: {cfg}type: {}", kind.ident, compact(&kind.bounds)));
            }
            TraitItem::Const(constant) => {
                let kind = compact(&constant.ty);
                lines.push(format!("{path}::{}: {cfg}const {kind}", constant.ident));
            }
            _ => {}
        }
    }
    lines
}

/// Returns the lines of an implementation for the type with this public path.
pub(super) fn implementation(item: &ItemImpl, path: &str, cfg: &str) -> Vec<String> {
    let cfg = with(cfg, &item.attrs);
    let generics = compact(&item.generics);
    let conditions = where_clause(&item.generics);
    let own = compact(&item.self_ty);
    if let Some((implemented, _)) = &item.trait_ {
        let kinds = item.items.iter().filter_map(|part| match part {
            ImplItem::Type(kind) => Some(format!(", {} = {}", kind.ident, compact(&kind.ty))),
            _ => None,
        });
        let kinds: String = kinds.collect();
        let implemented = compact(implemented);
        return vec![format!(
            "{path}: {cfg}impl{generics} {implemented} for {own}{conditions}{kinds}"
        )];
    }
    // The methods of a type with parameters may exist for some of them only.
    let block = if own.contains('<') {
        format!("impl{generics} {own}{conditions}: ")
    } else {
        String::new()
    };
    let mut lines = Vec::new();
    for part in &item.items {
        match part {
            ImplItem::Fn(function) if is_public(&function.vis) && !is_left_out(&function.attrs) => {
                let cfg = with(&cfg, &function.attrs);
                let name = &function.sig.ident;
                lines.push(format!("{path}::{name}: {cfg}{block}{}", compact(&function.sig)));
            }
            ImplItem::Const(constant) if is_public(&constant.vis) => {
                let cfg = with(&cfg, &constant.attrs);
                let kind = compact(&constant.ty);
                lines.push(format!("{path}::{}: {cfg}{block}const {kind}", constant.ident));
            }
            _ => {}
        }
    }
    lines
}

/// Returns a condition with those of attributes, as text before an item.
pub(super) fn with(cfg: &str, attributes: &[Attribute]) -> String {
    let own = attributes.iter().filter(|attribute| attribute.path().is_ident("cfg"));
    let own = own.map(|attribute| format!("#[{}] ", compact(&attribute.meta)));
    own.fold(cfg.to_owned(), |all, one| all + &one)
}

/// Returns the derived traits, and the marks that say how a type may be used.
fn derives(attributes: &[Attribute]) -> impl Iterator<Item = String> {
    let marks = attributes.iter().filter(|attribute| {
        let path = attribute.path();
        path.is_ident("derive") || path.is_ident("non_exhaustive") || path.is_ident("repr")
    });
    marks.map(|attribute| format!("#[{}]", compact(&attribute.meta)))
}

fn where_clause(generics: &syn::Generics) -> String {
    let clause = generics.where_clause.as_ref().map(compact).unwrap_or_default();
    if clause.is_empty() { String::new() } else { format!(" {clause}") }
}

/// Returns the fields of a variant, without their attributes.
fn fields(fields: &Fields) -> String {
    match fields {
        Fields::Unit => "variant".to_owned(),
        Fields::Unnamed(unnamed) => format!("({})", joined(unnamed.unnamed.iter())),
        Fields::Named(named) => format!("{{ {} }}", joined(named.named.iter())),
    }
}

fn joined<'f>(fields: impl Iterator<Item = &'f Field>) -> String {
    let fields = fields.map(|field| match &field.ident {
        Some(name) => format!("{name}: {}", compact(&field.ty)),
        None => compact(&field.ty),
    });
    fields.collect::<Vec<_>>().join(", ")
}
