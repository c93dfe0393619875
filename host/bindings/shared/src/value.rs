//! Bounds on values that a program passes to a script or returns from a tool.
//!
//! A value of the program is checked while it is converted, before there is a text of it. The bounds keep
//! a list that contains itself, or a data set that was passed by mistake, from taking the memory of the
//! process.

use airlock_json::{
    Caps, Error, MAX_DEPTH,
    weight::{ITEM_BYTES, MEMBER_BYTES},
};
use serde_json::Value;

/// Memory that one converted value may take, in bytes: as much as the whole sandbox of a script has by default.
pub const MAX_VALUE_BYTES: usize = 64 << 20;

/// Reason that a value of the program cannot be passed to a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadValue {
    /// It is nested too deeply, or contains itself.
    #[error("the value is nested more than {MAX_DEPTH} levels deep, or contains itself")]
    TooDeep,
    /// It takes too much memory.
    #[error("the value takes more than {} MiB", MAX_VALUE_BYTES >> 20)]
    TooLarge,
    /// A number that JSON does not have.
    #[error("nan and infinity have no JSON form; pass None or a text")]
    NotFinite,
    /// An integer that JSON readers would round.
    #[error("an integer of more than 64 bits would be rounded; pass it as a text")]
    TooWide,
    /// A text that is not JSON.
    #[error("the value is no valid JSON")]
    NotJson,
}

/// Reads a value that a binding has written as JSON, within the same bounds.
pub fn parse_value(text: &str) -> Result<Value, BadValue> {
    match airlock_json::parse(text.as_bytes(), &Caps::memory(MAX_VALUE_BYTES)) {
        Ok((value, _)) => Ok(value),
        Err(Error::TooDeep { .. }) => Err(BadValue::TooDeep),
        Err(Error::TooLarge { .. }) => Err(BadValue::TooLarge),
        Err(_) => Err(BadValue::NotJson),
    }
}

/// Memory and levels that are left for one value.
#[derive(Debug)]
pub struct ValueBudget {
    bytes: usize,
    levels: usize,
}

impl Default for ValueBudget {
    fn default() -> Self {
        Self { bytes: MAX_VALUE_BYTES, levels: MAX_DEPTH }
    }
}

impl ValueBudget {
    /// Charges an item of a list, with the bytes of its text if it is one.
    pub fn item(&mut self, text_bytes: usize) -> Result<(), BadValue> {
        self.take(ITEM_BYTES.saturating_add(text_bytes))
    }

    /// Charges the name of a member of an object. Its value is an item.
    pub fn name(&mut self, text_bytes: usize) -> Result<(), BadValue> {
        self.take(MEMBER_BYTES.saturating_add(text_bytes))
    }

    /// Fails if a text with so many bytes is too large. It is charged as an item.
    pub fn fits_text(&self, bytes: usize) -> Result<(), BadValue> {
        if bytes > self.bytes { Err(BadValue::TooLarge) } else { Ok(()) }
    }

    /// Fails if so many members of an object are too many. They are charged one by one.
    pub fn fits_members(&self, members: usize) -> Result<(), BadValue> {
        self.fits_text(members.saturating_mul(MEMBER_BYTES))
    }

    /// Enters a list or an object.
    pub fn enter(&mut self) -> Result<(), BadValue> {
        self.levels = self.levels.checked_sub(1).ok_or(BadValue::TooDeep)?;
        Ok(())
    }

    /// Leaves a list or an object.
    pub fn leave(&mut self) {
        self.levels += 1;
    }

    fn take(&mut self, bytes: usize) -> Result<(), BadValue> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or(BadValue::TooLarge)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_bounded_and_are_free_again_when_they_are_left() {
        let mut budget = ValueBudget::default();
        for _ in 0..3 {
            for _ in 0..MAX_DEPTH {
                budget.enter().expect("within the bound");
            }
            assert_eq!(budget.enter(), Err(BadValue::TooDeep));
            for _ in 0..MAX_DEPTH {
                budget.leave();
            }
        }
    }

    #[test]
    fn memory_is_bounded_by_items_and_by_text() {
        let mut budget = ValueBudget::default();
        budget.item(MAX_VALUE_BYTES / 2).expect("half of it");
        assert_eq!(budget.item(MAX_VALUE_BYTES / 2), Err(BadValue::TooLarge));
        assert_eq!(budget.name(usize::MAX), Err(BadValue::TooLarge));
        budget.name(0).expect("what was refused is not charged");
        assert_eq!(budget.fits_text(MAX_VALUE_BYTES / 2), Err(BadValue::TooLarge));
        assert_eq!(budget.fits_members(MAX_VALUE_BYTES / MEMBER_BYTES), Err(BadValue::TooLarge));
        budget.fits_text(1 << 20).expect("it is less than a half");
        budget.fits_members(1 << 10).expect("they are less than a half");
        let fitting = (0..MAX_VALUE_BYTES).take_while(|_| budget.item(0).is_ok()).count();
        assert!(fitting < MAX_VALUE_BYTES / ITEM_BYTES, "{fitting}");
    }

    #[test]
    fn a_text_is_read_within_the_same_bounds() {
        let deep = "[".repeat(MAX_DEPTH + 1) + &"]".repeat(MAX_DEPTH + 1);
        let large = format!("[{}0]", "0,".repeat(MAX_VALUE_BYTES / 16));
        assert_eq!(parse_value("[1, 18446744073709551615]").expect("JSON")[1], u64::MAX);
        assert_eq!(parse_value(&deep), Err(BadValue::TooDeep));
        assert_eq!(parse_value(&large), Err(BadValue::TooLarge));
        for text in ["", "[", "nan", r#""\ud800""#] {
            assert_eq!(parse_value(text), Err(BadValue::NotJson), "{text}");
        }
    }
}
