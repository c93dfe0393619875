//! Definitions of the macros of `airlock-strings`, as they would be written without them.

use syn::{
    Attribute, Ident, Index, Item, ItemEnum, ItemImpl, Token, Variant, Visibility, braced,
    parse::{Parse, ParseStream},
    parse_quote,
};

/// The enum of `named_enum!`.
struct NamedEnum {
    attributes: Vec<Attribute>,
    visibility: Visibility,
    name: Ident,
    /// The method that returns the text of a value.
    method: Ident,
    values: Vec<Variant>,
}

impl Parse for NamedEnum {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let attributes = input.call(Attribute::parse_outer)?;
        let visibility = input.parse()?;
        input.parse::<Token![enum]>()?;
        let name = input.parse()?;
        let method = match input.parse::<Option<Token![as]>>()? {
            Some(_) => input.parse()?,
            None => parse_quote!(name),
        };
        let content;
        braced!(content in input);
        let mut values = Vec::new();
        for mut value in content.parse_terminated(Variant::parse, Token![,])? {
            value.discriminant = None;
            values.push(value);
        }
        Ok(Self { attributes, visibility, name, method, values })
    }
}

/// Returns the items that a macro defines; any other item as it is.
pub(super) fn expanded(item: Item) -> Vec<Item> {
    let Item::Macro(found) = &item else { return vec![item] };
    let called = found.mac.path.segments.last().map(|segment| segment.ident.to_string());
    match called.as_deref() {
        Some("named_enum") => {
            let parsed: NamedEnum =
                found.mac.parse_body().expect("an enum whose values have texts");
            let NamedEnum { attributes, visibility, name, method, values } = parsed;
            let count = Index::from(values.len());
            let defined: ItemEnum =
                parse_quote! { #(#attributes)* #visibility enum #name { #(#values),* } };
            let texts: ItemImpl = parse_quote! {
                impl #name {
                    #visibility const ALL: [Self; #count] = [];
                    #visibility const fn #method(self) -> &'static str { "" }
                }
            };
            vec![Item::Enum(defined), Item::Impl(texts)]
        }
        Some("debug_fields") => {
            let shown = found.mac.tokens.clone().into_iter().next().expect("a type");
            let shown: ItemImpl = parse_quote! { impl fmt::Debug for #shown {} };
            vec![Item::Impl(shown)]
        }
        _ => vec![item],
    }
}
