//! `csv_to_json`.

use std::collections::HashSet;
use std::ops::RangeInclusive;

use airlock_guest::{Error, tool, within};
use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Limits of `max_rows`.
const ROWS: RangeInclusive<usize> = 1..=10_000;

/// Significant digits that a 64-bit floating-point number always keeps.
const DIGITS_MAX: usize = 15;

/// A table.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Table {
    /// Names of the columns, in the order of the file.
    pub columns: Vec<String>,
    /// One object a row, with a value for each column.
    pub rows: Vec<Map<String, Value>>,
    /// Whether there are more rows than were converted.
    pub truncated: bool,
}

fn default_true() -> bool {
    true
}

fn default_delimiter() -> String {
    ",".to_owned()
}

fn default_max_rows() -> usize {
    1_000
}

/// Converts CSV to JSON, one object a row, keyed by column.
///
/// Fields may be quoted with `"`, a quote inside a quoted field is doubled, and a quoted field may
/// hold line breaks. All rows need as many fields as the first one.
///
/// Unless `infer_types` is false, an empty field becomes null, `true` and `false` become booleans,
/// and numbers written as in JSON become numbers. Everything else stays text, and so does what
/// would lose something as a number: leading zeros (`007`), a plus sign, an exponent (`12E4`), more
/// than 15 digits.
#[tool(
    read_only,
    idempotent,
    destructive = false,
    open_world = false,
    title = "Convert CSV to JSON"
)]
pub fn csv_to_json(
    /// The CSV text.
    csv: String,
    /// Separator of the fields: one ASCII character, or `tab`.
    #[serde(default = "default_delimiter")]
    delimiter: String,
    /// Whether the first row names the columns. If not, they are called `column_1`, `column_2` and
    /// so on.
    #[serde(default = "default_true")]
    header: bool,
    /// Whether to make null, booleans and numbers of fields that look like it; otherwise every
    /// value is a string.
    #[serde(default = "default_true")]
    infer_types: bool,
    /// Convert at most this many rows.
    #[serde(default = "default_max_rows")]
    #[schemars(range(min = 1, max = 10000))]
    max_rows: usize,
) -> Result<Table, Error> {
    let max_rows = within("max_rows", max_rows, &ROWS)?;
    let csv = csv.strip_prefix('\u{feff}').unwrap_or(&csv);
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter_byte(&delimiter)?)
        .has_headers(header)
        .from_reader(csv.as_bytes());
    // Without a header this is the first row, which is read again below.
    let first = reader.headers().map_err(|error| refuse(&error))?.clone();
    let columns = columns(&first, header)?;
    let value = if infer_types { infer } else { text };
    read(&mut reader, columns, value, max_rows)
}

fn delimiter_byte(delimiter: &str) -> Result<u8, Error> {
    match delimiter.as_bytes() {
        b"tab" | br"\t" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err(Error::invalid_input(format!(
            "argument `delimiter` must be one ASCII character or `tab`, not {delimiter:?}"
        ))),
    }
}

fn columns(first: &StringRecord, header: bool) -> Result<Vec<String>, Error> {
    let names = first.iter().enumerate().map(|(index, name)| match name.trim() {
        name if header && !name.is_empty() => name.to_owned(),
        _ => format!("column_{}", index + 1),
    });
    let names: Vec<String> = names.collect();
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(twice) => Err(Error::invalid_input(format!(
            "two columns are called {twice:?}; rename one, or pass `header: false` and leave the first row out"
        ))),
        None => Ok(names),
    }
}

fn read(
    reader: &mut Reader<&[u8]>,
    columns: Vec<String>,
    value: fn(&str) -> Value,
    max_rows: usize,
) -> Result<Table, Error> {
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| refuse(&error))?;
        if rows.len() == max_rows {
            return Ok(Table { columns, rows, truncated: true });
        }
        let fields = columns.iter().cloned().zip(record.iter().map(value));
        rows.push(fields.collect());
    }
    Ok(Table { columns, rows, truncated: false })
}

fn text(field: &str) -> Value {
    Value::String(field.to_owned())
}

fn infer(field: &str) -> Value {
    match field {
        "" => Value::Null,
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => number(field).unwrap_or_else(|| text(field)),
    }
}

/// Returns the number that a field contains, if no digit is lost. JSON's own grammar refuses
/// leading zeros and plus signs.
fn number(field: &str) -> Option<Value> {
    let is_plain = field.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'-' | b'.'));
    let digits = field.bytes().filter(u8::is_ascii_digit).count();
    if !is_plain || digits > DIGITS_MAX {
        return None;
    }
    serde_json::from_str(field).ok().map(Value::Number)
}

