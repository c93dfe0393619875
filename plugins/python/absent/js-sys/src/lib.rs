//! Stands in for `js-sys`, with what `chrono` names of it and nothing behind it: a run has no
//! clock, and no value of [`Date`] exists. The interpreter computes with dates and never asks for
//! the present one.

use wasm_bindgen::JsValue;

/// A date of JavaScript, of which there are none.
pub enum Date {}

/// Panics: dates come from a clock.
fn refused() -> ! {
    panic!("a run has no clock")
}

#[expect(clippy::must_use_candidate, reason = "they never return")]
impl Date {
    /// Panics.
    pub fn new(_milliseconds: &JsValue) -> Self {
        refused()
    }

    /// Panics.
    pub fn new_0() -> Self {
        refused()
    }

    /// Panics.
    pub fn new_with_year_month_day_hr_min_sec(
        _year: u32,
        _month: i32,
        _day: i32,
        _hours: i32,
        _minutes: i32,
        _seconds: i32,
    ) -> Self {
        refused()
    }

    /// Is never called, because there is no `self`.
    pub fn get_time(&self) -> f64 {
        match *self {}
    }

    /// Is never called, because there is no `self`.
    pub fn get_timezone_offset(&self) -> f64 {
        match *self {}
    }
}
