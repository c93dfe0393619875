//! Texts without a mark, and ordinary texts that have what an attack also has.

use super::{SAMPLES, SampleNumbers};

/// Makes one text.
type TextClass = fn(&mut SampleNumbers) -> String;

/// The classes, and how many of 1,000 texts of each are changed.
pub(super) const CLASSES: [(&str, TextClass, usize); 25] = [
    ("prose", prose, 0),
    ("Persian with ZWNJ", |numbers| numbers.words(&PERSIAN, 40, " "), 0),
    ("Arabic with embeddings", arabic, 0),
    ("Hebrew with isolates and marks", hebrew, 0),
    ("Hindi with joiners", |numbers| numbers.words(&HINDI, 40, " "), 0),
    ("Thai with zero-width spaces", |numbers| numbers.words(&THAI, 40, "\u{200b}"), 0),
    ("German with soft hyphens", |numbers| numbers.words(&GERMAN, 40, " "), 0),
    ("emoji", |numbers| numbers.words(&EMOJI, 40, ""), 0),
    ("Japanese with variants", |numbers| numbers.words(&JAPANESE, 40, "は"), 0),
    ("messages with isolated names", names, 0),
    ("Markdown", markdown, 0),
    ("source code", |numbers| numbers.words(&CODE, 20, "\n"), 0),
    ("logs", logs, 0),
    ("chats", chat, 0),
    ("JSON", json, 0),
    ("HTML pages", |numbers| page(numbers, ""), 0),
    ("HTML pages with empty hidden elements", |numbers| page(numbers, EMPTY), 0),
    ("HTML pages with comments", |numbers| page(numbers, "<!-- navigation -->"), SAMPLES),
    ("HTML pages with hidden menus", |numbers| page(numbers, MENU), SAMPLES),
    ("components with hidden={…}", |_| "<Box hidden={isOff}>a</Box>".to_owned(), SAMPLES),
    ("images with signed URLs", signed, SAMPLES),
    ("links with URI templates", template, SAMPLES),
    ("texts about templates of models", about_templates, SAMPLES),
    ("texts about HTML comments", |_| "A comment is `<!-- like this -->`.".to_owned(), SAMPLES),
    ("texts about injections", about_injections, SAMPLES),
];

const PERSIAN: [&str; 8] = [
    "می\u{200c}خواهم",
    "خانه\u{200c}ها",
    "نمی\u{200c}دانم",
    "کتاب",
    "را",
    "بزرگ\u{200c}تر",
    "این",
    "است",
];
const HINDI: [&str; 5] =
    ["क\u{94d}\u{200d}ष", "नमस्ते", "र\u{94d}\u{200d}य", "भारत", "क\u{94d}\u{200c}ष"];
const THAI: [&str; 6] = ["ภาษา", "ไทย", "ง่าย", "และ", "สวย", "มาก"];
const GERMAN: [&str; 5] = [
    "Donau\u{ad}dampf\u{ad}schiff",
    "und",
    "Kraft\u{ad}fahr\u{ad}zeug\u{ad}steuer",
    "der",
    "Ge\u{ad}schwin\u{ad}dig\u{ad}keit",
];
const EMOJI: [&str; 10] = [
    "👩\u{200d}👩\u{200d}👧\u{200d}👦",
    "👩\u{1f3fd}\u{200d}💻",
    "❤\u{fe0f}\u{200d}🔥",
    "1\u{fe0f}\u{20e3}",
    "☂\u{fe0e}",
    "😀",
    "\u{1f3f4}\u{e0067}\u{e0062}\u{e0073}\u{e0063}\u{e0074}\u{e007f}",
    "🏳\u{fe0f}\u{200d}🌈",
    "🇩🇪",
    " ok ",
];
const JAPANESE: [&str; 5] = ["葛\u{e0100}飾区", "辻\u{e0101}さん", "東京", "日本語", "㊗\u{fe0f}"];
const WORDS: [&str; 20] = [
    "the",
    "invoice",
    "system",
    "ignores",
    "previous",
    "orders",
    "user",
    "was",
    "paid",
    "on",
    "time",
    "instructions",
    "for",
    "hidden",
    "assistant",
    "and",
    "approval",
    "result",
    "tool",
    "of",
];
const CODE: [&str; 16] = [
    "fn next<T: Into<Option<U>>>(it: &mut Vec<T>) -> Result<(), Error> {",
    "if a < b && c > d || x << 2 == y >> 3 {",
    "let hidden = map.get(\"hidden\")[0]; // [see below]",
    "view model = div [] <| List.map item <| model.items |> Html.text",
    "parser = string \"a\" <|> string \"b\" <|> many digit",
    "std::cout << \"<b>\" << value << std::endl;",
    "#include <system_error>",
    "### a heading in a comment ###",
    "values[inst] = rows[0]: # (counted from the end)",
    "const page = <Layout style={{display: 'none'}}>;",
    "type Handler<'a> = dyn Fn(&'a str) -> Box<dyn Future<Output = ()>>;",
    "cat <<EOF > file.txt",
    "url = f\"https://example.com/?q={query}\"",
    "assert!(text.starts_with(\"<!doctype html>\"));",
    "<T,>(x: T) => x as unknown as Array<T>",
    "a[i] = b[j](k) ? x : y;",
];
const EMPTY: &str = "<div hidden></div><span style=\"display:none\"> </span><!-- --><svg style=\"display:none\"><path d=\"M0 0\"/></svg>";
const MENU: &str = "<nav style=\"display:none\"><a href=\"/a\">About us</a></nav>";

