//! Durations and costs, as the story of a scene has them.

use std::time::Duration;

use serde_json::Value;

/// Formats the cost of a call record: "0.1 ms and 22,660 units of fuel".
pub(super) fn cost(call: &Value) -> String {
    let time = format!("{:.1} ms", call["duration_ms"].as_f64().unwrap_or_default());
    match call["fuel"].as_u64() {
        Some(fuel) => format!("{time} and {} units of fuel", thousands(fuel)),
        None => time,
    }
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 10_000.0).round() / 10.0
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_by_three() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }
}
