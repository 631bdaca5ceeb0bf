//! The users of `deploy/`, with the rights that they have there and those that a topology takes besides.

use std::fs;
use std::path::Path;

use holdfast_testkit::RedisServer;
use tempfile::TempDir;

/// The password of each, in a file of its own.
pub(crate) struct Users(TempDir);

impl Users {
    /// Makes them known to these servers; `more` is for each of them, and a producer may also wait for replicas.
    pub(crate) async fn of_deploy(servers: &[&RedisServer], more: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/base/redis/users.acl");
        let text = fs::read_to_string(path).expect("the users");
        let users = text.lines().filter_map(|line| line.strip_prefix("user ")?.split_once(' '));
        for (user, rules) in users.filter(|(user, _)| !["default", "probe"].contains(user)) {
            let password = format!("{user}-password");
            fs::write(folder.path().join(user), &password).expect("a file");
            let (hash, password) = (format!("#{{{user}}}"), format!(">{password}"));
            let rules = rules.split(' ').map(|rule| if rule == hash { &*password } else { rule });
            let waits: &[&str] = match user {
                "producer" => &["+client|setname", "+client|getname", "+wait"],
                _ => &[],
            };
            let words: Vec<&str> = ["ACL", "SETUSER", user]
                .into_iter()
                .chain(rules)
                .chain(more.iter().chain(waits).copied())
                .collect();
            for server in servers {
                let told = server.command(&words).await;
                assert_eq!(told.text(), Some("OK"), "{user}: {told:?}");
            }
        }
        Self(folder)
    }

    /// Lines under `[redis]`, which name a role's user.
    pub(crate) fn lines(&self) -> String {
        let folder = self.0.path().display();
        format!("username = \"{{role}}\"\npassword_file = \"{folder}/{{role}}\"")
    }
}
