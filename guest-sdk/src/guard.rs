//! Guards: components that decide about the tools of a gateway, about their calls and about the results. With the
//! feature `guard`.
//!
//! A guard is a type that implements [`Guard`], and [`guard!`](crate::guard!) exports it. It can only compute: the
//! gateway refuses a component that imports anything, so a guard uses nothing else of this crate that reaches the
//! host. `airlock plugin new --guard own-domain` writes one, and `airlock plugin build` makes the component.
//!
//! ```
//! use airlock_guest::{
//!     Error,
//!     guard::{Call, Guard, Hook, Verdict},
//!     serde_json::Value,
//! };
//!
//! /// Denies mail to other domains.
//! struct OwnDomain;
//!
//! impl Guard for OwnDomain {
//!     const HOOKS: &'static [Hook] = &[Hook::Before];
//!
//!     fn before(call: &Call) -> Result<Verdict, Error> {
//!         let arguments: Value = call.arguments()?;
//!         let to = arguments["to"].as_str().and_then(|to| to.split_once('@'));
//!         Ok(match to {
//!             // Of one address alone: a list has a second `@`.
//!             Some((_, "example.com")) => Verdict::Allow,
//!             _ => Verdict::deny("foreign_domain", "mail goes to example.com alone"),
//!         })
//!     }
//! }
//!
//! airlock_guest::guard!(OwnDomain);
//!
//! // In `mod tests`: `cargo test` asks the guard without a gateway.
//! # fn main() {
//! # use airlock_guest::serde_json::json;
//! let own = Call::new("mail-send", &json!({"to": "ann@example.com"}));
//! assert_eq!(OwnDomain::before(&own).unwrap(), Verdict::Allow);
//! let foreign = Call::new("mail-send", &json!({"to": "eve@example.org, ann@example.com"}));
//! assert!(matches!(OwnDomain::before(&foreign).unwrap(), Verdict::Deny { .. }));
//! # }
//! ```

pub(crate) mod bindings;
mod listed_tool;
mod model_exchange;
mod wire;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

pub use self::{
    listed_tool::ListedTool,
    model_exchange::{HiddenPart, ModelExchange, ModelText},
};
use crate::{Error, arguments::without_position};

/// A hook of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Hook {
    /// [`Guard::before`].
    Before,
    /// [`Guard::after`].
    After,
    /// [`Guard::definition`].
    Definition,
    /// [`Guard::before_model`].
    BeforeModel,
    /// [`Guard::after_model`].
    AfterModel,
}

/// Decides about tools, calls and their results. Each hook runs in an instance of its own, so nothing is kept between two.
///
/// An error, like a panic, refuses the call, or withholds its outcome or the tool, with `guard_failed`. The text of the
/// error is lost. Return [`Verdict::deny`] for a reason that the caller is to read.
pub trait Guard {
    /// The hooks that the guard has. The gateway runs no other, whatever the type implements.
    const HOOKS: &'static [Hook];

    /// Checks the settings of the guard, the JSON text of an object, when the gateway loads it. A guard that returns an
    /// error is not loaded, and the operator reads its text. By default, any setting is an error.
    ///
    /// ```
    /// use airlock_guest::{
    ///     Error,
    ///     guard::{Call, Guard, Hook, Verdict, parse_settings},
    ///     serde::Deserialize,
    ///     serde_json::json,
    /// };
    ///
    /// #[derive(Deserialize)]
    /// #[serde(crate = "airlock_guest::serde", deny_unknown_fields)]
    /// struct Settings {
    ///     /// Longest arguments, in bytes.
    ///     most: usize,
    /// }
    ///
    /// struct Short;
    ///
    /// impl Guard for Short {
    ///     const HOOKS: &'static [Hook] = &[Hook::Before];
    ///
    ///     fn check_settings(settings: &str) -> Result<(), Error> {
    ///         parse_settings::<Settings>(settings).map(drop)
    ///     }
    ///
    ///     fn before(call: &Call) -> Result<Verdict, Error> {
    ///         let Settings { most } = call.settings()?;
    ///         let is_short = call.arguments.len() <= most;
    ///         Ok(if is_short { Verdict::Allow } else { Verdict::deny("long", "too long") })
    ///     }
    /// }
    ///
    /// assert!(Short::check_settings(r#"{"most": 9}"#).is_ok());
    /// let error = Short::check_settings(r#"{"most": "9"}"#).unwrap_err();
    /// assert!(error.message().starts_with("most: invalid type"));
    /// let call = Call::new("a-b", &json!({"text": "long"})).with_settings(&json!({"most": 9}));
    /// assert_eq!(Short::before(&call).unwrap(), Verdict::deny("long", "too long"));
    /// ```
    fn check_settings(settings: &str) -> Result<(), Error> {
        parse_settings::<NoSettings>(settings).map(drop)
    }

