//! Headers of a caller's request that sources of tools may pass on.

use std::{fmt, iter, sync::Arc};

/// Maximum size of all names and values, in bytes. They are held until the request ends and sent to
/// each source that asks for them; servers such as nginx and Apache accept 8 KiB for each header.
pub const MAX_CALLER_HEADER_BYTES: usize = 16 << 10;

/// Headers of a caller's request. Each source decides by its configuration which of them it passes
/// on. Cheap to clone. The values are not part of its `Debug` text.
///
/// One buffer has all of them, because every request is made one and few need it. Each header is
/// the lengths of its name and its value, the name in lower case, and the value.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CallerHeaders(Option<Arc<[u8]>>);

/// Bytes for which there is room before the first header: most requests have fewer.
const USUAL_BYTES: usize = 512;

/// Size of a length in the buffer, in bytes.
const LENGTH_BYTES: usize = size_of::<u16>();
const _: () = assert!(MAX_CALLER_HEADER_BYTES <= u16::MAX as usize);

impl CallerHeaders {
    /// Collects headers, in this order, up to [`MAX_CALLER_HEADER_BYTES`]. A header that does not
    /// fit is left out.
    pub fn collect<'h>(headers: impl IntoIterator<Item = (&'h str, &'h [u8])>) -> Self {
        let mut left = MAX_CALLER_HEADER_BYTES;
        let mut kept: Vec<u8> = Vec::with_capacity(USUAL_BYTES);
        for (name, value) in headers {
            let bytes = name.len() + value.len();
            let lengths = (u16::try_from(name.len()), u16::try_from(value.len()));
            if let (Ok(of_name), Ok(of_value)) = lengths
                && bytes <= left
            {
                left -= bytes;
                kept.extend_from_slice(&of_name.to_ne_bytes());
                kept.extend_from_slice(&of_value.to_ne_bytes());
                let start = kept.len();
                kept.extend_from_slice(name.as_bytes());
                kept[start..].make_ascii_lowercase();
                kept.extend_from_slice(value);
            }
        }
        Self((!kept.is_empty()).then(|| kept.into()))
    }

    /// Iterates over the names, in lower case, and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut rest = self.0.as_deref().unwrap_or_default();
        iter::from_fn(move || {
            let name_bytes = take_length(&mut rest)?;
            let value_bytes = take_length(&mut rest)?;
            let name = rest.split_off(..name_bytes)?;
            let value = rest.split_off(..value_bytes)?;
            // It was text in `collect`.
            Some((str::from_utf8(name).ok()?, value))
        })
    }
}

/// Removes a length from the beginning of `rest`; `None` at the end.
fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let bytes = rest.split_off(..LENGTH_BYTES)?;
    bytes.try_into().ok().map(u16::from_ne_bytes).map(usize::from)
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
        let two = CallerHeaders::collect([("X-\u{e9}", b"1".as_slice()), ("x-empty", b"")]);
        assert_eq!(
            two.iter().collect::<Vec<_>>(),
            [("x-\u{e9}", b"1".as_slice()), ("x-empty", b"")]
        );
    }
}
