//! Declarations in the attribute `style` that make a text invisible.

/// Largest opacity that nobody sees.
const OPACITY: f64 = 0.05;
/// Largest size of a font or a box that nobody reads, in pixels or points.
const SMALL: f64 = 1.0;
/// Offset beyond which an element is outside the window.
const OUTSIDE: f64 = -500.0;
/// Maximum length of a colour that is compared, in letters without blanks: more than each of [`WHITES`] has.
const MAX_COLOR: usize = 24;
/// Ways to write white.
const WHITES: [&str; 5] = ["white", "#fff", "#ffffff", "rgb(255,255,255)", "rgba(255,255,255,1)"];
/// Values that clip an element or shrink it to nothing.
const CLIPS: [&str; 5] = ["rect(0", "rect(1px", "inset(50%", "inset(100%", "scale(0)"];

/// Effect of a `style` on the text of its element.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct InlineStyle {
    /// The text is not shown.
    pub(super) hides: bool,
    /// The text is white, and the style sets no background.
    pub(super) is_white: bool,
    /// The style sets a background.
    pub(super) sets_background: bool,
}

/// Reads the declarations of a `style`.
pub(super) fn read(style: &str) -> InlineStyle {
    let mut hides = false;
    let mut is_white = false;
    let mut is_small = false;
    let mut is_clipped = false;
    let mut background = None;
    for declaration in style.split(';') {
        let Some((name, value)) = declaration.split_once(':') else { continue };
        let value = value.trim();
        match Property::parse(name.trim()) {
            Property::Display => hides |= starts(value, "none"),
            Property::Visibility => hides |= starts(value, "hidden") || starts(value, "collapse"),
            Property::Opacity => hides |= is_transparent(value),
            Property::FontSize => hides |= is_at_most_small(value),
            Property::Color => {
                hides |= starts(value, "transparent");
                is_white = is_white_color(value);
            }
            Property::Background => background = Some(is_white_color(value)),
            Property::Offset => hides |= number(value).is_some_and(|(offset, _)| offset <= OUTSIDE),
            Property::Size => is_small |= is_at_most_small(value),
            Property::Overflow => is_clipped |= starts(value, "hidden") || starts(value, "clip"),
            Property::Clip => hides |= CLIPS.iter().any(|clip| starts(value, clip)),
            Property::Other => {}
        }
    }
    hides |= is_small && is_clipped;
    hides |= is_white && background == Some(true);
    InlineStyle {
        hides,
        is_white: is_white && background.is_none(),
        sets_background: background.is_some(),
    }
}

/// A property that can hide a text.
enum Property {
    Display,
    Visibility,
    Opacity,
    FontSize,
    Color,
    Background,
    Offset,
    Size,
    Overflow,
    Clip,
    Other,
}

impl Property {
    fn parse(name: &str) -> Self {
        for (known, property) in [
            ("display", Self::Display),
            ("visibility", Self::Visibility),
            ("opacity", Self::Opacity),
            ("font-size", Self::FontSize),
            ("color", Self::Color),
            ("background", Self::Background),
            ("background-color", Self::Background),
            ("text-indent", Self::Offset),
            ("left", Self::Offset),
            ("right", Self::Offset),
            ("top", Self::Offset),
            ("bottom", Self::Offset),
            ("margin-left", Self::Offset),
            ("margin-top", Self::Offset),
            ("width", Self::Size),
            ("height", Self::Size),
            ("max-width", Self::Size),
            ("max-height", Self::Size),
            ("overflow", Self::Overflow),
            ("clip", Self::Clip),
            ("clip-path", Self::Clip),
            ("transform", Self::Clip),
        ] {
            if name.eq_ignore_ascii_case(known) {
                return property;
            }
        }
        Self::Other
    }
}

/// Returns whether a colour is white, as it is usually written.
pub(super) fn is_white_color(value: &str) -> bool {
    let value = value.split('!').next().unwrap_or_default();
    let letters = value.bytes().filter(|byte| !byte.is_ascii_whitespace()).take(MAX_COLOR);
    let color: String = letters.map(|byte| char::from(byte.to_ascii_lowercase())).collect();
    WHITES.contains(&color.as_str())
}

fn starts(value: &str, start: &str) -> bool {
    value.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

fn is_transparent(value: &str) -> bool {
    number(value).is_some_and(|(opacity, unit)| {
        let opacity = if unit.starts_with('%') { opacity / 100.0 } else { opacity };
        opacity <= OPACITY
    })
}

fn is_at_most_small(value: &str) -> bool {
    number(value).is_some_and(|(size, unit)| {
        size == 0.0 || (size <= SMALL && (starts(unit, "px") || starts(unit, "pt")))
    })
}

/// Returns the number at the start of a value, and its unit.
fn number(value: &str) -> Option<(f64, &str)> {
    let end = value.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | '-' | '+'));
    let end = end.unwrap_or(value.len());
    let (number, unit) = value.split_at(end + exponent(&value[end..]));
    Some((number.parse().ok()?, unit))
}

/// Returns the length of the exponent at the start of a text, such as `e-3`; 0 if there is none, as in `em`.
fn exponent(text: &str) -> usize {
    let Some(digits) = text.strip_prefix(['e', 'E']) else { return 0 };
    let digits = digits.strip_prefix(['+', '-']).unwrap_or(digits);
    match digits.bytes().take_while(u8::is_ascii_digit).count() {
        0 => 0,
        count => text.len() - digits.len() + count,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_that_hide_a_text_are_known() {
        for style in [
            "display:none",
            "color: red; DISPLAY : None !important",
            "visibility:hidden",
            "opacity:0",
            "opacity: .01",
            "opacity:0%",
            "font-size:0",
            "font-size:0.5px",
            "font-size: 1pt",
            "color:transparent",
            "color:#fff;background:#ffffff",
            "background-color: white; color: rgb(255, 255, 255)",
            "position:absolute;left:-9999px",
            "text-indent:-1000em",
            "height:0;overflow:hidden",
            "width:1px; height:1px; overflow:hidden",
            "clip: rect(0 0 0 0)",
            "clip-path:inset(50%)",
            "transform: scale(0)",
            "font-size:0.99999999999999999px",
            "left:-00000000000000000600px",
            "left:-1E4px",
            "opacity:1e-9",
            "font-size:100e-3px",
            "background:white;color:rgb(   255 ,   255 ,   255   )",
        ] {
            assert!(read(style).hides, "{style}");
        }
    }

    #[test]
    fn ordinary_styles_hide_nothing() {
        for style in [
            "",
            "display:block",
            "opacity:0.8",
            "opacity:50%",
            "font-size:1em",
            "font-size:1e1px",
            "font-size:1e",
            "font-size:12px",
            "color:#fff;background:#003366",
            "color:#ff0000",
            "left:-20px",
            "margin-left:-5px",
            "height:0",
            "overflow:hidden",
            "transform:scale(0.5)",
            "width:100%;overflow:hidden",
            "display",
            "é:é",
        ] {
            assert!(!read(style).hides, "{style}");
        }
    }

    #[test]
    fn white_text_without_a_background_is_told_apart() {
        for (style, is_white, sets_background) in [
            ("color:white", true, false),
            ("color:#FFFFFF", true, false),
            ("color:#fff0aa", false, false),
            ("color:#fff;background:#000", false, true),
            ("background:url(a)", false, true),
            ("color:whitesmoke", false, false),
        ] {
            let found = read(style);
            assert_eq!((found.is_white, found.sets_background), (is_white, sets_background));
        }
    }
}
