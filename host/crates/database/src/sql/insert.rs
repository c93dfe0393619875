//! Statements that insert many rows, several at once. A row costs `SQLite` about two thirds of one with a statement of
//! its own, and a server gets a message for each statement.

use std::slice::ChunksExact;

use super::param::{Param, numbered};

/// Numbers of rows of the statements. There are few, because connections keep a prepared statement for each.
const ROWS: [usize; 3] = [32, 4, 1];

/// Texts of the statements that insert rows into one table.
pub struct InsertText {
    /// Number of columns.
    columns: usize,
    /// By the number of rows, as [`ROWS`] has them.
    texts: [String; ROWS.len()],
}

/// A statement, and the rows that it inserts.
pub(crate) struct InsertPart<'i, 'v> {
    pub(crate) text: &'i str,
    /// Values of one execution.
    width: usize,
    values: &'i [Param<'v>],
}

impl InsertText {
    /// Returns the texts for a table and its columns, separated by commas. `conflict` is the clause after `ON CONFLICT`,
    /// about a row that exists.
    pub fn new(table: &str, columns: &str, conflict: &str) -> Self {
        let count = columns.split(',').count();
        let texts = ROWS.map(|rows| {
            let values = (0..rows).map(|row| format!("({})", numbered(row * count + 1, count)));
            let values = values.collect::<Vec<_>>().join(", ");
            format!("INSERT INTO {table} ({columns}) VALUES {values} ON CONFLICT {conflict}")
        });
        Self { columns: count, texts }
    }

    /// Divides rows, whose values follow each other, among the statements.
    pub(super) fn parts<'i, 'v>(&'i self, values: &'i [Param<'v>]) -> Vec<InsertPart<'i, 'v>> {
        let mut parts = Vec::with_capacity(ROWS.len());
        let mut left = values;
        for (rows, text) in ROWS.iter().zip(&self.texts) {
            let width = rows * self.columns;
            let (values, rest) = left.split_at(left.len() / width * width);
            left = rest;
            if !values.is_empty() {
                parts.push(InsertPart { text, width, values });
            }
        }
        debug_assert!(left.is_empty(), "each row has a value for each column");
        parts
    }
}

impl<'i, 'v> InsertPart<'i, 'v> {
    /// Returns the values of each execution.
    pub(crate) fn executions(&self) -> ChunksExact<'i, Param<'v>> {
        self.values.chunks_exact(self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_the_parameters_of_all_its_rows() {
        let text = InsertText::new("t", "a, b", "(a) DO NOTHING");
        let [_, four, one] = &text.texts;
        assert_eq!(one, "INSERT INTO t (a, b) VALUES (?1, ?2) ON CONFLICT (a) DO NOTHING");
        let values = "VALUES (?1, ?2), (?3, ?4), (?5, ?6), (?7, ?8) ON";
        assert!(four.contains(values), "{four}");
    }

    #[test]
    fn rows_of_any_number_are_divided_among_few_statements_in_their_order() {
        let text = InsertText::new("t", "a, b", "(a) DO NOTHING");
        for (rows, expected) in
            [(0_i64, vec![]), (3, vec![3]), (36, vec![1, 1]), (71, vec![2, 1, 3]), (96, vec![3])]
        {
            let values: Vec<_> = (0..2 * rows).map(Param::from).collect();
            let parts = text.parts(&values);
            let executions = parts.iter().map(|part| part.executions().len());
            assert_eq!(executions.collect::<Vec<_>>(), expected, "{rows} rows");
            let inserted = parts.iter().flat_map(InsertPart::executions).flatten();
            let numbers = inserted.map(|value| match value {
                Param::Number(number) => *number,
                _ => panic!("{value:?}"),
            });
            assert!(numbers.eq(0..2 * rows), "{rows} rows");
        }
    }
}
