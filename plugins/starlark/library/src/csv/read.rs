//! Rows from text.

use starlark::values::{Heap, Value};

use super::super::values::{items, misuse, text_of};
use super::Dialect;

/// The place of a reader in a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    RowStart,
    FieldStart,
    Field,
    Quoted,
    /// After a quote in a quoted field: its end, or half of a doubled quote.
    Quote,
    /// After the end of a line.
    LineEnd,
}

/// A row in the making.
struct CsvRow<'a> {
    dialect: &'a Dialect,
    at: At,
    field: String,
    fields: Vec<String>,
}

impl CsvRow<'_> {
    fn save(&mut self, next: At) {
        self.fields.push(std::mem::take(&mut self.field));
        self.at = next;
    }

    /// Reads one character.
    fn take(&mut self, c: char) -> starlark::Result<()> {
        let Dialect { delimiter, quote, skip_space } = *self.dialect;
        let end = c == '\n' || c == '\r';
        match self.at {
            At::Quoted if quote == Some(c) => self.at = At::Quote,
            At::Quoted => self.field.push(c),
            At::Quote if quote == Some(c) => {
                self.field.push(c);
                self.at = At::Quoted;
            }
            At::LineEnd if end => (),
            At::LineEnd => {
                return Err(misuse(
                    "csv: new-line character seen in unquoted field: split the text with `splitlines()`",
                ));
            }
            At::RowStart if end => self.at = At::LineEnd,
            _ if end => self.save(At::LineEnd),
            _ if c == delimiter => self.save(At::FieldStart),
            At::RowStart | At::FieldStart if quote == Some(c) => self.at = At::Quoted,
            At::RowStart | At::FieldStart if c == ' ' && skip_space => self.at = At::FieldStart,
            _ => {
                self.field.push(c);
                self.at = At::Field;
            }
        }
        Ok(())
    }

    /// Reads the end of a line. Returns the row if it ends there.
    fn end(&mut self) -> Option<Vec<String>> {
        match self.at {
            At::Quoted => return None,
            At::RowStart | At::LineEnd => (),
            At::FieldStart | At::Field | At::Quote => self.save(At::RowStart),
        }
        self.at = At::RowStart;
        Some(std::mem::take(&mut self.fields))
    }
}

/// Reads all rows of a `StringIO`, or of lines.
pub(super) fn rows<'v>(
    lines: Value<'v>,
    dialect: &Dialect,
    heap: Heap<'v>,
) -> starlark::Result<Vec<Vec<String>>> {
    if lines.unpack_str().is_some() {
        return Err(misuse(
            "csv reads lines, not one text: write `csv.reader(io.StringIO(text))` or `csv.reader(text.splitlines())`",
        ));
    }
    let mut rows = Vec::new();
    let field = String::new();
    let fields = Vec::new();
    let mut row = CsvRow { dialect, at: At::RowStart, field, fields };
    for line in items(lines, heap)? {
        for c in text_of(line, "a line")?.chars() {
            row.take(c)?;
        }
        rows.extend(row.end());
    }
    // A quote that is still open ends with the text.
    if row.at == At::Quoted {
        row.save(At::RowStart);
        rows.push(row.fields);
    }
    Ok(rows)
}
