//! What a role's user lacks, found out by the role itself: one right less at a time.

use holdfast_core::{
    Redis,
    redis::{Level, Trouble},
    rights::{Lacking, Role, Served, lacking, needs},
};

use super::doctor::{as_user, recent};
use crate::fixture::Shard;

/// What the role does worse without.
const USEFUL: [&str; 6] = ["info", "spublish", "ssubscribe", "client|getname", "wait", "waitaof"];

fn served(shard: &Shard, level: Option<Level>) -> Vec<Served> {
    vec![Served { shard: shard.keys.clone(), level }]
}

/// What a user with these rules lacks for a role, asked by itself.
async fn without(shard: &Shard, role: Role, rules: &[&str]) -> (Redis, Lacking) {
    shard.tell(&[&"ACL", &"DELUSER", &"one"]).await;
    let redis = as_user(shard, "one", rules).await;
    let lacking = lacking(&redis, role, &served(shard, None)).await.expect("an answer");
    (redis, lacking)
}

fn lacks(names: &[&str], needed: bool) -> Vec<String> {
    names
        .iter()
        .filter(|name| USEFUL.contains(name) != needed)
        .map(|name| (*name).to_owned())
        .collect()
}

#[tokio::test]
async fn each_right_of_each_role_that_lacks_is_told_by_its_name() {
    let shard = Shard::start().await;
    for role in Role::ALL {
        let all = needs(role, &shard.keys);
        let commands: Vec<&String> = all.iter().filter(|it| !it.starts_with('~')).collect();
        assert!(commands.len() > 20, "{commands:?}");
        for command in commands {
            let rule = format!("-{command}");
            let (redis, told) = without(&shard, role, &["~hf1:*", "&hf1:*", "+@all", &rule]).await;
            let (needed, useful) = (lacks(&[command], true), lacks(&[command], false));
            assert_eq!(told, Lacking { needed, useful }, "{role:?} without {command}");
            assert_eq!(redis.denied_commands(), told.needed, "{role:?} without {command}");
            let trouble = (!told.needed.is_empty()).then_some(Trouble::Denied);
            assert_eq!(redis.trouble(), trouble, "{role:?} without {command}");
        }
    }
}

#[tokio::test]
async fn a_key_or_a_channel_out_of_reach_is_told_by_its_name() {
    let shard = Shard::start().await;
    for role in Role::ALL {
        let all = needs(role, &shard.keys);
        for key in all.iter().filter(|it| it.starts_with('~')) {
            let others: Vec<&str> = all.iter().map(String::as_str).collect();
            let others = others.into_iter().filter(|it| it.starts_with('~') && it != key);
            let rules: Vec<&str> = others.chain(["&hf1:*", "+@all"]).collect();
            let (_, told) = without(&shard, role, &rules).await;
            let needed = vec![key.clone()];
            assert_eq!(told, Lacking { needed, useful: Vec::new() }, "{role:?} without {key}");
        }
        let (_, told) = without(&shard, role, &["~hf1:*", "resetchannels", "+@all"]).await;
        let channels: &[&str] = match role {
            Role::Producer => &["spublish", "ssubscribe"],
            Role::Worker => &["spublish", "ssubscribe"],
            Role::Reclaimer => &["spublish"],
        };
        let useful = lacks(channels, false);
        assert_eq!(told, Lacking { needed: Vec::new(), useful }, "{role:?} without channels");
    }
    // Of many keys some are named.
    let (_, told) = without(&shard, Role::Worker, &["~hf1:{q/0}:meta", "&hf1:*", "+@all"]).await;
    assert_eq!(told.needed.len(), 4, "{told:?}");
    assert!(told.needed.iter().all(|it| it.starts_with('~')), "{told:?}");
}

#[tokio::test]
async fn with_every_right_nothing_lacks_and_what_is_granted_is_seen_by_the_next_look() {
    let shard = Shard::start().await;
    let (redis, told) =
        without(&shard, Role::Worker, &["~hf1:*", "&hf1:*", "+@all", "-zadd"]).await;
    assert_eq!(told.needed, ["zadd"]);
    shard.tell(&[&"ACL", &"SETUSER", &"one", &"+zadd"]).await;
    let served = served(&shard, None);
    assert_eq!(lacking(&redis, Role::Worker, &served).await.unwrap(), Lacking::default());
    assert_eq!(redis.trouble(), None);
}

#[tokio::test]
async fn what_a_queue_of_a_higher_durability_takes_is_asked_for_it_alone() {
    let shard = recent().await;
    let rules = ["~hf1:*", "&hf1:*", "+@all", "-wait", "-waitaof", "-client|getname"];
    let redis = as_user(&shard, "one", &rules).await;
    for (level, useful) in [
        (None, &[][..]),
        (Some(Level::Fsynced), &["client|getname", "waitaof"]),
        (Some(Level::Replicated(1)), &["client|getname", "wait"]),
    ] {
        let told = lacking(&redis, Role::Producer, &served(&shard, level)).await.unwrap();
        assert_eq!(told, Lacking { needed: Vec::new(), useful: lacks(useful, false) }, "{level:?}");
    }
}
