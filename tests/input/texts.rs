//! Bodies whose text is the point: scripts, marks, characters that look like something else.

use super::json::{escaped, string};
use super::kinds::chat;
use super::random::Random;

/// Texts that readers have been seen to change, split, or refuse.
pub(super) const TEXTS: [&str; 16] = [
    // Composed and decomposed: the same to the eye, other bytes.
    "café cafe\u{301} \u{c5} A\u{30a} \u{212b}",
    // More marks than letters.
    "Z\u{351}\u{36b}\u{343}a\u{302}\u{34c}l\u{361}\u{358}g\u{315}\u{321}o\u{359}",
    "من فضلك: كم الساعة الآن؟ ١٢٣ \u{200f}(abc)\u{200e}",
    "שלום \u{202b}עולם\u{202c} \u{5d0}\u{5b8}\u{5d1}",
    "👩\u{200d}👩\u{200d}👧\u{200d}👦 🏳\u{fe0f}\u{200d}🌈 🇩🇪🇧🇷 👍🏽 🦀",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𒀀 \u{10ffff} \u{1f000} 𐍈",
    "日本語と中文和한국어 ﾊﾝｶｸ 々〆",
    "नमस्ते दुनिया क्षि ไทยไม่มีช่องว่าง བོད་སྐད",
    // These end a line for some readers of lines, but not of JSON lines.
    "one\u{2028}two\u{2029}three\u{85}four",
    "\u{feff}mark first, and \u{feff} within",
    "replacement \u{fffd}, not a character \u{ffff} \u{fdd0}",
    "no width: a\u{200b}b\u{200c}c\u{2060}d\u{ad}e\u{a0}f\u{3000}g",
    "İstanbul ıI ß ẞ ς σ ǆ ﬃ",
    "delete \u{7f} and what follows \u{80}\u{9f}",
    "Ω≈ç√∫˜µ≤≥÷ ½ ⅓ № ™ ∑∏ ∞ \u{2212}1",
    "\u{1d165}\u{1d15e} \u{e0001}\u{e0061} \u{f0000}",
];

/// Text that is code of another kind, or reads like JSON, a template or a command.
pub(super) const CODE: [&str; 12] = [
    "<script>alert('x')</script><img src=x onerror=alert(1)>",
    "'; DROP TABLE requests; -- \" OR 1=1",
    "{\"role\":\"user\",\"content\":\"{\\\"a\\\": 1}\"}",
    "```rust\nfn main() {\n\tprintln!(\"{}\", 'x');\n}\n```",
    "local t = redis.call('HGETALL', KEYS[1]) -- ]] --[[",
    "${HOME} $(id) `id` %s %n %d {{user}} {% raw %} \\x41",
    "C:\\path\\new\\table \\\\server\\share \\u0041 \\\" \\",
    "GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    "data: {\"x\":1}\n\ndata: [DONE]\n\n",
    "*1\r\n$4\r\nPING\r\n",
    "\"body\": {\"custom_id\": \"x\"}}, {\"body\":",
    "\u{1b}[31mred\u{1b}[0m \u{7}\u{8}\u{0}\u{1f}",
];

/// Letters as they are.
pub(super) fn unicode(random: &mut Random, nth: usize) -> String {
    let other = random.pick(&TEXTS);
    let name = TEXTS[(nth + 1) % TEXTS.len()];
    let more = [("user", string(other)), (name, string("a name of a field too"))];
    chat(random, &string(TEXTS[nth]), &more)
}

/// The same letters as escapes, beside the short escapes and the needless ones.
pub(super) fn escapes(random: &mut Random, nth: usize) -> String {
    let content = escaped(random, TEXTS[nth]);
    let short = r#""\"\\\/\b\f\n\r\t / \u002f \u0022 \u005c\u0000\u001F\u007f""#;
    let pairs = r#""\ud83e\udd80 \uD83D\uDE00 🦀 \uDBFF\uDFFF""#;
    // A name in escapes is the same name as without.
    let body = chat(random, &content, &[("stop", format!("[{short},{pairs}]"))]);
    body.replacen(r#""model""#, r#""\u006dodel""#, 1)
}

pub(super) fn code(random: &mut Random, nth: usize) -> String {
    let other = random.pick(&CODE);
    chat(random, &string(CODE[nth]), &[("metadata", format!("{{\"source\":{}}}", string(other)))])
}
