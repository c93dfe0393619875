//! Values of a script as the analysis sees them: sets of bits.

/// Tools whose calls are told apart, at most. A run makes 64 calls by default.
pub(super) const MAX_TOOLS: usize = 128;
/// Places of a script that make objects, at most.
pub(super) const MAX_SITES: usize = 512;
/// Bits of a word of a [`SiteSet`].
const WORD: usize = 64;

/// The tools whose results a value may come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OriginSet(u128);

impl OriginSet {
    /// Returns the set of one tool, below [`MAX_TOOLS`].
    pub(super) fn of_tool(tool: usize) -> Self {
        Self(1_u128 << tool)
    }

    #[must_use]
    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn tools(self) -> impl Iterator<Item = usize> {
        (0..MAX_TOOLS).filter(move |tool| (self.0 >> tool) & 1 == 1)
    }

    /// Adds another set. Returns whether this one has grown.
    pub(super) fn grow(&mut self, other: Self) -> bool {
        let before = *self;
        *self = before.with(other);
        *self != before
    }
}

/// The places of a script that may have made an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SiteSet([u64; MAX_SITES / WORD]);

impl SiteSet {
    /// Returns the set of one site, below [`MAX_SITES`].
    pub(super) fn of_site(site: usize) -> Self {
        let mut set = Self::default();
        set.0[site / WORD] = 1 << (site % WORD);
        set
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    #[must_use]
    pub(super) fn with(mut self, other: Self) -> Self {
        for (word, more) in self.0.iter_mut().zip(other.0) {
            *word |= more;
        }
        self
    }

    /// Returns the sites that another set does not have.
    #[must_use]
    pub(super) fn without(mut self, other: Self) -> Self {
        for (word, less) in self.0.iter_mut().zip(other.0) {
            *word &= !less;
        }
        self
    }

    pub(super) fn sites(self) -> impl Iterator<Item = usize> {
        let words = (0..MAX_SITES / WORD).filter(move |word| self.0[*word] != 0);
        let sites = words.flat_map(|word| word * WORD..(word + 1) * WORD);
        sites.filter(move |site| (self.0[site / WORD] >> (site % WORD)) & 1 == 1)
    }
}

/// A value: a text or a number has no sites, an object has those that may have made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowValue {
    /// Where it comes from, besides what is in its objects.
    pub(super) origins: OriginSet,
    pub(super) sites: SiteSet,
}

impl FlowValue {
    /// Creates a text or a number.
    pub(super) fn plain(origins: OriginSet) -> Self {
        Self { origins, sites: SiteSet::default() }
    }

    #[must_use]
    pub(super) fn with(self, other: Self) -> Self {
        let origins = self.origins.with(other.origins);
        Self { origins, sites: self.sites.with(other.sites) }
    }

    #[must_use]
    pub(super) fn with_origins(self, origins: OriginSet) -> Self {
        Self { origins: self.origins.with(origins), ..self }
    }

    #[must_use]
    pub(super) fn with_sites(self, sites: SiteSet) -> Self {
        Self { sites: self.sites.with(sites), ..self }
    }

    /// Adds another value. Returns whether this one has grown.
    pub(super) fn grow(&mut self, other: Self) -> bool {
        let before = *self;
        *self = before.with(other);
        *self != before
    }
}
