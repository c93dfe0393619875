//! `#[tool(…)]`: keeps the function and adds a type of the same name that implements `Tool`.

mod options;
mod signature;

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Item, ItemFn};

use crate::field;
use crate::tokens::option;
use options::Options;
use signature::{Input, ReturnForm, Signature};

pub(crate) fn expand(options: TokenStream, item: TokenStream) -> TokenStream {
    let mut function = match parse_function(item) {
        Ok(function) => function,
        Err(error) => return error.into_compile_error(),
    };
    let tool = parse_tool(options, &mut function);
    let tool = match tool {
        Ok((options, signature)) => render(&options, &signature, &function),
        Err(error) => {
            let errors = error.into_compile_error();
            let stub = render_stub(&function);
            quote!(#errors #stub)
        }
    };
    quote! {
        // A tool owns its arguments even if it only reads them, and has as many as its callers
        // need.
        #[allow(clippy::needless_pass_by_value, clippy::too_many_arguments)]
        #function
        #tool
    }
}

fn parse_function(item: TokenStream) -> syn::Result<ItemFn> {
    match syn::parse2(item)? {
        Item::Fn(function) => Ok(function),
        other => {
            Err(Error::new_spanned(first_token(&other), "a tool is a function: `#[tool] fn …`"))
        }
    }
}

/// Returns the keyword of an item. An error on the whole item would underline many lines.
fn first_token(item: &Item) -> TokenStream {
    let tokens = item.to_token_stream().into_iter();
    let own = tokens.skip_while(|token| {
        matches!(token, proc_macro2::TokenTree::Punct(_) | proc_macro2::TokenTree::Group(_))
    });
    own.take(1).collect()
}

/// Parses both parts before it fails, so that one build reports every mistake.
fn parse_tool(options: TokenStream, function: &mut ItemFn) -> syn::Result<(Options, Signature)> {
    let options = options::parse(options, &function.sig.ident);
    let signature = signature::parse(function);
    match (options, signature) {
        (Ok(options), Ok(signature)) => Ok((options, signature)),
        (Err(mut error), Err(more)) => {
            error.combine(more);
            Err(error)
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// Renders a type in place of that of a refused tool, so that `plugin!` does not add an error of
/// its own for each. A method has none: an `impl` cannot contain a type.
fn render_stub(function: &ItemFn) -> TokenStream {
    let vis = &function.vis;
    let ident = &function.sig.ident;
    if function.sig.receiver().is_some() {
        return TokenStream::new();
    }
    let name = ident.to_string();
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types, dead_code)]
        #vis enum #ident {}

        impl ::airlock_guest::Tool for #ident {
            const NAME: &'static str = #name;

            fn descriptor() -> ::airlock_guest::Descriptor {
                ::core::unreachable!()
            }

            fn invoke(
                _: &str,
                _: &::airlock_guest::Context<'_>,
            ) -> ::core::result::Result<::airlock_guest::Output, ::airlock_guest::Error> {
                ::core::unreachable!()
            }
        }
    }
}

fn render(options: &Options, signature: &Signature, function: &ItemFn) -> TokenStream {
    let vis = &function.vis;
    let ident = &function.sig.ident;
    let name = &options.name;
    let title = option(options.title.as_ref());
    let annotations = options.annotations();
    let docs = &signature.docs;
    let owner = Ident::new("__Arguments", Span::call_site());
    let (fields, functions): (Vec<_>, Vec<_>) = signature
        .arguments()
        .map(|argument| {
            let signature::Argument { attrs, options, ident, ty } = argument;
            let field::Rendered { attributes, functions } = options.render(&owner, ident, ty);
            (quote!(#(#attrs)* #attributes #ident: #ty), functions)
        })
        .unzip();
    let checks = signature.arguments().filter_map(render_check);
    let inputs = signature.inputs.iter().map(|input| match input {
        Input::Argument(argument) => {
            let ident = &argument.ident;
            quote!(__arguments.#ident)
        }
        Input::Context => quote!(__context),
    });
    let call = quote!(#ident(#(#inputs),*));
    let (schema, output) = render_answer(&signature.answer, &call);
    quote! {
        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #vis enum #ident {}

        const _: () = {
            // Before the derived implementations, whose errors name crates that a plugin does not use.
            #(#checks)*

            #[derive(
                ::airlock_guest::__private::serde::Deserialize,
                ::airlock_guest::__private::schemars::JsonSchema,
            )]
            #[serde(crate = "::airlock_guest::__private::serde", deny_unknown_fields)]
            #[schemars(crate = "::airlock_guest::__private::schemars")]
            struct __Arguments {
                #(#fields,)*
            }

            impl __Arguments {
                #(#functions)*
            }

            impl ::airlock_guest::Tool for #ident {
                const NAME: &'static str = #name;

                fn descriptor() -> ::airlock_guest::Descriptor {
                    ::airlock_guest::__private::descriptor::<__Arguments>(
                        Self::NAME,
                        #title,
                        ::core::concat!(#(#docs, "\n"),*),
                        #annotations,
                        #schema,
                    )
                }

                fn invoke(
                    __arguments: &str,
                    __context: &::airlock_guest::Context<'_>,
                ) -> ::core::result::Result<::airlock_guest::Output, ::airlock_guest::Error> {
                    #[allow(unused_variables)] // a tool without arguments
                    let __arguments = ::airlock_guest::__private::parse::<__Arguments>(__arguments)?;
                    #output
                }
            }
        };
    }
}

/// Renders the check of an argument's type, with the span of the type. `None` for an argument with
/// attributes of serde or schemars, which may replace what the type implements.
fn render_check(argument: &signature::Argument) -> Option<TokenStream> {
    let signature::Argument { attrs, ty, .. } = argument;
    attrs.iter().all(|attr| attr.path().is_ident("doc")).then(|| {
        quote_spanned!(ty.span()=> const _: fn() = ::airlock_guest::__private::is_argument::<#ty>;)
    })
}

/// Renders the expression for the output schema, and the one that runs the function. Both have the
/// span of the return type.
fn render_answer(answer: &ReturnForm, call: &TokenStream) -> (TokenStream, TokenStream) {
    match answer {
        ReturnForm::Value(ty) => (
            quote_spanned!(ty.span()=> <#ty as ::airlock_guest::IntoOutput>::schema()),
            quote_spanned!(ty.span()=> <#ty as ::airlock_guest::IntoOutput>::into_output(#call)),
        ),
        ReturnForm::Result(ty) => (
            quote_spanned!(ty.span()=> <#ty as ::airlock_guest::__private::Fallible>::schema()),
            quote_spanned!(ty.span()=> <#ty as ::airlock_guest::__private::Fallible>::into_output(#call)),
        ),
    }
}
