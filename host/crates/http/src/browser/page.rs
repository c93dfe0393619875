//! A page as HTML without scripts.

const STYLE: &str = "body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem;\
                     color:#1a1a1a;background:#fff}dt{color:#555}dd{margin:0 0 .75rem;font-weight:600;\
                     overflow-wrap:anywhere}button,input{font:inherit;padding:.5rem}input{width:100%;\
                     box-sizing:border-box}";

/// A page: a title, and the HTML below it.
pub struct HtmlPage {
    title: String,
    body: String,
    /// Path to which the browser goes on by itself.
    next: Option<String>,
    /// True if its form leads to no redirect.
    is_own: bool,
}

impl HtmlPage {
    /// Creates a page of HTML.
    pub fn new(title: String, body: String) -> Self {
        Self { title, body, next: None, is_own: false }
    }

    /// Returns a page with a title and a paragraph.
    pub fn of_text(title: &str, text: &str) -> Self {
        Self::new(title.to_owned(), format!("<p>{}</p>", escaped(text)))
    }

    /// Makes the browser go on to a path of the gateway.
    pub fn leading_to(mut self, path: String) -> Self {
        let link = format!("<p><a href=\"{}\">Continue</a></p>", escaped(&path));
        self.body.push_str(&link);
        self.next = Some(path);
        self
    }

    /// Returns the whole page.
    pub fn to_html(&self) -> String {
        let Self { title, body, next, is_own: _ } = self;
        let title = escaped(title);
        let refresh = next.as_ref().map_or_else(String::new, |path| {
            format!("<meta http-equiv=\"refresh\" content=\"0;url={}\">", escaped(path))
        });
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} – Airlock</title>\
             <meta name=\"viewport\" content=\"width=device-width\">{refresh}<style>{STYLE}</style></head>\
             <body><main><h1>{title}</h1>{body}</main></body></html>\n"
        )
    }

    /// Notes that the form of the page leads to no redirect.
    pub fn with_own_form(mut self) -> Self {
        self.is_own = true;
        self
    }

    /// Returns whether the form of the page leads to no redirect.
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }
}

/// Returns a text as HTML.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}
