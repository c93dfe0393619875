//! The options in the parentheses of `#[tool(…)]`.

use proc_macro2::{Ident, Span, TokenStream};
use quote::quote;
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::parse::Parser;
use syn::{Error, LitBool, LitStr, Token};

use crate::tokens::option;

/// Longest name of a tool that model providers accept, in characters.
const NAME_MAX: usize = 64;

pub(super) struct Options {
    pub(super) name: String,
    pub(super) title: Option<LitStr>,
    hints: [Option<bool>; 4],
}

/// Keys of the hints, in the order of the fields of `Annotations`.
const HINTS: [&str; 4] = ["read_only", "destructive", "idempotent", "open_world"];
const READ_ONLY: usize = 0;
const DESTRUCTIVE: usize = 1;

pub(super) fn parse(options: TokenStream, function: &Ident) -> syn::Result<Options> {
    let mut seen: Vec<String> = Vec::new();
    let mut name: Option<LitStr> = None;
    let mut title = None;
    let mut hints = [None; 4];
    let parser = syn::meta::parser(|meta| {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        if seen.contains(&key) {
            return Err(meta.error(format_args!("`{key}` is given twice")));
        }
        match key.as_str() {
            "name" => name = Some(meta.value()?.parse()?),
            "title" => title = Some(meta.value()?.parse()?),
            _ => match HINTS.iter().position(|hint| *hint == key) {
                Some(hint) => hints[hint] = Some(flag(&meta)?),
                None => return Err(meta.error(UNKNOWN_KEY)),
            },
        }
        if hints[READ_ONLY] == Some(true) && hints[DESTRUCTIVE] == Some(true) {
            return Err(meta.error("a tool that is `read_only` cannot be `destructive`"));
        }
        seen.push(key);
        Ok(())
    });
    parser.parse2(options)?;
    let (name, span) = match name {
        Some(name) => (name.value(), name.span()),
        None => (function.unraw().to_string(), function.span()),
    };
    check_name(&name, span)?;
    Ok(Options { name, title, hints })
}

const UNKNOWN_KEY: &str = "unknown key; known are `name`, `title`, `read_only`, `destructive`, `idempotent` and `open_world`";

/// Parses `key`, `key = true` or `key = false`.
fn flag(meta: &ParseNestedMeta) -> syn::Result<bool> {
    if meta.input.peek(Token![=]) { Ok(meta.value()?.parse::<LitBool>()?.value) } else { Ok(true) }
}

fn check_name(name: &str, span: Span) -> syn::Result<()> {
    if name.is_empty() {
        return Err(Error::new(span, "a tool's name is not empty"));
    }
    if let Some(bad) = name.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))
    {
        return Err(Error::new(
            span,
            format_args!(
                "a tool's name has letters a to z and A to Z, digits, `_` and `-` only, not {bad:?}"
            ),
        ));
    }
    if name.len() > NAME_MAX {
        return Err(Error::new(
            span,
            format_args!(
                "a tool's name has at most {NAME_MAX} characters; this one has {}",
                name.len()
            ),
        ));
    }
    Ok(())
}

impl Options {
    pub(super) fn annotations(&self) -> TokenStream {
        let fields = HINTS.map(|hint| Ident::new(hint, Span::call_site()));
        let values = self.hints.map(|hint| option(hint.as_ref()));
        quote!(::airlock_guest::Annotations {
            #(#fields: #values,)*
            ..::core::default::Default::default()
        })
    }
}
