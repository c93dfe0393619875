//! Collects the `TypedDict` classes of one tool's stub, one line each.
//!
//! The name of a class begins with the identifier of its tool, which makes it unique in a file. The
//! identifier depends on the view, and the texts do not: [`MARK`] stands for it.

use std::{collections::BTreeSet, fmt};

use super::text;
use airlock_core::script_names;

/// Stands for the tool's identifier and `_` in rendered texts. No text has it: control characters
/// are escaped.
pub(super) const MARK: char = '\0';
/// Maximum number of classes of the parameters, and of those of the result. With [`MAX_CLASS`], all
/// fields of a stub take at most 26 KB.
const MAX_CLASSES: usize = 16;
/// Maximum bytes of the fields of one class: about 200 tokens, and one line of a file.
const MAX_CLASS: usize = 800;
/// Maximum number of fields that one class shows. [`MAX_CLASS`] comes first if they take more than 25
/// bytes each, with their types.
const MAX_SHOWN: usize = 32;
/// Maximum bytes of the part of a class name that comes from a schema. Each use of the class
/// repeats it.
const MAX_NAME: usize = 40;

/// Name of a class: the mark, then letters and digits that begin with a capital letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClassName(String);

impl fmt::Display for ClassName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MARK}{}", self.0)
    }
}

/// A value that a class describes: its names differ, so that both can be in one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// The arguments.
    Parameters,
    /// The result.
    Result,
}

/// Classes of one side, in the order in which they are first named.
pub(super) struct Classes {
    side: Side,
    taken: BTreeSet<String>,
    list: Vec<(ClassName, String)>,
}

impl Classes {
    /// Creates an empty collection.
    pub(super) fn new(side: Side) -> Self {
        Self { side, taken: BTreeSet::new(), list: Vec::new() }
    }

    /// Returns whether there is no room for another class.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_CLASSES
    }

    /// Reserves a name like `hint`. `None` if there is no room.
    pub(super) fn reserve(&mut self, hint: &str) -> Option<ClassName> {
        if self.is_full() {
            return None;
        }
        let base = self.base(hint);
        let numbered = (2..).map(|number| format!("{base}{number}"));
        let free = std::iter::once(base.clone()).chain(numbered);
        let name = free.into_iter().find(|name| !self.taken.contains(name))?;
        self.taken.insert(name.clone());
        let name = ClassName(name);
        self.list.push((name.clone(), String::new()));
        Some(name)
    }

    /// Defines the class of a reserved name. `total` is the number of its fields, shown or not.
    pub(super) fn define(&mut self, name: &ClassName, fields: ClassFields, total: usize) {
        let line = fields.class(name, total);
        if let Some((_, text)) = self.list.iter_mut().find(|(known, _)| known == name) {
            *text = line;
        }
    }

    /// Returns the classes that `text` names, directly or through other classes. Those of types that
    /// were not shown in the end are left out.
    pub(super) fn named_in(self, text: &str) -> Vec<String> {
        let mut named: BTreeSet<String> = names_in(text).collect();
        let mut open: Vec<String> = named.iter().cloned().collect();
        while let Some(name) = open.pop() {
            let Some((_, text)) = self.list.iter().find(|(known, _)| known.0 == name) else {
                continue;
            };
            open.extend(names_in(text).filter(|name| named.insert(name.clone())));
        }
        let used = self.list.into_iter().filter(|(name, _)| named.contains(&name.0));
        used.map(|(_, line)| line).collect()
    }

    fn base(&self, hint: &str) -> String {
        let camel = camel(hint);
        match self.side {
            Side::Result if camel.starts_with("Result") => camel,
            Side::Result => format!("Result{camel}"),
            // A result has this name.
            Side::Parameters if camel.starts_with("Result") => format!("Arg{camel}"),
            Side::Parameters if camel.is_empty() => "Arguments".to_owned(),
            Side::Parameters => camel,
        }
    }
}

/// Returns the names of classes in a text.
fn names_in(text: &str) -> impl Iterator<Item = String> {
    let parts = text.split(MARK).skip(1);
    parts.map(|part| part.chars().take_while(char::is_ascii_alphanumeric).collect())
}

/// Returns the letters and digits of a name, each word with a capital letter. It does not begin with
/// a digit.
fn camel(hint: &str) -> String {
    let hint = &hint[..hint.floor_char_boundary(4 * MAX_NAME)];
    let mut out = String::new();
    for word in hint.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let (first, rest) = word.split_at(1);
        if out.is_empty() && first.starts_with(|c: char| c.is_ascii_digit()) {
            out.push_str("Type");
        }
        out.push_str(&first.to_ascii_uppercase());
        out.push_str(rest);
    }
    out.truncate(MAX_NAME);
    out
}

