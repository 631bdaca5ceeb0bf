//! Makes foreign text harmless in a terminal.

/// Shows what would move the cursor, change the terminal, or make letters look other than they are.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for letter in text.chars() {
        if acts(letter) {
            shown.extend(letter.escape_unicode());
        } else {
            shown.push(letter);
        }
    }
    shown
}

/// Whether a character does something instead of being seen.
fn acts(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            // Soft hyphen, other writing directions, joiners and spaces without width.
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            // Line and paragraph separators, embeddings and overrides of direction.
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            // Annotations, and tags that no font shows.
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Hides user and password of every address in a text that may quote the command line.
pub(crate) fn without_credentials(text: &str) -> String {
    const MARK: &str = "://";
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(MARK) {
        let (before, after) = rest.split_at(at + MARK.len());
        shown.push_str(before);
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '\'' | '"'))
            .unwrap_or(after.len());
        let address = &after[..end];
        rest = &after[end..];
        match address.rfind('@') {
            Some(at) => {
                shown.push_str("***");
                shown.push_str(&address[at..]);
            }
            None => shown.push_str(address),
        }
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_a_terminal_is_shown_and_not_done() {
        assert_eq!(plain("a\u{1b}[31mred"), "a\\u{1b}[31mred");
        assert_eq!(plain("one\r\ntwo\tthree"), "one\\u{d}\\u{a}two\\u{9}three");
        for letter in
            ['\0', '\u{7f}', '\u{85}', '\u{9b}', '\u{202e}', '\u{2028}', '\u{200b}', '\u{feff}']
        {
            let shown = plain(&format!("x{letter}y"));
            assert_eq!(shown, format!("x{}y", letter.escape_unicode()));
        }
    }

    #[test]
    fn what_is_only_seen_stays_as_it_is() {
        let text = "héllo 日本 😀 <script>alert(1)</script> \\ \"";
        assert_eq!(plain(text), text);
    }

    #[test]
    fn credentials_of_an_address_are_hidden_and_the_rest_is_not() {
        let shown = without_credentials(
            "unexpected argument 'redis://ad:S3CRET@h:1/0' found; see http://x/y, or ftp://u@z",
        );
        assert_eq!(
            shown,
            "unexpected argument 'redis://***@h:1/0' found; see http://x/y, or ftp://***@z"
        );
        let two = without_credentials("redis://a:S3@CRET@h");
        assert_eq!(two, "redis://***@h", "a password may hold the sign too");
        assert_eq!(without_credentials("no address: ://"), "no address: ://");
    }
}
