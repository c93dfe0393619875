//! Forms of texts in a manifest.

/// Maximum length of a reason, in bytes: people read it before they grant anything.
const MAX_REASON: usize = 300;
/// Maximum length of a requested tool name, in bytes; longer than any name in the catalog.
const MAX_TOOL_NAME: usize = 128;
/// Maximum length of a text in a message, in bytes.
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
    /// Number of bytes with its unit; read by the gateway.
    Size,
    /// Time with its unit; read by the gateway.
    Time,
    /// Origin of a URL, or `*`; read by the gateway with the rest of the request.
    Url,
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
            Self::Reason => "1 to 300 bytes of text for the person who decides",
            Self::Size => "a size with its unit, such as \"64MiB\" or \"512KiB\"",
            Self::Time => "a time with its unit, such as \"250ms\", \"30s\" or \"10m\"",
            Self::Url => {
                "a scheme and a host, such as \"https://api.example.com\", or \"*\" for hosts that \
                 the operator chooses"
            }
            Self::Line => "one line of 1 to 300 bytes",
            Self::ToolName => "the full name of a tool: 1 to 128 letters, digits, `_` or `-`",
        }
    }

    /// Returns whether a text is valid, as far as this can be decided without the gateway.
    pub(crate) fn fits(self, text: &str) -> bool {
        match self {
            Self::Id => {
                let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                (1..=32).contains(&text.len()) && text.chars().all(is_fit)
            }
            Self::Reason => !text.trim().is_empty() && text.len() <= MAX_REASON,
            Self::Line => Self::Reason.fits(text) && !text.contains(char::is_control),
            // Printed in lines that people decide on, so it must not contain line breaks.
            Self::ToolName => is_name(text, MAX_TOOL_NAME),
            Self::Any | Self::Version | Self::Contract | Self::Size | Self::Time | Self::Url => {
                true
            }
        }
    }
}

/// Returns whether a text is 1 to `limit` letters, digits, `_` or `-`.
pub(crate) fn is_name(text: &str, limit: usize) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=limit).contains(&text.len()) && text.chars().all(is_fit)
}

/// Returns whether a text is valid as the name of a slot. It differs from every full name of a tool,
/// which has a `-`.
pub(crate) fn is_slot_name(text: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    (1..=32).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_lowercase())
        && text.chars().all(is_fit)
}

/// Quotes a text for a message; cuts it if it is long. Invisible characters are escaped.
pub(crate) fn shown(text: &str) -> String {
    if text.len() <= MAX_SHOWN {
        return format!("{text:?}");
    }
    format!("{:?} and more", &text[..text.floor_char_boundary(MAX_SHOWN)])
}
