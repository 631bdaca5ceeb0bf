//! `HOLDFAST_<SECTION>_<FIELD>`: what the environment lays over the file.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::given::Given;
use super::problems::Problems;
use super::secret::Secret;

/// Where the settings file lies.
pub(crate) const CONFIG: &str = "HOLDFAST_CONFIG";

/// The key of whoever calls the API from a command line. It is no field, like the one above.
const CALLERS_KEY: &str = "HOLDFAST_KEY";

const PREFIX: &str = "HOLDFAST_";

/// The sections that a variable can name. Queues and tenants have names of their own, in which the
/// end of the name and the start of the field could not be told apart.
const SECTIONS: &[&str] = &["redis", "producer", "worker", "reclaimer", "log", "traces"];

/// The variables of ours, as a value: nothing but `of_process` touches the process.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, Option<String>>);

impl Environment {
    /// The variables of this process.
    pub fn of_process() -> Self {
        Self::new(std::env::vars_os())
    }

    /// These variables; all that do not start with `HOLDFAST_` are left out.
    pub fn new<K: Into<OsString>, V: Into<OsString>>(
        variables: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let ours = variables.into_iter().filter_map(|(name, value)| {
            let name = name.into().into_string().ok()?;
            // Not UTF-8: kept without its value, so that it is told instead of overlooked.
            let value = value.into().into_string().ok();
            name.starts_with(PREFIX).then_some((name, value))
        });
        Self(ours.filter(|(name, value)| !is_service_link(name, value.as_deref())).collect())
    }

    /// Where the settings file lies, if it says so.
    pub fn config(&self) -> Option<&str> {
        self.0.get(CONFIG)?.as_deref()
    }

    /// The key of a caller of the API, for tools that are one.
    pub fn callers_key(&self) -> Option<Secret> {
        self.0.get(CALLERS_KEY)?.clone().map(Secret::from)
    }

    /// The fields that are set, by section and name.
    pub(super) fn fields(&self, problems: &mut Problems) -> Vec<(&'static str, String, Given)> {
        let mut fields = Vec::new();
        let is_field = |name: &str| name != CONFIG && name != CALLERS_KEY;
        for (variable, value) in self.0.iter().filter(|(name, _)| is_field(name)) {
            let rest = variable.strip_prefix(PREFIX).unwrap_or_default();
            let (word, field) = rest.split_once('_').unwrap_or((rest, ""));
            let section = SECTIONS.iter().find(|section| section.to_uppercase() == word);
            match (section, value) {
                (None, _) => problems.refuse(variable, &unknown_section(word)),
                (Some(_), None) => problems.refuse(variable, "must be UTF-8"),
                (Some(section), Some(text)) => {
                    let given = Given::in_variable(variable.clone(), text.clone());
                    fields.push((*section, field.to_lowercase(), given));
                }
            }
        }
        fields
    }
}

fn unknown_section(word: &str) -> String {
    match word {
        "QUEUES" | "TENANTS" => {
            format!("is no setting: [{}] stands in the file only", word.to_lowercase())
        }
        _ => format!("is no setting: its first word must be one of {}", SECTIONS.join(", ")),
    }
}

/// Whether Kubernetes has put it there: for a Service named `holdfast-producer` every pod beside it
/// gets `HOLDFAST_PRODUCER_PORT=tcp://…` and more, unless `enableServiceLinks` is off.
fn is_service_link(name: &str, value: Option<&str>) -> bool {
    let is_url = |value: &str| {
        ["tcp://", "udp://", "sctp://"].iter().any(|scheme| value.starts_with(scheme))
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if name.ends_with("_SERVICE_HOST") || name.contains("_SERVICE_PORT") {
        return true;
    }
    match name.rsplit_once("_PORT") {
        Some((_, "")) => value.is_some_and(is_url) || name.contains("_TCP_PORT"),
        Some((_, rest)) => {
            let mut words = rest.trim_start_matches('_').split('_');
            words.next().is_some_and(is_number)
                && matches!(words.next(), Some("TCP" | "UDP" | "SCTP"))
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> (Vec<(String, String)>, String) {
        let environment = Environment::new(variables.iter().copied());
        let mut problems = Problems::default();
        let fields = environment.fields(&mut problems);
        let fields = fields
            .into_iter()
            .map(|(section, field, given)| (format!("{section}.{field}"), given.told()))
            .collect();
        (fields, problems.to_string())
    }

    #[test]
    fn the_first_word_is_the_section_and_the_rest_the_field() {
        let (fields, told) = read(&[
            ("HOLDFAST_WORKER_LEASE", "6s"),
            ("HOLDFAST_PRODUCER_OPS_LISTEN", "127.0.0.1:1"),
            ("HOLDFAST_CONFIG", "holdfast.toml"),
            ("HOLDFAST_KEY", "hfk_S3CRET"),
            ("PATH", "/bin"),
        ]);
        let expected = [("producer.ops_listen", "127.0.0.1:1"), ("worker.lease", "6s")];
        assert_eq!(fields, expected.map(|(field, value)| (field.to_owned(), value.to_owned())));
        assert_eq!(told, "");
    }

    #[test]
    fn a_variable_that_names_no_section_is_refused_without_its_value() {
        let (fields, told) = read(&[
            ("HOLDFAST_WROKER_LEASE", "S3CRET"),
            ("HOLDFAST_QUEUES_DEFAULT_TARGET", "S3CRET"),
            ("HOLDFAST_", "S3CRET"),
        ]);
        assert!(fields.is_empty());
        for part in ["HOLDFAST_WROKER_LEASE is no setting", "[queues] stands in the file only"] {
            assert!(told.contains(part), "{told}");
        }
        assert!(!told.contains("S3CRET"), "{told}");
    }

    #[test]
    fn what_kubernetes_adds_for_a_service_is_no_setting() {
        let (fields, told) = read(&[
            ("HOLDFAST_PRODUCER_SERVICE_HOST", "10.0.0.1"),
            ("HOLDFAST_PRODUCER_SERVICE_PORT", "8080"),
            ("HOLDFAST_PRODUCER_SERVICE_PORT_API", "8080"),
            ("HOLDFAST_PRODUCER_PORT", "tcp://10.0.0.1:8080"),
            ("HOLDFAST_PRODUCER_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("HOLDFAST_PRODUCER_PORT_8080_TCP_PROTO", "tcp"),
            ("HOLDFAST_PRODUCER_PORT_8080_TCP_PORT", "8080"),
            ("HOLDFAST_PRODUCER_PORT_8080_TCP_ADDR", "10.0.0.1"),
            ("HOLDFAST_PORT", "tcp://10.0.0.2:80"),
        ]);
        assert_eq!((fields, told), (Vec::new(), String::new()));
        // A slip of a person's is not taken for one of them.
        assert_eq!(read(&[("HOLDFAST_PRODUCER_PORT", "8080")]).0.len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn a_value_that_is_not_utf8_is_refused() {
        use std::os::unix::ffi::OsStringExt;

        let value = OsString::from_vec(vec![0xff]);
        let environment = Environment::new([(OsString::from("HOLDFAST_LOG_FILTER"), value)]);
        let mut problems = Problems::default();
        assert!(environment.fields(&mut problems).is_empty());
        assert_eq!(problems.to_string(), "HOLDFAST_LOG_FILTER must be UTF-8");
    }
}
