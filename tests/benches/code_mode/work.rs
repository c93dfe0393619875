//! The rows of the benchmark.

/// One row.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The script, which both languages run.
    pub(crate) source: &'static str,
    /// Tools that exist for the script.
    pub(crate) tools: usize,
    pub(crate) has_journal: bool,
    /// Measured in every such round.
    pub(crate) every: usize,
    /// Aim of the project in microseconds, for the value that the row shows.
    pub(crate) aim: Option<f64>,
}

/// Value that a row shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The time of the script.
    Whole,
    /// The time of each call but the first of this many, without the time of the tool itself.
    Calls(u32, &'static str),
    /// The time of the script, which stops for an approval, until it has ended.
    Approved,
}

impl Row {
    /// Returns the tool whose own time is not counted.
    pub(crate) fn compared_with_tool(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Calls(_, tool) => Some(tool),
            _ => None,
        }
    }

    /// Returns the script with one call.
    pub(crate) fn with_one_call(&self) -> String {
        match self.kind {
            Kind::Calls(calls, _) => self.source.replace(&format!("range({calls})"), "range(1)"),
            _ => self.source.to_owned(),
        }
    }

    /// Returns whether the native interpreter runs the same script.
    pub(crate) fn has_native(&self) -> bool {
        self.kind == Kind::Whole && self.tools == EMPTY.tools && !self.has_journal
    }

    /// Returns whether the row shows a script that uses two of this many tools, without a journal.
    pub(crate) fn is_bound_to(&self, tools: usize) -> bool {
        self.source == BOUND.source && self.tools == tools && !self.has_journal
    }
}

const EMPTY: Row = Row {
    name: "script that does nothing",
    kind: Kind::Whole,
    source: "pass",
    tools: 10,
    has_journal: false,
    every: 1,
    aim: Some(30.0),
};
const CALLS: Row = Row {
    name: "each further call, of 10",
    kind: Kind::Calls(10, "bench-read"),
    source: "for _ in range(10):\n    bench.read()\nresult = 1",
    aim: Some(5.0),
    ..EMPTY
};
const HUNDRED: Row = Row {
    name: "each further call, of 100",
    kind: Kind::Calls(100, "bench-read"),
    source: "for _ in range(100):\n    bench.read()\nresult = 1",
    every: 4,
    ..CALLS
};
const PLUGIN: Row = Row {
    name: "the same, of a plugin, of 10",
    kind: Kind::Calls(10, "noop-ok"),
    source: "for _ in range(10):\n    noop.ok()\nresult = 1",
    every: 2,
    ..CALLS
};
const BOUND: Row = Row {
    name: "2 calls with 10 tools",
    kind: Kind::Whole,
    source: "bench.read()\nbench.write()\nresult = 1",
    aim: None,
    ..EMPTY
};

/// The rows, in the order in which they are measured and shown.
pub(crate) const ROWS: &[Row] = &[
    EMPTY,
    Row { name: "script with one sum", source: "result = 1 + 1", aim: None, ..EMPTY },
    CALLS,
    HUNDRED,
    PLUGIN,
    Row {
        name: "script with 100 calls",
        kind: Kind::Whole,
        source: HUNDRED.source,
        every: 4,
        aim: None,
        ..EMPTY
    },
    Row {
        name: "100,000 turns of a loop",
        source: "t = 0\nfor i in range(100000):\n    t = t + i % 7\nresult = t",
        every: 20,
        aim: None,
        ..EMPTY
    },
    Row {
        name: "200 objects to JSON and back",
        source: "import json\nrows = [{'id': i, 'name': 'row ' + str(i), 'tags': ['a', 'b', str(i % 7)], 'n': i * 1.5} for i in range(200)]\ntext = json.dumps(rows)\ntotal = 0\nfor row in json.loads(text):\n    total += row['id'] + len(row['tags'])\nresult = total",
        every: 10,
        aim: None,
        ..EMPTY
    },
    BOUND,
    Row { name: "2 calls with 100 tools", tools: 100, ..BOUND },
    Row { name: "2 calls with 500 tools", tools: 500, ..BOUND },
    Row { name: "nothing, with the journal", has_journal: true, every: 2, aim: None, ..EMPTY },
    Row {
        name: "each further read, of 10, journal",
        has_journal: true,
        every: 2,
        aim: Some(10.0),
        ..CALLS
    },
    Row {
        name: "each further read, of 100, journal",
        has_journal: true,
        every: 8,
        aim: Some(10.0),
        ..HUNDRED
    },
    Row {
        name: "each further write, of 10, journal",
        kind: Kind::Calls(10, "bench-write"),
        source: "for _ in range(10):\n    bench.write()\nresult = 1",
        has_journal: true,
        every: 8,
        aim: None,
        ..CALLS
    },
    Row {
        name: "2 calls with 500 tools and journal",
        tools: 500,
        has_journal: true,
        every: 2,
        ..BOUND
    },
    Row {
        name: "stop for an approval, and go on",
        kind: Kind::Approved,
        source: "bench.read()\nasked.write()\nresult = 1",
        has_journal: true,
        every: 8,
        aim: None,
        ..EMPTY
    },
];

/// Numbers of tools in the views.
pub(crate) const SIZES: [usize; 3] = [10, 100, 500];
