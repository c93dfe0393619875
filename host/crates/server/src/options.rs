//! Options of a request that are the gateway's own: headers, and the member `airlock` of a body.

use std::time::Duration;

use http::HeaderMap;
use serde::{Deserialize, Deserializer, de::Error as _};

use airlock_agent::{EXTENSION, TokenVisibility};
use airlock_conversation::Object;
use airlock_core::{
    door::{ApprovalChoice, SCRIPT_LANGUAGE, ScriptLanguage, TOOL_MODE, ToolMode},
    units::SecondsOrSpan,
};
use airlock_http::respond::{self, ApiError};
use airlock_json::{RawObject, raw};
use airlock_requests::ToolOptions;
use airlock_strings::cut;

/// Header with the time that a request may take: `30s`, or a whole number of seconds.
const TIMEOUT: &str = "x-airlock-timeout";
/// Header that asks for events of tools in a stream.
const EVENTS: &str = "x-airlock-events";
/// Header that asks for the estimated tokens of tools in the response.
const TOKENS: &str = "x-airlock-tokens";
/// Header that chooses what happens to calls that need an approval.
const APPROVAL: &str = "x-airlock-approval";

/// Member with the options of a stream.
const STREAM_OPTIONS: &str = "stream_options";

/// Maximum length of the member `airlock`, in bytes. Its members are two flags and a word.
const MAX_EXTENSION_BYTES: usize = 4 << 10;
/// Maximum length of the member `stream_options`, in bytes. It is looked through on a worker, several times for a request.
/// OpenAI's API has two flags in it.
const MAX_STREAM_OPTIONS_BYTES: usize = 4 << 10;
/// Maximum length of the problem of this member in an error, in bytes. It repeats the name of an unknown
/// member, which may be as long as the body.
const MAX_PROBLEM_BYTES: usize = 256;

/// The member `airlock` of a request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Extension {
    /// True to send events of tools in the stream; `None` to leave it to the header.
    events: Option<bool>,
    /// True to have the estimated tokens of tools in the response; `None` to leave it to the header.
    tokens: Option<bool>,
    /// Way in which tools for scripts are offered; `None` to leave it to the header.
    #[serde(default, deserialize_with = "read_mode")]
    mode: Option<ToolMode>,
}

/// Options of a request to a model: those of its headers, or those of its member `airlock`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ModelOptions {
    /// True to send events of tools in the stream.
    pub(super) events: bool,
    /// Options about the gateway's tools.
    pub(super) tools: ToolOptions,
}

impl ModelOptions {
    /// Reads the headers. Fails if one has an invalid value.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        // Most requests have none, and then no name is looked up.
        if !respond::has_own(headers) {
            return Ok(Self::default());
        }
        let tokens = visibility(flag_of(headers, TOKENS)?);
        let tools = ToolOptions { tokens, mode: mode(headers)? };
        Ok(Self { events: flag_of(headers, EVENTS)?, tools })
    }

    /// Returns the options with those of the member, which take precedence.
    pub(super) fn overridden_by(self, extension: &Extension) -> Self {
        let Self { events, tools } = self;
        let tokens = extension.tokens.map_or(tools.tokens, visibility);
        let tools = ToolOptions { tokens, mode: extension.mode.or(tools.mode) };
        Self { events: extension.events.unwrap_or(events), tools }
    }
}

fn visibility(is_shown: bool) -> TokenVisibility {
    if is_shown { TokenVisibility::Shown } else { TokenVisibility::Hidden }
}

/// Returns the time that a request may take: `most`, or that of the header if it is shorter. Fails
/// if the header is not a time, or is 0.
pub(super) fn timeout(headers: &HeaderMap, most: Duration) -> Result<Duration, ApiError> {
    if !respond::has_own(headers) {
        return Ok(most);
    }
    let Some(text) = respond::joined(headers, TIMEOUT)? else { return Ok(most) };
    let parsed = match text.parse::<u64>() {
        Ok(seconds) => Some(Duration::from_secs(seconds)),
        Err(_) => serde_json::from_value::<SecondsOrSpan>(text.as_str().into())
            .ok()
            .map(|SecondsOrSpan(span)| span.0),
    };
    let timeout = parsed.filter(|timeout| !timeout.is_zero());
    timeout.map(|timeout| timeout.min(most)).ok_or_else(|| {
        let expected = "expected a time such as \"30s\", or a whole number of seconds";
        bad_header(TIMEOUT, &text, expected)
    })
}

