//! Path to a place in a value, in the notation that models use: `filters[2].name`.

use std::fmt::Write as _;

use serde_json::Value;

/// Length at which a place is cut, in bytes: about two lines of a terminal. The segment that
/// crosses it is still added. Without it, 64 levels of long keys that are escaped would take 25 KB.
const MAX_PLACE: usize = 160;

/// Renders a JSON pointer into `value` as a place. The place of the outermost value is empty.
pub(super) fn render(pointer: &str, value: &Value) -> String {
    let mut place = String::new();
    let mut at = Some(value);
    for segment in pointer.split('/').skip(1) {
        if place.len() > MAX_PLACE {
            place.push('…');
            break;
        }
        let segment = segment.replace("~1", "/").replace("~0", "~");
        at = match at {
            Some(Value::Array(items)) => {
                // Writing to a String cannot fail.
                let _ = write!(place, "[{segment}]");
                segment.parse::<usize>().ok().and_then(|index| items.get(index))
            }
            inside => {
                push_key(&mut place, &segment);
                inside.and_then(|object| object.get(&segment))
            }
        };
    }
    place
}

/// Returns the place of the member `key` of the object at `place`.
pub(super) fn member(place: &str, key: &str) -> String {
    let mut place = place.to_owned();
    push_key(&mut place, key);
    place
}

fn push_key(place: &mut String, key: &str) {
    let is_name = !key.is_empty()
        && key.len() <= airlock_strings::MAX_WORD_BYTES
        && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '$'));
    if is_name {
        if !place.is_empty() {
            place.push('.');
        }
        place.push_str(key);
    } else {
        let _ = write!(
            place,
            "[{:?}]",
            airlock_strings::cut(key.to_owned(), airlock_strings::MAX_WORD_BYTES)
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_place_reads_as_a_model_writes_it() {
        let value = json!({"filters": [0, 0, {"name": 1}], "a b": {"0": {"~/": 1}}});
        assert_eq!(render("", &value), "");
        assert_eq!(render("/filters/2/name", &value), "filters[2].name");
        assert_eq!(render("/a b/0/~0~1", &value), r#"["a b"].0["~/"]"#);
        assert_eq!(render("/gone/7", &value), "gone.7");
        assert_eq!(member("filters[2]", "name"), "filters[2].name");
    }

    #[test]
    fn a_place_is_cut_where_it_is_long_and_shows_no_control_characters() {
        let key = "k".repeat(200);
        assert!(
            render(&format!("/{key}/{key}/{key}/{key}"), &json!({})).len()
                < MAX_PLACE + 2 * airlock_strings::MAX_WORD_BYTES
        );
        assert_eq!(render("/\u{1b}[31m\n", &json!({})), r#"["\u{1b}[31m\n"]"#);
    }
}
