//! What scripts share, and which of it a script gets.
//!
//! Redis runs the whole text at each call, and makes each function of it anew. So a script gets those that it uses.

/// What every script may use.
pub(crate) const SHARED: [&str; 6] = [
    include_str!("../../lua/lib/ticket.lua"),
    include_str!("../../lua/lib/home.lua"),
    include_str!("../../lua/lib/ending.lua"),
    include_str!("../../lua/lib/upkeep.lua"),
    include_str!("../../lua/lib/beat.lua"),
    include_str!("../../lua/lib/rights.lua"),
];

/// How a function of the outermost level begins; it ends at the first line that is nothing but its end.
const BEGIN: &str = "local function ";
const END: &str = "end";

/// A function of a shared text, or a line between two.
struct Piece<'a> {
    /// What calls it; none: it is no function.
    call: Option<&'a str>,
    text: String,
}

/// The part of `shared` that `script` needs, in the same order: each function that it calls, or that one of these calls, and
/// all that is no function. None of them is ever passed on without being called.
pub fn needed(script: &str, shared: &[&str]) -> String {
    let mut kept: Vec<String> = Vec::new();
    // From the end: a function can only call what stands before it.
    let pieces: Vec<Piece<'_>> = shared.iter().flat_map(|text| pieces(text)).collect();
    for piece in pieces.into_iter().rev() {
        let is_called = piece.call.is_none_or(|call| {
            script.contains(call) || kept.iter().any(|text| text.contains(call))
        });
        if is_called {
            kept.push(piece.text);
        }
    }
    kept.into_iter().rev().collect()
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let (mut pieces, mut lines) = (Vec::new(), text.lines());
    while let Some(line) = lines.next() {
        let mut text = format!("{line}\n");
        let rest = line.strip_prefix(BEGIN);
        let call = rest.and_then(|rest| rest.get(..=rest.find('(')?));
        if call.is_some() {
            for line in lines.by_ref() {
                text.push_str(line);
                text.push('\n');
                if line == END {
                    break;
                }
            }
        }
        pieces.push(Piece { call, text });
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_gets_what_it_calls_and_what_that_calls_in_their_order() {
        let shared = "-- a\nlocal A = 1\nlocal function one()\n  return A\nend\nlocal function two()\n  if A then\n  end\n  return one()\nend\n\
            local function three()\nend\n";
        let plain = "-- a\nlocal A = 1\n";
        let one = "local function one()\n  return A\nend\n";
        let two = "local function two()\n  if A then\n  end\n  return one()\nend\n";
        assert_eq!(needed("return 1", &[shared]), plain);
        assert_eq!(needed("return one()", &[shared]), format!("{plain}{one}"));
        assert_eq!(needed("return two()", &[shared]), format!("{plain}{one}{two}"));
        assert_eq!(needed("one() two() three()", &[shared]), shared);
    }
}
