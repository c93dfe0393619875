//! The forms of response that a client accepts.

use http::{HeaderMap, header};

/// The forms of response that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accept {
    /// One JSON document.
    pub(super) json: bool,
    /// Server-sent events.
    pub(super) streams: bool,
}

impl Accept {
    /// Reads `Accept`. The specification requires both forms; a client that names one is served
    /// with that one. Without the header, both are accepted. A weight matters only if it is 0.
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let mut found = Self { json: false, streams: false };
        let mut is_absent = true;
        for value in headers.get_all(header::ACCEPT) {
            is_absent = false;
            for range in value.to_str().unwrap_or_default().split(',') {
                let mut parts = range.split(';').map(str::trim);
                let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
                if parts.any(is_refusal) {
                    continue;
                }
                found.json |= matches!(&*kind, "application/json" | "application/*" | "*/*");
                found.streams |= matches!(&*kind, "text/event-stream" | "text/*" | "*/*");
            }
        }
        if is_absent { Self { json: true, streams: true } } else { found }
    }

    /// Returns whether any form is accepted.
    pub(super) fn is_any(self) -> bool {
        self.json || self.streams
    }
}

/// Returns whether a parameter is a weight of 0 (RFC 9110, section 12.4.2).
fn is_refusal(parameter: &str) -> bool {
    let weight =
        parameter.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    weight.is_some_and(|(_, weight)| weight.trim().parse() == Ok(0.0_f32))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(values: &[&'static str]) -> (bool, bool) {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT, HeaderValue::from_static(value));
        }
        let accept = Accept::read(&headers);
        (accept.json, accept.streams)
    }

    #[test]
    fn both_forms_one_or_none_are_accepted() {
        assert_eq!(read(&[]), (true, true));
        assert_eq!(read(&["application/json, text/event-stream"]), (true, true));
        assert_eq!(read(&["Application/JSON", "text/event-stream; q=0.5"]), (true, true));
        assert_eq!(read(&["*/*"]), (true, true));
        assert_eq!(read(&["application/json"]), (true, false));
        assert_eq!(read(&["text/event-stream, application/json;q=0"]), (false, true));
        assert_eq!(read(&["text/html"]), (false, false));
        assert_eq!(read(&[""]), (false, false));
    }
}