/// Returns whether the header `name` is `true`. Fails if it is neither `true` nor `false`.
fn flag_of(headers: &HeaderMap, name: &'static str) -> Result<bool, ApiError> {
    match respond::joined(headers, name)?.as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(text) => Err(bad_header(name, text, "expected \"true\" or \"false\"")),
    }
}

/// Returns the treatment of calls that need an approval, if the header sets one. Fails if the header
/// has an invalid value.
pub(super) fn approval(headers: &HeaderMap) -> Result<Option<ApprovalChoice>, ApiError> {
    let Some(name) = respond::joined(headers, APPROVAL)? else { return Ok(None) };
    let choice = ApprovalChoice::ALL.into_iter().find(|choice| choice.name() == name);
    choice
        .map(Some)
        .ok_or_else(|| bad_header(APPROVAL, &name, "expected \"return\", \"omit\" or \"wait\""))
}

/// Returns the way in which the header wants tools for scripts to be offered. Fails if it names none.
fn mode(headers: &HeaderMap) -> Result<Option<ToolMode>, ApiError> {
    let Some(name) = respond::joined(headers, TOOL_MODE)? else { return Ok(None) };
    let expected = format!("expected {}", modes());
    ToolMode::named(&name).map(Some).ok_or_else(|| bad_header(TOOL_MODE, &name, &expected))
}

fn read_mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ToolMode>, D::Error> {
    let Some(name) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    let mode = ToolMode::named(&name).map(Some);
    mode.ok_or_else(|| D::Error::custom(format!("`mode` must be {}", modes())))
}

/// Returns the names of all ways for a message.
fn modes() -> String {
    ToolMode::ALL.map(|mode| format!("{:?}", mode.name())).join(" or ")
}

/// Returns the language of scripts that the header selects. Fails if it names none.
pub(super) fn language(headers: &HeaderMap) -> Result<Option<ScriptLanguage>, ApiError> {
    let Some(name) = respond::joined(headers, SCRIPT_LANGUAGE)? else { return Ok(None) };
    ScriptLanguage::named(&name).map(Some).ok_or_else(|| {
        let names = ScriptLanguage::ALL.map(|language| format!("{:?}", language.name()));
        bad_header(SCRIPT_LANGUAGE, &name, &format!("expected {}", names.join(" or ")))
    })
}

/// Returns a member that is a boolean; false if it is absent or null. Fails if it is another value.
pub(super) fn flag(body: &RawObject, name: &str) -> Result<bool, ApiError> {
    match body.get(name) {
        None | Some("null" | "false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => {
            let message = format!("`{name}` must be true or false");
            Err(ApiError::bad_request("invalid_type", message).about(name))
        }
    }
}

/// Returns whether a stream is to have its usage. Fails if its options are too long.
pub(super) fn includes_usage(body: &RawObject) -> Result<bool, ApiError> {
    let Some(options) = body.get(STREAM_OPTIONS) else { return Ok(false) };
    if options.len() > MAX_STREAM_OPTIONS_BYTES {
        let message =
            format!("`{STREAM_OPTIONS}` must have at most {MAX_STREAM_OPTIONS_BYTES} bytes");
        return Err(ApiError::bad_request("invalid_value", message).about(STREAM_OPTIONS));
    }
    Ok(raw::member(options, "include_usage") == Some("true"))
}

/// Removes the member `airlock` from a body, so that no provider receives it, and returns it. Fails
/// if it is invalid.
pub(super) fn take_extension(body: &mut RawObject) -> Result<Extension, ApiError> {
    let Some(text) = body.get(EXTENSION) else { return Ok(Extension::default()) };
    if text.len() > MAX_EXTENSION_BYTES {
        return Err(bad_member(format!("it has more than {MAX_EXTENSION_BYTES} bytes")));
    }
    let extension = serde_json::from_str::<Option<Extension>>(text)
        .map_err(|error| bad_member(error.to_string()))?;
    body.remove(EXTENSION);
    Ok(extension.unwrap_or_default())
}

