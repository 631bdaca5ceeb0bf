//! A group of settles of which one item makes the script fail.

use holdfast_core::{
    model::{Home, Session},
    script::{SettleItem, SettleReply},
};

use crate::fixture::{Item, Shard, ack, assert_same, bury, fence, handles, retry};

// 23
#[tokio::test]
async fn of_a_group_with_one_item_that_fails_the_rest_is_settled_and_that_one_buried() {
    let (shard, worker) = (Shard::start().await, Session::random());
    let items = shard.accept_all(&Item::many("r", 64)).await;
    assert_eq!(handles(&shard.claim(fence(worker, 1), 64).await), items);
    let poison = items[41];
    let settles: Vec<SettleItem> = items
        .iter()
        .map(|handle| SettleItem {
            fence: fence(worker, 1),
            handle: *handle,
            kind: if *handle == poison { retry(5) } else { ack("done") },
        })
        .collect();

    // A retry alone goes there.
    shard.tell(&[&"SET", &shard.keys.delayed, &"not what belongs here"]).await;
    let failed = halved(&shard, settles).await;
    assert_eq!(failed.iter().map(|item| item.handle).collect::<Vec<_>>(), [poison]);
    let alone = SettleItem { kind: bury(), ..failed[0].clone() };
    assert_eq!(shard.settle_all(&[alone]).await.unwrap(), [SettleReply::Done]);
    shard.tell(&[&"DEL", &shard.keys.delayed]).await;

    for handle in &items {
        let found = shard.find(handle.key()).await.unwrap();
        let home = if *handle == poison { Home::Dead } else { Home::Finished };
        assert_eq!((found.home, found.ticket.lapses), (Some(home), 0));
    }
    assert_eq!(shard.leases().await, [], "no lease is left to lapse");
    shard.assert_whole().await;
}

/// Settles a group as a settler does: what fails as a whole is halved. Gives back what fails alone.
async fn halved(shard: &Shard, items: Vec<SettleItem>) -> Vec<SettleItem> {
    let (mut open, mut failed) = (vec![items], Vec::new());
    while let Some(group) = open.pop() {
        let before = shard.dump().await;
        match shard.settle_all(&group).await {
            Ok(replies) => assert!(replies.iter().all(|reply| *reply == SettleReply::Done)),
            Err(error) => {
                assert!(error.to_string().contains("WRONGTYPE"), "{error}");
                assert_same("a group that failed", &before, &shard.dump().await);
                let (one, other) = group.split_at(group.len() / 2);
                if one.is_empty() {
                    failed.extend(group);
                } else {
                    open.extend([one.to_vec(), other.to_vec()]);
                }
            }
        }
    }
    failed
}
