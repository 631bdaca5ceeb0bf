use std::time::Duration;

use hyper::Request;

use super::*;

/// Which of the arrivals with these bodies the script touches, as statuses; 0: none.
fn statuses(rules: Vec<Rule>, bodies: &[&str]) -> Vec<u16> {
    let script = Script::default();
    script.replace(rules).unwrap();
    let (parts, ()) =
        Request::post("/v1/chat/completions?x=1").header("Who", "a").body(()).unwrap().into_parts();
    let numbered = bodies.iter().zip(1..);
    let pick = |(body, number): (&&str, u64)| {
        let ((), rule) = script.pick(&parts, body.as_bytes(), || (number, ()));
        rule.and_then(|rule| rule.status).map_or(0, |status| status.as_u16())
    };
    numbered.map(pick).collect()
}

fn when(when: Match) -> Rule {
    Rule { when, ..Rule::new().status(503) }
}

#[test]
fn the_first_rule_that_fits_and_is_not_used_up_applies() {
    let rules = vec![Rule::on_body("b").status(500).times(1), Rule::new().status(429).times(2)];
    assert_eq!(statuses(rules, &["a", "b", "b", "b"]), [429, 500, 429, 0]);
}

#[test]
fn nth_and_every_count_only_arrivals_that_fit() {
    let nth =
        Rule { when: Match { nth: Some(2), ..Rule::on_body("b").when }, ..Rule::new().status(503) };
    assert_eq!(statuses(vec![nth], &["b", "a", "a", "b", "b"]), [0, 0, 0, 503, 0]);
    let every = when(Match { every: Some(2), ..Match::default() });
    assert_eq!(statuses(vec![every], &["a"; 5]), [0, 503, 0, 503, 0]);
}

#[test]
fn a_number_a_path_and_a_header_choose_too() {
    let header = |name: &str, value: Option<&str>| {
        let header = HeaderIs { name: name.to_owned(), value: value.map(str::to_owned) };
        when(Match { header: Some(header), ..Match::default() })
    };
    let path = |path: &str| when(Match { path: Some(path.to_owned()), ..Match::default() });
    let arrival = when(Match { arrival: Some(2), ..Match::default() });
    assert_eq!(statuses(vec![arrival], &["a"; 3]), [0, 503, 0]);
    for (rule, status) in [
        (header("WHO", None), 503),
        (header("who", Some("a")), 503),
        (header("who", Some("b")), 0),
        (header("whose", None), 0),
        (path("/v1/chat/completions"), 503),
        (path("/v1/completions"), 0),
    ] {
        assert_eq!(statuses(vec![rule.clone()], &["x"]), [status], "{rule:?}");
    }
}

#[test]
fn a_rule_that_cannot_be_carried_out_is_refused_and_the_old_script_stays() {
    let script = Script::default();
    script.replace(vec![Rule::new().status(418)]).unwrap();
    for (rule, field) in [
        (Rule::new().status(199), "status"),
        (Rule::new().status(1000), "status"),
        (Rule::new().header("no name", "x"), "headers"),
        (Rule::new().header("x", "two\nlines"), "headers"),
        (Rule::new().header("Content-Length", "7"), "headers"),
        (Rule::new().trickle(0, Duration::ZERO), "trickle"),
        (Rule::on_nth(0), "match"),
    ] {
        let err = script.replace(vec![Rule::new(), rule]).unwrap_err();
        assert_eq!((err.rule, err.field), (2, field));
    }
    assert_eq!(script.rules()[0].rule.status.unwrap(), 418);
}

#[test]
fn a_rule_says_the_same_as_json() {
    let text = r#"[{"match": {"body_contains": "x", "nth": 2}, "times": 1, "delay_ms": 5, "status": 503,
        "headers": {"retry-after": "1"}, "body": {"base64": "/w=="}, "trickle": {"bytes": 1, "every_ms": 2}}]"#;
    let read: Vec<Rule> = serde_json::from_str(text).unwrap();
    let mut built = Rule::on_body("x").times(1).delay(Duration::from_millis(5)).status(503);
    built = built.header("retry-after", "1").body(vec![0xff]).trickle(1, Duration::from_millis(2));
    built.when.nth = Some(2);
    assert_eq!(read, [built]);
    let again = serde_json::to_string(&read).unwrap();
    assert_eq!(serde_json::from_str::<Vec<Rule>>(&again).unwrap(), read);
    assert!(
        serde_json::from_str::<Vec<Rule>>(r#"[{"staus": 503}]"#).is_err(),
        "a slip is not passed over"
    );
}

#[tokio::test]
async fn a_release_frees_all_that_waited_even_if_a_hold_follows_at_once() {
    let script = Arc::new(Script::default());
    script.hold(true);
    let mut waiting = tokio::task::JoinSet::new();
    let held = Arc::clone(&script);
    let mut waiter = Box::pin(async move { held.released().await });
    assert!(futures_poll_once(&mut waiter).await.is_none(), "held");
    script.hold(false);
    script.hold(true);
    waiting.spawn(waiter);
    let limit = Duration::from_secs(5);
    tokio::time::timeout(limit, waiting.join_next()).await.expect("released").unwrap().unwrap();
}

/// Polls a future once.
async fn futures_poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    std::future::poll_fn(|cx| match std::pin::Pin::new(&mut *future).poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}
