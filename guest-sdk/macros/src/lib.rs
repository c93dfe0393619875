//! The macros of `airlock-guest`, which re-exports and documents them. Everything here works on
//! syntax alone; what a type can do is left for the traits of `airlock-guest` to say.

mod plugin;
mod tool;

use proc_macro::TokenStream;

/// Makes a tool of a function.
///
/// The doc comment becomes the description, up to its first heading; each parameter becomes an
/// argument and its doc comment the argument's description; the return type gives the output
/// schema. An `Option` may be left out by the caller. A parameter `&Context` is not an argument: it
/// is the running call. A return type called `Result` is taken for one; its error is any that
/// converts to `Error`.
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
/// | Key | Says |
/// |---|---|
/// | `read_only` | the tool changes nothing outside itself |
/// | `destructive` | a change that the tool makes may destroy something |
/// | `idempotent` | calling it twice with the same arguments has the effect of calling it once |
/// | `open_world` | it reaches things that the host does not know, the internet for one |
/// | `title = "…"` | a name for people |
/// | `name = "…"` | another name than the function's; `^[a-zA-Z0-9_-]{1,64}$` |
///
/// The first four can be denied too: `destructive = false`. What is not said is left open, and a
/// client then assumes the worst.
///
/// Parameters may carry `#[serde(…)]` and `#[schemars(…)]` attributes, for a default or a range:
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
/// The function stays what it was and can be called as before, in a test for one. Beside it appears
/// a type of the same name that implements `airlock_guest::Tool`; a module of that name cannot
/// stand beside it too.
#[proc_macro_attribute]
pub fn tool(options: TokenStream, item: TokenStream) -> TokenStream {
    tool::expand(options.into(), item.into()).into()
}

/// Makes a plugin of tools: `plugin!(word_count, search::regex_find);`, once a crate.
///
/// The tools are announced in this order. On WebAssembly the crate, built as a `cdylib`, then
/// exports what the gateway calls; elsewhere nothing is exported, so that the crate's tests run
/// natively.
///
/// A `plugin.toml` beside the crate's `Cargo.toml` is embedded in what is built, so that the
/// request goes wherever the code goes. One that is no TOML does not compile.
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
