//! `plugin!(…)`: the table of a plugin's tools, its manifest and, on WebAssembly, its exports.

use std::collections::HashSet;
use std::env;
use std::path::Path as FilePath;

use airlock_manifest::BadManifest;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Path, Token, Type};

pub(crate) fn expand(plugin: TokenStream) -> TokenStream {
    let parsed = parse.parse2(plugin);
    let tools = parsed.map_or_else(Error::into_compile_error, |plugin| render(&plugin));
    let manifest = match env::var_os("CARGO_MANIFEST_DIR") {
        Some(directory) => embedded(FilePath::new(&directory)).unwrap_or_else(faults),
        None => TokenStream::new(),
    };
    quote!(#tools #manifest)
}

/// The arguments of `plugin!`.
struct Declaration {
    tools: Vec<Path>,
    /// Type of the configuration.
    config: Option<Type>,
}

fn parse(input: ParseStream<'_>) -> syn::Result<Declaration> {
    let mut tools = Punctuated::<Path, Token![,]>::new();
    while !input.is_empty() && !input.peek(Token![;]) {
        tools.push_value(input.parse()?);
        if !input.peek(Token![,]) {
            break;
        }
        tools.push_punct(input.parse()?);
    }
    let config = if input.peek(Token![;]) {
        input.parse::<Token![;]>()?;
        let name: Ident = input.parse()?;
        if name != "config" {
            return Err(Error::new_spanned(name, "after `;` stands `config = TYPE`"));
        }
        input.parse::<Token![=]>()?;
        Some(input.parse()?)
    } else {
        None
    };
    if !input.is_empty() {
        return Err(input.error("expected `,` and a tool, or `; config = TYPE`"));
    }
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
    Ok(Declaration { tools: tools.into_iter().collect(), config })
}

fn render(Declaration { tools, config }: &Declaration) -> TokenStream {
    let config = config.iter().map(|config| {
        quote_spanned! {config.span()=>
            const CONFIG: ::core::option::Option<fn() -> ::airlock_guest::schemars::Schema> =
                ::core::option::Option::Some(::airlock_guest::config::schema::<#config>);
        }
    });
    let entries = tools.iter().map(|tool| {
        // The tool's span, so that the compiler reports a path that is no tool at its place.
        quote_spanned!(tool.span()=> ::airlock_guest::__private::Entry::new::<#tool>())
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
            #(#config)*
        }

        #(#distinct)*

        #[cfg(target_family = "wasm")]
        ::airlock_guest::__private::export!(__AirlockPlugin);
    }
}

/// Renders `plugin.toml` of a directory as a custom section of the module; nothing if there is none.
fn embedded(directory: &FilePath) -> Result<TokenStream, BadManifest> {
    let Some(manifest) = airlock_manifest::read(directory)? else { return Ok(TokenStream::new()) };
    // Sizes, times, URLs and versions are left to `airlock plugin build`.
    manifest.locate(airlock_manifest::check(&manifest.document, &|_, _| Ok(())).result())?;
    let json = manifest.json();
    let section = airlock_manifest::SECTION;
    let length = json.len();
    let json = Literal::byte_string(json.as_bytes());
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

/// Renders every fault of a manifest as a compile error.
#[expect(clippy::needless_pass_by_value, reason = "it takes the error of a `Result`")]
fn faults(bad: BadManifest) -> TokenStream {
    bad.lines()
        .iter()
        .map(|line| Error::new(Span::call_site(), line).into_compile_error())
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn every_fault_of_a_manifest_is_a_compile_error_with_its_position() {
        let directory = env::temp_dir().join(format!("airlock-macros-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let text = "schema = 'airlock.plugin/1'\nid = 'A'\nversion = '1.0.0'\ncontract = '0.1'\n[request.htp]\n";
        fs::write(directory.join("plugin.toml"), text).expect("a file");
        let rendered = embedded(&directory).map_err(faults).expect_err("two faults").to_string();
        fs::remove_dir_all(&directory).expect("it is ours");
        assert_eq!(rendered.matches("compile_error").count(), 2, "{rendered}");
        assert!(rendered.contains("plugin.toml:2:6: id: found"), "{rendered}");
        assert!(rendered.contains("plugin.toml:5:10: request.htp: unknown key"), "{rendered}");
    }
}
