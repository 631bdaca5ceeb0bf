use super::*;

/// What a cutter makes of a body that comes in parts of `size` bytes: place and text of each item, then the fault.
fn cut_in(mut cutter: Cutter, body: &[u8], size: usize) -> (Vec<String>, Option<Fault>) {
    let mut items = Vec::new();
    for part in body.chunks(size) {
        let mut input = Bytes::copy_from_slice(part);
        while let Some(next) = cutter.cut(&mut input) {
            match next {
                Ok(cut) => items.push(told(&cut)),
                Err(fault) => return (items, Some(fault)),
            }
        }
        assert!(input.is_empty());
    }
    match cutter.finish() {
        None => (items, None),
        Some(Ok(cut)) => {
            items.push(told(&cut));
            (items, None)
        }
        Some(Err(fault)) => (items, Some(fault)),
    }
}

fn told(cut: &Cut) -> String {
    let Spot { line, column } = cut.spot;
    let text = cut.text.as_deref().map(|text| String::from_utf8_lossy(text).into_owned());
    format!("{line}:{column} {}", text.as_deref().unwrap_or("too long"))
}

/// The same, whatever the size of the parts.
#[track_caller]
fn cut(cutter: impl Fn() -> Cutter, body: &str) -> (Vec<String>, Option<Fault>) {
    let whole = cut_in(cutter(), body.as_bytes(), usize::MAX);
    for size in 1..=body.len().min(9) {
        assert_eq!(cut_in(cutter(), body.as_bytes(), size), whole, "in parts of {size}");
    }
    whole
}

const LONG: usize = 1000;

fn lines(body: &str) -> Vec<String> {
    let (items, fault) = cut(|| Cutter::lines(LONG), body);
    assert_eq!(fault, None);
    items
}

fn array(body: &str) -> (Vec<String>, Option<Fault>) {
    cut(|| Cutter::array_or_lines(LONG), body)
}

#[test]
fn a_mark_carriage_returns_blank_lines_and_spaces_are_no_part_of_an_item() {
    let body = "\u{feff}{\"a\":1}\r\n\r\n  {\"a\":2} \t\r\n   \r\n{\"a\":3}";
    assert_eq!(lines(body), ["1:1 {\"a\":1}", "3:3 {\"a\":2}", "5:1 {\"a\":3}"]);
    assert_eq!(array(body).0, lines(body), "the first byte says that these are lines");
}

#[test]
fn nothing_but_a_line_feed_ends_a_line() {
    let text = "a\u{2028}b\u{2029}c\u{85}d\u{b}e\u{c}f\rg";
    assert_eq!(lines(&format!("{text}\nh\n")), [format!("1:1 {text}"), "2:1 h".to_owned()]);
}

#[test]
fn what_holds_no_item_gives_none() {
    for body in ["", "\n", "\r\n \r\n", "\u{feff}", "\u{feff}\n  "] {
        assert_eq!(lines(body), Vec::<String>::new(), "{body:?}");
        assert_eq!(array(body), (Vec::new(), None), "{body:?}");
    }
    for body in ["[]", " [ \n ] \n", "\u{feff}[]"] {
        assert_eq!(array(body), (Vec::new(), None), "{body:?}");
    }
}

#[test]
fn half_a_mark_is_the_beginning_of_an_item() {
    let (items, fault) = cut_in(Cutter::lines(LONG), b"\xef\xbb{}\nx", 1);
    assert_eq!((items.len(), fault), (2, None));
    assert!(items[0].ends_with("{}"), "{items:?}");
    assert_eq!(cut_in(Cutter::lines(LONG), b"\xef", 1).0.len(), 1);
    // Such a body is no array, and none begins in its second line either.
    let (items, fault) = cut_in(Cutter::array_or_lines(LONG), b"\xef\xbb\n[1,2]\n", 1);
    assert_eq!((items[1..].to_vec(), fault), (vec!["2:1 [1,2]".to_owned()], None));
}

#[test]
fn lines_are_lines_whatever_they_begin_with_if_the_caller_says_so() {
    assert_eq!(lines("[1,2]\n{}"), ["1:1 [1,2]", "2:1 {}"]);
}

#[test]
fn elements_of_an_array_are_cut_at_its_own_commas_only() {
    let body = "[ {\"a\":[1,{\"b\":\"],\\\"[{\"}]} ,\n  \"x,]\\\\\",3\n,[[],[]]]\n";
    let expected =
        ["1:3 {\"a\":[1,{\"b\":\"],\\\"[{\"}]}", "2:3 \"x,]\\\\\"", "2:11 3", "3:2 [[],[]]"];
    assert_eq!(array(body), (expected.map(str::to_owned).to_vec(), None));
}

#[test]
fn an_element_that_is_missing_is_an_item_of_nothing() {
    assert_eq!(array("[,1]").0, ["1:2 ", "1:3 1"]);
    assert_eq!(array("[1,]"), (vec!["1:2 1".to_owned(), "1:4 ".to_owned()], None));
}

#[test]
fn an_array_that_does_not_end_keeps_its_last_item() {
    for body in ["[", "[ ", "[{\"a\":1}", "[{\"a\":1},", "[\"x]"] {
        let (items, fault) = array(body);
        assert_eq!(fault, Some(Fault::Unclosed), "{body}");
        assert!(items.len() <= 1, "{items:?}");
    }
}

#[test]
fn brackets_that_do_not_match_spoil_their_own_element_only() {
    let (items, fault) = array("[{\"a\":],{\"b\":1}]");
    assert_eq!((items, fault), (vec!["1:2 {\"a\":]".to_owned(), "1:9 {\"b\":1}".to_owned()], None));
}

#[test]
fn what_stands_behind_an_array_is_told_and_takes_nothing_back() {
    for body in ["[1] 2", "[1]]", "[1],", "[1]\n{}"] {
        assert_eq!(array(body), (vec!["1:2 1".to_owned()], Some(Fault::Behind)), "{body}");
    }
}

#[test]
fn an_item_that_is_too_long_has_no_text_and_the_next_one_has() {
    let short = || Cutter::array_or_lines(5);
    let (items, fault) = cut(short, "12345\r\n123456\n1234567890123\r\n  12345\n123");
    let expected = ["1:1 12345", "2:1 too long", "3:1 too long", "4:3 12345", "5:1 123"];
    assert_eq!((items, fault), (expected.map(str::to_owned).to_vec(), None));
    let (items, _) = cut(short, "[12345,123456,[1,2,3,4],1]");
    assert_eq!(items, ["1:2 12345", "1:8 too long", "1:15 too long", "1:25 1"]);
}

#[test]
fn what_was_let_go_comes_without_text() {
    let mut cutter = Cutter::lines(LONG);
    assert_eq!(cutter.cut(&mut Bytes::from_static(b"1234")), None);
    assert_eq!(cutter.held(), 4);
    cutter.let_go();
    assert_eq!(cutter.held(), 0);
    let mut rest = Bytes::from_static(b"5\n6\n");
    assert_eq!(cutter.cut(&mut rest).map(|it| told(&it.unwrap())).as_deref(), Some("1:1 too long"));
    assert_eq!(cutter.cut(&mut rest).map(|it| told(&it.unwrap())).as_deref(), Some("2:1 6"));
}

#[test]
fn an_item_in_one_part_is_not_copied() {
    let body = Bytes::from_static(b"{\"a\":1}\n{\"a\":2}\n");
    let mut input = body.clone();
    let cut = Cutter::lines(LONG).cut(&mut input).unwrap().unwrap();
    assert!(body.as_ptr_range().contains(&cut.text.unwrap().as_ptr()));
}
