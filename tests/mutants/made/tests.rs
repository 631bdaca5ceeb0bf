use super::*;

fn names(text: &str) -> Vec<String> {
    make(text).into_iter().map(|made| made.name).collect()
}

#[test]
fn each_condition_check_write_and_early_return_is_changed_once() {
    let text = "#!lua flags=allow-oom\n--[[\nif this then\n]]\nif a and not b then -- why\n  return 1\nend\nflush(x)\nput(y, 'it\\'s')\nreturn 2\n";
    assert_eq!(
        names(text),
        [
            "negated: a and not b",
            "check removed: a in a and not b",
            "check removed: not b in a and not b",
            "return removed: return 1",
            "write dropped: flush(x)",
            "write dropped: put(y, 'it\\'s')",
        ]
    );
}

#[test]
fn neighbouring_writes_change_places_with_what_stands_between() {
    let text = "flush(a)\n-- why\nif b then\n  ring(b)\nend\n";
    let swapped = make(text).into_iter().find(|made| made.change == Change::Swapped);
    assert_eq!(
        swapped.map(|made| made.text).as_deref(),
        Some("if b then\n  ring(b)\nend\n-- why\nflush(a)\n")
    );
}

#[test]
fn what_chooses_between_two_values_is_a_condition() {
    let made = make("local a = b and 1 or 2\n");
    let text =
        made.iter().find(|made| made.change == Change::Negated).map(|made| made.text.as_str());
    assert_eq!(text, Some("local a = not (b) and 1 or 2\n"));
}

#[test]
fn no_two_mutants_of_a_text_have_one_name() {
    let text = "if a then\n  f()\nend\nif a then\n  f()\nend\n";
    assert_eq!(
        names(text),
        ["negated: a", "write dropped: f()", "negated: a (no. 2)", "write dropped: f() (no. 2)"]
    );
}
