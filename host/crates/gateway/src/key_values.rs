//! Makes the credentials of virtual keys that have none in the configuration file.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::time::sleep;
use tracing::warn;

use super::Reloader;
use airlock_management::{NewKeyValue, Service};

/// Time before another attempt after a failure. It doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// Longest time before another attempt.
const LAST_RETRY: Duration = Duration::from_mins(1);

/// Shows a credential to who operates the gateway. It is not shown again.
pub(super) type ShowKeyValue = Arc<dyn Fn(&NewKeyValue) + Send + Sync>;

/// Makes a credential for each key without one, now if `is_wanted`, and whenever the settings have such a
/// key. Never returns.
pub(super) async fn make(
    service: Arc<Service>,
    reloader: Reloader,
    show: ShowKeyValue,
    mut is_wanted: bool,
) -> Infallible {
    reloader.settings_read().cancelled().await;
    let mut delay = FIRST_RETRY;
    loop {
        if !is_wanted {
            reloader.lacks_key_value().await;
        }
        let made = service.make_key_values(&*show).await;
        is_wanted = made.is_err();
        match made {
            Ok(()) => delay = FIRST_RETRY,
            Err(refused) => {
                let reason = refused.message;
                warn!(
                    reason,
                    "virtual keys have no credential, and none can be made; the gateway tries again"
                );
                sleep(delay).await;
                delay = (delay * 2).min(LAST_RETRY);
            }
        }
    }
}