    /// Decides about a call before it is made. Allows it by default.
    fn before(call: &Call) -> Result<Verdict, Error> {
        let _ = call;
        Ok(Verdict::Allow)
    }

    /// Decides about the outcome of a call that was made. [`Verdict::Ask`] is not valid here. Allows it by default.
    fn after(call: &Call, outcome: &Outcome) -> Result<Verdict, Error> {
        let _ = (call, outcome);
        Ok(Verdict::Allow)
    }

    /// Decides about a definition that a source lists, before the tool is offered. A tool that is denied is not offered
    /// and cannot be called. A rewrite is the definition with other descriptions and titles; one that differs in
    /// anything else is not valid, and neither is [`Verdict::Ask`]. Allows it by default.
    fn definition(listed: &ListedTool) -> Result<Verdict, Error> {
        let _ = listed;
        Ok(Verdict::Allow)
    }

    /// Decides about a request before it is sent to the model, in each round of calls again. A rewrite has the same roles
    /// in the same order; [`Verdict::Ask`] is not valid. Allows it by default.
    fn before_model(exchange: &ModelExchange) -> Result<Verdict, Error> {
        let _ = exchange;
        Ok(Verdict::Allow)
    }

    /// Decides about the response of a model before its caller or its tools get anything of it. A rewrite is as for
    /// [`Self::before_model`]. Allows it by default.
    fn after_model(exchange: &ModelExchange) -> Result<Verdict, Error> {
        let _ = exchange;
        Ok(Verdict::Allow)
    }
}

/// Settings of a guard that has none.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoSettings {}

/// Parses the settings of a guard. The error names the setting that does not fit. Without
/// `#[serde(deny_unknown_fields)]`, a setting with a wrong name would be ignored.
pub fn parse_settings<T: DeserializeOwned>(settings: &str) -> Result<T, Error> {
    let mut json = serde_json::Deserializer::from_str(settings);
    serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let problem = without_position(error.inner());
        let path = error.path();
        let is_whole = path.iter().next().is_none();
        Error::invalid_input(if is_whole { problem } else { format!("{path}: {problem}") })
    })
}

/// Adds the methods of the types that have the settings of a guard.
macro_rules! settings {
    ($($input:ty),*) => {$(
        impl $input {
            /// Sets the settings of the guard, for tests.
            #[must_use]
            pub fn with_settings(self, settings: &Value) -> Self {
                Self { settings: settings.to_string(), ..self }
            }

            /// Parses the settings of the guard.
            pub fn settings<T: DeserializeOwned>(&self) -> Result<T, Error> {
                parse_settings(&self.settings)
            }
        }
    )*};
}

settings!(Call, ListedTool, ModelExchange);

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// Full name of the tool: the client, `-`, and its name at the source.
    pub tool: String,
    /// The client that has the tool.
    pub client: String,
    /// The arguments: the JSON text of an object, of at most 1 MiB.
    pub arguments: String,
    /// The effects of the tool.
    pub effects: Effects,
    /// The maker of the call: `model`, `script`, `plugin`, `caller`, `program`, `operator` or `mcp_client`. Later
    /// gateways may have further names.
    pub origin: String,
    /// Name of the virtual key of the request; `None` if it came without one.
    pub key: Option<String>,
    /// The party that the call is accounted to, for people.
    pub tenant: String,
    /// The settings of the guard: the JSON text of an object, empty if there are none.
    pub settings: String,
    /// Further members of later gateways: the JSON text of an object.
    pub extra: Option<String>,
}

impl Call {
    /// Creates a call by a caller without a key, for tests of a guard without settings. The client is the part of the name before the
    /// first `-`.
    pub fn new(tool: &str, arguments: &Value) -> Self {
        let client = tool.split_once('-').map_or(tool, |(client, _)| client);
        Self {
            tool: tool.to_owned(),
            client: client.to_owned(),
            arguments: arguments.to_string(),
            effects: Effects::default(),
            origin: "caller".to_owned(),
            key: None,
            tenant: "anonymous".to_owned(),
            settings: "{}".to_owned(),
            extra: None,
        }
    }

    /// Parses the arguments. Integers beyond 64 bits become floating-point numbers.
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_str(&self.arguments)?)
    }
}

/// The effects of a tool, as its definition states them. That of a source that is not trusted may state anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Effects {
    /// True if the tool changes nothing.
    pub read_only: Option<bool>,
    /// True if a change may destroy something.
    pub destructive: Option<bool>,
    /// True if a second call with the same arguments has no further effect.
    pub idempotent: Option<bool>,
    /// True if the tool reaches systems that are not known in advance.
    pub open_world: Option<bool>,
    /// True if the operator trusts the source.
    pub trusted: bool,
}

