//! A value made from a part of the file, together with the problems of that part.
//!
//! A part knows its own keys only. Its problems have keys relative to it, and the part around it puts
//! them below its own key when it takes the value over. So a function of a section needs no context,
//! and one run still reports all problems.

use std::collections::BTreeMap;

use airlock_config_file::{
    key_path::KeyPath,
    refused::{InvalidValue, RefusedValue},
};

/// A value, and the problems of the part of the file that it was made from. If there are any, the
/// value is good for further checks only.
pub(super) struct Resolved<T> {
    value: T,
    problems: Problems,
}

/// Problems of one part of the file. Their keys are relative to the part.
#[derive(Default)]
pub(super) struct Problems(Vec<RefusedValue>);

/// A key relative to a part of the file: the name of a member, the index of an element, or a path.
pub(super) trait RelativeKey {
    /// Returns the key as a path.
    fn into_path(self) -> KeyPath;
}

impl RelativeKey for &str {
    fn into_path(self) -> KeyPath {
        KeyPath::default().member(self)
    }
}

impl RelativeKey for usize {
    fn into_path(self) -> KeyPath {
        KeyPath::default().element(self)
    }
}

impl RelativeKey for KeyPath {
    fn into_path(self) -> KeyPath {
        self
    }
}

impl<T> Resolved<T> {
    /// Runs `make`, which notes its problems.
    pub(super) fn new(make: impl FnOnce(&mut Problems) -> T) -> Self {
        let mut problems = Problems::default();
        let value = make(&mut problems);
        Self { value, problems }
    }

    pub(super) fn map<U>(self, map: impl FnOnce(T) -> U) -> Resolved<U> {
        Resolved { value: map(self.value), problems: self.problems }
    }

    /// Refuses the part as a whole if `is_refused`. Its problem comes before those of what is within it.
    pub(super) fn refused_if(self, is_refused: bool, reason: impl Into<InvalidValue>) -> Self {
        Self::new(|problems| {
            if is_refused {
                problems.refuse_whole(reason);
            }
            problems.merge(self)
        })
    }

    /// Returns the value and the problems. For the whole file, whose keys are not relative.
    pub(super) fn into_parts(self) -> (T, Vec<RefusedValue>) {
        (self.value, self.problems.0)
    }
}

impl<T> Resolved<Vec<T>> {
    /// Resolves each element of a list; those without a value are left out.
    pub(super) fn elements<E>(
        list: impl IntoIterator<Item = E>,
        mut element: impl FnMut(&mut Problems, E) -> Option<T>,
    ) -> Self {
        Self::new(|problems| {
            let list = list.into_iter().enumerate();
            let resolved = list.filter_map(|(index, file)| {
                problems.take(index, Resolved::new(|problems| element(problems, file)))
            });
            resolved.collect()
        })
    }
}

impl<T> Resolved<BTreeMap<String, T>> {
    /// Resolves each member of an object; those without a value are left out.
    pub(super) fn members<M>(
        object: BTreeMap<String, M>,
        mut member: impl FnMut(&mut Problems, &str, M) -> Option<T>,
    ) -> Self {
        Self::new(|problems| {
            let resolved = object.into_iter().filter_map(|(name, file)| {
                let value = Resolved::new(|problems| member(problems, &name, file));
                let value = problems.take(name.as_str(), value)?;
                Some((name, value))
            });
            resolved.collect()
        })
    }
}

impl<T, E: Into<InvalidValue>> From<Result<T, E>> for Resolved<Option<T>> {
    fn from(result: Result<T, E>) -> Self {
        Self::new(|problems| problems.accept_whole(result))
    }
}

impl Problems {
    /// Notes a problem of the part as a whole.
    pub(super) fn refuse_whole(&mut self, reason: impl Into<InvalidValue>) {
        self.refuse(KeyPath::default(), reason);
    }

    /// Notes a problem of the value at `key`.
    pub(super) fn refuse(&mut self, key: impl RelativeKey, reason: impl Into<InvalidValue>) {
        self.0.push(RefusedValue { key: key.into_path(), reason: reason.into() });
    }

    /// Returns the value at `key`, or notes the error and returns `None`.
    pub(super) fn accept<T, E: Into<InvalidValue>>(
        &mut self,
        key: impl RelativeKey,
        result: Result<T, E>,
    ) -> Option<T> {
        result.map_err(|error| self.refuse(key, error)).ok()
    }

    /// Returns the value of the part as a whole, or notes the error and returns `None`.
    pub(super) fn accept_whole<T, E: Into<InvalidValue>>(
        &mut self,
        result: Result<T, E>,
    ) -> Option<T> {
        self.accept(KeyPath::default(), result)
    }

    /// Returns the required value at `key`, or notes that it is missing.
    pub(super) fn required<T>(&mut self, key: impl RelativeKey, value: Option<T>) -> Option<T> {
        self.accept(key, value.ok_or("is required, but missing"))
    }

    /// Returns the value of the part at `key`, and notes its problems below this key.
    pub(super) fn take<T>(&mut self, key: impl RelativeKey, part: Resolved<T>) -> T {
        let key = key.into_path();
        let problems = part.problems.0.into_iter();
        self.0.extend(
            problems.map(|refused| RefusedValue { key: key.join(&refused.key), ..refused }),
        );
        part.value
    }

    /// Returns a value that was made from the same part, and notes its problems.
    pub(super) fn merge<T>(&mut self, same_part: Resolved<T>) -> T {
        self.take(KeyPath::default(), same_part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_config_file::error::Problem;

    #[test]
    fn the_problems_of_nested_parts_have_their_keys_in_the_whole_file() {
        let inner = Resolved::new(|problems| {
            problems.refuse_whole("whole");
            problems.refuse("member", "inner");
            problems.refuse(KeyPath::parse("a[1].b"), "deep");
        });
        let list = Resolved::elements([inner], |problems, inner| {
            problems.merge(inner);
            Some(())
        });
        let whole = Resolved::new(|problems| {
            problems.take("a list", list);
            problems.required::<()>("gone", None)
        });
        let (value, problems) = whole.into_parts();
        assert_eq!(value, None);
        assert_eq!(
            problems
                .into_iter()
                .map(Problem::from)
                .map(|problem| problem.to_string())
                .collect::<Vec<_>>(),
            [
                r#"["a list"][0]: whole"#,
                r#"["a list"][0].member: inner"#,
                r#"["a list"][0].a[1].b: deep"#,
                "gone: is required, but missing",
            ]
        );
    }
}
