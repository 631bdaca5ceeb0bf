//! The files that settings name, opened: whoever needs one finds out before anything starts.
//!
//! Settings are good or not by themselves; a file is so on one host. So each role asks for what it opens itself, and
//! `holdfastctl check` for all.

use std::path::PathBuf;

use holdfast_core::model::QueueName;

use crate::reread::{self, Unusable};
use crate::serve::Tls;
use crate::settings::{Credentials, Problems, RedisSettings, Settings};
use crate::{credentials, keys};

/// A file by the field that names it.
type Named = (&'static str, PathBuf);

impl Settings {
    /// What is wrong with any file that is named.
    pub fn files(&self) -> Problems {
        let mut problems = self.redis_files();
        problems.extend(self.producer_files());
        for queue in self.queues.keys() {
            problems.extend(self.target_files(queue));
        }
        problems
    }

    /// What is wrong with the files of `[redis]`.
    pub fn redis_files(&self) -> Problems {
        let RedisSettings { password_file, ca_file, client_pair, .. } = &self.redis;
        let password = password_file.as_ref().map(|file| {
            let read = file.read().map(drop);
            read.map_err(|err| Unusable::new("password_file", err.rule()))
        });
        let (client_cert_file, client_key_file) = client_pair.clone().unzip();
        let ca_file = ca_file.clone();
        let tls = Credentials { credential_file: None, ca_file, client_cert_file, client_key_file };
        let tls = each(&credentials::files(&tls), || credentials::check(&tls));
        self.problems("redis", password.and_then(Result::err).into_iter().chain(tls))
    }

    /// What is wrong with the files of `[producer]`.
    pub fn producer_files(&self) -> Problems {
        let producer = &self.producer;
        let keys = producer.keys_file.as_deref().and_then(|path| keys::open(path).err());
        let pair = producer.tls_cert_file.as_deref().zip(producer.tls_key_file.as_deref());
        let pair = pair.map(|(certificate, key)| {
            each(&Tls::named(certificate, key), || Tls::open(certificate, key).map(drop))
        });
        self.problems("producer", keys.into_iter().chain(pair.into_iter().flatten()))
    }

    /// What is wrong with the files of a queue's target.
    pub fn target_files(&self, queue: &QueueName) -> Problems {
        let Some(settings) = self.queues.get(queue) else { return Problems::default() };
        let credentials = &settings.credentials;
        let found = each(&credentials::files(credentials), || credentials::check(credentials));
        self.problems(&format!("queues.{queue}"), found)
    }
}

/// Every file that can't be read; if all can, what is wrong with them together.
fn each(files: &[Named], together: impl FnOnce() -> Result<(), Unusable>) -> Vec<Unusable> {
    let read = |(setting, path): &Named| reread::read(setting, path).err();
    let unread: Vec<Unusable> = files.iter().filter_map(read).collect();
    match unread.is_empty() {
        true => together().err().into_iter().collect(),
        false => unread,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::settings::Environment;

    #[test]
    fn every_file_that_cannot_be_used_is_told_by_its_field_and_its_path_and_never_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let none = folder.path().join("none");
        let odd = folder.path().join("odd");
        fs::write(&odd, "S3CRET\nS3CRET").unwrap();
        let (none, odd) = (none.display(), odd.display());
        let text = format!(
            "[redis]\nurl = \"rediss://h\"\npassword_file = \"{odd}\"\nca_file = \"{odd}\"\n\
             [producer]\nkeys_file = \"{none}\"\ntls_cert_file = \"{none}\"\ntls_key_file = \"{none}\"\n\
             [queues.\"a.b\"]\ntarget = \"https://h\"\ncredential_file = \"{odd}\"\n\
             [queues.c]\ntarget = \"https://h\"\nca_file = \"{none}\"\nclient_cert_file = \"{none}\"\n\
             client_key_file = \"{odd}\"\n"
        );
        let settings = Settings::load(&text, &Environment::default()).unwrap();
        let found = settings.files();
        let told: Vec<String> = found.iter().map(ToString::to_string).collect();
        let gone = "can't be read: no such file";
        assert_eq!(
            told,
            [
                format!(
                    "redis.password_file = {odd} must hold a secret in one line, without control characters"
                ),
                format!("redis.ca_file = {odd} must hold certificates in PEM"),
                format!("producer.keys_file = {none} {gone}"),
                format!("producer.tls_cert_file = {none} {gone}"),
                format!("producer.tls_key_file = {none} {gone}"),
                format!("queues.a.b.credential_file = {odd} must hold one bearer token"),
                format!("queues.c.ca_file = {none} {gone}"),
                format!("queues.c.client_cert_file = {none} {gone}"),
            ]
        );
    }

    #[test]
    fn a_file_that_a_variable_names_is_told_with_the_variable() {
        let variable = ("HOLDFAST_REDIS_PASSWORD_FILE", "/nowhere/password");
        let settings = Settings::load("", &Environment::new([variable])).unwrap();
        assert_eq!(
            settings.redis_files().to_string(),
            "redis.password_file = /nowhere/password (from HOLDFAST_REDIS_PASSWORD_FILE) can't be read: no such file"
        );
    }
}
