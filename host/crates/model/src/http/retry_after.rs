//! The wait that a response asks for.

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue, header};

use airlock_conversation::Object;

/// Returns the wait that the `Retry-After` of a response asks for; `None` if it has none that is
/// valid. Nothing else of the header reaches a caller.
pub(crate) fn read(headers: &HeaderMap) -> Option<Duration> {
    headers.get(header::RETRY_AFTER).and_then(|value| parse(value, SystemTime::now()))
}

/// Returns the wait that the details of one of Google's errors ask for, in `google.rpc.RetryInfo`;
/// `None` if they have none that is valid.
pub(crate) fn read_details(body: &Object) -> Option<Duration> {
    let details = body.get("error")?.get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// Reads seconds or a date.
fn parse(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_json::object;

    #[test]
    fn a_date_is_the_wait_until_then() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let date = HeaderValue::from_static("Sun, 06 Nov 1994 08:49:57 GMT");
        assert_eq!(parse(&date, now), Some(Duration::from_secs(20)));
        assert_eq!(parse(&date, now + Duration::from_mins(1)), Some(Duration::ZERO));
    }

    #[test]
    fn only_a_valid_retry_after_is_kept() {
        let wait = Duration::from_secs(7);
        for (value, kept) in
            [("7", Some(wait)), ("Bearer sk-1", None), ("-1", None), ("1.5", None), ("", None)]
        {
            let value = HeaderValue::from_static(value);
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, value)]);
            assert_eq!(read(&headers), kept, "{headers:?}");
        }
    }

    #[test]
    fn the_details_of_an_error_of_google_have_the_wait() {
        for (delay, wait) in [
            ("34.5s", Some(Duration::from_millis(34_500))),
            ("0s", Some(Duration::ZERO)),
            ("-1s", None),
            ("NaNs", None),
            ("1e300s", None),
            ("5", None),
        ] {
            let body = object(json!({"error": {"code": 429, "details": [
                {"@type": "type.googleapis.com/google.rpc.Help"},
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
            ]}}));
            assert_eq!(read_details(&body), wait, "{delay}");
        }
        assert_eq!(read_details(&Object::new()), None);
    }
}
