//! Values whose types have the default and the range of the key. The published schema has both.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, de};

use airlock_core::{
    limit::saturating_u32,
    units::{SecondsOrSpan, Size, Span},
};

pub(crate) const MILLISECOND: u64 = 1;
pub(crate) const SECOND: u64 = 1_000 * MILLISECOND;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;
pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
/// In the place of a default: the key has none, or one that depends on other keys.
pub(crate) const NONE: u64 = u64::MAX;

/// A time; its bounds are in milliseconds.
pub(crate) type Time<const MIN: u64, const MAX: u64, const DEFAULT: u64 = NONE> =
    Ranged<Span, MIN, MAX, DEFAULT>;
/// A time of which 0 means something else.
pub(crate) type TimeOrZero<const MIN: u64, const MAX: u64, const DEFAULT: u64 = NONE> =
    Ranged<Span, MIN, MAX, DEFAULT, true>;
/// A size; its bounds are in bytes.
pub(crate) type Bytes<const MIN: u64, const MAX: u64, const DEFAULT: u64 = NONE> =
    Ranged<Size, MIN, MAX, DEFAULT>;
/// A number.
pub(crate) type Count<const MIN: u64, const MAX: u64, const DEFAULT: u64 = NONE> =
    Ranged<u64, MIN, MAX, DEFAULT>;

/// A value from `MIN` to `MAX`, or 0 if `ZERO` is true. They are in the base unit of `T`.
#[derive(Clone, Copy)]
pub struct Ranged<
    T,
    const MIN: u64,
    const MAX: u64,
    const DEFAULT: u64 = NONE,
    const ZERO: bool = false,
>(T);

/// A quantity of which the base unit is an integer.
pub trait Amount: Copy + PartialOrd + fmt::Display + Serialize {
    /// Creates a quantity from a number of its base unit.
    fn new(amount: u64) -> Self;

    /// Returns a bound as people write it.
    fn show(bound: u64) -> String {
        Self::new(bound).to_string()
    }
}

impl Amount for Span {
    fn new(amount: u64) -> Self {
        Self::millis(amount)
    }

    fn show(bound: u64) -> String {
        let days = bound / DAY;
        // Not in months and years, which have no fixed length.
        if days > 1 && bound.is_multiple_of(DAY) {
            format!("{days}days")
        } else {
            Self::new(bound).to_string()
        }
    }
}

impl Amount for SecondsOrSpan {
    fn new(amount: u64) -> Self {
        Self(Span::millis(amount))
    }
}

impl Amount for Size {
    fn new(amount: u64) -> Self {
        Self(amount)
    }
}

impl Amount for u64 {
    fn new(amount: u64) -> Self {
        amount
    }
}

impl<T: Amount, const MIN: u64, const MAX: u64, const DEFAULT: u64, const ZERO: bool>
    Ranged<T, MIN, MAX, DEFAULT, ZERO>
{
    /// Returns the value.
    pub fn get(self) -> T {
        self.0
    }

    /// Returns the value; `None` if it is 0.
    pub fn nonzero(self) -> Option<Self> {
        (self.0 > T::new(0)).then_some(self)
    }
}

impl<const MIN: u64, const MAX: u64, const DEFAULT: u64, const ZERO: bool>
    Ranged<u64, MIN, MAX, DEFAULT, ZERO>
{
    /// Returns the number. The ranges of all keys for which it is used are below 2³².
    pub fn count(self) -> u32 {
        saturating_u32(self.0)
    }
}

impl<T: Amount, const MIN: u64, const MAX: u64, const DEFAULT: u64, const ZERO: bool> Default
    for Ranged<T, MIN, MAX, DEFAULT, ZERO>
{
    fn default() -> Self {
        const { assert!(DEFAULT != NONE, "the key has no default of its own") };
        Self(T::new(DEFAULT))
    }
}

impl<
    'de,
    T: Amount + Deserialize<'de>,
    const MIN: u64,
    const MAX: u64,
    const DEFAULT: u64,
    const ZERO: bool,
> Deserialize<'de> for Ranged<T, MIN, MAX, DEFAULT, ZERO>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = T::deserialize(deserializer)?;
        let [zero, min, max] = [0, MIN, MAX].map(T::new);
        if (min..=max).contains(&value) || (ZERO && value == zero) {
            Ok(Self(value))
        } else {
            Err(de::Error::custom(format_args!("must be from {min} to {max}, found {value}")))
        }
    }
}

impl<T: Amount + JsonSchema, const MIN: u64, const MAX: u64, const DEFAULT: u64, const ZERO: bool>
    JsonSchema for Ranged<T, MIN, MAX, DEFAULT, ZERO>
{
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}From{MIN}To{MAX}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = T::json_schema(generator);
        if schema.get("type").is_some_and(|kind| kind == "integer") {
            schema.insert("minimum".into(), if ZERO { 0 } else { MIN }.into());
            schema.insert("maximum".into(), MAX.into());
        }
        let [min, max] = [MIN, MAX].map(T::show);
        let range = format!("{}{min} to {max}", if ZERO { "0, or from " } else { "From " });
        schema.insert(RANGE.into(), range.into());
        if DEFAULT != NONE {
            schema.insert("default".into(), serde_json::json!(T::new(DEFAULT)));
        }
        schema
    }
}

/// Keyword with the range as text, until it is part of the description.
pub const RANGE: &str = "x-range";

/// True or false, with a default.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline, extend("default" = DEFAULT))]
pub struct Flag<const DEFAULT: bool>(pub bool);

impl<const DEFAULT: bool> Default for Flag<DEFAULT> {
    fn default() -> Self {
        Self(DEFAULT)
    }
}
