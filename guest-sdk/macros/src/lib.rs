//! The macros of `airlock-guest`, which re-exports and documents them. They work on syntax alone;
//! the traits of `airlock-guest` check the types.

mod data;
mod field;
mod plugin;
mod tokens;
mod tool;

use proc_macro::TokenStream;

/// Makes a function a tool.
///
/// The doc comment, up to its first heading, becomes the description. Each parameter becomes an
/// argument and its doc comment the argument's description; the return type determines the output
/// schema. The caller may omit an argument of type `Option`. A parameter of type `&Context` is not
/// an argument: it is the running call. A return type named `Result` is treated as one; its error
/// is any type that converts to `Error`.
///
/// ```
/// use airlock_guest::{Context, Error, tool};
///
/// /// Divides one number by another.
/// #[tool(read_only, idempotent, open_world = false, title = "Divide")]
/// fn divide(
///     /// The dividend.
///     dividend: f64,
///     /// The divisor.
///     #[arg(default = 1.0)]
///     divisor: f64,
///     context: &Context,
/// ) -> Result<String, Error> {
///     if divisor == 0.0 {
///         return Err(Error::invalid_input("`divisor` must not be 0"));
///     }
///     context.progress(1.0, Some(1.0), None);
///     Ok((dividend / divisor).to_string())
/// }
/// ```
///
/// | Key | Meaning |
/// |---|---|
/// | `read_only` | the tool changes nothing outside itself |
/// | `destructive` | a change that the tool makes may destroy something |
/// | `idempotent` | calling it twice with the same arguments has the effect of calling it once |
/// | `open_world` | it reaches things that the host does not know, the internet for one |
/// | `title = "…"` | a name for people |
/// | `name = "…"` | another name than the function's; `^[a-zA-Z0-9_-]{1,64}$` |
///
/// The first four can be denied too: `destructive = false`. A key that is not given stays unset,
/// and a client then assumes the worst.
///
/// A parameter may have `#[arg(…)]`:
///
/// | Key | Meaning |
/// |---|---|
/// | `default = 20` | the value of an argument that the caller omits |
/// | `default` | the same, with the default of the type |
/// | `range = 1..=100` | the values that are valid; also `1..` and `..=100` |
///
/// Both are in the schema, and a value out of range is refused before the function runs:
///
/// ```
/// use airlock_guest::{data, testing::Host, tool};
/// # use airlock_guest::serde_json::json;
///
/// /// Loudness of a text.
/// #[data]
/// enum Volume {
///     /// As it is.
///     Normal,
///     /// In capitals.
///     Loud,
/// }
///
/// /// Repeats a text.
/// #[tool(read_only)]
/// fn repeat(
///     /// Text to repeat.
///     text: String,
///     /// Number of times.
///     #[arg(default = 10, range = 1..=100)]
///     times: u32,
///     /// Loudness.
///     #[arg(default = Volume::Normal)]
///     volume: Volume,
/// ) -> String {
///     let text = if let Volume::Loud = volume { text.to_uppercase() } else { text };
///     text.repeat(times as usize)
/// }
///
/// let output = Host::new().call::<repeat>(json!({ "text": "a", "times": 3, "volume": "loud" }));
/// assert_eq!(output.unwrap().first_text(), Some("AAA"));
/// let error = Host::new().call::<repeat>(json!({ "text": "a", "times": 0 })).unwrap_err();
/// assert_eq!(error.message(), "argument `times` must be an integer from 1 to 100, not 0");
/// ```
///
/// Types of arguments are those of JSON: numbers, `bool`, `String`, `Vec`, maps, `Option`, and
/// structs and enums with [`macro@data`]; any other type is a compile error. `#[serde(…)]` and
/// `#[schemars(…)]` work on parameters too.
///
/// The function is unchanged and can be called as before, for example in a test. The macro adds a
/// type of the same name that implements `airlock_guest::Tool`, so a module of that name cannot be
/// in the same scope.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), item.into()).into()
}

/// Makes a struct or an enum a type of arguments, results, configuration or other JSON.
///
/// It derives serde's `Serialize` and `Deserialize` and the `JsonSchema` of schemars, without a
/// dependency on either: a doc comment becomes a description in the schema. The names of an enum
/// are in `snake_case`. Fields may have `#[data(default = …, range = …)]`, with the meaning of
/// `#[arg(…)]` in [`macro@tool`]. `#[serde(…)]` and `#[schemars(…)]` work as usual; other derives
/// come after `#[data]`.
///
/// ```
/// use airlock_guest::{data, serde_json};
///
/// /// A search in some files.
/// #[data]
/// #[derive(Debug, PartialEq)]
/// struct Search {
///     /// Text to look for.
///     text: String,
///     /// Number of results.
///     #[data(default = 20, range = 1..=100)]
///     limit: u32,
///     /// Order of the results.
///     #[data(default = Order::NewestFirst)]
///     order: Order,
/// }
///
/// /// Order of results.
/// #[data]
/// #[derive(Debug, PartialEq)]
/// enum Order {
///     NewestFirst,
///     OldestFirst,
/// }
///
/// let search: Search = serde_json::from_str(r#"{"text": "a"}"#).unwrap();
/// assert_eq!(search, Search { text: "a".to_owned(), limit: 20, order: Order::NewestFirst });
/// let error = serde_json::from_str::<Search>(r#"{"text": "a", "limit": 0}"#).unwrap_err();
/// assert!(error.to_string().starts_with("it must be from 1 to 100, not 0"));
/// ```
#[proc_macro_attribute]
pub fn data(options: TokenStream, item: TokenStream) -> TokenStream {
    data::expand(options.into(), item.into()).into()
}

/// Makes tools a plugin: `plugin!(word_count, search::regex_find);`, once per crate.
///
/// The tools are announced in this order. On WebAssembly, the crate, built as a `cdylib`, exports
/// the functions that the gateway calls. Elsewhere nothing is exported, so that the crate's tests
/// run natively.
///
/// A `plugin.toml` next to the crate's `Cargo.toml` is embedded in the compiled module, so that the
/// request stays with the code. Every fault of the file is a compile error with its line;
/// `airlock plugin build` checks sizes, times, URLs and versions as well.
///
/// `plugin!(word_count; config = Settings);` declares the type of the configuration as well. The build
/// takes its schema if `plugin.toml` has `[config]` with `from_code = true`.
///
/// ```
/// use airlock_guest::{plugin, tool};
///
/// /// Answers at once.
/// #[tool(read_only, idempotent)]
/// fn ping() -> &'static str {
///     "pong"
/// }
///
/// plugin!(ping);
/// # fn main() {}
/// ```
#[proc_macro]
pub fn plugin(tools: TokenStream) -> TokenStream {
    plugin::expand(tools.into()).into()
}
