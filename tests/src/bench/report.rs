//! The report of a benchmark: tables to read, or one JSON document.

use std::{fmt, fs, process::ExitCode, thread::available_parallelism, time::Duration};

use serde_json::{Map, Value, json};

use super::has_option;

/// Everything that a benchmark measured.
#[derive(Debug)]
pub struct Report {
    heading: String,
    cores: usize,
    load: String,
    tables: Vec<Table>,
    notes: Vec<String>,
    checks: Vec<Check>,
}

/// Something that must hold.
#[derive(Debug)]
struct Check {
    what: String,
    holds: bool,
}

impl Report {
    /// Creates a report whose heading says how the measurements are made. The load of the machine is that of this
    /// moment.
    pub fn new(heading: impl Into<String>) -> Self {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            heading: heading.into(),
            cores: available_parallelism().map_or(0, usize::from),
            load: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
            tables: Vec::new(),
            notes: Vec::new(),
            checks: Vec::new(),
        }
    }

    /// Adds a table.
    pub fn table(&mut self, table: Table) {
        self.tables.push(table);
    }

    /// Adds a sentence below the tables.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Adds something that must hold, for the program to succeed.
    pub fn check(&mut self, what: impl Into<String>, holds: bool) {
        self.checks.push(Check { what: what.into(), holds });
    }

    /// Prints the report, with the option `--json` as one JSON document. Returns success if every
    /// check holds.
    pub fn finish(&self) -> ExitCode {
        if has_option("--json") {
            println!("{:#}", self.to_json());
        } else {
            print!("{self}");
        }
        if self.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Returns whether every check holds.
    pub fn is_good(&self) -> bool {
        self.checks.iter().all(|check| check.holds)
    }

    fn to_json(&self) -> Value {
        let checks =
            self.checks.iter().map(|check| json!({"what": check.what, "holds": check.holds}));
        json!({
            "heading": self.heading,
            "cores": self.cores,
            "load": self.load,
            "tables": self.tables.iter().map(Table::to_json).collect::<Vec<_>>(),
            "notes": self.notes,
            "checks": checks.collect::<Vec<_>>(),
            "good": self.is_good(),
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{} cores, load {}, {}", self.cores, self.load, self.heading)?;
        for table in &self.tables {
            write!(formatter, "\n{table}")?;
        }
        if !self.notes.is_empty() || !self.checks.is_empty() {
            writeln!(formatter)?;
        }
        for note in &self.notes {
            writeln!(formatter, "{note}")?;
        }
        for check in &self.checks {
            let verdict = if check.holds { "holds" } else { "FAILS" };
            writeln!(formatter, "{verdict}: {}", check.what)?;
        }
        Ok(())
    }
}

/// Rows with a name and one cell for each column.
#[derive(Debug)]
pub struct Table {
    title: String,
    columns: Vec<&'static str>,
    rows: Vec<Row>,
}

impl Table {
    /// Creates a table without rows. Its title stands above their names.
    pub fn new(title: impl Into<String>, columns: &[&'static str]) -> Self {
        Self { title: title.into(), columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, and returns it for its aims and remarks.
    pub fn row(
        &mut self,
        name: impl Into<String>,
        cells: impl IntoIterator<Item = Cell>,
    ) -> &mut Row {
        let cells: Vec<_> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.columns.len(), "one cell for each column");
        self.rows.push(Row { name: name.into(), cells, aims: Vec::new(), remarks: Vec::new() });
        self.rows.last_mut().expect("it was pushed above")
    }

    /// Returns the aims of a row, each with its column and the cell there.
    fn aims<'a>(
        &'a self,
        row: &'a Row,
    ) -> impl Iterator<Item = (&'static str, &'a Cell, Aim)> + 'a {
        row.aims.iter().map(move |&(column, aim)| {
            let at = self.columns.iter().position(|title| *title == column);
            (column, &row.cells[at.expect("an aim names a column")], aim)
        })
    }

    fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|row| self.row_to_json(row));
        json!({"title": self.title, "rows": rows.collect::<Vec<_>>()})
    }

    fn row_to_json(&self, row: &Row) -> Value {
        let mut object = Map::new();
        object.insert("name".to_owned(), json!(row.name));
        for (title, cell) in self.columns.iter().zip(&row.cells) {
            if *cell != Cell::Empty {
                let key = format!("{}{}", title.replace(' ', "_"), cell.unit());
                object.insert(key, cell.to_json());
            }
        }
        let aims = self.aims(row).map(|(column, cell, aim)| {
            json!({"of": column, aim.key(): aim.limit(), "met": aim.is_met(cell)})
        });
        object.insert("aims".to_owned(), Value::from(aims.collect::<Vec<_>>()));
        object.insert("remarks".to_owned(), json!(row.remarks));
        Value::Object(object)
    }

    /// Returns the aims of a row as text; nothing if it has none.
    fn aims_as_text(&self, row: &Row) -> String {
        let aims = self.aims(row).map(|(column, cell, aim)| {
            let limit = cell.with(aim.limit());
            let met = if aim.is_met(cell) { "met" } else { "MISSED" };
            format!("{column} {} {limit} {met}", aim.key().replace('_', " "))
        });
        let aims: Vec<_> = aims.collect();
        if aims.is_empty() { String::new() } else { format!("  (aim: {})", aims.join(", ")) }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rows.iter().map(|row| row.name.as_str());
        let name_width = widest(names.chain([self.title.as_str()]));
        let texts: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.cells.iter().map(ToString::to_string).collect())
            .collect();
        let columns: Vec<Column> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, title)| Column {
                is_text: self.rows.iter().any(|row| matches!(row.cells[at], Cell::Text(_))),
                width: widest(texts.iter().map(|row| row[at].as_str()).chain([*title])),
            })
            .collect();
        let titles = aligned(&columns, self.columns.iter().copied());
        let line = format!("{:name_width$}{titles}", self.title);
        writeln!(formatter, "{}", line.trim_end())?;
        for (row, texts) in self.rows.iter().zip(&texts) {
            let cells = aligned(&columns, texts.iter().map(String::as_str));
            let line = format!("{:name_width$}{cells}{}", row.name, self.aims_as_text(row));
            writeln!(formatter, "{}", line.trim_end())?;
            for remark in &row.remarks {
                writeln!(formatter, "    {remark}")?;
            }
        }
        Ok(())
    }
}

