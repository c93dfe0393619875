//! Amounts of limits, as manifests and the configuration write them.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, MapAccess, Visitor},
};
use serde_json::{Map, json};

use super::{GuestLimit, Unit};
use crate::units::{Size, Span};

/// Amounts of some limits. As JSON, an object with the keys of the limits.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct GuestLimitSet([Option<u64>; GuestLimit::ALL.len()]);

impl GuestLimitSet {
    /// Returns the amount of a limit; `None` if the set has none.
    pub fn get(&self, limit: GuestLimit) -> Option<u64> {
        self.0[limit as usize]
    }

    /// Returns the set with this amount of a limit, in the unit of the limit.
    #[must_use]
    pub fn with(mut self, limit: GuestLimit, amount: u64) -> Self {
        self.0[limit as usize] = Some(amount);
        self
    }

    /// Returns the limits of the set and their amounts, in the order of the table.
    pub fn amounts(&self) -> impl Iterator<Item = (GuestLimit, u64)> {
        GuestLimit::ALL.into_iter().filter_map(|limit| Some((limit, self.get(limit)?)))
    }

    /// Deserializes the limits that a manifest may request. Refuses the others as unknown keys.
    pub fn deserialize_requested<'de, D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_struct(
            "Limits",
            &GuestLimit::REQUESTABLE,
            ExpectedKeys(&GuestLimit::REQUESTABLE),
        )
    }
}

impl fmt::Debug for GuestLimitSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.amounts().map(|(limit, amount)| (limit.key(), limit.show(amount)));
        f.debug_map().entries(shown).finish()
    }
}

impl<'de> Deserialize<'de> for GuestLimitSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_struct("Limits", GuestLimit::KEYS, ExpectedKeys(GuestLimit::KEYS))
    }
}

/// Keys that may be set.
#[derive(Clone, Copy)]
struct ExpectedKeys(&'static [&'static str]);

impl<'de> Visitor<'de> for ExpectedKeys {
    type Value = GuestLimitSet;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct Limits")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<GuestLimitSet, A::Error> {
        let mut set = GuestLimitSet::default();
        while let Some(limit) = members.next_key_seed(KeyOf(self))? {
            let amount = members.next_value_seed(AmountOf(limit))?;
            if set.get(limit).is_some() {
                return Err(de::Error::duplicate_field(limit.key()));
            }
            set.0[limit as usize] = amount;
        }
        Ok(set)
    }
}

/// Deserializes a key.
struct KeyOf(ExpectedKeys);

impl<'de> DeserializeSeed<'de> for KeyOf {
    type Value = GuestLimit;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<GuestLimit, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KeyOf {
    type Value = GuestLimit;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the key of a limit")
    }

    fn visit_str<E: de::Error>(self, key: &str) -> Result<GuestLimit, E> {
        let ExpectedKeys(known) = self.0;
        let limit = GuestLimit::with_key(key).filter(|limit| known.contains(&limit.key()));
        limit.ok_or_else(|| E::unknown_field(key, known))
    }
}

/// Deserializes an amount in the unit of the limit. A time above 584 years becomes 584 years.
struct AmountOf(GuestLimit);

impl<'de> DeserializeSeed<'de> for AmountOf {
    type Value = Option<u64>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Option<u64>, D::Error> {
        Ok(match self.0.unit() {
            Unit::Count => Option::<u64>::deserialize(from)?,
            Unit::Bytes => Option::<Size>::deserialize(from)?.map(|size| size.0),
            Unit::Nanoseconds => Option::<Span>::deserialize(from)?
                .map(|time| u64::try_from(time.0.as_nanos()).unwrap_or(u64::MAX)),
        })
    }
}

impl JsonSchema for GuestLimitSet {
    fn schema_name() -> Cow<'static, str> {
        "Limits".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let properties: Map<_, _> = GuestLimit::ALL
            .into_iter()
            .map(|limit| (limit.key().to_owned(), property(limit, generator).into()))
            .collect();
        json_schema!({
            "type": "object",
            "description": "Limits of one call of a plugin, at most those of its profile. Default: the plugin's \
                            request, or else the default of each limit.",
            "properties": properties,
            "additionalProperties": false,
        })
    }
}

fn property(limit: GuestLimit, generator: &mut SchemaGenerator) -> Schema {
    let mut schema = match limit.unit() {
        Unit::Count => generator.subschema_for::<Option<u64>>(),
        Unit::Bytes => generator.subschema_for::<Option<Size>>(),
        Unit::Nanoseconds => generator.subschema_for::<Option<Span>>(),
    };
    if limit.unit() == Unit::Count {
        schema.insert("minimum".to_owned(), json!(limit.minimum()));
        schema.insert("maximum".to_owned(), json!(limit.trusted_maximum()));
    }
    let default = limit.show(limit.default_amount());
    let trusted = limit.show(limit.trusted_maximum());
    let maxima = if default == trusted {
        format!("Default and maximum: {default}.")
    } else {
        format!(
            "Default, and maximum with the profile `untrusted`: {default}. Maximum with `trusted`: \
             {trusted}."
        )
    };
    schema.insert("description".to_owned(), json!(format!("{} {maxima}", limit.description())));
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_and_shown_with_their_unit() {
        let json = json!({"fuel": 7, "memory": "2MiB", "cpu_time": "1s 500ms", "handles": null});
        let set: GuestLimitSet = serde_json::from_value(json).expect("a set");
        assert_eq!(
            set.amounts().collect::<Vec<_>>(),
            [
                (GuestLimit::Fuel, 7),
                (GuestLimit::CpuTime, 1_500_000_000),
                (GuestLimit::Memory, 2 << 20)
            ]
        );
        insta::assert_snapshot!(format!("{set:?}"), @r#"{"fuel": "7", "cpu_time": "1s 500ms", "memory": "2MiB"}"#);
        let ages: GuestLimitSet =
            serde_json::from_value(json!({"deadline": "10000years"})).expect("a set");
        assert_eq!(ages.get(GuestLimit::Deadline), Some(u64::MAX));
    }

    #[test]
    fn unknown_and_repeated_keys_and_wrong_units_are_refused() {
        for (text, problem) in [
            (r#"{"feul": 1}"#, "unknown field `feul`, expected one of `fuel`, `cpu_time`"),
            (r#"{"fuel": 1, "fuel": 2}"#, "duplicate field `fuel`"),
            (r#"{"memory": 1}"#, "expected a size with its unit"),
            (r#"{"deadline": 1}"#, "expected a time with its unit"),
            (r#"{"fuel": "1"}"#, "expected u64"),
            ("[1]", "invalid type: sequence"),
        ] {
            let error = serde_json::from_str::<GuestLimitSet>(text).expect_err(text).to_string();
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_manifest_may_request_some_limits_and_no_others() {
        assert_eq!(read(r#"{"fuel": 1}"#), Ok(GuestLimitSet::default().with(GuestLimit::Fuel, 1)));
        insta::assert_snapshot!(
            read(r#"{"handles": 1}"#).expect_err("refused"),
            @"unknown field `handles`, expected one of `fuel`, `cpu_time`, `deadline`, `memory`, `host_calls`, `result`, `http_requests`, `http_request`, `http_response`, `http_timeout` at line 1 column 10"
        );
    }

    fn read(text: &str) -> Result<GuestLimitSet, String> {
        GuestLimitSet::deserialize_requested(&mut serde_json::Deserializer::from_str(text))
            .map_err(|error| error.to_string())
    }
}