/// Removes the member `airlock` from a body that is parsed, like [`take_extension`].
pub(super) fn take_parsed_extension(body: &mut Object) -> Result<Extension, ApiError> {
    let Some(value) = body.shift_remove(EXTENSION) else { return Ok(Extension::default()) };
    let extension = serde_json::from_value::<Option<Extension>>(value);
    let extension = extension.map_err(|error| bad_member(error.to_string()))?;
    Ok(extension.unwrap_or_default())
}

/// Returns the error of the member `airlock`. A `problem` may have a name of the caller's, and is cut.
fn bad_member(problem: String) -> ApiError {
    let problem = cut(problem, MAX_PROBLEM_BYTES);
    let message =
        format!("`{EXTENSION}` must be an object such as {{\"events\": true}}: {problem}");
    ApiError::bad_request("invalid_value", message).about(EXTENSION)
}

fn bad_header(name: &str, found: &str, expected: &str) -> ApiError {
    let found = respond::excerpt(found);
    ApiError::bad_request("bad_header", format!("header `{name}`: found {found:?}, {expected}"))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;
    use airlock_json::Caps;

    fn header(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(HeaderName::from_static(name), HeaderValue::from_static(value))])
    }

    fn body(text: &str) -> RawObject {
        RawObject::parse(text.into(), &Caps::memory(1 << 20)).expect("an object").0
    }

    fn text_of(error: ApiError) -> String {
        error.into_body()["error"]["message"].as_str().unwrap_or_default().to_owned()
    }

    #[test]
    fn a_timeout_is_shortened_and_never_extended() {
        let most = Duration::from_mins(1);
        assert_eq!(timeout(&HeaderMap::new(), most).ok(), Some(most));
        for (value, expected) in [("30s", 30), ("7", 7), ("2m", 60), ("1500ms", 1)] {
            let found = timeout(&header(TIMEOUT, value), most).expect("a good value");
            assert_eq!(found.as_secs(), expected, "{value}");
        }
        for bad in ["", "0", "-1", "soon", "1.5"] {
            let error = timeout(&header(TIMEOUT, bad), most).expect_err("a bad value");
            assert!(
                text_of(error).starts_with(&format!("header `x-airlock-timeout`: found {bad:?}"))
            );
        }
    }

    #[test]
    fn events_are_asked_for_by_header_or_member() {
        let asked = options_of(&header(EVENTS, "true"));
        assert_eq!((asked.events, asked.tools), (true, ToolOptions::default()));
        assert_eq!(options_of(&HeaderMap::new()), ModelOptions::default());
        assert!(ModelOptions::from_headers(&header(EVENTS, "yes")).is_err());
        let mut with = body(r#"{"a":1,"airlock":{"events":true}}"#);
        assert_eq!(take_extension(&mut with).expect("good").events, Some(true));
        assert_eq!(with.get("airlock"), None);
        assert_eq!(take_extension(&mut body(r#"{"airlock":null}"#)).expect("good").events, None);
        let error =
            take_extension(&mut body(r#"{"airlock":{"event":true}}"#)).expect_err("unknown");
        assert!(
            text_of(error)
                .contains("unknown field `event`, expected one of `events`, `tokens`, `mode`")
        );
    }

    #[test]
    fn a_long_member_is_not_read_and_a_long_name_in_one_is_not_repeated() {
        for (bytes, is_read) in [(MAX_EXTENSION_BYTES, true), (MAX_EXTENSION_BYTES + 1, false)] {
            let member = format!("{{{}}}", " ".repeat(bytes - 2));
            let read = take_extension(&mut body(&format!(r#"{{"airlock":{member}}}"#)));
            assert_eq!(read.is_ok(), is_read, "{bytes}");
            let problem = read.err().map(text_of);
            assert!(problem.is_none_or(|text| text.contains(&MAX_EXTENSION_BYTES.to_string())));
        }
        let name = "x".repeat(100_000);
        let mut members = airlock_json::object(json!({EXTENSION: {name: 1}}));
        let error = take_parsed_extension(&mut members).expect_err("an unknown name");
        assert!(text_of(error).len() < 1_000);
    }

    #[test]
    fn tokens_are_asked_for_by_header_or_member_and_the_member_counts_more() {
        let shown = options_of(&header(TOKENS, "true"));
        assert_eq!(shown.tools.tokens, TokenVisibility::Shown);
        assert!(ModelOptions::from_headers(&header(TOKENS, "1")).is_err());
        for (member, expected) in [
            (r#"{"airlock":{}}"#, [TokenVisibility::Shown, TokenVisibility::Hidden]),
            (r#"{"airlock":{"tokens":true}}"#, [TokenVisibility::Shown; 2]),
            (r#"{"airlock":{"tokens":false}}"#, [TokenVisibility::Hidden; 2]),
        ] {
            let extension = take_extension(&mut body(member)).expect("a good member");
            let found = [shown, ModelOptions::default()]
                .map(|headers| headers.overridden_by(&extension).tools.tokens);
            assert_eq!(found, expected, "{member}");
        }
    }

    #[test]
    fn a_mode_is_selected_by_header_or_member_and_the_member_counts_more() {
        let direct = options_of(&header(TOOL_MODE, "direct"));
        assert_eq!(direct.tools.mode, Some(ToolMode::Direct));
        let error =
            ModelOptions::from_headers(&header(TOOL_MODE, "Auto")).expect_err("a bad value");
        assert_eq!(
            text_of(error),
            r#"header `x-airlock-mode`: found "Auto", expected "direct" or "search" or "code" or "auto""#
        );
        for (member, expected) in [
            (r#"{"airlock":{"mode":null}}"#, Some(ToolMode::Direct)),
            (r#"{"airlock":{"mode":"auto"}}"#, Some(ToolMode::Auto)),
            (r#"{"airlock":{"mode":"search"}}"#, Some(ToolMode::Search)),
        ] {
            let extension = take_extension(&mut body(member)).expect("a good member");
            assert_eq!(direct.overridden_by(&extension).tools.mode, expected, "{member}");
        }
        let error = take_extension(&mut body(r#"{"airlock":{"mode":"fast"}}"#));
        assert!(text_of(error.expect_err("a bad value")).contains("`mode` must be \"direct\" or"));
    }

    fn options_of(headers: &HeaderMap) -> ModelOptions {
        ModelOptions::from_headers(headers).expect("good headers")
    }

    #[test]
    fn a_language_is_selected_by_its_name() {
        assert_eq!(language(&HeaderMap::new()).ok(), Some(None));
        for (value, expected) in
            [("starlark", ScriptLanguage::Starlark), ("python", ScriptLanguage::Python)]
        {
            assert_eq!(language(&header(SCRIPT_LANGUAGE, value)).ok(), Some(Some(expected)));
        }
        for bad in ["", "Python", "py", "python, starlark"] {
            let error = language(&header(SCRIPT_LANGUAGE, bad)).expect_err("a bad value");
            assert_eq!(
                text_of(error),
                format!(
                    "header `x-airlock-code-mode-language`: found {bad:?}, expected \"starlark\" or \"python\""
                )
            );
        }
    }

    #[test]
    fn the_options_of_a_stream_are_read_unless_they_are_too_long() {
        let long = format!(r#"{{"stream_options":{{"x":"{}"}}}}"#, "x".repeat(5_000));
        for (text, expected) in [
            ("{}", Some(false)),
            (r#"{"stream_options":null}"#, Some(false)),
            (r#"{"stream_options":{"include_usage":true}}"#, Some(true)),
            (&long, None),
        ] {
            assert_eq!(includes_usage(&body(text)).ok(), expected, "{text}");
        }
    }

    #[test]
    fn a_flag_is_a_boolean() {
        for (text, expected) in
            [(r#"{"stream":true}"#, true), (r#"{"stream":null}"#, false), ("{}", false)]
        {
            assert_eq!(flag(&body(text), "stream").ok(), Some(expected), "{text}");
        }
        assert!(flag(&body(r#"{"stream":"yes"}"#), "stream").is_err());
    }
}