fn refuse(error: &csv::Error) -> Error {
    let message = match error.kind() {
        ErrorKind::UnequalLengths { pos, expected_len, len } => {
            let line = pos.as_ref().map_or(0, csv::Position::line);
            format!(
                "the number of fields is {len} in line {line} and {expected_len} in the first row; \
                 is a quote or delimiter wrong?"
            )
        }
        _ => format!("`csv` cannot be read: {error}"),
    };
    Error::invalid_input(message).with_code("invalid_csv")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn converted(csv: &str) -> Value {
        let table = csv_to_json(csv.into(), ",".into(), true, true, 100).unwrap();
        serde_json::to_value(table.rows).unwrap()
    }

    fn refused(csv: &str, delimiter: &str) -> String {
        csv_to_json(csv.into(), delimiter.into(), true, true, 100).unwrap_err().to_string()
    }

    #[test]
    fn rows_are_keyed_by_column_in_the_order_of_the_file() {
        let table = csv_to_json("b,a\n1,x\n".into(), ",".into(), true, true, 100).unwrap();
        insta::assert_snapshot!(serde_json::to_string(&table).unwrap(), @r#"{"columns":["b","a"],"rows":[{"b":1,"a":"x"}],"truncated":false}"#);
    }

    #[test]
    fn types_are_inferred_if_nothing_is_lost() {
        for (field, expected) in
            [("", json!(null)), ("true", json!(true)), ("-12", json!(-12)), ("0.50", json!(0.5))]
        {
            assert_eq!(inferred(field), expected);
        }
        for kept in
            ["007", "+1", "12E4", "1.", ".5", "1-2", "True", " 1", "1234567890123456", "NaN"]
        {
            assert_eq!(inferred(kept), json!(kept));
        }
    }

    /// Returns the value of one field.
    fn inferred(field: &str) -> Value {
        converted(&format!("a,b\n{field},\n"))[0]["a"].clone()
    }

    #[test]
    fn inference_can_be_turned_off() {
        let table = csv_to_json("a,b\n1,\n".into(), ",".into(), true, false, 100).unwrap();
        assert_eq!(Value::Object(table.rows[0].clone()), json!({ "a": "1", "b": "" }));
    }

    #[test]
    fn quotes_line_breaks_and_a_byte_order_mark_are_parsed() {
        assert_eq!(
            converted("\u{feff}a,b\r\n\"x \"\"y\"\"\n,z\",2\r\n"),
            json!([{ "a": "x \"y\"\n,z", "b": 2 }])
        );
    }

    #[test]
    fn without_a_header_columns_are_numbered_and_no_row_is_lost() {
        let table = csv_to_json("1;2".into(), ";".into(), false, true, 100).unwrap();
        assert_eq!(
            serde_json::to_value(table.rows).unwrap(),
            json!([{ "column_1": 1, "column_2": 2 }])
        );
    }

    #[test]
    fn a_tab_can_be_written_in_three_ways() {
        for tab in ["tab", "\\t", "\t"] {
            assert_eq!(
                csv_to_json("a\tb\n".into(), tab.into(), true, true, 1).unwrap().columns,
                ["a", "b"]
            );
        }
    }

    #[test]
    fn the_limit_on_rows_is_enforced_and_reported() {
        for (max_rows, is_truncated) in [(2, false), (1, true)] {
            let table = csv_to_json("a\n1\n2\n".into(), ",".into(), true, true, max_rows).unwrap();
            assert_eq!((table.rows.len(), table.truncated), (max_rows, is_truncated));
        }
    }

    #[test]
    fn an_empty_text_is_an_empty_table() {
        assert_eq!(converted(""), json!([]));
    }

    #[test]
    fn an_invalid_table_is_refused_with_the_reason() {
        insta::assert_snapshot!(refused("a,b\n\"x\ny\",2\n3\n", ","), @"the number of fields is 1 in line 4 and 2 in the first row; is a quote or delimiter wrong?");
        insta::assert_snapshot!(refused("a,b, a\n", ","), @r#"two columns are called "a"; rename one, or pass `header: false` and leave the first row out"#);
        insta::assert_snapshot!(refused("a\n", ", "), @r#"argument `delimiter` must be one ASCII character or `tab`, not ", ""#);
    }
}