/// Alignment of the cells of a column: text to the left, numbers to the right.
struct Column {
    is_text: bool,
    width: usize,
}

fn widest<'a>(texts: impl Iterator<Item = &'a str>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

fn aligned<'a>(columns: &[Column], texts: impl Iterator<Item = &'a str>) -> String {
    let cells = columns.iter().zip(texts).map(|(column, text)| {
        let width = column.width;
        if column.is_text { format!("  {text:<width$}") } else { format!("  {text:>width$}") }
    });
    cells.collect()
}

/// One row of a table.
#[derive(Debug)]
pub struct Row {
    name: String,
    cells: Vec<Cell>,
    /// By the titles of their columns.
    aims: Vec<(&'static str, Aim)>,
    remarks: Vec<String>,
}

impl Row {
    /// Sets the project's aim for the number in a column, in the unit of the cell.
    pub fn aim(&mut self, column: &'static str, aim: Aim) -> &mut Self {
        self.aims.push((column, aim));
        self
    }

    /// Adds a line below the row.
    pub fn remark(&mut self, text: impl Into<String>) -> &mut Self {
        self.remarks.push(text.into());
        self
    }
}

/// Bound that a number is held to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// This number or more.
    AtLeast(f64),
    /// This number or less.
    AtMost(f64),
}

impl Aim {
    fn is_met(self, cell: &Cell) -> bool {
        cell.value().is_some_and(|value| match self {
            Self::AtLeast(least) => value >= least,
            Self::AtMost(most) => value <= most,
        })
    }

    fn limit(self) -> f64 {
        let (Self::AtLeast(limit) | Self::AtMost(limit)) = self;
        limit
    }

    fn key(self) -> &'static str {
        match self {
            Self::AtLeast(_) => "at_least",
            Self::AtMost(_) => "at_most",
        }
    }
}

/// One measurement.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Not measured, or not applicable.
    Empty,
    /// A text.
    Text(String),
    /// A number of things.
    Count(u64),
    /// A median or mean of numbers of things.
    Number(f64),
    /// A time in microseconds.
    Time(f64),
    /// The difference of two times, in microseconds.
    Added(f64),
    /// A ratio.
    Ratio(f64),
    /// A part, in percent.
    Percent(f64),
    /// Memory, in KiB.
    Kib(f64),
}

