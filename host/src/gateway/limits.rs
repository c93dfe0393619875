//! The limits of a gateway and its prices, which follow the configuration.

use airlock_config::Config;
use airlock_limits::{LimitSet, Limiter};

/// Takes the limits and the prices of a configuration. What was counted stays.
pub(super) fn follow(limiter: &Limiter, config: &Config) {
    limiter.set_prices(config.prices.clone());
    limiter.set(&LimitSet::new(config.limits.clone()));
}
