//! Printed text, line by line.

/// Passes on what a script prints, each line as soon as it is complete.
pub struct Lines<'a> {
    print: &'a dyn Fn(&str),
    /// The line that has not ended yet.
    begun: String,
}

impl<'a> Lines<'a> {
    /// Creates the output of a run. `print` receives each line without its end.
    pub fn new(print: &'a dyn Fn(&str)) -> Self {
        Self { print, begun: String::new() }
    }

    /// Adds a part of the output.
    pub fn push(&mut self, text: &str) {
        let mut rest = text;
        while let Some((line, after)) = rest.split_once('\n') {
            self.begun.push_str(line);
            (self.print)(&self.begun);
            self.begun.clear();
            rest = after;
        }
        self.begun.push_str(rest);
    }

    /// Prints a line that the script did not end.
    pub fn finish(&mut self) {
        if !self.begun.is_empty() {
            (self.print)(&self.begun);
            self.begun.clear();
        }
    }
}