impl Cell {
    /// Returns the number in the cell; `None` if no aim can be set for it.
    fn value(&self) -> Option<f64> {
        match *self {
            Self::Empty | Self::Text(_) | Self::Count(_) => None,
            Self::Number(value)
            | Self::Time(value)
            | Self::Added(value)
            | Self::Ratio(value)
            | Self::Percent(value)
            | Self::Kib(value) => Some(value),
        }
    }

    /// Returns a cell with the same unit and another number.
    fn with(&self, value: f64) -> Self {
        match self {
            Self::Time(_) => Self::Time(value),
            Self::Added(_) => Self::Added(value),
            Self::Ratio(_) => Self::Ratio(value),
            Self::Percent(_) => Self::Percent(value),
            Self::Kib(_) => Self::Kib(value),
            Self::Empty | Self::Text(_) | Self::Count(_) | Self::Number(_) => Self::Number(value),
        }
    }

    /// Returns the end of the cell's key in JSON.
    fn unit(&self) -> &'static str {
        match self {
            Self::Time(_) | Self::Added(_) => "_us",
            Self::Percent(_) => "_percent",
            Self::Kib(_) => "_kib",
            _ => "",
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Count(count) => json!(count),
            number => json!(number.value()),
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Text(text) => formatter.write_str(text),
            Self::Count(count) => write!(formatter, "{count}"),
            Self::Number(number) => write!(formatter, "{number:.0}"),
            Self::Time(micros) => {
                formatter.write_str(if *micros < 0.0 { "-" } else { "" })?;
                write_time(formatter, *micros)
            }
            Self::Added(micros) => {
                formatter.write_str(if *micros < 0.0 { "-" } else { "+" })?;
                write_time(formatter, *micros)
            }
            Self::Ratio(ratio) => write!(formatter, "{ratio:.2}"),
            Self::Percent(percent) => write!(formatter, "{percent:.2} %"),
            Self::Kib(kib) => write!(formatter, "{kib:.1} KiB"),
        }
    }
}

/// Writes a time without its sign.
fn write_time(formatter: &mut fmt::Formatter<'_>, micros: f64) -> fmt::Result {
    let time = Duration::try_from_secs_f64(micros.abs() / 1e6).unwrap_or_default();
    write!(formatter, "{time:.1?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut table = Table::new("tools/call", &["p50", "added p50", "per second", "ended with"]);
        table.row("direct", [Cell::Time(90.0), Cell::Empty, Cell::Number(1e4), text("ok")]);
        let cells = [Cell::Time(1_300.0), Cell::Added(-60.5), Cell::Number(7.4), text("ok, late")];
        table
            .row("through", cells)
            .aim("added p50", Aim::AtMost(150.0))
            .aim("per second", Aim::AtLeast(8.0))
            .remark("NOT ACHIEVED");
        Report {
            cores: 2,
            load: "1.0 1.1 1.2".into(),
            tables: vec![table],
            notes: vec!["one".into()],
            checks: vec![Check { what: "every request succeeded".into(), holds: false }],
            ..Report::new("medians of 3 rounds")
        }
    }

    fn text(text: &str) -> Cell {
        Cell::Text(text.to_owned())
    }

    #[test]
    fn a_report_prints_tables_that_are_aligned_with_their_aims_and_checks() {
        let lines = [
            "2 cores, load 1.0 1.1 1.2, medians of 3 rounds",
            "",
            "tools/call     p50  added p50  per second  ended with",
            "direct      90.0µs                  10000  ok",
            "through      1.3ms    -60.5µs           7  ok, late    (aim: added p50 at most +150.0µs met, per second at least 8 MISSED)",
            "    NOT ACHIEVED",
            "",
            "one",
            "FAILS: every request succeeded",
            "",
        ];
        assert_eq!(report().to_string(), lines.join("\n"));
    }

    #[test]
    fn a_report_as_json_has_each_cell_with_its_unit() {
        let json = report().to_json();
        let row = &json["tables"][0]["rows"][1];
        assert_eq!(row["p50_us"], 1_300.0);
        assert_eq!(row["added_p50_us"], -60.5);
        assert_eq!(row["aims"][1], json!({"of": "per second", "at_least": 8.0, "met": false}));
        assert_eq!(json["good"], false);
    }
}
