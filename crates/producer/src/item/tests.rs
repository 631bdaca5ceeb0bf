use std::sync::LazyLock;

use holdfast_runtime::{Environment, Settings};

use super::*;

/// 2033-05-18T03:33:20Z less a day, so that the fixed times of the cases lie just ahead.
const NOW: u64 = 2_000_000_000 - 86_400;

/// What a queue with lists of its own allows.
static ALLOWED: LazyLock<Allowed> = LazyLock::new(|| {
    let text = "[queues.q]\ntarget = \"http://h\"\npath = \"/v1/own\"\n\
        allow_paths = [\"/v1/other\"]\nallow_headers = [\"x-a\", \"X-B\"]";
    let mut queues = Settings::load(text, &Environment::default()).unwrap().queues;
    queues.pop_first().unwrap().1.allowed
});

fn frame() -> Frame<'static> {
    let timeout_default = Duration::from_hours(24);
    Frame { now_ms: NOW * 1000 + 250, timeout_default, allowed: &ALLOWED }
}

fn parse(body: &str) -> Result<Item, ItemError> {
    Item::parse(&Bytes::copy_from_slice(body.as_bytes()), frame())
}

fn with_deadline(raw: &str) -> Result<u64, ItemError> {
    parse(&format!(r#"{{"id":"k24","deadline":{raw},"payload":{{}}}}"#)).map(|it| it.deadline_ms)
}

fn with_timeout(raw: &str) -> Result<u64, ItemError> {
    parse(&format!(r#"{{"timeout":{raw},"payload":{{}}}}"#)).map(|it| it.deadline_ms)
}

fn time_fault(field: Field, fault: TimeFault) -> ItemError {
    ItemError::Time { field, fault }
}

#[test]
fn a_payload_is_kept_byte_for_byte_in_the_memory_of_the_body() {
    let payload = concat!(
        r#"{"model":"demo-model","seed":9007199254740993,"big":12345678901234567890123,"#,
        r#""neg":-9223372036854775809,"f":1.0,"t":0.1000000000000000055,"z":-0.0,"e":1E22,"#,
        r#""tiny":5e-324,"tools":[],"meta":{},"stop":[null],"logit_bias":{"50256":-100},"#,
        r#""key order":{"b":1,"a":2},"esc":"\u00e9\/\ud83d\ude00","ws" :  [1 , 2]}"#
    );
    let text = format!(r#"{{"id":"k45","deadline":2000000000,"payload": {payload} }}"#);
    let body = Bytes::from(text);
    let item = Item::parse(&body, frame()).unwrap();
    assert_eq!(item.payload, payload.as_bytes());
    assert_eq!(item.id.as_deref(), Some("k45"));
    assert_eq!(item.deadline_ms, 2_000_000_000_000);
    assert!(body.as_ptr_range().contains(&item.payload.as_ptr()), "no copy was made");
}

#[test]
fn surrogate_halves_pass_unchanged_wherever_they_stand_in_a_payload() {
    let payloads = [
        r#"{"model":"demo-model","messages":[{"role":"user","content":"x\ud83d"}]}"#,
        r#"{"model":"demo-model","messages":[{"role":"user","content":"\ude00x"}]}"#,
        r#"{"model":"demo-model","messages":[{"role":"user","content":"\ude00\ud83d"}]}"#,
        r#"{"model":"demo-model","messages":[{"role":"user","content":"\ud83d\ude00"}]}"#,
        r#"{"model":"demo-model","\ud83d":1}"#,
    ];
    for payload in payloads {
        let body = format!(r#"{{"id":"k47","deadline":2000000000,"payload":{payload}}}"#);
        assert_eq!(parse(&body).unwrap().payload, payload.as_bytes());
    }
    let id = r#"{"id":"\ud83d","payload":{}}"#;
    assert_eq!(parse(id), Err(ItemError::BadId), "an id is text and must be whole");
}

#[test]
fn a_deadline_is_an_integer_of_seconds_within_30_days() {
    assert_eq!(with_deadline(&(NOW + 30).to_string()), Ok((NOW + 30) * 1000));
    let furthest = NOW + 30 * 86_400;
    assert_eq!(with_deadline(&furthest.to_string()), Ok(furthest * 1000));
    let fault = |fault| Err(time_fault(Field::Deadline, fault));
    assert_eq!(with_deadline(&(furthest + 1).to_string()), fault(TimeFault::TooFar));
    let in_ms = NOW * 1000 + 30_000;
    assert_eq!(with_deadline(&in_ms.to_string()), fault(TimeFault::LooksLikeMillis));
    let in_us = (NOW + 30) * 1_000_000;
    assert_eq!(with_deadline(&in_us.to_string()), fault(TimeFault::LooksLikeMillis));
}

#[test]
fn a_deadline_of_another_kind_is_refused_by_what_it_is() {
    use TimeFault::{LooksLikeMillis, Negative, NotANumber, NotWhole, TooFar};
    let faults = [
        ("-1", Negative),
        ("-0", Negative),
        ("-9007199254740993", Negative),
        ("9007199254740991", LooksLikeMillis),
        ("9007199254740993", LooksLikeMillis),
        ("9223372036854775807", LooksLikeMillis),
        ("18446744073709551616", LooksLikeMillis),
        ("99999999999", TooFar),
        ("1e3", NotWhole),
        ("1.9e9", NotWhole),
        ("2000000000.75", NotWhole),
        ("2000000000.0", NotWhole),
        ("1e308", NotWhole),
        ("1e400", NotWhole),
        (r#""2000000000""#, NotANumber),
        (r#""2033-05-18T03:33:20Z""#, NotANumber),
        (r#""soon""#, NotANumber),
        ("null", NotANumber),
        ("true", NotANumber),
        ("[2000000000]", NotANumber),
        ("{}", NotANumber),
    ];
    for (raw, fault) in faults {
        assert_eq!(with_deadline(raw), Err(time_fault(Field::Deadline, fault)), "{raw}");
    }
    for raw in ["0x77359400", "NaN", "02000000000", "+2000000000", "Infinity", ""] {
        let refused = with_deadline(raw);
        assert!(matches!(refused, Err(ItemError::Syntax { line: 1, .. })), "{raw}: {refused:?}");
    }
}

#[test]
fn a_past_deadline_is_left_to_the_id_rule() {
    assert_eq!(with_deadline(&(NOW - 1).to_string()), Ok((NOW - 1) * 1000));
    assert_eq!(with_deadline("1"), Ok(1000));
    let never = Err(time_fault(Field::Deadline, TimeFault::Past));
    assert_eq!(with_deadline("0"), never, "nothing was ever accepted with it");
}

#[test]
fn a_timeout_is_one_number_and_one_unit() {
    let after = |ms: u64| Ok(frame().now_ms + ms);
    assert_eq!(with_timeout(r#""90s""#), after(90_000));
    assert_eq!(with_timeout(r#""24h""#), after(86_400_000));
    assert_eq!(with_timeout(r#""500ms""#), after(500));
    assert_eq!(with_timeout(r#""5m""#), after(300_000));
    assert_eq!(with_timeout(r#""30d""#), after(30 * 86_400_000));
    let fault = |fault| Err(time_fault(Field::Timeout, fault));
    for raw in [r#""0s""#, r#""31d""#, r#""1000000000000000000s""#, r#""99999999999999999999s""#] {
        assert_eq!(with_timeout(raw), fault(TimeFault::OutOfRange), "{raw}");
    }
    let others = [
        "90",
        "-1",
        "1e18",
        "null",
        "[]",
        r#""""#,
        r#""90""#,
        r#""s""#,
        r#""-1s""#,
        r#""+1s""#,
        r#""1.5h""#,
        r#""90 s""#,
        r#"" 90s""#,
        r#""1h30m""#,
        r#""90S""#,
        r#""1w""#,
        r#""1e3s""#,
    ];
    for raw in others {
        assert_eq!(with_timeout(raw), fault(TimeFault::NotATimeout), "{raw}");
    }
}

#[test]
fn without_a_time_the_queue_decides_and_two_are_refused() {
    let item = parse(r#"{"payload":{}}"#).unwrap();
    assert_eq!(item.deadline_ms, frame().now_ms + 86_400_000);
    assert_eq!((item.id, item.not_before_ms, item.metadata), (None, None, None));
    let both = parse(r#"{"deadline":2000000000,"timeout":"90s","payload":{}}"#);
    assert_eq!(both, Err(ItemError::DeadlineAndTimeout));
}

#[test]
fn a_start_lies_before_the_deadline() {
    let with = |start: u64| {
        parse(&format!(r#"{{"deadline":2000000000,"not_before":{start},"payload":1}}"#))
            .map(|item| item.not_before_ms)
    };
    assert_eq!(with(1_999_999_999), Ok(Some(1_999_999_999_000)));
    assert_eq!(with(2_000_000_000), Err(ItemError::NotBeforeDeadline));
    let far = parse(r#"{"not_before":2000000000000,"payload":1}"#);
    assert_eq!(far, Err(time_fault(Field::NotBefore, TimeFault::LooksLikeMillis)));
    let text = parse(r#"{"not_before":"soon","payload":1}"#);
    assert_eq!(text, Err(time_fault(Field::NotBefore, TimeFault::NotANumber)));
}

#[test]
fn a_body_that_is_no_item_is_refused_by_what_it_is() {
    assert_eq!(parse(""), Err(ItemError::Empty));
    for body in ["[]", "null", r#""x""#, "1", "true"] {
        assert_eq!(parse(body), Err(ItemError::NotAnObject), "{body}");
    }
    let no_json = [
        r#"{"id":"k53-nan","deadline":2000000000,"payload":{"model":"m","temperature":NaN}}"#,
        r#"{"id":"k53-inf","deadline":2000000000,"payload":{"temperature":-Infinity}}"#,
        r#"{"id":"k53-trail","deadline":2000000000,"payload":{}} trailing"#,
        r#"{"id":"k53-comma","deadline":2000000000,"payload":{},}"#,
        "{'id':'k53-single'}",
        "\u{feff}{\"payload\":{}}",
        r#"{"payload":{}"#,
        "{\"payload\":\"a\u{1}b\"}",
        " ",
    ];
    for body in no_json {
        let refused = parse(body);
        assert!(matches!(refused, Err(ItemError::Syntax { .. })), "{body}: {refused:?}");
    }
    let bad_utf8 = Bytes::from_static(b"{\"payload\":\"\xff\"}");
    let refused = Item::parse(&bad_utf8, frame());
    assert!(matches!(refused, Err(ItemError::Syntax { line: 1, .. })), "{refused:?}");
}

#[test]
fn the_place_of_a_fault_is_told() {
    let refused = parse("{\n  \"payload\": nope\n}");
    assert_eq!(refused, Err(ItemError::Syntax { line: 2, column: 15 }));
}

#[test]
fn any_payload_but_null_is_taken() {
    for payload in ["{}", "[]", r#""text""#, "0", "false", r#"{"temperature":1e400}"#] {
        let item = parse(&format!(r#"{{"payload":{payload}}}"#)).unwrap();
        assert_eq!(item.payload, payload.as_bytes());
    }
    assert_eq!(parse(r#"{"payload":null}"#), Err(ItemError::NoPayload));
    assert_eq!(parse(r#"{"id":"k53-none","deadline":2000000000}"#), Err(ItemError::NoPayload));
    let stream = r#"{"model":"demo-model","stream":true,"messages":[]}"#;
    let item = parse(&format!(r#"{{"payload":{stream}}}"#)).unwrap();
    assert_eq!(item.payload, stream.as_bytes(), "a stream is the gateway's matter");
}

#[test]
fn fields_are_known_by_their_exact_name_and_stand_once() {
    let extra = parse(r#"{"id":"k53-extra","deadline":2000000000,"payload":{},"unknown":1}"#);
    assert_eq!(extra, Err(ItemError::UnknownField { position: 4 }));
    let case = parse(r#"{"ID":"k53-case","deadline":2000000000,"payload":{}}"#);
    assert_eq!(case, Err(ItemError::UnknownField { position: 1 }));
    let twice = parse(r#"{"payload":{},"id":"a","payload":{}}"#);
    assert_eq!(twice, Err(ItemError::DuplicateField { field: Field::Payload }));
    let disguised = parse(r#"{"payload":{},"p\u0061yload":{}}"#);
    assert_eq!(disguised, Err(ItemError::DuplicateField { field: Field::Payload }));
}

#[test]
fn an_id_is_a_string_of_the_grammar() {
    for raw in ["null", "1", "{}", r#""""#, r#""a/b""#, r#""a\nINFO forged line""#, r#""..""#] {
        let refused = parse(&format!(r#"{{"id":{raw},"payload":{{}}}}"#));
        assert_eq!(refused, Err(ItemError::BadId), "{raw}");
    }
    let escaped = parse(r#"{"id":"\u0061:b","payload":{}}"#).unwrap();
    assert_eq!(escaped.id.as_deref(), Some("a:b"));
}

#[test]
fn metadata_is_a_small_object_kept_as_it_stands() {
    let item = parse(r#"{"metadata":{"b": 1.0,"a":[]},"payload":1}"#).unwrap();
    assert_eq!(item.metadata.as_deref(), Some(&br#"{"b": 1.0,"a":[]}"#[..]));
    for raw in ["null", "[]", r#""x""#] {
        let refused = parse(&format!(r#"{{"metadata":{raw},"payload":1}}"#));
        assert_eq!(refused, Err(ItemError::BadMetadata), "{raw}");
    }
    let long = "x".repeat(MAX_METADATA);
    let refused = parse(&format!(r#"{{"metadata":{{"k":"{long}"}},"payload":1}}"#));
    assert_eq!(refused, Err(ItemError::BadMetadata));
}

#[test]
fn a_path_is_taken_only_as_it_stands_in_the_list() {
    let taken =
        |raw: &str| parse(&format!(r#"{{"path":{raw},"payload":1}}"#)).map(|item| item.path);
    for path in ["/v1/other", "/v1/own"] {
        assert_eq!(taken(&format!("\"{path}\"")), Ok(Some(path.to_owned())));
    }
    assert_eq!(parse(r#"{"payload":1}"#).unwrap().path, None);
    for raw in [
        r#""/v1/othe""#,
        r#""/v1/other/""#,
        r#""/v1/other?a=b""#,
        r#""/v1/x/../other""#,
        r#""//v1/other""#,
        r#""http://evil/v1/other""#,
        r#""/v1/other\r\nHost: evil""#,
        r#""/v1/%6fther""#,
        "null",
        "1",
    ] {
        assert_eq!(taken(raw), Err(ItemError::PathNotAllowed), "{raw}");
    }
}

#[test]
fn headers_are_taken_as_far_as_the_list_names_them_and_never_otherwise() {
    let taken =
        |raw: &str| parse(&format!(r#"{{"headers":{raw},"payload":1}}"#)).map(|item| item.headers);
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(taken("{}"), Ok(vec![]));
    let both = taken(r#"{"X-A":"1 2","x-b":""}"#);
    assert_eq!(both, Ok(vec![pair("x-a", "1 2"), pair("x-b", "")]));

    let second = |fault: fn(usize) -> HeaderFault| ItemError::Headers { fault: fault(2) };
    for (raw, fault) in [
        (r#"{"x-a":"1","x-c":"1"}"#, second(|position| HeaderFault::NotAllowed { position })),
        (
            r#"{"x-a":"1","authorization":"x"}"#,
            second(|it| HeaderFault::NotAllowed { position: it }),
        ),
        (r#"{"x-a":"1","X-A":"1"}"#, second(|position| HeaderFault::Twice { position })),
        (r#"{"x-a":"1","x-a":"1"}"#, second(|position| HeaderFault::Twice { position })),
        (r#"{"x-a":"1","x-b":"1\r\nhost: e"}"#, second(|position| HeaderFault::Value { position })),
        (r#"{"x-a":"1","x-b":" 1"}"#, second(|position| HeaderFault::Value { position })),
        (r#"{"x-a":"1","x-b":"\u00e9"}"#, second(|position| HeaderFault::Value { position })),
        (r#"{"x-a":1}"#, ItemError::Headers { fault: HeaderFault::NotTexts }),
        ("null", ItemError::Headers { fault: HeaderFault::NotTexts }),
        (r#"["x-a"]"#, ItemError::Headers { fault: HeaderFault::NotTexts }),
    ] {
        assert_eq!(taken(raw), Err(fault), "{raw}");
    }
    let long = format!(r#"{{"x-a":"{}"}}"#, "1".repeat(headers::MAX_HEADER_BYTES));
    assert_eq!(taken(&long), Err(ItemError::Headers { fault: HeaderFault::TooMany }));
}

#[test]
fn depth_is_limited_before_anything_is_parsed() {
    let nested = |levels: usize| {
        parse(&format!(r#"{{"payload":{}{}}}"#, "[".repeat(levels), "]".repeat(levels)))
    };
    assert!(nested(MAX_DEPTH - 1).is_ok());
    assert_eq!(nested(MAX_DEPTH), Err(ItemError::TooDeep));
    assert_eq!(parse(&"[".repeat(1_000_000)), Err(ItemError::TooDeep));
}

#[test]
fn no_error_repeats_what_stands_in_the_body() {
    let bodies = [
        r#"{"MARKER":1,"payload":1}"#,
        r#"{"id":"MARKER/","payload":1}"#,
        r#"{"deadline":"MARKER","payload":1}"#,
        r#"{"timeout":"MARKER","payload":1}"#,
        r#"{"payload":MARKER}"#,
        r#""MARKER""#,
        r#"{"metadata":"MARKER","payload":1}"#,
        r#"{"path":"MARKER","payload":1}"#,
        r#"{"headers":{"MARKER":"1"},"payload":1}"#,
        r#"{"headers":{"x-a":"MARKER\n"},"payload":1}"#,
        r#"{"headers":"MARKER","payload":1}"#,
        r#"{"payload":"MARKER","payload":"MARKER"}"#,
    ];
    for body in bodies {
        let refused = parse(body).unwrap_err();
        assert!(!format!("{refused} {refused:?}").contains("MARKER"), "{refused}");
    }
}
