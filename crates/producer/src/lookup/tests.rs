use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use holdfast_core::script;
use holdfast_testkit::proxy::{command, evalsha};
use holdfast_testkit::{Proxy, RedisServer};

use super::*;
use crate::stage::Stage;

/// Sets the record of a request, from where nothing can be waited for.
fn set_record(port: u16, key: &[u8], record: &[u8]) {
    let mut request = b"*4\r\n$4\r\nHSET\r\n$16\r\nhf1:{q/0}:result\r\n".to_vec();
    for word in [key, record] {
        request.extend(format!("${}\r\n", word.len()).bytes());
        request.extend([word, b"\r\n"].concat());
    }
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(&request).unwrap();
    let mut said = [0; 4];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(said[0], b':', "{said:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_written_behind_the_question_for_its_length_has_its_share_of_the_memory() {
    const LONG: usize = MAX_BYTES + 1;
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let stage = Stage::on(&proxy.url(), "").await;
    stage.submit("a").await;
    assert!(stage.send("DELETE", "/a", String::new()).await.is_success());
    let named = stage.named("a");
    let key = named.key.bytes();
    redis.command(&[&b"HDEL"[..], b"hf1:{q/0}:result", &key]).await;

    let (port, read) = (redis.port(), script::all().into_iter().find(|it| it.name == "read"));
    let is_read = evalsha(&read.unwrap().sha1);
    let lengths = proxy.count(command("HSTRLEN"));
    let written = std::sync::Once::new();
    // It ends as a long one between the answer about its length and the look.
    let _reads = proxy.count(move |words| {
        if is_read(words) {
            written.call_once(|| set_record(port, &key, &[b'x'; LONG]));
        }
        false
    });
    let room = stage.app.large.room();
    let found = stage.app.look_whole(&named).await.unwrap().unwrap();
    assert_eq!(found.record.len(), LONG);
    assert_eq!(room - stage.app.large.room(), LONG, "{} questions", lengths.matched());
    drop(found);
    assert_eq!(stage.app.large.room(), room);
}
