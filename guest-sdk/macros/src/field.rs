//! `default` and `range` of a parameter or a field: `#[arg(default = 20, range = 1..=100)]`.
//!
//! Both become attributes of serde and schemars, which refer to functions of the type that has the
//! field. So the schema has them, and parsing enforces them at any depth.

use proc_macro2::{Ident, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Expr, ExprRange, Lit, RangeLimits, Token, Type};

use crate::tokens::option;

/// Options of one field.
#[derive(Default)]
pub(crate) struct Options {
    default: Option<Default>,
    range: Option<ExprRange>,
}

enum Default {
    /// `default`: the default of the type.
    OfType,
    /// `default = …`.
    Value(Box<Expr>),
}

/// Attributes of a field, and the functions that they refer to.
pub(crate) struct Rendered {
    pub(crate) attributes: TokenStream,
    pub(crate) functions: TokenStream,
}

/// Removes the attributes of this name, and parses them.
pub(crate) fn take(attrs: &mut Vec<Attribute>, name: &str, ty: &Type) -> syn::Result<Options> {
    let mut options = Options::default();
    for attr in attrs.extract_if(.., |attr| attr.path().is_ident(name)) {
        attr.parse_nested_meta(|meta| parse(&meta, &mut options))?;
        if is_option(ty) && matches!(options.default, Some(Default::Value(_))) {
            return Err(Error::new_spanned(
                ty,
                "with a default it is never absent: write the type without `Option`",
            ));
        }
    }
    Ok(options)
}

fn parse(meta: &ParseNestedMeta<'_>, options: &mut Options) -> syn::Result<()> {
    if meta.path.is_ident("default") {
        refuse_twice(meta, options.default.is_some(), "default")?;
        options.default = Some(if meta.input.peek(Token![=]) {
            Default::Value(Box::new(meta.value()?.parse()?))
        } else {
            Default::OfType
        });
        Ok(())
    } else if meta.path.is_ident("range") {
        refuse_twice(meta, options.range.is_some(), "range")?;
        options.range = Some(parse_range(&meta.value()?.parse()?)?);
        Ok(())
    } else {
        Err(meta.error("unknown key; known are `default` and `range`"))
    }
}

fn refuse_twice(meta: &ParseNestedMeta<'_>, is_set: bool, key: &str) -> syn::Result<()> {
    if is_set { Err(meta.error(format_args!("`{key}` is given twice"))) } else { Ok(()) }
}

/// Accepts the ranges that a schema can express with `minimum` and `maximum`.
fn parse_range(expr: &Expr) -> syn::Result<ExprRange> {
    const FORM: &str = "a range is `1..=100`, `1..` or `..=100`";
    match expr {
        Expr::Range(range) if range.start.is_none() && range.end.is_none() => {
            Err(Error::new_spanned(expr, FORM))
        }
        Expr::Range(range)
            if range.end.is_none() || matches!(range.limits, RangeLimits::Closed(_)) =>
        {
            Ok(range.clone())
        }
        _ => Err(Error::new_spanned(expr, FORM)),
    }
}

impl Options {
    /// Returns true if the field has no options.
    pub(crate) fn is_empty(&self) -> bool {
        self.default.is_none() && self.range.is_none()
    }

    /// Renders the options of the field `ident` of the type `owner`.
    pub(crate) fn render(&self, owner: &Ident, ident: &Ident, ty: &Type) -> Rendered {
        let mut rendered =
            Rendered { attributes: TokenStream::new(), functions: TokenStream::new() };
        self.render_default(owner, ident, ty, &mut rendered);
        if let Some(range) = &self.range {
            render_range(range, owner, ident, ty, &mut rendered);
            // With `deserialize_with`, serde does not treat an absent `Option` as `None` by itself.
            if is_option(ty) && self.default.is_none() {
                rendered.attributes.extend(quote!(#[serde(default)]));
            }
        }
        rendered
    }

    fn render_default(&self, owner: &Ident, ident: &Ident, ty: &Type, rendered: &mut Rendered) {
        match &self.default {
            None => {}
            Some(Default::OfType) => rendered.attributes.extend(quote!(#[serde(default)])),
            Some(Default::Value(value)) => {
                let function = format_ident!("__default_{}", ident.unraw());
                let path = format!("{owner}::{function}");
                rendered.attributes.extend(quote!(#[serde(default = #path)]));
                // A literal text is a default of a `String`.
                let value = match &**value {
                    Expr::Lit(literal) if matches!(literal.lit, Lit::Str(_)) => {
                        quote_spanned!(value.span()=> ::core::convert::From::from(#value))
                    }
                    value => quote!(#value),
                };
                rendered.functions.extend(quote! {
                    #[doc(hidden)]
                    fn #function() -> #ty {
                        #value
                    }
                });
            }
        }
    }
}

fn render_range(
    range: &ExprRange,
    owner: &Ident,
    ident: &Ident,
    ty: &Type,
    rendered: &mut Rendered,
) {
    let function = format_ident!("__range_{}", ident.unraw());
    let path = format!("{owner}::{function}");
    let start = &range.start;
    let end = &range.end;
    let min = start.iter().map(|start| quote!(min = #start));
    let max = end.iter().map(|end| quote!(max = #end));
    let bounds = min.chain(max);
    rendered.attributes.extend(quote! {
        #[serde(deserialize_with = #path)]
        #[schemars(range(#(#bounds),*))]
    });
    let min = option(start.as_ref());
    let max = option(end.as_ref());
    let check = quote_spanned! {range.span()=>
        ::airlock_guest::__private::in_range(__value, #min, #max)
            .map_err(<__D::Error as ::airlock_guest::__private::serde::de::Error>::custom)?;
    };
    let check = if is_option(ty) {
        quote!(if let ::core::option::Option::Some(__value) = &__parsed { #check })
    } else {
        quote!({ let __value = &__parsed; #check })
    };
    rendered.functions.extend(quote! {
        #[doc(hidden)]
        fn #function<'de, __D>(__deserializer: __D) -> ::core::result::Result<#ty, __D::Error>
        where
            __D: ::airlock_guest::__private::serde::Deserializer<'de>,
        {
            let __parsed: #ty =
                ::airlock_guest::__private::serde::Deserialize::deserialize(__deserializer)?;
            #check
            ::core::result::Result::Ok(__parsed)
        }
    });
}

fn is_option(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => {
            path.path.segments.last().is_some_and(|segment| segment.ident == "Option")
        }
        Type::Group(group) => is_option(&group.elem),
        _ => false,
    }
}
