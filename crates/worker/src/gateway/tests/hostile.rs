//! Heads and connections that no honest server produces: a fault with a name, never a panic.

use super::*;

#[tokio::test]
async fn header_values_that_are_not_ascii_are_kept_as_bytes() {
    let raw = b"HTTP/1.1 200 OK\r\nX-Request-Id: caf\xe9\r\nX-Note: caf\xe9\r\nContent-Length: 2\r\n\r\n{}";
    let answer = whole(answer_to(raw).await);
    assert_eq!(header(&answer, "x-request-id"), [b"caf\xe9"]);

    let raw = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:9902/\xc3\xa9\xff\r\n\
        Content-Length: 0\r\n\r\n";
    let answer = whole(answer_to(raw).await);
    assert_eq!(header(&answer, "location"), [b"http://127.0.0.1:9902/\xc3\xa9\xff"]);
}

#[tokio::test]
async fn heads_that_contradict_themselves_or_are_none_are_malformed() {
    let many: String = (0..150).map(|n| format!("X-H{n}: {}\r\n", "v".repeat(100))).collect();
    let heads: [(&str, Vec<u8>); 14] = [
        ("two lengths", b"Content-Length: 2\r\nContent-Length: 5\r\n\r\n{}xyz".to_vec()),
        ("a length of words", b"Content-Length: two\r\n\r\n{}".to_vec()),
        ("a negative length", b"Content-Length: -2\r\n\r\n{}".to_vec()),
        (
            "length and chunks",
            b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n".to_vec(),
        ),
        ("an unknown coding", b"Transfer-Encoding: gzip\r\n\r\n{}".to_vec()),
        ("many headers", format!("{many}Content-Length: 2\r\n\r\n{{}}").into_bytes()),
        (
            "a big header",
            format!("X-Big: {}\r\nContent-Length: 2\r\n\r\n{{}}", "v".repeat(70_000)).into_bytes(),
        ),
        (
            "an endless header",
            format!("X-Big: {}\r\nContent-Length: 2\r\n\r\n{{}}", "v".repeat(500_000)).into_bytes(),
        ),
        ("no name", b": nobody\r\nContent-Length: 2\r\n\r\n{}".to_vec()),
        ("a folded line", b"X-A: a\r\n b\r\nContent-Length: 2\r\n\r\n{}".to_vec()),
        ("NUL in a value", b"X-A: a\x00b\r\nContent-Length: 2\r\n\r\n{}".to_vec()),
        ("a space before the colon", b"X-A : a\r\nContent-Length: 2\r\n\r\n{}".to_vec()),
        ("a bare CR", b"X-A: a\rContent-Length: 2\r\n\r\n{}".to_vec()),
        ("no header at all", b"\x00\x01\x02\x03\r\n\r\n".to_vec()),
    ];
    for (what, head) in heads {
        let raw = [b"HTTP/1.1 200 OK\r\n", &head[..]].concat();
        assert_eq!(answer_to(raw).await, Err(Fault::MalformedHead), "{what}");
    }
    // Also where no body can follow.
    let empty = b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(answer_to(empty.to_vec()).await, Err(Fault::MalformedHead));
}

#[tokio::test]
async fn status_lines_that_are_none_are_malformed() {
    let lines: [&[u8]; 7] = [
        b"HTTP/1.1 2000 Huh\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        b"HTTP/3.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"SSH-2.0-demo\r\n",
        b"{\"not\": \"http\"}\r\n\r\n",
        b"\x16\x03\x03\x00\x02\x02\x28",
    ];
    for line in lines {
        assert_eq!(
            answer_to(line).await,
            Err(Fault::MalformedHead),
            "{}",
            String::from_utf8_lossy(line)
        );
    }
}

#[tokio::test]
async fn a_server_that_speaks_first_is_a_fault() {
    let banner = vec![vec![Step::Send(b"SSH-2.0-demo\r\n".to_vec()), Step::Hold]];
    let server = RawGateway::start(Reading::Not, banner).await;
    for _ in 0..20 {
        assert_eq!(open(server.addr).ask().await, Err(Fault::MalformedHead));
    }
}

#[tokio::test]
async fn a_connection_with_a_bad_head_is_not_used_again() {
    // Nothing is left to read of this one, so that only the head speaks against the connection.
    let both = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n\
        0\r\n\r\n";
    let answers = vec![vec![Step::Send(both.to_vec())], vec![Step::Send(OK.to_vec())]];
    let server = RawGateway::start(Reading::Fast, answers).await;
    let gateway = open(server.addr);
    assert_eq!(gateway.ask().await, Err(Fault::MalformedHead));
    whole(gateway.ask().await);
    assert_eq!(server.saw("both", |log| log.requests.len() == 2).await.connections, 2);
}

#[tokio::test]
async fn bytes_behind_an_answer_are_never_taken_for_the_next_one() {
    let two = [OK, b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"].concat();
    let server = RawGateway::answering(two).await;
    let gateway = open(server.addr);
    for _ in 0..10 {
        match gateway.ask().await {
            Ok(Reply::Whole(answer)) => assert_eq!(&answer.body[..], b"{}"),
            other => {
                assert!(matches!(other, Err(Fault::MalformedHead | Fault::Reset)), "{other:?}")
            }
        }
    }
}

#[tokio::test]
async fn a_connection_that_ends_before_the_answer_is_reset() {
    let cut = b"HTTP/1.1 200 OK\r\nContent-Le".to_vec();
    for steps in [
        vec![Step::Close],
        vec![Step::Reset],
        vec![Step::Send(cut.clone()), Step::Close],
        vec![Step::Send(cut), Step::Pause(Duration::from_millis(50)), Step::Reset],
    ] {
        let server = RawGateway::start(Reading::Fast, vec![steps.clone()]).await;
        let (gateway, sent) = (open(server.addr), Sent::default());
        let reply = gateway.send(gateway.call(b"{}"), sent.clone()).await;
        assert_eq!((reply, sent.get()), (Err(Fault::Reset), true), "{steps:?}");
    }
}

#[tokio::test]
async fn a_body_that_ends_early_is_cut() {
    let sized = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234".to_vec();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n1234".to_vec();
    let unended = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n1234\r\n".to_vec();
    for start in [sized, chunked, unended] {
        for end in [Step::Close, Step::Reset] {
            let pause = Step::Pause(Duration::from_millis(50));
            let steps = vec![Step::Send(start.clone()), pause, end];
            let server = RawGateway::start(Reading::Fast, vec![steps.clone()]).await;
            assert_eq!(open(server.addr).ask().await, Err(Fault::CutBody), "{steps:?}");
        }
    }
}

#[tokio::test]
async fn a_body_that_breaks_its_own_framing_lies() {
    for chunks in ["zz\r\n1234", "4\r\n1234xx\r\n", "ffffffffffffffffff\r\n1"] {
        let raw = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}");
        assert_eq!(answer_to(raw).await, Err(Fault::LyingBody), "{chunks:?}");
    }
}
