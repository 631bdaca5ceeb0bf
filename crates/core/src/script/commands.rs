//! Which commands a script may send to Redis: read from its text, so that rights can be looked at.

use std::collections::BTreeSet;

use super::all;

/// The commands of a script, and of what it gets of what is shared.
pub(crate) fn commands(name: &str) -> BTreeSet<String> {
    let own = all().into_iter().find(|script| script.name == name);
    own.map(|script| called(&script.text).collect()).unwrap_or_default()
}

/// The names of the keys and channels that a script's header lists: `KEYS[1] pending`. Of two, the first.
pub(crate) fn key_names(name: &str) -> Vec<&'static str> {
    let own = all().into_iter().find(|script| script.name == name).map(|script| script.source);
    let header = own.and_then(|source| source.split("\n]]").next()).unwrap_or_default();
    let lines = header.lines().filter(|line| line.starts_with("KEYS["));
    lines.filter_map(|line| line.split_whitespace().nth(1)).collect()
}

/// The commands that stand in a text by their name: also where one is gathered first and sent by `flush`.
fn called(text: &str) -> impl Iterator<Item = String> + '_ {
    let starts = ["call('", "flush('"];
    let after = starts.into_iter().flat_map(move |start| text.split(start).skip(1));
    let names = after.filter_map(|rest| rest.split('\'').next());
    names.filter(|name| name.bytes().all(|byte| byte.is_ascii_uppercase())).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str) -> Vec<String> {
        commands(name).into_iter().collect()
    }

    #[test]
    fn a_script_sends_what_stands_in_it_and_in_what_it_uses() {
        assert_eq!(of("ring"), ["LLEN", "RPUSH"]);
        assert_eq!(of("overrule"), ["HDEL", "HMGET", "HSET", "LLEN", "RPUSH"]);
        assert_eq!(
            of("promote"),
            [
                "HGET",
                "HMGET",
                "LLEN",
                "RPUSH",
                "TIME",
                "ZADD",
                "ZCARD",
                "ZRANGEBYSCORE",
                "ZREM",
                "ZSCORE",
            ]
        );
        assert!(commands("cancel").contains("SPUBLISH"));
        assert!(commands("nothing").is_empty());
    }

    /// What a script asks for before its first write.
    fn asked(source: &str) -> BTreeSet<String> {
        let words = source.split("\nallowed(").nth(1).and_then(|rest| rest.split(')').next());
        let words = words.into_iter().flat_map(|words| words.split(", "));
        words.map(|word| word.trim_matches('\'').to_owned()).collect()
    }

    #[test]
    fn a_script_that_writes_in_more_than_one_way_asks_for_each_before_it_writes() {
        let only_read = [
            "EXISTS",
            "HEXISTS",
            "HGET",
            "HLEN",
            "HMGET",
            "HRANDFIELD",
            "HSTRLEN",
            "LLEN",
            "TIME",
            "ZCARD",
            "ZCOUNT",
            "ZMSCORE",
            "ZRANGE",
            "ZRANGEBYSCORE",
            "ZSCORE",
        ];
        for script in all() {
            let sent = commands(script.name);
            // A hint: where it is denied, nothing else fails.
            let writes = |it: &&String| !only_read.contains(&it.as_str()) && *it != "SPUBLISH";
            let mut writes: BTreeSet<String> = sent.iter().filter(writes).cloned().collect();
            if writes.len() == 1 {
                writes.clear();
            }
            assert_eq!(asked(script.source), writes, "{}", script.name);
            let before = script.source.split("\nallowed(").next().unwrap();
            let earlier = !writes.is_empty() && called(before).next().is_some();
            assert!(!earlier, "{} asks before it does anything", script.name);
        }
    }

    #[test]
    fn no_command_of_any_script_is_overlooked() {
        for script in all() {
            let sent = script.source.matches("redis.call(").count()
                + script.source.matches("redis.pcall(").count();
            let named = called(script.source).count() - script.source.matches("flush('").count();
            let by_variable = script.source.matches("redis.call(command").count();
            assert_eq!(
                named + by_variable,
                sent,
                "{}: each command stands there by its name",
                script.name
            );
        }
    }
}
