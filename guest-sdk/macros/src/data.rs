//! `#[data]`: a type that travels as JSON.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Nothing, Parser};
use syn::{Attribute, Data, DataEnum, DeriveInput, Error, Field, Fields, Ident, Meta};

use crate::field;

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    if let Err(error) = syn::parse2::<Nothing>(options) {
        return error.into_compile_error();
    }
    let mut input: DeriveInput = match syn::parse2(item) {
        Ok(input) => input,
        Err(error) => return error.into_compile_error(),
    };
    let functions = take_options(&mut input);
    let functions = functions.unwrap_or_else(Error::into_compile_error);
    let case = naming(&input).map(|case| quote!(#[serde(rename_all = #case)]));
    quote! {
        #[derive(
            ::airlock_guest::__private::serde::Serialize,
            ::airlock_guest::__private::serde::Deserialize,
            ::airlock_guest::__private::schemars::JsonSchema,
        )]
        #[serde(crate = "::airlock_guest::__private::serde")]
        #case
        #[schemars(crate = "::airlock_guest::__private::schemars")]
        #input
        #functions
    }
}

/// Replaces `#[data(…)]` on the fields by attributes of serde and schemars. Returns the functions
/// that these refer to.
fn take_options(input: &mut DeriveInput) -> syn::Result<TokenStream> {
    let owner = input.ident.clone();
    let is_generic = !input.generics.params.is_empty();
    let fields: Vec<&mut Field> = match &mut input.data {
        Data::Struct(data) => named(&mut data.fields).collect(),
        Data::Enum(data) => return refuse_options(data),
        Data::Union(data) => {
            return Err(Error::new_spanned(data.union_token, "data is a struct or an enum"));
        }
    };
    let mut functions = TokenStream::new();
    let mut errors: Option<Error> = None;
    // Every field, even after an error: an attribute that stays would be an error of its own.
    for field in fields {
        match replace_options(&owner, is_generic, field) {
            Ok(more) => functions.extend(more),
            Err(error) => match &mut errors {
                Some(errors) => errors.combine(error),
                None => errors = Some(error),
            },
        }
    }
    match errors {
        Some(errors) => Err(errors),
        None if functions.is_empty() => Ok(functions),
        None => Ok(quote!(impl #owner { #functions })),
    }
}

/// Replaces the options of one field. Returns their functions.
fn replace_options(owner: &Ident, is_generic: bool, field: &mut Field) -> syn::Result<TokenStream> {
    let of_parameter = field.attrs.extract_if(.., |attr| attr.path().is_ident("arg")).last();
    let options = field::take(&mut field.attrs, "data", &field.ty)?;
    if let Some(attr) = of_parameter {
        return Err(Error::new_spanned(
            attr,
            "`#[arg(…)]` is for the parameters of a tool: write the options of a field as `#[data(…)]`",
        ));
    }
    let Some(ident) = &field.ident else { return Ok(TokenStream::new()) };
    if is_generic && !options.is_empty() {
        return Err(Error::new_spanned(ident, "a field of a generic type has no options"));
    }
    let field::Rendered { attributes, functions } = options.render(owner, ident, &field.ty);
    field.attrs.extend(Attribute::parse_outer.parse2(attributes)?);
    Ok(functions)
}

/// Removes the options from the fields of variants, which cannot have any.
fn refuse_options(data: &mut DataEnum) -> syn::Result<TokenStream> {
    const REMEDY: &str =
        "the fields of a variant have no options: give the variant a struct of its own";
    let mut refused = None;
    for field in data.variants.iter_mut().flat_map(|variant| &mut variant.fields) {
        let options = field
            .attrs
            .extract_if(.., |attr| ["data", "arg"].iter().any(|name| attr.path().is_ident(name)));
        for attr in options {
            refused = Some(Error::new_spanned(attr, REMEDY));
        }
    }
    refused.map_or_else(|| Ok(TokenStream::new()), Err)
}

fn named(fields: &mut Fields) -> impl Iterator<Item = &mut Field> {
    let fields = match fields {
        Fields::Named(fields) => Some(fields.named.iter_mut()),
        Fields::Unnamed(_) | Fields::Unit => None,
    };
    fields.into_iter().flatten()
}

/// Returns the case of an enum's names: that of other JSON, unless the author has chosen one.
fn naming(input: &DeriveInput) -> Option<&'static str> {
    let is_chosen = input.attrs.iter().any(|attr| match &attr.meta {
        Meta::List(list) if list.path.is_ident("serde") => {
            let mut tokens = list.tokens.clone().into_iter();
            tokens.any(|token| token.to_string() == "rename_all")
        }
        _ => false,
    });
    (matches!(input.data, Data::Enum(_)) && !is_chosen).then_some("snake_case")
}
