//! New values of keys whose elements have them.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::{take_member, without_value};
use crate::{
    change::{ConfigState, take},
    refusal::{Result, invalid},
    token::TokenDigest,
};
use airlock_config::Element;
use airlock_strings::hex;

/// Longest time that the value before a rotation stays valid (`cooldown`): a value that has leaked ends with it.
const MAX_COOLDOWN: Duration = Duration::from_hours(24 * 30);

/// Returns the element of a key with a new value. The value before stays valid until `until`; the one
/// before that is refused.
pub(super) fn rotated(
    state: &ConfigState,
    key: &Element,
    digest: TokenDigest,
    until: Option<SystemTime>,
) -> Result<Value> {
    let mut element = without_value(key)?;
    let own = take(&mut element, "value_sha256");
    take_member(&mut element, "previous_value_sha256");
    take_member(&mut element, "previous_valid_until");
    if let Some(until) = until {
        let previous = own.as_str().map(str::to_owned).or_else(|| {
            // The value comes from the environment.
            state.merged.config.keys.named(&key.name).map(|key| hex(&key.digest()))
        });
        let previous = previous.ok_or_else(|| {
            invalid(
                "the key is not active, so its old value cannot stay valid: leave out `cooldown`",
            )
        })?;
        element["previous_value_sha256"] = previous.into();
        element["previous_valid_until"] =
            humantime::format_rfc3339_seconds(until).to_string().into();
    }
    take_member(&mut element, "value");
    element["value_sha256"] = hex(&digest).into();
    Ok(element)
}

/// Returns the time until which the value before a rotation stays valid.
pub(super) fn valid_until(cooldown: Option<&str>) -> Result<Option<SystemTime>> {
    let Some(text) = cooldown else { return Ok(None) };
    let cooldown = humantime::parse_duration(text)
        .map_err(|_| invalid("`cooldown` must be a time such as \"90m\" or \"7d\""))?;
    if cooldown > MAX_COOLDOWN {
        return Err(invalid("`cooldown` must be at most 30 days"));
    }
    Ok((!cooldown.is_zero()).then(|| SystemTime::now() + cooldown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cooldown_is_bounded() {
        assert_eq!(valid_until(None), Ok(None));
        assert_eq!(valid_until(Some("0s")), Ok(None));
        assert!(valid_until(Some("30d")).is_ok_and(|until| until.is_some()));
        for text in ["31d", "", "-1s", "1 hour and more"] {
            assert!(valid_until(Some(text)).is_err(), "{text}");
        }
    }
}
