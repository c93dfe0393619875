//! Forms of texts in a manifest. `wit/sections/0.1.1/manifest.schema.json` states the same forms as
//! patterns.

mod url;

pub(crate) use self::url::defect as url_defect;

/// Leaves the choice of hosts or directories to the operator.
pub(crate) const ANY: &str = "*";
/// Maximum length of a reason, in characters: people read it before they grant anything.
const MAX_REASON: usize = 300;
/// Maximum length of a version, in bytes, as in the schema: the author chooses it, and an operator reads it on one line
/// before the decision.
const MAX_VERSION: usize = 128;
/// Maximum digits of a number in a version, as in the schema: every such number fits into 32 bits.
const MAX_VERSION_DIGITS: usize = 9;
/// Maximum digits of a size or a time, as in the schema: every such number of GiB in bytes, or of hours in milliseconds,
/// fits into 64 bits.
const MAX_DIGITS: usize = 10;
/// Units of sizes and times.
const SIZE_UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
const TIME_UNITS: [&str; 4] = ["ms", "s", "m", "h"];
/// Maximum length of a requested tool name, in bytes, as in the schema. A name in the catalog has at most 64; a
/// manifest may name 256.
const MAX_TOOL_NAME: usize = 128;
/// Maximum length of a text in a message, in bytes: a hostile manifest could have one of any length.
const MAX_SHOWN: usize = 64;

/// Form of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Any text.
    Any,
    /// Name of the plugin.
    Id,
    /// Version of the plugin; read by the gateway.
    Version,
    /// Version of the contract; read by the gateway.
    Contract,
    /// Reason of a request.
    Reason,
    /// A whole number of B, KiB, MiB or GiB; read by the gateway.
    Size,
    /// A whole number of ms, s, m or h; read by the gateway.
    Time,
    /// Origin of a URL, or `*`; read by the gateway with the rest of the request.
    Url,
    /// Pattern for paths; read by the gateway with the rest of the request.
    Path,
    /// One line for the person who decides.
    Line,
    /// Full name of a tool in the catalog.
    ToolName,
}

/// Checks a text whose form only the gateway knows. The error has what was found and what would be
/// valid.
pub type Read<'a> = &'a dyn Fn(Form, &str) -> Result<(), String>;

impl Form {
    /// Describes the valid texts.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Self::Any => "a text",
            Self::Id => "1 to 32 of the characters a-z, 0-9 and `-`",
            Self::Version => "a version, such as \"1.0.0\"",
            Self::Contract => "a version of the contract, such as \"0.1\"",
            Self::Reason => "1 to 300 characters of text for the person who decides",
            Self::Size => "a size with its unit, such as \"64MiB\" or \"512KiB\"",
            Self::Time => "a time with its unit, such as \"250ms\", \"30s\" or \"10m\"",
            Self::Url => {
                "a scheme and a host, such as \"https://api.example.com\", or \"*\" for hosts that \
                 the operator chooses"
            }
            Self::Path => {
                "a pattern for paths, such as \"/v1/**\", with other characters than those of a path \
                 escaped, as in \"/a%20b\""
            }
            Self::Line => "one line of 1 to 300 characters",
            Self::ToolName => "the full name of a tool: 1 to 128 letters, digits, `_` or `-`",
        }
    }

    /// Returns whether a text is valid, as far as this can be decided without the gateway.
    pub(crate) fn fits(self, text: &str) -> bool {
        match self {
            Self::Id => {
                (1..=32).contains(&text.len())
                    && text
                        .chars()
                        .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
            }
            Self::Reason => !text.trim().is_empty() && text.chars().count() <= MAX_REASON,
            Self::Line => Self::Reason.fits(text) && !text.contains(char::is_control),
            // Printed in lines that people decide on, so it must not contain line breaks.
            Self::ToolName => is_name(text, MAX_TOOL_NAME),
            Self::Version => {
                let mut numbers = text.split(['.', '-', '+']).take(3);
                text.len() <= MAX_VERSION
                    && numbers.all(|number| number.len() <= MAX_VERSION_DIGITS)
            }
            Self::Size => is_amount(text, SIZE_UNITS),
            Self::Time => is_amount(text, TIME_UNITS),
            Self::Url => text == ANY || url::is_url(text),
            Self::Path => url::is_path(text),
            Self::Any | Self::Contract => true,
        }
    }
}

/// Returns whether a text is a whole number and one of the units.
fn is_amount(text: &str, units: [&str; 4]) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (1..=MAX_DIGITS).contains(&digits) && units.contains(&&text[digits..])
}

/// Returns whether a text is 1 to `limit` letters, digits, `_` or `-`.
pub(crate) fn is_name(text: &str, limit: usize) -> bool {
    (1..=limit).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Returns whether a text is valid as the name of a slot. It differs from every full name of a tool,
/// which has a `-`.
pub(crate) fn is_slot_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Quotes a text for a message; cuts it if it is long. Invisible characters are escaped.
pub(crate) fn shown(text: &str) -> String {
    if text.len() <= MAX_SHOWN {
        return format!("{text:?}");
    }
    format!("{:?} and more", &text[..text.floor_char_boundary(MAX_SHOWN)])
}
