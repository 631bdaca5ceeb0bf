use http_body_util::BodyExt;
use serde_json::Value;

use super::*;
use crate::stage::staged;

async fn body_of(response: Response) -> Value {
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&bytes).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_that_happened_is_told_whatever_becomes_of_the_look_behind_it() {
    let (redis, mut stage) = staged().await;
    stage.submit("a").await;
    let named = stage.named("a");
    let before = stage.app.look(&named).await.unwrap().unwrap();
    let reply = send(&stage.app, &named, before.ticket.handle(named.key)).await.unwrap();
    assert_eq!(reply, CancelReply::Cancelled);
    // Nobody answers a look any more; then nothing is kept any more.
    let swept = before.clone();
    stage.loops.shutdown().await;
    let told = after(&stage.app, &named, before, Outcome::Cancelled).await;
    assert_eq!(told.status(), StatusCode::OK);
    let told = body_of(told).await;
    assert_eq!((&told["state"], &told["outcome"]), (&"finished".into(), &"cancelled".into()));
    assert_eq!(told["cancel_asked"], Value::Null);

    let again = crate::stage::Stage::on(redis.url(), "").await;
    redis.command(&["DEL", "hf1:{q/0}:ticket"]).await;
    let told = after(&again.app, &named, swept, Outcome::Cancelled).await;
    assert_eq!(told.status(), StatusCode::OK);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_lease_that_began_behind_the_look_nothing_is_told_that_is_not_known() {
    let (_redis, stage) = staged().await;
    stage.submit("a").await;
    let named = stage.named("a");
    let found = stage.app.look(&named).await.unwrap().unwrap();
    assert_eq!(found.home, Some(Home::Pending));
    let told = asked(&named, found.clone());
    assert_eq!(told.status(), StatusCode::ACCEPTED);
    let told = body_of(told).await;
    assert_eq!((&told["state"], &told["lease"]), (&"cancelling".into(), &Value::Null));
    let held = Found { home: Some(Home::Leased), ..found };
    assert!(body_of(asked(&named, held)).await["lease"].is_object());
}
