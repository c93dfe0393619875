//! Headers of a caller's request that sources of tools may pass on.

use std::{fmt, sync::Arc};

/// Maximum size of all names and values, in bytes. They are held until the request ends and sent to
/// each source that asks for them; servers such as nginx and Apache accept 8 KiB for each header.
pub const MAX_CALLER_HEADER_BYTES: usize = 16 << 10;

/// Headers of a caller's request. Each source decides by its configuration which of them it passes
/// on. Cheap to clone. The values are not part of its `Debug` text.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CallerHeaders(Option<Arc<[Header]>>);

/// Name in lower case, and value.
type Header = (Box<str>, Box<[u8]>);

impl CallerHeaders {
    /// Collects headers, in this order, up to [`MAX_CALLER_HEADER_BYTES`]. A header that does not
    /// fit is left out.
    pub fn collect<'h>(headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) -> Self {
        let mut left = MAX_CALLER_HEADER_BYTES;
        let mut kept: Vec<Header> = Vec::new();
        for (name, value) in headers {
            let bytes = name.len() + value.len();
            if bytes <= left {
                left -= bytes;
                kept.push((name.to_ascii_lowercase().into(), value.into()));
            }
        }
        Self((!kept.is_empty()).then(|| kept.into()))
    }

    /// Iterates over the names, in lower case, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().flat_map(|headers| headers.iter()).map(|(name, value)| (&**name, &**value))
    }
}

impl fmt::Debug for CallerHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_bounded_to_the_byte_in_lower_case_and_hidden_from_logs() {
        let value = vec![b'v'; MAX_CALLER_HEADER_BYTES - 3];
        let headers = [("X-A", value.as_slice()), ("x", b""), ("", b"")];
        let collected = CallerHeaders::collect(headers);
        let names: Vec<&str> = collected.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["x-a", ""]);
        let secret = CallerHeaders::collect([("Authorization", b"s3cret".as_slice())]);
        assert_eq!(format!("{secret:?}"), r#"["authorization"]"#);
        assert_eq!(CallerHeaders::collect([]), CallerHeaders::default());
    }
}
