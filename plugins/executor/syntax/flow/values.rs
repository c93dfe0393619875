//! Values of a script as the analysis sees them: sets of bits. A set is changed in place where that is possible: in the
//! sandbox, a copy takes fuel for each byte.

use std::iter;

/// Tools whose calls are told apart, at most, as many as an [`OriginSet`] has bits. A run makes 64 calls by default. A script
/// with more is not analysed.
pub(super) const MAX_TOOLS: usize = 128;
/// Places of a script that make objects, at most: each value has a bit for each, 64 bytes. A script with more is not
/// analysed.
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

    /// Adds the sites of another set.
    pub(super) fn add(&mut self, other: &Self) {
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    /// Adds the sites of another set. Returns whether this one has grown.
    pub(super) fn grow(&mut self, other: &Self) -> bool {
        let mut new = 0;
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            new |= more & !*word;
            *word |= more;
        }
        new != 0
    }

    #[must_use]
    pub(super) fn with(mut self, other: Self) -> Self {
        self.add(&other);
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

    /// Returns the sites that another set has too.
    #[must_use]
    pub(super) fn within(mut self, other: Self) -> Self {
        for (word, kept) in self.0.iter_mut().zip(other.0) {
            *word &= kept;
        }
        self
    }

    /// Iterates over the sites, from the lowest.
    pub(super) fn sites(&self) -> impl Iterator<Item = usize> {
        let mut words = self.0.iter();
        let mut rest = 0_u64;
        let mut end = 0;
        iter::from_fn(move || {
            while rest == 0 {
                rest = *words.next()?;
                end += WORD;
            }
            let bit = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            Some(end - WORD + bit)
        })
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
    pub(super) fn grow(&mut self, other: &Self) -> bool {
        let have_origins_grown = self.origins.grow(other.origins);
        self.sites.grow(&other.sites) || have_origins_grown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(sites: &[usize]) -> SiteSet {
        sites.iter().copied().map(SiteSet::of_site).fold(SiteSet::default(), SiteSet::with)
    }

    #[test]
    fn the_sites_of_a_set_are_in_their_order() {
        let sites = [0, 1, 63, 64, 200, MAX_SITES - 1];
        assert_eq!(set(&sites).sites().collect::<Vec<_>>(), sites);
        assert_eq!(SiteSet::default().sites().next(), None);
        let mut grown = set(&[1, 64]);
        assert!(!grown.grow(&set(&[64])) && grown.grow(&set(&[2, 64])));
        assert_eq!(grown, set(&[1, 2, 64]));
        let both = set(&sites).within(set(&[1, 2, 200]));
        assert_eq!(both.sites().collect::<Vec<_>>(), [1, 200]);
    }
}
