//! Numbers as people read them, with their nouns.

use std::fmt::Display;

/// A number with its noun, or with more of the sentence where that depends on it: `1 request waits`, `2 requests wait`.
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, one: &str, many: &str) -> String {
    let noun = if number == N::from(1) { one } else { many };
    format!("{number} {noun}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_is_singular() {
        let told = [0_u64, 1, 2].map(|number| counted(number, "request waits", "requests wait"));
        assert_eq!(told, ["0 requests wait", "1 request waits", "2 requests wait"]);
    }
}
