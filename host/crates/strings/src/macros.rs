//! Macros for implementations that differ in their names alone.

/// Implements `Debug` for a struct, with these fields alone. The others have secrets or cannot be shown.
///
/// ```
/// struct Account {
///     name: String,
///     password: String,
/// }
///
/// airlock_strings::debug_fields!(Account { name });
///
/// let account = Account { name: "ann".to_owned(), password: "secret".to_owned() };
/// assert_eq!(format!("{account:?}"), r#"Account { name: "ann", .. }"#);
/// ```
#[macro_export]
macro_rules! debug_fields {
    ($type:ident { $($field:ident),* }) => {
        impl ::std::fmt::Debug for $type {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($type))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}

/// Defines an enum of values with texts, such as their names in a database: `ALL` has the values in their order, `name`
/// returns the text of one. `enum Direction as label` calls this method `label`. The enum has to be `Copy`.
///
/// ```
/// airlock_strings::named_enum! {
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub enum Direction {
///         Left = "left",
///         Right = "right",
///     }
/// }
///
/// assert_eq!(Direction::Left.name(), "left");
/// assert_eq!(Direction::ALL, [Direction::Left, Direction::Right]);
/// ```
#[macro_export]
macro_rules! named_enum {
    ($(#[$meta:meta])* $vis:vis enum $type:ident { $($values:tt)+ }) => {
        $crate::named_enum! { $(#[$meta])* $vis enum $type as name { $($values)+ } }
    };
    ($(#[$meta:meta])* $vis:vis enum $type:ident as $method:ident {
        $($(#[$about:meta])* $value:ident = $text:literal,)+
    }) => {
        $(#[$meta])*
        $vis enum $type {
            $($(#[$about])* $value,)+
        }

        impl $type {
            /// All values, in their order.
            $vis const ALL: [Self; [$($text),+].len()] = [$(Self::$value),+];

            /// Returns the text of the value.
            $vis const fn $method(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    struct Account {
        name: &'static str,
        password: &'static str,
    }

    crate::debug_fields!(Account { name });

    crate::named_enum! {
        #[derive(Debug, Clone, Copy, PartialEq)]
        enum Direction as label {
            Left = "left",
            Right = "right",
        }
    }

    #[test]
    fn only_the_named_fields_are_shown() {
        let account = Account { name: "ann", password: "secret" };
        assert_eq!(format!("{account:?}"), r#"Account { name: "ann", .. }"#);
        assert!(!format!("{account:?}").contains(account.password));
    }

    #[test]
    fn values_have_their_texts_in_their_order() {
        assert_eq!(Direction::ALL, [Direction::Left, Direction::Right]);
        assert_eq!(Direction::ALL.map(Direction::label), ["left", "right"]);
    }
}
