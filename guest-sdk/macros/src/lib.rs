//! The macros of `airlock-guest`, which re-exports and documents them. They work on syntax alone;
//! the traits of `airlock-guest` check the types.

mod plugin;
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
///     /// What to divide.
///     dividend: f64,
///     /// What to divide by; 1 where absent.
///     divisor: Option<f64>,
///     context: &Context,
/// ) -> Result<String, Error> {
///     let divisor = divisor.unwrap_or(1.0);
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
/// Parameters may have `#[serde(…)]` and `#[schemars(…)]` attributes, for example for a default or
/// a range:
///
/// ```
/// # use airlock_guest::tool;
/// fn ten() -> u32 {
///     10
/// }
///
/// /// Repeats a text.
/// #[tool(read_only)]
/// fn repeat(
///     /// What to repeat.
///     text: String,
///     /// How often.
///     #[serde(default = "ten")]
///     #[schemars(range(min = 1, max = 100))]
///     times: u32,
/// ) -> String {
///     text.repeat(times as usize)
/// }
/// ```
///
/// The function is unchanged and can be called as before, for example in a test. The macro adds a
/// type of the same name that implements `airlock_guest::Tool`, so a module of that name cannot be
/// in the same scope.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), item.into()).into()
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
