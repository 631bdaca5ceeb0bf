use axum::http::StatusCode;
use holdfast_core::script;
use holdfast_testkit::proxy::{Fault, When, evalsha};
use holdfast_testkit::{Proxy, RedisServer};

use crate::stage::Stage;

#[tokio::test(flavor = "multi_thread")]
async fn a_no_behind_an_unanswered_copy_is_not_final_though_the_queue_was_declared_in_between() {
    let redis = RedisServer::start().await;
    let proxy = Proxy::start(redis.port()).await;
    let stage = Stage::on(&proxy.url(), "capacity = 1").await;
    stage.submit("a").await;
    // Redis forgets the policy, and the first copy of the next submit is not answered: it may run at any time.
    redis.command(&["DEL", "hf1:{q/0}:meta"]).await;
    let submit = script::all().into_iter().find(|it| it.name == "submit").unwrap();
    let lost = proxy.inject(Fault::LoseReply, When::Nth(1), evalsha(&submit.sha1));
    let body = r#"{"id":"b","timeout":"10m","payload":1}"#.to_owned();
    let told = stage.send("POST", "", body).await;
    assert_eq!((lost.fired(), lost.matched()), (1, 3), "unanswered, undeclared, full");
    assert_eq!(told, StatusCode::SERVICE_UNAVAILABLE, "outcome-unknown");
}
