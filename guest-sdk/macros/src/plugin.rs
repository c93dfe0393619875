//! `plugin!(…)`: the table of a plugin's tools, its manifest and, on WebAssembly, its exports.

use std::collections::HashSet;
use std::env;
use std::path::Path as FilePath;

use proc_macro2::{Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Path, Token};

pub(crate) fn expand(tools: TokenStream) -> TokenStream {
    let tools = parse(tools).map_or_else(Error::into_compile_error, |tools| render(&tools));
    let manifest = embedded().map_err(|message| Error::new(Span::call_site(), message));
    let manifest = manifest.unwrap_or_else(Error::into_compile_error);
    quote!(#tools #manifest)
}

fn parse(tools: TokenStream) -> syn::Result<Vec<Path>> {
    let tools = Punctuated::<Path, Token![,]>::parse_terminated.parse2(tools)?;
    if tools.is_empty() {
        return Err(Error::new(
            Span::call_site(),
            "a plugin has at least one tool: `plugin!(my_tool);`",
        ));
    }
    let mut seen = HashSet::new();
    for tool in &tools {
        let path = tool.to_token_stream().to_string();
        if !seen.insert(path) {
            return Err(Error::new_spanned(tool, "this tool is listed twice"));
        }
    }
    Ok(tools.into_iter().collect())
}

fn render(tools: &[Path]) -> TokenStream {
    let entries = tools.iter().map(|tool| {
        // The tool's span, so that the compiler reports a path that is no tool at its place.
        quote_spanned!(tool.span()=> ::airlock_guest::__private::Entry::of::<#tool>())
    });
    // Different paths can still have the same name, by `name = "…"` or in two modules.
    let distinct = tools.iter().enumerate().skip(1).map(|(position, tool)| {
        quote_spanned! {tool.span()=>
            const _: () = ::core::assert!(
                ::airlock_guest::__private::is_first_of_its_name(
                    <__AirlockPlugin as ::airlock_guest::__private::Plugin>::TOOLS,
                    #position,
                ),
                "another tool of this plugin has the same name",
            );
        }
    });
    quote! {
        #[doc(hidden)]
        struct __AirlockPlugin;

        impl ::airlock_guest::__private::Plugin for __AirlockPlugin {
            const TOOLS: &'static [::airlock_guest::__private::Entry] = &[#(#entries),*];
        }

        #(#distinct)*

        #[cfg(target_family = "wasm")]
        ::airlock_guest::__private::export!(__AirlockPlugin);
    }
}

/// Renders the crate's `plugin.toml` as a custom section of the module; nothing if there is none.
fn embedded() -> Result<TokenStream, String> {
    let Some(directory) = env::var_os("CARGO_MANIFEST_DIR") else { return Ok(TokenStream::new()) };
    let Some(manifest) = airlock_manifest::read(FilePath::new(&directory))? else {
        return Ok(TokenStream::new());
    };
    let (section, length) = (airlock_manifest::SECTION, manifest.json.len());
    let json = Literal::byte_string(manifest.json.as_bytes());
    // Tells the compiler that the crate depends on these files.
    let files = manifest.files.iter().map(|file| file.display().to_string());
    Ok(quote! {
        #(const _: &[u8] = ::core::include_bytes!(#files);)*

        #[cfg(target_family = "wasm")]
        #[allow(unsafe_code)]
        const _: () = {
            #[used]
            #[unsafe(link_section = #section)]
            static MANIFEST: [u8; #length] = *#json;
        };
    })
}
