use http::{HeaderMap, header};

use super::*;
use crate::{Refusal, http::retry_after, keys::ServiceKeys, settings};
use airlock_conversation::Object;
use airlock_core::secret::Secret;

const SETTINGS: Retries =
    Retries { max: 3, initial: Duration::from_millis(400), longest: Duration::from_secs(1) };

fn refused(status: u16, retry_after: Option<&str>) -> ModelError {
    let refusal = Refusal {
        status: StatusCode::from_u16(status).expect("a status"),
        error: Object::new(),
        retry_after: retry_after.and_then(|value| {
            retry_after::read(&HeaderMap::from_iter([(header::RETRY_AFTER, value.parse().ok()?)]))
        }),
    };
    ModelError::Refused { provider: "up".into(), refusal: Box::new(refusal) }
}

fn credential() -> ModelError {
    let refusal =
        Refusal { status: StatusCode::UNAUTHORIZED, error: Object::new(), retry_after: None };
    ModelError::Credential { provider: "up".into(), refusal: Box::new(refusal) }
}

fn keys(names: &[&str]) -> ServiceKeys {
    let keys: Vec<_> =
        names.iter().map(|name| settings::Key::new(*name, Secret::new("k"))).collect();
    ServiceKeys::new(&keys, |_| Ok(None)).expect("good keys")
}

/// Calls `check` with the attempts of a request that has a minute.
fn attempts<T>(names: &[&str], check: impl FnOnce(&mut Attempts<'_>) -> T) -> T {
    let keys = keys(names);
    let random = Random::seeded(3);
    let deadline = Instant::now() + Duration::from_mins(1);
    check(&mut Attempts::new("up", keys.serving("m"), &SETTINGS, &random, deadline).expect("a key"))
}

#[tokio::test(start_paused = true)]
async fn only_statuses_of_overloaded_and_broken_services_are_repeated() {
    let repeated: Vec<_> = (400..600)
        .filter(|status| {
            attempts(&["a"], |attempts| attempts.after(&refused(*status, None))).is_some()
        })
        .collect();
    assert_eq!(repeated, [429, 500, 502, 503, 504, 529]);
    let bad = ModelError::BadAnswer { provider: "up".into(), what: "x" };
    let silent = ModelError::Silent { provider: "up".into(), limit: "timeouts.idle" };
    for error in [bad, silent, ModelError::NoModel, credential()] {
        assert_eq!(attempts(&["a"], |attempts| attempts.after(&error)), None, "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn waits_double_up_to_the_longest_with_jitter_and_end_at_the_maximum() {
    attempts(&["a"], |attempts| {
        for millis in [200..400, 400..800, 500..1_000] {
            let wait = attempts.after(&refused(503, None)).expect("a repetition").as_millis();
            assert!(millis.contains(&wait), "{wait} is not in {millis:?}");
        }
        assert_eq!(attempts.after(&refused(503, None)), None);
    });
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_waited_for_up_to_a_minute_and_within_the_deadline() {
    assert_eq!(wait("7"), Some(Duration::from_secs(7)));
    assert!(wait("0").expect("a repetition") >= Duration::from_millis(200), "the backoff");
    assert!(wait("soon").expect("a repetition") < Duration::from_millis(400), "the backoff");
    for late in ["60", "61", "18446744073709551615"] {
        assert_eq!(wait(late), None, "{late} is not within the deadline or too long");
    }
}

/// Returns the wait after a refusal with this `Retry-After`.
fn wait(value: &str) -> Option<Duration> {
    attempts(&["a"], |attempts| attempts.after(&refused(429, Some(value))))
}

#[tokio::test(start_paused = true)]
async fn another_key_follows_a_rate_limit_without_its_retry_after() {
    attempts(&["a", "b"], |attempts| {
        let first = attempts.key().name.clone();
        let wait = attempts.after(&refused(429, Some("50"))).expect("a repetition");
        assert!(wait < Duration::from_millis(400), "{wait:?}");
        assert_ne!(attempts.key().name, first);
        assert_eq!(attempts.after(&refused(429, Some("50"))), Some(Duration::from_secs(50)));
    });
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_not_accepted_is_replaced_once_and_at_once() {
    attempts(&["a", "b", "c"], |attempts| {
        let first = attempts.key().name.clone();
        assert_eq!(attempts.after(&credential()), Some(Duration::ZERO));
        assert_ne!(attempts.key().name, first);
        assert_eq!(attempts.after(&credential()), None);
    });
}

#[tokio::test(start_paused = true)]
async fn a_broken_service_keeps_the_key() {
    attempts(&["a", "b"], |attempts| {
        let first = attempts.key().name.clone();
        assert!(attempts.after(&refused(500, None)).is_some());
        assert_eq!(attempts.key().name, first);
    });
}