/// Fields of a class that is being written.
#[derive(Default)]
pub(super) struct ClassFields {
    list: Vec<(String, String)>,
    bytes: usize,
}

impl ClassFields {
    /// Returns whether a field of this name may fit.
    pub(super) fn has_room(&self, name: &str) -> bool {
        self.list.len() < MAX_SHOWN && self.bytes + name.len() <= MAX_CLASS
    }

    /// Adds a field. Returns false if it does not fit.
    pub(super) fn add(&mut self, name: &str, kind: &str, is_required: bool) -> bool {
        let kind = if is_required { kind.to_owned() } else { format!("NotRequired[{kind}]") };
        let bytes = self.bytes + name.len() + kind.len() + 4;
        if self.list.len() >= MAX_SHOWN || bytes > MAX_CLASS {
            return false;
        }
        self.bytes = bytes;
        self.list.push((name.to_owned(), kind));
        true
    }

    /// Renders `class X(TypedDict): a: int; b: str`, or the functional syntax if a name is not valid
    /// as an attribute.
    fn class(self, name: &ClassName, total: usize) -> String {
        let rest = match total - self.list.len() {
            0 => String::new(),
            rest => format!("  # and {rest} more"),
        };
        let mut names = self.list.iter().map(|(name, _)| name);
        if names.all(|name| script_names::is_identifier(name) && !name.starts_with("__")) {
            let fields = self.list.iter().map(|(name, kind)| format!("{name}: {kind}"));
            let fields = fields.collect::<Vec<_>>().join("; ");
            let fields = if fields.is_empty() { "pass" } else { &fields };
            return format!("class {name}(TypedDict): {fields}{rest}");
        }
        let fields = self.list.iter().map(|(name, kind)| format!("{}: {kind}", text::quoted(name)));
        let fields = fields.collect::<Vec<_>>().join(", ");
        format!("{name} = TypedDict(\"{name}\", {{{fields}}}){rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve(side: Side, hints: &[&str]) -> Vec<String> {
        let mut classes = Classes::new(side);
        hints.iter().filter_map(|hint| classes.reserve(hint)).map(|name| name.0).collect()
    }

    #[test]
    fn names_of_classes_are_distinct_and_differ_between_arguments_and_result() {
        let hints = ["place", "Place", "reply-to", "2fa", "", "查询", "result_user", "aB c"];
        insta::assert_snapshot!(reserve(Side::Parameters, &hints).join(" "), @"Place Place2 ReplyTo Type2fa Arguments Arguments2 ArgResultUser ABC");
        insta::assert_snapshot!(reserve(Side::Result, &hints).join(" "), @"ResultPlace ResultPlace2 ResultReplyTo ResultType2fa Result Result2 ResultUser ResultABC");
    }

    #[test]
    fn there_is_a_largest_number_of_classes() {
        let hints = ["a"; MAX_CLASSES + 1];
        assert_eq!(reserve(Side::Result, &hints).len(), MAX_CLASSES);
    }

    #[test]
    fn a_class_has_a_bounded_length_and_names_the_number_of_omitted_fields() {
        assert!(!class_of_ints(&field_names(MAX_SHOWN)).contains('#'));
        let beyond = class_of_ints(&field_names(MAX_SHOWN + 1));
        assert!(beyond.ends_with("; f31: int  # and 1 more"));
        let long = "x".repeat(MAX_CLASS - 7);
        assert!(class_of_ints(std::slice::from_ref(&long)).ends_with("x: int"));
        assert_eq!(
            class_of_ints(&[format!("{long}x")]),
            "class \0X(TypedDict): pass  # and 1 more"
        );
    }

    fn class_of_ints(names: &[String]) -> String {
        let mut fields = ClassFields::default();
        let shown =
            names.iter().take_while(|name| fields.has_room(name) && fields.add(name, "int", true));
        let _ = shown.count();
        fields.class(&ClassName("X".to_owned()), names.len())
    }

    fn field_names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("f{n}")).collect()
    }

    #[test]
    fn names_that_are_no_attributes_use_the_functional_syntax() {
        assert_eq!(class_with("a"), "class \0X(TypedDict): a: NotRequired[str]");
        for name in ["for", "reply-to", "__typename"] {
            assert_eq!(
                class_with(name),
                format!("\0X = TypedDict(\"\0X\", {{\"{name}\": NotRequired[str]}})")
            );
        }
    }

    fn class_with(name: &str) -> String {
        let mut fields = ClassFields::default();
        assert!(fields.add(name, "str", false));
        fields.class(&ClassName("X".to_owned()), 1)
    }
}
