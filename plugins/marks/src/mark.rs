//! Kinds of marks, and the marks that are found in a text.

/// Kind of a mark. Its name in settings is [`Self::name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// Tag characters.
    Tags,
    /// A sequence of characters without width.
    ZeroWidth,
    /// Variation selectors that select nothing.
    VariationSelectors,
    /// A control character of the direction of text.
    Bidi,
    /// A comment of HTML or Markdown.
    Comments,
    /// An element of HTML that a browser does not show.
    HiddenElements,
    /// The URL of an image or a link, with data in its query.
    DataUrls,
    /// A mark of a role, a tool or this gateway.
    ForgedMarks,
    /// A phrase that orders a model.
    Orders,
}

impl MarkKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Tags,
        Self::ZeroWidth,
        Self::VariationSelectors,
        Self::Bidi,
        Self::Comments,
        Self::HiddenElements,
        Self::DataUrls,
        Self::ForgedMarks,
        Self::Orders,
    ];

    /// Returns its name in settings and reasons.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tags => "tags",
            Self::ZeroWidth => "zero_width",
            Self::VariationSelectors => "variation_selectors",
            Self::Bidi => "bidi",
            Self::Comments => "comments",
            Self::HiddenElements => "hidden_elements",
            Self::DataUrls => "data_urls",
            Self::ForgedMarks => "forged_marks",
            Self::Orders => "orders",
        }
    }

    /// Returns its words in the note that takes its place.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::DataUrls => "URL with data",
            Self::ForgedMarks => "forged mark",
            Self::Orders => "order to a model",
            _ => "hidden text",
        }
    }

    /// Returns whether it stands inside words or URLs, which are whole without it.
    pub(crate) fn is_inside_words(self) -> bool {
        matches!(
            self,
            Self::Tags | Self::ZeroWidth | Self::VariationSelectors | Self::Bidi | Self::DataUrls
        )
    }
}

/// A mark in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundMark {
    /// Its kind.
    pub kind: MarkKind,
    /// Place of its first byte.
    pub start: usize,
    /// Place after its last byte.
    pub end: usize,
}

/// The kinds that are searched, and the hosts whose URLs may carry data.
#[derive(Debug, Clone)]
pub struct MarkSearch {
    /// Whether each kind is searched, in the order of [`MarkKind::ALL`].
    kinds: [bool; MarkKind::ALL.len()],
    hosts: Vec<String>,
}

impl MarkSearch {
    /// Creates a search.
    pub fn new(is_searched: impl Fn(MarkKind) -> bool, hosts: Vec<String>) -> Self {
        Self { kinds: MarkKind::ALL.map(is_searched), hosts }
    }

    /// Returns whether a kind is searched.
    pub(crate) fn has(&self, kind: MarkKind) -> bool {
        self.kinds[kind as usize]
    }

    /// Returns the hosts.
    pub(crate) fn hosts(&self) -> &[String] {
        &self.hosts
    }
}

/// Adds a mark. One that touches the mark before it, of the same kind, continues it; one that begins inside it is a
/// part of it.
pub(crate) fn push(found: &mut Vec<FoundMark>, kind: MarkKind, start: usize, end: usize) {
    if let Some(last) = found.last_mut() {
        if start < last.end {
            return;
        }
        if start == last.end && kind == last.kind {
            last.end = end;
            return;
        }
    }
    found.push(FoundMark { kind, start, end });
}
