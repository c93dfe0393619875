//! Redaction of secrets in long values.

use std::sync::Arc;

use super::Scrubber;
use crate::{tenant::Tenant, threads};

/// Redacts secrets of a value with `redact`: here if it has few `bytes`, else on a blocking thread of
/// `tenant`. Returns the value, and whether a secret was found.
pub async fn scrubbed<T: Send + 'static>(
    scrubber: &Arc<Scrubber>,
    tenant: &Tenant,
    bytes: usize,
    mut value: T,
    redact: fn(&Scrubber, &mut T) -> bool,
) -> (T, bool) {
    if scrubber.is_empty() {
        return (value, false);
    }
    let scrubber = scrubber.clone();
    let redacting = threads::read(tenant, bytes, move || {
        let found = redact(&scrubber, &mut value);
        (value, found)
    });
    redacting.await
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::{secret::Secret, threads::INLINE_BYTES};

    const SECRET: &str = "hunter2hunter2";

    #[tokio::test]
    async fn a_long_value_is_redacted_on_a_thread_unless_there_are_no_secrets() {
        let secret = Secret::new(SECRET);
        let scrubber = Arc::new(Scrubber::new([("token", &secret)]).expect("a good secret"));
        let tenant = Tenant::of_key([1; 32], "ann");
        let held = threads::occupy(&tenant).await;
        let short = redacted(&scrubber, &tenant, INLINE_BYTES).now_or_never();
        let (text, found) = short.expect("it is done here");
        assert!(found && !text.contains(SECRET), "{text}");
        assert_eq!(redacted(&scrubber, &tenant, INLINE_BYTES + 1).now_or_never(), None);
        let plain = redacted(&Arc::default(), &tenant, INLINE_BYTES + 1).now_or_never();
        assert_eq!(plain.expect("there is nothing to do"), (SECRET.to_owned(), false));
        drop(held);
    }

    async fn redacted(scrubber: &Arc<Scrubber>, tenant: &Tenant, bytes: usize) -> (String, bool) {
        scrubbed(scrubber, tenant, bytes, SECRET.to_owned(), Scrubber::string).await
    }
}