fn prose(numbers: &mut SampleNumbers) -> String {
    numbers.words(&WORDS, 60, " ")
}

fn arabic(numbers: &mut SampleNumbers) -> String {
    let words = ["مرحبا", "بالعالم", "\u{202b}كتاب جديد\u{202c}", "الطقس", "\u{61c}١٢", "جميل"];
    numbers.words(&words, 40, " ")
}

fn hebrew(numbers: &mut SampleNumbers) -> String {
    let words =
        ["שלום", "\u{2067}עברית abc\u{2069}", "עולם\u{200f}!", "ספר", "\u{2066}C++\u{2069}", "טוב"];
    numbers.words(&words, 40, " ")
}

fn names(numbers: &mut SampleNumbers) -> String {
    let name = numbers.letters(6);
    let count = numbers.below(100);
    format!("\u{2068}{name}\u{2069} has \u{2068}{count}\u{2069} mails in \u{2068}3\u{2069} folders")
}

fn markdown(numbers: &mut SampleNumbers) -> String {
    let words = prose(numbers);
    let id = numbers.letters(8);
    format!(
        "# Title\n\n## System: overview\n\n[![build](https://img.example/badge/{id}.svg?branch=main&style=flat)](https://ci.example/{id})\n\n\
         {words} [a link](https://example.com/watch?v={id}&utm_source=mail) and [another][1].\n\n\
         - [ ] open\n- [x] done\n\n```html\n<div class=\"a\">text</div>\n```\n\n[1]: https://example.com/{id} \"A title\"\n"
    )
}

fn logs(numbers: &mut SampleNumbers) -> String {
    let id = numbers.letters(12);
    format!(
        "2026-01-01T00:00:00Z [INFO] [system] started {id}\n[approved] request {id} <ann@example.com>\n[ERROR] tool result: 3 <nil>\n"
    )
}

fn chat(numbers: &mut SampleNumbers) -> String {
    let words = prose(numbers);
    format!(
        "Human: {words}\n\nAssistant: {words}\n\nUser: <system name=\"a\"> is XML\nSystem: rebooted\n"
    )
}

fn json(numbers: &mut SampleNumbers) -> String {
    let id = numbers.letters(8);
    format!(
        r##"{{"id":"{id}","items":[["a",1],[]],"html":"<b>{id}</b>","color":"#fff","url":"https://example.com/?q={id}"}}"##
    )
}

/// Returns a page with a part in its body.
fn page(numbers: &mut SampleNumbers, part: &str) -> String {
    let words = prose(numbers);
    let id = numbers.letters(8);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{id}</title>\n\
         <link rel=\"stylesheet\" href=\"https://fonts.example/css2?family=Open+Sans:ital,wght@0,300..800;1,300..800&display=swap\">\n\
         <style>.a {{ display: none }}</style></head>\n<body class=\"light\">{part}<h1>{id}</h1>\n\
         <p style=\"color:#333;font-size:1em\">{words}<p>{words}\n\
         <a style=\"color:#fff\" href=\"https://example.com/?utm_source=page&id={id}\">next</a>\n\
         <img src=\"https://img.example/{id}.png?w=200&h=100\" alt=\"a > b\">\n\
         <input type=\"hidden\" name=\"token\" value=\"{id}\">\n\
         <script>if (a<b && c>d) {{ document.title = '<b>' }}</script></body></html>"
    )
}

fn signed(numbers: &mut SampleNumbers) -> String {
    let signature = numbers.letters(64);
    format!("![chart](https://bucket.example/chart.png?expires=3600&signature={signature})")
}

fn template(numbers: &mut SampleNumbers) -> String {
    format!("See [search](https://api.example/{}?q={{query}}).", numbers.letters(4))
}

fn about_templates(numbers: &mut SampleNumbers) -> String {
    let mark = numbers.one(&["`<|im_start|>`", "`[INST]`", "`<<SYS>>`", "`<system>`"]);
    format!("The template of the model has {mark} before each message.")
}

fn about_injections(numbers: &mut SampleNumbers) -> String {
    let words = numbers.one(&["previous", "prior", "earlier"]);
    format!("An attacker writes \"ignore all {words} instructions\" into a page.")
}