/// The end of a call, as the tool reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The JSON text of the result: MCP's `CallToolResult`, with `content`, `structuredContent` and `_meta`.
    Success(String),
    /// The JSON text of the tool's own error: `kind`, `code`, `message`, `content` and `details`.
    Failure(String),
}

impl Outcome {
    /// Returns the JSON text of the result or the error.
    pub fn text(&self) -> &str {
        let (Self::Success(text) | Self::Failure(text)) = self;
        text
    }

    /// Parses the result or the error. Integers beyond 64 bits become floating-point numbers.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_str(self.text())?)
    }
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing changes.
    Allow,
    /// The call is made with these arguments, or its outcome, the definition or the texts are these: JSON text of the
    /// same form. A rewrite must be idempotent, because a call that waits for an approval is decided about again.
    Rewrite(String),
    /// The call or the request is not made, its outcome or response is withheld, or the tool is not offered.
    Deny {
        /// Short stable identifier, of at most 64 bytes.
        code: String,
        /// Text for the caller and the model, of at most 1 KiB.
        reason: String,
    },
    /// The call needs an approval; the text is the reason, of at most 1 KiB.
    Ask(String),
}

impl Verdict {
    /// Rewrites the arguments, the outcome or the definition. Fails if the value cannot be serialized.
    pub fn rewrite(value: &impl Serialize) -> Result<Self, Error> {
        Ok(Self::Rewrite(serde_json::to_string(value)?))
    }

    /// Denies the call, withholds its outcome, or denies the definition.
    pub fn deny(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Deny { code: code.into(), reason: reason.into() }
    }

    /// Asks for an approval.
    pub fn ask(reason: impl Into<String>) -> Self {
        Self::Ask(reason.into())
    }
}

/// Exports a type that implements [`Guard`] as the guard of this crate. It is called once, with
/// the name of a type.
#[macro_export]
macro_rules! guard {
    ($guard:ident) => {
        const _: fn() = || {
            fn is_guard<G: $crate::guard::Guard>() {}
            is_guard::<$guard>();
        };

        // Native linkers do not accept such names.
        #[cfg(target_family = "wasm")]
        $crate::__private::export_guard!($guard);
    };
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Nothing;

    impl Guard for Nothing {
        const HOOKS: &'static [Hook] = &[];
    }

    guard!(Nothing);

    #[test]
    fn a_guard_without_hooks_allows_everything() {
        let call = Call::new("mail-send", &json!({}));
        assert_eq!(call.client, "mail");
        assert_eq!(Nothing::before(&call), Ok(Verdict::Allow));
        let outcome = Outcome::Failure("{}".to_owned());
        assert_eq!(Nothing::after(&call, &outcome), Ok(Verdict::Allow));
        let listed = ListedTool::new("mail", &json!({"name": "send"}));
        assert_eq!(Nothing::definition(&listed), Ok(Verdict::Allow));
        let exchange = ModelExchange::new(&[("user", "hello")]);
        assert_eq!(Nothing::before_model(&exchange), Ok(Verdict::Allow));
        assert_eq!(Nothing::after_model(&exchange), Ok(Verdict::Allow));
    }

    #[test]
    fn a_guard_without_settings_refuses_any() {
        assert_eq!(Nothing::check_settings("{}"), Ok(()));
        let refused = Nothing::check_settings(r#"{"kinds":[]}"#).unwrap_err();
        assert_eq!(refused.message(), "kinds: unknown field `kinds`, there are no fields");
    }

    #[test]
    fn an_error_of_a_setting_names_its_place() {
        let call = Call::new("a-b", &json!({})).with_settings(&json!({"a": [1, "x"]}));
        let settings = call.settings::<std::collections::BTreeMap<String, Vec<u8>>>();
        let refused = settings.unwrap_err();
        assert!(refused.message().starts_with("a[1]: invalid type: string"), "{refused}");
        let whole = parse_settings::<Vec<u8>>("{}").unwrap_err();
        assert_eq!(whole.message(), "invalid type: map, expected a sequence");
    }

    #[test]
    fn arguments_and_outcomes_of_another_form_are_errors() {
        let call = Call::new("mail-send", &json!({"to": 1}));
        assert_eq!(call.arguments::<Value>(), Ok(json!({"to": 1})));
        assert!(call.arguments::<Vec<u8>>().is_err());
        let outcome = Outcome::Success(r#"{"content":[]}"#.to_owned());
        assert_eq!(outcome.parse::<Value>(), Ok(json!({"content": []})));
        assert!(outcome.parse::<String>().is_err());
    }
}
