//! Setters of optional members.

/// Defines setters: the name, the parameter with its type, and the member that is set.
macro_rules! setters {
    ($($(#[$doc:meta])+ $name:ident($value:ident: $type:ty) => $($member:tt).+;)+) => {$(
        $(#[$doc])+
        #[must_use]
        pub fn $name(mut self, $value: impl Into<$type>) -> Self {
            self.$($member).+ = Some($value.into());
            self
        }
    )+};
}
